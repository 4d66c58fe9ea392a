"""Tables of numbers in text, parsed some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from gamlp.errors import GamlpError
from gamlp.graph.graph import Array

_csv: Any = pyarrow.csv  # its stubs, where there are any, do not know streams
_BLOCK = 16 << 20  # bytes parsed at a time
_HEAD = 1 << 20  # a first line is shorter than this


def tables(path: Path, kind: Any = np.float64) -> Iterator[Array]:
    """`[rows, columns]` parts of a .csv or .csv.gz without header; an empty field is NaN."""
    try:
        with pa.input_stream(str(path)) as stream:
            width = _width(stream.read(_HEAD), ",")
        with pa.input_stream(str(path)) as stream:
            reader = _csv.open_csv(stream, **_options(width, kind, ",", _BLOCK))
            yield from (_stack(batch.columns) for batch in reader)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise GamlpError(f"not the table it should be ({error})", file=path, hint="fetch it again") from error


def table(path: Path, kind: Any = np.float64) -> Array:
    """All of a table that fits memory."""
    return np.concatenate(list(tables(path, kind)))


def parse(text: bytes, separator: str = ",", kind: Any = np.float32) -> Array:
    """`[lines, columns]` of text in memory; raises ValueError where it is no table of numbers."""
    options = _options(_width(text, separator), kind, separator, len(text) + 1)
    return _stack(_csv.read_csv(pa.BufferReader(text), **options).columns)


def named(path: Path, *, header: bool) -> Any:
    """A small .csv.gz of names and numbers, typed as it is found."""
    try:
        with pa.input_stream(str(path)) as stream:
            options = pa.csv.ReadOptions(autogenerate_column_names=not header)
            return _csv.read_csv(stream, read_options=options)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise GamlpError(f"not the table it should be ({error})", file=path, hint="fetch it again") from error


def _options(width: int, kind: Any, separator: str, block: int) -> dict[str, Any]:
    # Types are fixed from the start: a column that begins with whole numbers may go on with fractions.
    types = {f"f{index}": pa.from_numpy_dtype(kind) for index in range(width)}
    return {
        "read_options": pa.csv.ReadOptions(autogenerate_column_names=True, block_size=block),
        "parse_options": pa.csv.ParseOptions(delimiter=separator, quote_char=False),
        "convert_options": pa.csv.ConvertOptions(column_types=types),
    }


def _width(text: bytes, separator: str) -> int:
    return text.split(b"\n", 1)[0].count(separator.encode()) + 1


def _stack(columns: list[Any]) -> Array:
    return np.stack([column.to_numpy() for column in columns], axis=1) if columns else np.zeros((0, 0))
