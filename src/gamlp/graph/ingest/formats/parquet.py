"""Parquet → batches of rows whose size in memory is bounded, whatever a small file unfolds to."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats.contract import PassOver
from gamlp.io import format_size

_READ_AHEAD = 1 << 20
_LARGEST_DICTIONARY = 32 << 20  # writers begin another encoding at 1 MiB
_MOST_VALUES = 1 << 20  # of a list, on average
_LONGEST_HEADER = 1 << 16
_BYTES = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # by physical type; text is 6, bytes of a fixed length 7
_TEXT, _FIXED_LENGTH, _DICTIONARY_PAGE = 6, 7, 2


class ParquetFile:
    """A file of Parquet."""

    format = "Parquet"
    typed = True
    delimiter = None

    def __init__(self, path: Path) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        return parquet.read_schema(self.path)

    def count(self) -> int:
        return int(parquet.read_metadata(self.path).num_rows)

    def count_at_most(self) -> int:
        return self.count()

    def batches(
        self, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]
    ) -> Iterator[pa.RecordBatch]:
        return parquet_batches(self.path, names, size)


def parquet_batches(file: Path, names: list[str], size: int) -> Iterator[pa.RecordBatch]:
    """Rows of these columns, about `size` bytes at a time."""
    # Without threads and read-ahead memory is one batch and its pages, however large a row group is.
    with parquet.ParquetFile(file, pre_buffer=False, buffer_size=_READ_AHEAD) as source:
        rows = max(1, size // _bytes_of_a_row(file, names))
        read = 0
        for batch in source.iter_batches(batch_size=rows, columns=names, use_threads=False):
            batch.validate(full=True)  # text that is not UTF-8 would fail where nobody could tell its file
            read += batch.num_rows
            yield batch
        if read != source.metadata.num_rows:  # a damaged column may end early, or before it began
            raise pa.ArrowInvalid(f"{read} rows of {source.metadata.num_rows} can be read")


@dataclass(frozen=True)
class _Chunk:
    """A column of a row group, as the footer tells of it."""

    group: int
    rows: int
    column: str  # of the table
    path: str  # of its values, within lists
    kind: int
    values: int
    size: int
    start: int  # of its first page


def _bytes_of_a_row(file: Path, names: list[str]) -> int:
    """What a row of the row group with the largest ones takes, once it is decoded."""
    chunks, fixed = _read_footer(file, names)
    text = sorted({chunk.path for chunk in chunks if chunk.kind == _TEXT})
    of_group: dict[int, int] = {}
    with parquet.ParquetFile(file, pre_buffer=False, read_dictionary=text) as coded:
        for chunk in chunks:
            values = -(-chunk.values // chunk.rows)
            if values > _MOST_VALUES:
                raise GamlpError(f"lists of {values:,} values", file=file, column=chunk.column)
            each = _BYTES.get(chunk.kind, fixed)
            if chunk.kind == _TEXT:
                each = chunk.size // max(1, chunk.values) + _longest_of_dictionary(file, coded, chunk)
            of_group[chunk.group] = of_group.get(chunk.group, 0) + values * max(1, each)
    return max([8 * len(names), *of_group.values()])


def _longest_of_dictionary(file: Path, coded: Any, chunk: _Chunk) -> int:
    """Bytes of the longest value that a dictionary repeats in any number of rows; 0 without a dictionary."""
    with file.open("rb") as stream:
        stream.seek(max(0, chunk.start))
        page = _decoded(stream.read(_LONGEST_HEADER), until=2)
    if page.get(1) != _DICTIONARY_PAGE:
        return 0
    size = int(page.get(2, 0))
    if size > _LARGEST_DICTIONARY:
        raise GamlpError(
            f"a dictionary of {format_size(size)}",
            file=file,
            column=chunk.column,
            hint=f"write the file with dictionaries up to {format_size(_LARGEST_DICTIONARY)}, or none",
        )
    one = next(
        coded.iter_batches(batch_size=1, row_groups=[chunk.group], columns=[chunk.column], use_threads=False), None
    )
    values = None if one is None or one.num_rows == 0 else one.column(0)
    while values is not None and _is_list(values.type):
        values = values.values
    if values is None or not pa.types.is_dictionary(values.type) or len(values.dictionary) == 0:
        return size
    return int(pc.max(pc.binary_length(values.dictionary)).as_py() or 0)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _read_footer(file: Path, names: list[str]) -> tuple[list[_Chunk], int]:
    """(chunks of these columns, longest of the fixed lengths).

    Decoded here: pyarrow ends the whole process when it is asked for a chunk that a damaged footer does not describe.
    """
    with file.open("rb") as stream:
        stream.seek(-8, 2)
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(-min(8 + length, file.stat().st_size), 2)
        footer = _decoded(stream.read(length))
    try:
        fixed = max([element.get(2, 0) for element in footer[2]], default=0)
        chunks = []
        for number, group in enumerate(footer.get(4, [])):
            for one in group[1] if group[3] else []:
                about = one[3]
                path = [part.decode() for part in about[3]]
                start = min(about[9], about.get(11, about[9]))
                chunk = _Chunk(number, group[3], path[0], ".".join(path), about[1], about[5], about[6], start)
                if chunk.column in names:
                    chunks.append(chunk)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise pa.ArrowInvalid("the footer does not describe its columns") from error
    return chunks, fixed


def _decoded(data: bytes, until: int | None = None) -> dict[int, Any]:
    """A struct of Thrift's compact protocol: values by the numbers of their fields; `until`: up to this field."""
    try:
        return _Compact(data).struct(until)
    except (IndexError, RecursionError) as error:
        raise pa.ArrowInvalid("a header cannot be decoded") from error


class _Compact:
    """Reads values of Thrift's compact protocol one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, until: int | None = None) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while field != until and (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            found[field] = kind == 1 if kind in (1, 2) else self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):  # booleans in a list take a byte each
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            return self._bytes(8 if kind == 7 else self._unsigned())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15) for _ in range(count)]
        if kind == 11:
            count = self._unsigned()
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise pa.ArrowInvalid("a header cannot be decoded")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise IndexError
        return self._data[self._at - count : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise IndexError

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
