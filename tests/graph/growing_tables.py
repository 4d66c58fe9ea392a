"""Tables of a graph, tables that are added to it, and the tables that have both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.graph import Graph
from gamlp.graph.ingest import Additions, IngestOptions, ingest, read_additions

Rows = list[str]


@dataclass(frozen=True)
class GrowingTables:
    """CSV files: `nodes`, `edges`; `more_nodes`, `more_edges`; and both together, old rows first."""

    folder: Path

    def write(self, name: str, header: str, old: Rows, new: Rows) -> None:
        for prefix, rows in (("", old), ("more_", new), ("all_", [*old, *new])):
            (self.folder / f"{prefix}{name}.csv").write_text("\n".join([header, *rows]) + "\n")

    def place(self, name: str) -> Path:
        return self.folder / f"{name}.csv"

    def graph(self, grown: bool = False, **options: Any) -> Graph:
        """Of the old tables, or of all rows; numbers are left as they are, or a state would be of other rows."""
        options = {"columns": {"*": "as-is"}} | options
        out, prefix = self.folder / ("grown" if grown else "graph"), "all_" if grown else ""
        ingest(self.place(f"{prefix}edges"), self.place(f"{prefix}nodes"), out, IngestOptions(**options))
        return Graph.open(out)

    def additions(self, base: Graph, **options: Any) -> Additions:
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        more = self.place("more_nodes"), self.place("more_edges")
        return read_additions(base, *more, scratch, IngestOptions(**options))


def some_tables(folder: Path, *, weighted: bool = False, nodes: int = 60, more: int = 7) -> GrowingTables:
    """Newcomers with labels and without; edges among them, with old nodes and between these, one there already."""
    random = np.random.default_rng(0)
    tables = GrowingTables(folder)
    rows = [
        f"n{i},{random.normal():.4f},{random.normal():.4f},{random.normal():.4f},{'xyz'[i % 3] if i % 4 else ''}"
        for i in range(nodes + more)
    ]
    tables.write("nodes", "id,a,b,c,label", rows[:nodes], rows[nodes:])
    weight = (lambda: f",{random.uniform(0.1, 3):.3f}") if weighted else (lambda: "")
    ends = [random.integers(0, nodes, 2).tolist() for _ in range(3 * nodes)]
    new = [[int(random.integers(0, nodes)), nodes + i % (more - 1)] for i in range(2 * more)]  # the last has no edge
    new += [[nodes, nodes + 1], [3, 5], [nodes + 2, nodes + 2]]
    if not weighted:
        new.append(ends[0])  # there already; of weights that add up the last bit may differ
    header = "src,dst,weight" if weighted else "src,dst"
    old = [f"n{a},n{b}{weight()}" for a, b in ends]
    tables.write("edges", header, old, [f"n{a},n{b}{weight()}" for a, b in new])
    return tables


def typed_tables(folder: Path) -> tuple[Any, Any, Any, dict[str, Any]]:
    """(old, more, all) tables, each (edges by relation, nodes by type), and options: papers and authors."""
    random = np.random.default_rng(1)
    tables = GrowingTables(folder)
    papers = [f"p{i},{random.normal():.4f},{random.normal():.4f},{'xy'[i % 2] if i % 3 else ''}" for i in range(45)]
    tables.write("paper", "id,a,b,label", papers[:40], papers[40:])
    authors = [f"{i},{random.normal():.4f},{random.normal():.4f}" for i in range(24)]
    tables.write("author", "id,u,v", authors[:20], authors[20:])
    cites = [f"p{a},p{b}" for a, b in random.integers(0, 40, (80, 2))]
    tables.write("cites", "src,dst", cites, ["p40,p1", "p2,p41", "p40,p41", "p3,p4"])
    writes = [f"{a},p{b}" for a, b in zip(random.integers(0, 20, 90), random.integers(0, 40, 90))]
    tables.write("writes", "src,dst", writes, ["20,p40", "3,p41", "21,p7", "4,p42", "5,p6"])
    relations, types = ("cites", "writes"), ("paper", "author")
    old, more, every = (
        (
            {name: tables.place(prefix + name) for name in relations},
            {name: tables.place(prefix + name) for name in types},
        )
        for prefix in ("", "more_", "all_")
    )
    ends = {"cites": ("paper", "paper"), "writes": ("author", "paper")}
    return old, more, every, {"relation_ends": ends, "target": "paper", "columns": {"*": "as-is"}}
