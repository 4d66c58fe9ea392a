"""Cells of feature columns as they are read: which of them are what their column was asked to be, on every engine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.features.encoders import FittedColumn, Fitting, unreadable
from gamlp.graph.features.encoders.reading import kind_of
from gamlp.graph.ingest.columns import CheckedRows, Column, is_null, shown
from gamlp.graph.ingest.features import ColumnFeatures
from gamlp.graph.ingest.wanted import ColumnPlan
from gamlp.kernel import FloatName, not_held, store_as

UNTOUCHED = ("as-is", "vector")  # types whose features are what the table holds
_LARGEST = {"float16": 65504.0}  # scaled numbers beyond it are cut off; a few deviations are what is expected
_MEANT = dict.fromkeys(("number", "standard", "robust", "quantile", "as-is"), "finite number") | {"date": "day or time"}


class CellChecks:
    """`widths`: lengths of lists by column; of one that is not there, the first row's."""

    def __init__(
        self, plan: ColumnPlan, arrow_types: Mapping[str, pa.DataType], widths: Mapping[str, int] | None = None
    ) -> None:
        self.plan = plan
        self.arrow_types = arrow_types
        self.widths: dict[str, int] = dict(widths or {})
        self._wanted = {name: self._type_of(name) for name in plan.wanted}

    def _type_of(self, name: str) -> str | None:
        word = self.plan.wanted[name]
        return "vector" if word == "as-is" and kind_of(self.arrow_types[name]) == "vector" else word

    def fittings(self) -> dict[str, Fitting]:
        """A new one of each column that has no state yet."""
        return {name: Fitting(name, word) for name, word in self._wanted.items() if name not in self.plan.fitted}

    def stored(self, name: str, column: Column) -> Column:
        """Files of a table may hold one column in different types: as one that holds them all."""
        wanted = self.arrow_types[name]
        return column if column.type == wanted else column.cast(wanted, safe=False)

    def checked(self, rows: CheckedRows, name: str) -> Column:
        """A column as it is kept; a row with a cell that is not of the type asked for is no longer good."""
        column = self.stored(name, rows.column(name))
        fitted, wanted = self.plan.fitted.get(name), self._wanted[name]
        if kind_of(column.type) == "vector":
            self._check_lengths(rows, name, column, fitted)
        if fitted is not None:
            _refuse(rows, name, column, fitted.unreadable(column), fitted.type)
        elif wanted == "as-is" or self.plan.wanted[name] == "as-is":
            ColumnFeatures([name], self.widths).read_rows(rows)  # every number is there, and finite
        elif wanted is not None:
            _refuse(rows, name, column, unreadable(column, wanted), wanted)
        elif kind_of(column.type) == "vector":
            _refuse(rows, name, column, unreadable(column, "vector"), "vector")
        return column

    def _check_lengths(self, rows: CheckedRows, name: str, column: Column, fitted: FittedColumn | None) -> None:
        lengths = pc.list_value_length(column)
        gap = is_null(lengths)
        lengths = np.asarray(lengths.fill_null(0).to_numpy(zero_copy_only=False))
        there = np.flatnonzero(~gap & rows.good)
        if name not in self.widths and fitted is None and len(there):
            self.widths[name] = int(lengths[there[0]])
            if self.widths[name] == 0:
                row = rows.batch.row(int(there[0]))
                raise GamlpError("an empty list of features", file=rows.batch.file, row=row, column=name)
        width = self.widths.get(name, 0)
        others = "the rows before have"
        if fitted is not None and fitted.state is not None:
            width, others = int(getattr(fitted.state, "width", 0)), "the schema has"
        rows.refuse(
            "ragged features",
            ~gap & (lengths != width),
            name,
            lambda i: f"{lengths[i]} features where {others} {width}",
        )


def _refuse(rows: CheckedRows, name: str, column: Column, wrong: Array, word: str) -> None:
    rows.refuse(
        f"no {word}",
        wrong,
        name,
        lambda i: is_no(column, i, word),
        f"mend or empty such cells, leave out such rows with --on-bad skip, or the column with --drop {name}",
    )


def is_no(column: Column, row: int, word: str) -> str:
    """A cell that is not of its column's type, as an error tells it."""
    if word.startswith("vector"):
        return "a number of the list is missing, NaN or infinite"
    return f"'{shown(column, row)}' is not a {_MEANT.get(word, word)}"


def fit_dtype(column: FittedColumn, values: Array, dtype: FloatName) -> tuple[int, int] | None:
    """What a half type cannot hold: (row, feature) of a table's own number; scaled ones are cut off in place."""
    if dtype == "float32":
        return None
    if column.type not in UNTOUCHED:
        most = _LARGEST.get(dtype, np.inf)
        np.clip(values, -most, most, out=values)
        return None
    wrong = not_held(values, store_as(values, dtype), dtype)
    return next(zip(*(found.tolist() for found in np.nonzero(wrong)))) if wrong.any() else None


def kept_raw(fitted: list[FittedColumn]) -> list[str]:
    """Columns that a graph keeps as the table had them; none where features are what the table holds.

    What is left out here may be a feature of a model that another table trained; free text is long.
    """
    used = [column for column in fitted if column.width]
    if not any(column.type not in UNTOUCHED or column.state.gaps for column in used if column.state is not None):
        return []
    return [column.name for column in fitted if column.width or column.type != "free-text"]
