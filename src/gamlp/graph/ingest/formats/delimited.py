"""CSV with any delimiter → batches of text columns. Quoted values may hold newlines; rows are records, not lines."""

from __future__ import annotations

import codecs
import re
import secrets
from array import array
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats.contract import PassOver, ReadingRules, file_row
from gamlp.graph.ingest.formats.sniffing import refuse_decimal_commas, sniffed
from gamlp.graph.ingest.formats.text import open_text, plain_size, refuse_utf16, text_format

WRONG_COUNT, NOT_UTF8 = "wrong number of columns", "text that is not UTF-8"

_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 21, 1 << 24  # a row must fit a block
_MARK = "\ufdd0"  # stands for bytes that are not UTF-8; Unicode promises that no text holds it
_BYTES_OF_A_ROW = 6.0  # about the least
_DECIMAL_COMMA = r"^(\s*[+-]?[0-9]*),([0-9]+(?:[eE][+-]?[0-9]+)?\s*)$"


class Delimited:
    """A file of text: a header, then a record for each row."""

    typed = False

    def __init__(self, path: Path, rules: ReadingRules) -> None:
        self.path = path
        self.format = text_format("CSV", path)
        self.rules = rules

    @cached_property
    def _start(self) -> bytes:
        with open_text(self.path) as stream:
            start: bytes = stream.read(_SMALLEST_BLOCK)
        refuse_utf16(self.path, start)
        return start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")

    @cached_property
    def delimiter(self) -> str:
        return self.rules.delimiter or sniffed(self._start, "\t" if _is_tsv(self.path) else ",")

    @cached_property
    def _names(self) -> list[str]:
        """From the header alone: bad rows are told when they are read."""
        header = _record(self.delimiter).match(self._start)
        if header is None:
            raise GamlpError("the header opens a quote that is not closed", file=self.path)
        options = csv.ParseOptions(newlines_in_values=True, delimiter=self.delimiter)
        return list(csv.open_csv(pa.BufferReader(header[0] + b"\n"), parse_options=options).schema.names)

    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._names])

    def count(self) -> int | None:
        return None

    def count_at_most(self) -> int:
        return int(plain_size(self.path) / _BYTES_OF_A_ROW)

    def batches(
        self, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]
    ) -> Iterator[pa.RecordBatch]:
        if self.rules.decimal is None:
            refuse_decimal_commas(self.path, self._start, self.delimiter, names)
        found = _batches(self.path, self.delimiter, len(self._names), names, size, pass_over, passed)
        return map(_with_points, found) if self.rules.decimal == "," else found


def _is_tsv(file: Path) -> bool:
    return any(ending in (".tsv", ".tab") for ending in (suffix.lower() for suffix in file.suffixes[-2:]))


def _record(delimiter: str) -> re.Pattern[bytes]:
    """A whole record, up to the end of its line."""
    cut = re.escape(delimiter).encode()
    field = rb'(?:"(?:[^"]|"")*+"[^' + cut + rb'\r\n]*+|[^"' + cut + rb"\r\n][^" + cut + rb"\r\n]*+|)"
    return re.compile(field + rb"(?:" + cut + field + rb")*+(?=[\r\n]|$)")


def _with_points(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cells that are a number with a decimal comma get a point."""
    columns = [pc.replace_substring_regex(column, _DECIMAL_COMMA, r"\1.\2") for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _batches(
    file: Path,
    delimiter: str,
    width: int,
    names: list[str],
    size: int,
    pass_over: PassOver | None,
    passed: array[int],
) -> Iterator[pa.RecordBatch]:
    """Columns as strings: Arrow would decide on types block by block, and not say which row breaks one."""

    def ragged(row: Any) -> Any:
        assert pass_over is not None
        passed.append(row.number - 1)  # Arrow counts the header
        pass_over(WRONG_COUNT)
        return "skip"

    # Arrow reads some blocks ahead, whatever it is told: small blocks, joined here to the size that is wanted.
    block = min(max(size // 4, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    end = f"end-{secrets.token_hex(16)}"
    text = _Text(open_text(file), delimiter.join([end] * width))
    parts: list[pa.RecordBatch] = []
    done, last = 0, None
    try:
        with csv.open_csv(
            pa.PythonFile(text, mode="r"),
            read_options=csv.ReadOptions(use_threads=False, block_size=block),
            parse_options=csv.ParseOptions(
                newlines_in_values=True,
                delimiter=delimiter,
                invalid_row_handler=None if pass_over is None else ragged,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=names,
                null_values=[""],
                strings_can_be_null=True,
            ),
        ) as reader:
            for part in reader:
                if part.num_rows == 0:
                    continue
                last = part.column(0)[part.num_rows - 1].as_py()
                part = part.slice(0, part.num_rows - 1) if last == end else part
                rows, done = done, done + part.num_rows
                parts.append(_valid(part, file, rows, pass_over, passed) if text.marked else part)
                if sum(part.nbytes for part in parts) >= size:
                    yield _joined(parts)
                    parts = []
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error):
            raise
        raise GamlpError(
            f"a row longer than {block >> 20} MiB, or a quote that is not closed", file=file, row=done + 1
        ) from error
    if last != end:  # the row that was added is part of the value before it
        raise GamlpError("opens a quote that is not closed", file=file, row=done or None)
    if parts:
        yield _joined(parts)


class _Text:
    """A CSV as a stream for Arrow, with a last row of our own: it shows whether a quote was left open before it.

    Bytes that are not UTF-8 are marked: Arrow can neither pass over such a row nor name it.
    """

    closed = False

    def __init__(self, source: Any, end: str) -> None:
        self.marked = False
        self._source = source
        self._end: bytes | None = f"\n{end}\n".encode()
        self._decoder = codecs.getincrementaldecoder("utf-8")(_ERRORS)
        self._pending = False
        self._ready = b""

    def read(self, size: int) -> bytes:
        while len(self._ready) < size and self._end is not None:  # whole blocks: a row must fit in two
            self._ready += self._next(size)
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self._source.close()

    def _next(self, size: int) -> bytes:
        data: bytes = self._source.read(size)
        if not data:
            end, self._end = self._end, None
            assert end is not None
            return self._decode(b"", final=True) + end
        if not self._pending and data.isascii():
            return data
        return self._decode(data)

    def _decode(self, data: bytes, final: bool = False) -> bytes:
        text = self._decoder.decode(data, final)
        self._pending = bool(self._decoder.getstate()[0])
        self.marked |= _MARK in text
        return text.encode()


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _MARK, error.end


_ERRORS = "gamlp-mark"
codecs.register_error(_ERRORS, _mark)


def _valid(
    part: pa.RecordBatch, file: Path, before: int, pass_over: PassOver | None, passed: array[int]
) -> pa.RecordBatch:
    """Rows whose text is UTF-8; another one is told, or passed over."""
    good = np.ones(part.num_rows, bool)
    for name, column in zip(part.schema.names, part.columns):
        bad = pc.match_substring(column, _MARK).fill_null(False).to_numpy(zero_copy_only=False) & good
        if bad.any() and pass_over is None:
            row = before + int(np.argmax(bad)) + 1
            raise GamlpError("is not UTF-8 text", file=file, row=row, column=name, hint="save the table as UTF-8")
        good &= ~bad
    rows = [file_row(before + int(index) + 1, passed) for index in np.flatnonzero(~good)]
    for row in rows:
        assert pass_over is not None
        passed.append(row)
        pass_over(NOT_UTF8)
    return part if not rows else part.filter(pa.array(good))


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.RecordBatch.from_struct_array(pa.concat_arrays([part.to_struct_array() for part in parts]))
