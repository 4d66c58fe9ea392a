"""Small tables for tests of ingest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gamlp.graph import Graph
from gamlp.graph.ingest.build import IngestOptions, IngestReport, ingest
from gamlp.graph.ingest.edges import EdgeNames
from gamlp.graph.ingest.nodes import NodeNames

NODES = "id,f1,f2,label,split\na,1,2,x,train\nb,3,4,y,train\nc,5,6,,\nd,7,8,x,test\n"
EDGES = "src,dst\na,b\nb,c\nc,d\n"


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., tuple[Graph, IngestReport]]:
    """build(nodes, edges, option=…): ingest tables given as CSV text or as paths, their numbers as they are."""

    def run(nodes: Any = NODES, edges: Any = EDGES, **options: Any) -> tuple[Graph, IngestReport]:
        def place(content: Any, name: str) -> Path:
            if isinstance(content, str):
                (tmp_path / name).write_text(content)
                return tmp_path / name
            return Path(content)

        node_names = NodeNames(**{k: options.pop(k) for k in NodeNames.__dataclass_fields__ if k in options})
        edge_names = EdgeNames(**{k: options.pop(k) for k in EdgeNames.__dataclass_fields__ if k in options})
        out, memory = options.pop("out", tmp_path / "graph"), options.pop("memory", None)
        how = IngestOptions(edge_names, node_names, **{"columns": {"*": "as-is"}, **options})
        report = ingest(place(edges, "edges.csv"), place(nodes, "nodes.csv"), out, how, memory=memory)
        return Graph.open(out), report

    return run


LIBRARY = {
    "papers": "id,f1,f2,label,split\n1,1,2,x,train\n2,3,4,y,train\n3,5,6,,\n4,7,8,x,test\n",
    "authors": "id,h\nada,1\nbob,2\n3,3\n",
    "venues": "id\nv1\nv2\n",
    "writes": "src,dst\nada,1\nbob,1\nbob,2\n3,3\n",
    "cites": "src,dst\n1,2\n4,4\n3,1\n",
    "appears": "src,dst\n1,v1\n2,v2\n",
}


@pytest.fixture
def library(tmp_path: Path) -> Callable[..., tuple[Graph, IngestReport]]:
    """library(papers="id,…", target=…): ingest three types and three relations, some tables or options changed."""
    made = 0

    def run(**changed: Any) -> tuple[Graph, IngestReport]:
        nonlocal made
        made += 1
        for name, text in LIBRARY.items():
            (tmp_path / f"{name}.csv").write_text(changed.pop(name, text))
        nodes = changed.pop(
            "nodes", {node_type: tmp_path / f"{node_type}s.csv" for node_type in ("paper", "author", "venue")}
        )
        edges = changed.pop("edges", {name: tmp_path / f"{name}.csv" for name in ("writes", "cites", "appears")})
        relation_ends = {"writes": ("author", "paper"), "cites": ("paper", "paper"), "appears": ("paper", "venue")}
        out, memory = changed.pop("out", tmp_path / f"graph-{made}"), changed.pop("memory", None)
        usual = {"relation_ends": relation_ends, "columns": {"*": "as-is"}}
        report = ingest(edges, nodes, out, IngestOptions(**(usual | changed)), memory=memory)
        return Graph.open(out), report

    return run
