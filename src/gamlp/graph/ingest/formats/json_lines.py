"""JSON Lines → batches of rows: an object in each line, its names the columns."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from json import loads
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as json

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats.contract import PassOver, ReadingRules
from gamlp.graph.ingest.formats.text import open_text, plain_size, refuse_utf16, text_format

NOT_A_ROW = "no row of JSON"
_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 20, 1 << 23
_LONGEST_LINE = 1 << 24
_DEEPEST = 64  # lists in lists; Arrow's parser ends the process where there are some ten thousand
_BYTES_OF_A_ROW = 12  # about the least
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_TWO_OBJECTS = "two objects in one line"


class JsonLines:
    """A file of JSON Lines. It is read twice: a column's type is known when its last row is."""

    typed = True
    delimiter = None

    def __init__(self, path: Path, rules: ReadingRules) -> None:
        self.path = path
        self.format = text_format("JSON Lines", path)
        self._most_rows = rules.most_rows(path.stat().st_size)

    @cached_property
    def _found(self) -> tuple[pa.Schema, int]:
        """Columns in the order in which they turn up, and the number of rows."""
        types: dict[str, pa.DataType] = {}
        rows = 0
        for lines in self._lines(_LARGEST_BLOCK):
            _infer(lines, types)
            rows += len(lines)
            if rows > self._most_rows:
                break  # that is told when rows are read
        if not rows:
            raise GamlpError("no rows", file=self.path)
        return pa.schema([(name, _settled(kind)) for name, kind in types.items()]), rows

    def schema(self) -> pa.Schema:
        return self._found[0]

    def count(self) -> int | None:
        return None

    def count_at_most(self) -> int:
        return self._found[1] if "_found" in self.__dict__ else plain_size(self.path) // _BYTES_OF_A_ROW

    def batches(
        self, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.schema().field(name) for name in names])
        row = 0
        for lines in self._lines(min(max(size, _SMALLEST_BLOCK), _LARGEST_BLOCK)):
            for batch in self._rows(lines, schema, row, pass_over, passed):
                if batch.num_rows:
                    yield batch
            row += len(lines)

    def _rows(
        self, lines: list[bytes], schema: pa.Schema, before: int, pass_over: PassOver | None, passed: array[int]
    ) -> Iterator[pa.RecordBatch]:
        """Lines as rows; where some are bad, halves of them, down to the bad ones."""
        problem = None
        try:
            yield _parsed(lines, schema)
            return
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            problem = error
        if len(lines) > 1:
            half = len(lines) // 2
            yield from self._rows(lines[:half], schema, before, pass_over, passed)
            yield from self._rows(lines[half:], schema, before + half, pass_over, passed)
            return
        if pass_over is None:
            column = _bad_column(lines, schema)
            raise GamlpError(_sentence(problem, schema, column), file=self.path, row=before + 1, column=column)
        passed.append(before + 1)
        pass_over(NOT_A_ROW)

    def _lines(self, size: int) -> Iterator[list[bytes]]:
        """Lines that are not blank, about `size` bytes of them at a time."""
        done, rest, first = 0, b"", True
        with open_text(self.path) as stream:
            while data := stream.read(size):
                if first:
                    refuse_utf16(self.path, data)
                    data, first = data.removeprefix(b"\xef\xbb\xbf"), False
                    if data.lstrip().startswith(b"["):
                        raise GamlpError(
                            "is one JSON list", file=self.path, hint="write JSON Lines: an object in each line"
                        )
                whole, newline, end = data.rpartition(b"\n")
                if not newline:
                    rest += data
                    if len(rest) > _LONGEST_LINE:
                        most = f"{_LONGEST_LINE >> 20} MiB"
                        raise GamlpError(f"a line longer than {most}", file=self.path, row=done + 1)
                    continue
                lines = [line for line in (rest + whole).split(b"\n") if line.strip()]
                rest, done = end, done + len(lines)
                if lines:
                    yield lines
        if rest.strip():
            yield [rest]


def _infer(lines: list[bytes], types: dict[str, pa.DataType]) -> None:
    """Add the types of these rows; a row that does not fit those before it is told when it is read."""
    try:
        found = _parsed(lines, None).schema
        types |= {field.name: _merged(types.get(field.name), field.type) for field in found}
    except (pa.ArrowInvalid, UnicodeDecodeError):  # Arrow does not say where: value by value
        for line in lines:
            for name, value in _object(line).items():
                with suppress(pa.ArrowInvalid):
                    types[name] = _merged(types.get(name), _type_of(value))


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _type_of(value: Any) -> pa.DataType:
    if isinstance(value, list):
        kind = pa.null()
        for one in value:
            kind = _merged(kind, _type_of(one))
        return pa.list_(kind)
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
    kinds = {bool: pa.bool_(), float: pa.float64(), str: pa.string(), type(None): pa.null()}
    return kinds.get(type(value), pa.struct([]))


def _merged(one: pa.DataType | None, other: pa.DataType) -> pa.DataType:
    """A type that holds values of both."""
    if one is None or pa.types.is_null(one) or one == other:
        return other
    if pa.types.is_null(other):
        return one
    kinds = {_plain(one), _plain(other)}
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    if len(kinds) == 1:
        return kinds.pop()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_merged(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return one  # such columns cannot be used, whatever they hold
    raise pa.ArrowInvalid("types differ")


def _plain(kind: pa.DataType) -> pa.DataType:
    """Texts that look like times are texts: what a column of them means is decided as for every other format."""
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _settled(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_settled(kind.value_type))
    return _plain(kind)


def _parsed(lines: list[bytes], schema: pa.Schema | None) -> pa.RecordBatch:
    """Lines as rows of these columns, or of all that are found."""
    for line in lines:
        if line.count(b"[") + line.count(b"{") > _DEEPEST and _depth(line) > _DEEPEST:
            raise pa.ArrowInvalid(f"more than {_DEEPEST} lists in each other")
    data = b"\n".join(lines)
    table = json.read_json(
        pa.BufferReader(data),
        read_options=json.ReadOptions(use_threads=False, block_size=len(data) + 16),
        parse_options=json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )
    if table.num_rows != len(lines):
        raise pa.ArrowInvalid(_TWO_OBJECTS)
    names: list[str] = table.schema.names  # decoded here, where a damaged name is told
    if schema is None:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    table = table.select(schema.names if names else [])
    table.validate(full=True)  # text that is not UTF-8 would fail where nobody could tell its row
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _depth(line: bytes) -> int:
    """How deep lists and objects lie in each other."""
    depth = deepest = 0
    for mark in re.findall(rb"[\[{\]}]", _STRING.sub(b"", line)):
        depth += 1 if mark in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _bad_column(lines: list[bytes], schema: pa.Schema) -> str | None:
    """The first column that cannot be read, where the line can be."""
    try:
        _parsed(lines, pa.schema([]))
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    for field in schema:
        try:
            _parsed(lines, pa.schema([field]))
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return str(field.name)
    return None


def _sentence(error: Any, schema: pa.Schema, column: str | None) -> str:
    if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
        return "is not UTF-8 text"
    if column is None or "twice" in str(error):
        message = re.sub(r"JSON parse error: |\.? in row \d+|\.$", "", " ".join(str(error).split()))
        return f"{NOT_A_ROW} ({message[:200]})"
    return f"no {_WORDS.get(schema.field(column).type, 'value')} as in other rows of this column"


_WORDS = {pa.int64(): "integer", pa.float64(): "number", pa.string(): "text", pa.bool_(): "true or false"}
