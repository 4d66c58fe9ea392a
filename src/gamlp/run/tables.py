"""A user's tables → their graph, inside the run folder."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, IngestReport, split_place
from gamlp.io import Place, seen_by_all, write_json
from gamlp.progress import Progress, silent
from gamlp.run.engine import Engine
from gamlp.run.resources import LOCAL, Resources
from gamlp.run.source import Source
from gamlp.training import Origin

_TABLES = "tables.json"
_REPORT = "ingest.json"


@dataclass(frozen=True)
class Tables:
    """A user's tables: one of edges and one of nodes, or one for each relation and type by its name."""

    edges: str | dict[str, str]
    nodes: str | dict[str, str]
    how: IngestOptions = field(default_factory=IngestOptions)

    def ingest(self, engine: Engine, folder: Place, name: str, progress: Progress) -> IngestReport:
        """Their graph, and what was read."""
        return engine.ingest(self.edges, self.nodes, folder.local or folder.url, replace(self.how, name=name), progress)

    def check_present(self) -> None:
        """Refuse a place where this machine sees nothing; to be asked before a folder is made that has such a name."""
        for tables in (self.edges, self.nodes):
            for place in [tables] if isinstance(tables, str) else tables.values():
                if not Path(place).exists() and not split_place(place)[0].exists():
                    raise GamlpError("there is no such table", file=place)

    def identity(self) -> dict[str, Any]:
        """What tells these tables from others, from themselves after a change, and from being read in another way."""
        places: dict[str, Any] = {
            part: _table_identity(table)
            if isinstance(table, str)
            else {name: _table_identity(place) for name, place in table.items()}
            for part, table in (("edges", self.edges), ("nodes", self.nodes))
        }
        names = [self.how.node_names, *self.how.names_of.values()]
        arrays = {one.features for one in names if one.features is not None and one.features.endswith(".npy")}
        return {
            **places,
            "arrays": [_table_identity(file) for file in sorted(arrays)],
            "how": _options_identity(self.how),
        }


def from_tables(tables: Tables, out: Path, *, resources: Resources = LOCAL, progress: Progress = silent) -> Source:
    """The graph of tables, inside the run folder; ingested once, and other tables are refused there.

    What every column was used for is kept beside it, in ingest.json.
    """
    folder, known = Place.of(seen_by_all(out / "graph")), out / _TABLES
    now = tables.identity()
    report = None
    if folder.exists():
        try:
            before = json.loads(known.read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            before = None
        if before != now:
            raise GamlpError(_difference(before, now), file=out, hint="choose another --out")
    if not (folder.exists() and (out / _REPORT).exists()):
        folder.remove()  # of a run that was killed before its report was written
        write_json(known, now)  # first: a graph without it would be taken for one of other tables
        try:
            with closing(resources.open_engine()) as engine:
                report = tables.ingest(engine, folder, out.name, progress)
        except GamlpError:
            known.unlink()  # tables that are refused leave no run
            raise
        write_json(out / _REPORT, asdict(report))
    return Source(str(folder), Origin(graph="./graph"), Graph.open(folder), ingested=report)


def _options_identity(how: IngestOptions) -> dict[str, Any]:
    """What differs from the defaults and decides what a graph holds: a limit of rows only refuses."""
    plain = json.loads(json.dumps(asdict(replace(how, max_rows=None, name=None))))  # tuples as JSON gives them back
    usual = json.loads(json.dumps(asdict(IngestOptions())))
    return {name: value for name, value in plain.items() if value != usual[name]}


def _difference(before: Any, now: dict[str, Any]) -> str:
    """Why a run is not one on these tables."""
    same = isinstance(before, dict) and all(before.get(part) == now[part] for part in now if part != "how")
    return "holds a run on these tables, read with other options" if same else "holds a run on other tables"


def _table_identity(name: str) -> list[Any]:
    """A table's place with the size and time of its files; a place that only the engine sees is known by its name."""
    table, within = Path(name), None
    if not table.exists():
        table, within = split_place(name)
    if not table.exists():
        return [name, []]
    files = sorted(path for path in table.rglob("*") if path.is_file()) if table.is_dir() else [table]
    place = str(table.resolve()) + ("" if within is None else f"::{within}")
    return [place, [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]]
