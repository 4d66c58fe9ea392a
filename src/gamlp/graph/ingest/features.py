"""Features of nodes from list columns, numeric columns or a .npy file → float32 rows, every value checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.folder import GraphWriter
from gamlp.graph.ingest.columns import BadRows, CheckedRows, Column, is_null, numbers, plain, shown
from gamlp.graph.ingest.tables import FileState, TableBatch
from gamlp.graph.schema import FeatureColumn, FeatureSchema
from gamlp.io import GrowingArray, map_array
from gamlp.kernel import NUMPY_DTYPES, FloatName, cannot_hold, not_held, store_as
from gamlp.progress import Progress

PlaceOf = Callable[[int], tuple[Path, int]]  # a row whose features were read → its file, and its number there
_HINT = "every node needs a finite number for every feature; name the feature columns with --features"


class FeatureSource(Protocol):
    """Where features come from: `columns` of the node table, or none of them."""

    columns: list[str]

    def width(self) -> int:
        """Number of features of a node; known after the first rows are read."""
        ...

    def schema(self) -> FeatureSchema | None:
        """The columns by name and type, known as the width is; None: features have no names."""
        ...

    def read(self, batch: TableBatch, at: int, bad: BadRows) -> tuple[Array, Array]:
        """(float32 `[rows, width]`, good `[rows]`) of a batch of nodes of which `at` came before."""
        ...

    def place(self, batch: TableBatch, at: int, row: int, feature: int) -> tuple[Path, int, str]:
        """(file, row, column) of a value, as people count."""
        ...


class ColumnFeatures:
    """Numeric columns (one feature each) and list columns (several), side by side in the order given."""

    def __init__(
        self, columns: list[str], widths: Mapping[str, int] | None = None, others: str = "the rows before"
    ) -> None:
        self.columns = columns
        self._widths = dict(widths or {})  # of list columns; one that is not given is that of the first row
        self._others = others

    def width(self) -> int:
        return sum(self._widths.get(name, 1) for name in self.columns)

    def schema(self) -> FeatureSchema:
        return columns_schema(self.columns, self._widths)

    def read(self, batch: TableBatch, at: int, bad: BadRows) -> tuple[Array, Array]:
        rows = CheckedRows(batch, bad)
        return self.read_rows(rows), rows.good

    def read_rows(self, rows: CheckedRows) -> Array:
        """float32 `[rows, width]`; rows with a bad value are no longer good."""
        parts = [self._read_column(rows, name) for name in self.columns]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)

    def place(self, batch: TableBatch, at: int, row: int, feature: int) -> tuple[Path, int, str]:
        return batch.file, batch.row(row), self.owner(feature)

    def owner(self, feature: int) -> str:
        """The column that a feature comes from."""
        return [name for name in self.columns for _ in range(self._widths.get(name, 1))][feature]

    @property
    def list_widths(self) -> dict[str, int]:
        """Lengths of the lists that were seen, by column."""
        return dict(self._widths)

    def _read_column(self, rows: CheckedRows, name: str) -> Array:
        column = rows.column(name)
        rows.refuse("missing feature", is_null(column), name, lambda _: "missing feature", _HINT)
        if _is_list(column.type):
            return self._read_lists(rows, name, column)
        values, readable = numbers(column, pa.float64())
        rows.refuse("non-numeric feature", ~readable, name, lambda i: f"'{shown(column, i)}' is not a number", _HINT)
        return _finite(rows, name, values[:, None])

    def _read_lists(self, rows: CheckedRows, name: str, column: Column) -> Array:
        lengths = np.asarray(pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False))
        if name not in self._widths and rows.good.any():
            self._widths[name] = int(lengths[np.argmax(rows.good)])
            if self._widths[name] == 0:
                raise GamlpError("an empty list of features", file=rows.batch.file, row=rows.batch.row(0), column=name)
        width = self._widths.get(name, 0)
        rows.refuse(
            "ragged features",
            lengths != width,
            name,
            lambda i: f"{lengths[i]} features where {self._others} have {width}",
        )
        if not rows.good.all():
            column = column.filter(pa.array(rows.good))
        flat = plain(column.flatten())
        values, readable = _fast(flat) if pa.types.is_float32(flat.type) else numbers(flat, pa.float64())
        # Rows that are out already are filled with zeros, so that row numbers stay those of the batch.
        matrix, message = np.zeros((len(rows.good), width), values.dtype), np.ones((len(rows.good), width), bool)
        shape = int(np.count_nonzero(rows.good)), width
        matrix[rows.good], message[rows.good] = values.reshape(shape), readable.reshape(shape)
        rows.refuse(
            "non-numeric feature",
            ~np.all(message, 1),
            name,
            lambda i: f"feature {int(np.argmin(message[i])) + 1} of the list is missing or not a number",
            _HINT,
        )
        return _finite(rows, name, matrix)


class ArrayFeatures:
    """A .npy file, mapped; its rows are the rows of the node table, in order. Never unpickled."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise GamlpError("no such file", file=path, hint="--features names columns, or a .npy file")
        if path.stat().st_size == 0:
            raise GamlpError("empty file", file=path)
        self.columns: list[str] = []
        self.path = path
        self._state = FileState.of(path)
        self.values = map_array(path)
        if self.values.ndim != 2 or self.values.dtype.kind not in "fiub" or self.values.shape[1] == 0:
            raise GamlpError(
                f"holds {self.values.dtype} of shape {self.values.shape}",
                file=path,
                hint="features are numbers of shape [nodes, features]",
            )

    def width(self) -> int:
        return int(self.values.shape[1])

    def schema(self) -> None:
        return None

    def check_count(self, nodes: int) -> None:
        """Refuse an array with more or fewer rows than the node table, or that was written to meanwhile."""
        self._state.check(self.path)
        if len(self.values) != nodes:
            raise GamlpError(f"{len(self.values)} rows of features for {nodes} rows of nodes", file=self.path)

    def read(self, batch: TableBatch, at: int, bad: BadRows) -> tuple[Array, Array]:
        rows = CheckedRows(replace(batch, file=self.path, start=at), bad)
        stop = at + batch.columns.num_rows
        if stop > len(self.values):
            raise GamlpError(f"{len(self.values)} rows of features for {stop} or more rows of nodes", file=self.path)
        return _finite(rows, "features", np.asarray(self.values[at:stop])), rows.good

    def place(self, batch: TableBatch, at: int, row: int, feature: int) -> tuple[Path, int, str]:
        return self.path, at + row + 1, f"{feature + 1}"


