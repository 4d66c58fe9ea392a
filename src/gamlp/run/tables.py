"""A user's tables → their graph, inside the run folder."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, IngestReport
from gamlp.io import Place, write_json
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
    relation_ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    target: str | None = None
    seed: int = 0  # of a split that the tables do not have
    max_rows: int | None = None  # of a table

    def ingest(self, engine: Engine, folder: Path, name: str, progress: Progress) -> IngestReport:
        """Their graph, and what was read."""
        how = IngestOptions(
            name=name, relation_ends=self.relation_ends, target=self.target, seed=self.seed, max_rows=self.max_rows
        )
        return engine.ingest(self.edges, self.nodes, folder, how, progress)

    def check_present(self) -> None:
        """Refuse a place where this machine sees nothing; to be asked before a folder is made that has such a name."""
        for tables in (self.edges, self.nodes):
            for place in [tables] if isinstance(tables, str) else tables.values():
                if not Path(place).exists():
                    raise GamlpError("there is no such table", file=place)

    def identity(self) -> list[Any]:
        """What tells these tables from others, and from themselves after a change."""
        places: list[Any] = [
            _table_identity(table)
            if isinstance(table, str)
            else {name: _table_identity(place) for name, place in table.items()}
            for table in (self.edges, self.nodes)
        ]
        about = {name: list(ends) for name, ends in self.relation_ends.items()} | (
            {"": self.target} if self.target else {}
        )
        return [*places, *([about] if about or self.seed else []), *([self.seed] if self.seed else [])]


def from_tables(tables: Tables, out: Path, *, resources: Resources = LOCAL, progress: Progress = silent) -> Source:
    """The graph of tables, inside the run folder; ingested once, and other tables are refused there.

    What every column was used for is kept beside it, in ingest.json.
    """
    folder, known = out / "graph", out / _TABLES
    now = tables.identity()
    report = None
    if folder.exists():
        try:
            before = json.loads(known.read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            before = None
        if before != now:
            raise GamlpError("holds a run on other tables", file=out, hint="choose another --out")
    if not (folder.exists() and (out / _REPORT).exists()):
        Place.of(folder).remove()  # of a run that was killed before its report was written
        write_json(known, now)  # first: a graph without it would be taken for one of other tables
        try:
            with closing(resources.open_engine()) as engine:
                report = tables.ingest(engine, folder, out.name, progress)
        except GamlpError:
            known.unlink()  # tables that are refused leave no run
            raise
        write_json(out / _REPORT, asdict(report))
    return Source(str(folder), Origin(graph="./graph"), Graph.open(folder), ingested=report)


def _table_identity(name: str) -> list[Any]:
    """A table's place with the size and time of its files; a place that only the engine sees is known by its name."""
    table = Path(name)
    if not table.exists():
        return [name, []]
    files = sorted(path for path in table.rglob("*") if path.is_file()) if table.is_dir() else [table]
    return [str(table.resolve()), [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]]
