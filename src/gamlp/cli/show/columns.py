"""What every column of a person's tables was used for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.graph.ingest import ColumnUse

_MOST = 12  # columns of one use that are named; --json names all
_MOST_ROWS = 40  # of the table


def show_columns(uses: Iterable[ColumnUse]) -> None:
    """A table with a row for each use: features of one sort are one row, however many there are."""
    uses = list(uses)
    rows = _rows(uses, whole=True)
    if len(rows) > _MOST_ROWS:  # hundreds of columns, each with figures of its own
        rows = _rows(uses, whole=False)
    display.table("table", "used as", "columns", rows=rows)


def _rows(uses: Iterable[ColumnUse], whole: bool) -> list[tuple[str, str, str]]:
    """Table, use and columns; `whole`: with all that is said about a use, else with the type of column alone."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in uses:
        about = one.about if whole else one.about.partition(":")[0]
        use = f"{one.use} ({about})" if about else one.use
        groups.setdefault((one.table, use), []).append(one.column)
    return [(table, use, _named(columns)) for (table, use), columns in groups.items()]


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
