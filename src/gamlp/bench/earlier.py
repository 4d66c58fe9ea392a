"""Numbers of the page that is about to be written anew: they stand where their runs are lost and the recipe is not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gamlp.bench.cells import settings_of
from gamlp.bench.results import Grid, Growth, KeptValue, Key, Measured, Results, is_relative
from gamlp.bench.tables import PaperTable, TableMethod
from gamlp.errors import GamlpError
from gamlp.graph import digest
from gamlp.peers import recipe_named

Row = dict[str, Any]


@dataclass(frozen=True)
class EarlierPage:
    """Rows of a page's JSON by place and metric; stamps of it and of the pages that it kept numbers of."""

    rows: dict[tuple[Key, str], Row] = field(default_factory=dict)
    stamps: tuple[dict[str, Any], ...] = ()
    content: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, table: PaperTable, folder: Path | None) -> EarlierPage:
        """Of the folder that pages are in; without rows where it has none of this table."""
        if folder is None or not (path := folder / f"{table.name}.json").exists():
            return cls()
        try:
            content = json.loads(path.read_text("utf-8"))
            stamp = {name: content[name] for name in ("date", "machine", "versions")}
            rows = {
                ((row["method"], row["dataset"], row["at"]), row["metric"]): row | {"earlier": _date(row, stamp)}
                for row in content["rows"]
                if row["ours"] is not None
            }
        except (ValueError, KeyError, TypeError) as error:
            hint = "remove it, or choose another --out"
            raise GamlpError("is no page of a table, and its numbers cannot be kept", file=path, hint=hint) from error
        stamps = [stamp, *content.get("earlier", [])]
        return cls(rows, tuple(one for place, one in enumerate(stamps) if one not in stamps[:place]), content)

    def kept(self, results: Results) -> dict[tuple[Key, str], KeptValue]:
        """Those measured by recipes that are still the table's, on graphs that are made as they were."""
        table, found = results.table, {}
        for (key, metric), row in self.rows.items():
            if key[1] not in table.datasets or metric not in table.metrics_of(key[1]):
                continue
            if not self._same(key, metric, results):
                continue
            measured = Measured(row["ours"], row["deviation"], row["seeds"])
            if not is_relative(metric):
                found[key, metric] = KeptValue(measured, measured, row["earlier"])
            elif (raw := _absolute(row)) is not None and self._beside_one(key, metric, results):
                found[key, metric] = KeptValue(measured, raw, row["earlier"])
        return found

    def _same(self, key: Key, metric: str, results: Results) -> bool:
        now, made, row = results.recipes.get(key), results.made.get(key), self.rows[key, metric]
        # Pages of before `made` was written have none of it.
        return now is not None and row.get("recipe") == now and row.get("made") in (None, made)

    def _beside_one(self, key: Key, metric: str, results: Results) -> bool:
        """Whether a ratio was to the table's first method, and that one's recipe is the same too."""
        first = next(iter(results.table.runs_of(key[1])), "")
        place = (first, *key[1:])
        row = self.rows.get((place, metric))
        return row is not None and abs(row["ours"] - 1) < 1e-9 and self._same(place, metric, results)


def _date(row: Row, stamp: dict[str, Any]) -> str:
    return str(row.get("earlier") or stamp["date"])


def _absolute(row: Row) -> Measured | None:
    """In seconds or bytes; the deviation is in the ratio's units, as the mean is."""
    mean = row.get("seconds") or row.get("bytes")
    if mean is None or not row["ours"]:
        return None
    deviation = row["deviation"]
    return Measured(mean, None if deviation is None else deviation * mean / row["ours"], row["seeds"])


def with_earlier(results: Results, folder: Path | None) -> Results:
    """The same beside what an earlier page in the folder has of the same recipes."""
    page = EarlierPage.read(results.table, folder)
    kept = page.kept(results)
    beside = replace(results, kept=kept, stamps=page.stamps if kept else ())
    known = {dataset for _, dataset, _ in beside.places}
    return replace(beside, missing={name: why for name, why in results.missing.items() if name not in known})


def or_earlier(results: Results, folder: Path | None) -> Results:
    """Of a special kind, which is kept as a whole: an earlier page's where nothing was measured since."""
    page = EarlierPage.read(results.table, folder)
    content, grids = page.content, {name: _grid(grid) for name, grid in page.content.get("grids", {}).items()}
    recipe = _whole_recipe(results.table, grids)
    if results.measured_any or content.get("recipe") != recipe or not (grids or content["growth"]):
        return replace(results, recipe=_whole_recipe(results.table, results.grids))
    known = _columns(results.table, grids)
    missing = {name: why for name, why in results.missing.items() if name not in known}
    return replace(
        results,
        missing=missing,
        grids=grids,
        growth=tuple(_growth(one) for one in content["growth"]),
        tables=tuple((one["title"], one["heads"], one["rows"]) for one in content["tables"]),
        stamps=page.stamps,
        origins=(),
        recipe=recipe,
        earlier=str((content.get("earlier") or page.stamps)[0]["date"]),
    )


def _columns(table: PaperTable, grids: Iterable[str]) -> set[str]:
    """Datasets that have a grid."""
    return {name for name in table.datasets if any(grid.startswith(f"{name}-") for grid in grids)}


def _grid(content: dict[str, Any]) -> Grid:
    lists = {name: tuple(content[name]) for name in ("rows", "columns")}
    margins = {kind: (margin, error) for kind, (margin, error) in content.get("margins", {}).items()}
    return Grid(**{**content, **lists, "values": tuple(tuple(row) for row in content["values"]), "margins": margins})


def _growth(content: dict[str, Any]) -> Growth:
    named = {name: content[name] for name in ("method", "quantity", "metric")}
    return Growth(**named, sizes=tuple(content["sizes"]), values=tuple(content["values"]))


def _whole_recipe(table: PaperTable, grids: Iterable[str]) -> str:
    """Digest of the recipes of all rows on columns with grids (all, where none has), and of what the table asks."""
    also = {name: TableMethod.model_validate(entry) for name, entry in table.options.get("also", {}).items()}
    asked = {name: value for name, value in table.options.items() if name != "formulas"}
    measured = _columns(table, grids) or set(table.datasets)
    recipes = [
        [dataset, name, entry.axis, settings_of(recipe_named(entry.recipe, dataset).changed(dict(entry.changes)))]
        for dataset in table.datasets
        if dataset in measured
        for name, entry in {**table.methods, **also}.items()
        if entry.recipe is not None
    ]
    return digest([table.kind, asked, recipes])
