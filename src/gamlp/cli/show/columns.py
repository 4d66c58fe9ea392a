"""What every column of a person's tables was used for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.graph.ingest import ColumnUse

_MOST = 12  # columns of one use that are named; --json names all


def show_columns(uses: Iterable[ColumnUse]) -> None:
    """A table with a row for each use: features of one sort are one row, however many there are."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in uses:
        use = f"{one.use} ({one.about})" if one.about else one.use
        groups.setdefault((one.table, use), []).append(one.column)
    rows = [(table, use, _named(columns)) for (table, use), columns in groups.items()]
    display.table("table", "used as", "columns", rows=rows)


def show_delimiters(delimiters: Mapping[str, str]) -> None:
    """What was found between columns, where it is not a comma."""
    from gamlp.graph.ingest import delimiter_name

    for table, delimiter in delimiters.items():
        if delimiter != ",":
            display.say(f"{table}: columns are separated by {delimiter_name(delimiter)}")


def _named(columns: list[str]) -> str:
    shown = [name if name.strip() else "(without a name)" for name in columns[:_MOST]]
    more = len(columns) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more (--json names all)" if more else "")