class FeatureRows:
    """Features of good rows on their way into a file."""

    def __init__(self, source: FeatureSource, dtype: FloatName, path: Path) -> None:
        self.source = source
        self.dtype = dtype
        self.path = path
        self._out: GrowingArray | None = None

    @property
    def columns(self) -> list[str]:
        return self.source.columns

    def read(self, batch: TableBatch, at: int, rows: CheckedRows, bad: BadRows) -> None:
        """Append features of the good rows of a batch; a row with a bad one is no longer good."""
        values, good = self.source.read(batch, at, bad)
        rows.good &= good
        if not rows.good.any():
            return  # the length of lists may not be known yet
        if self._out is None:
            self._out = GrowingArray(self.path, self.source.width(), NUMPY_DTYPES[self.dtype])
        stored = store_as(values[rows.good], self.dtype)
        wrong = not_held(values[rows.good], stored, self.dtype)
        if wrong.any():
            row, feature = (int(found[0]) for found in np.nonzero(wrong))
            row = int(np.flatnonzero(rows.good)[row])
            file, number, column = self.source.place(batch, at, row, feature)
            raise cannot_hold(values[row, feature], self.dtype, file=file, row=number, column=column)
        self._out.append(stored)

    def finish(self, kept: Array, place: PlaceOf, bad: BadRows, table: Path) -> Array:
        """Keep the rows that are marked, of those that were appended: all of them are good."""
        if self._out is not None:
            self._out.finish(kept)
        return kept

    def write(
        self,
        writer: GraphWriter,
        node_type: str,
        size: int,
        place: PlaceOf,
        stage: Callable[[str], str],
        progress: Progress,
    ) -> int:
        """The features, which are in their file already; returns how many a node has."""
        assert self._out is not None
        writer.take_features(self._out, self.dtype, node_type, self.source.schema())
        return self.source.width()

    def close(self) -> None:
        if self._out is not None:
            self._out.close()


def columns_schema(names: Sequence[str], list_widths: Mapping[str, int]) -> FeatureSchema:
    """Columns side by side: lists of known lengths, and numbers."""
    return tuple(
        FeatureColumn(name=name, type="list", width=list_widths[name])
        if name in list_widths
        else FeatureColumn(name=name)
        for name in names
    )


def _finite(rows: CheckedRows, name: str, values: Array) -> Array:
    """float32 values; NaN, infinity and what float32 cannot hold are refused."""
    with np.errstate(over="ignore"):
        narrow: Array = values.astype(np.float32, copy=False)
    wrong = ~np.isfinite(narrow)
    if not wrong.any():
        return narrow

    def problem(i: int) -> str:
        at = int(np.argmax(wrong[i]))
        value = float(values[i, at])
        which = f"feature {at + 1} is" if values.shape[1] > 1 else "the feature is"
        return f"{which} {value:g}" + (", too large for float32" if np.isfinite(value) else "")

    rows.refuse("NaN or infinite feature", np.any(wrong, 1), name, problem, _HINT)
    return np.where(wrong, np.float32(0), narrow)


def _fast(flat: Column) -> tuple[Array, Array]:
    missing = is_null(flat)
    values = flat.fill_null(0) if flat.null_count else flat
    return np.asarray(values.to_numpy(zero_copy_only=False)), ~missing


def _is_list(node_type: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(node_type) or types.is_large_list(node_type) or types.is_fixed_size_list(node_type))
