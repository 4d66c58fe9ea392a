"""How far tables of the benchmark are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.bench import TableStatus


def show_status(found: Sequence[TableStatus], each_cell: bool = False) -> None:
    """A line a table, and why columns are not possible here; with `each_cell` a line for each that lacks seeds.

    `unknown` are missing runs of cells whose time is not known.
    """
    heads = ("table", "complete", "runs", "seeds", "stale", "missing", "would take", "unknown")
    display.table(*heads, rows=[_row(one) for one in found])
    for one in found:
        if one.special and one.anything and not one.runs:
            display.say(f"{one.table} has a page whose points are not recorded.")
        for dataset, reason in one.absent.items():
            display.say(f"{one.table}, {dataset}: not possible here, {reason}.")
        for long in one.missing.long:
            display.say(f"{one.table}: {long} is over five minutes.")
        if each_cell:
            _show_cells(one)


def _row(one: TableStatus) -> tuple[str | int, ...]:
    from gamlp.bench import duration

    fewest, most = one.seeds
    seeds = "points" if one.special else f"{fewest}" if fewest == most else f"{fewest}–{most}"
    lacks, unknown = one.missing.runs, one.missing.unknown
    takes = "–" if not lacks else "not known" if unknown == lacks else duration(one.missing.seconds)
    return (one.table, f"{one.complete} of {one.cells}", one.runs, seeds, one.stale, lacks, takes, unknown)


def _show_cells(one: TableStatus) -> None:
    from gamlp.bench import duration

    rows = []
    for place in one.places:
        if place.done >= place.wanted:
            continue
        seconds = place.estimate.seconds
        takes = "not known" if seconds is None else f"{duration(seconds)} ({place.estimate.source})"
        rows.append((place.cell.name, place.shown, place.done, place.wanted, takes))
    if rows:
        display.table("cell", "seeds", "recorded", "wanted", "a run takes", rows=rows, title=f"{one.table}, incomplete")
