"""Small tables for tests of ingest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gamlp.graph import Graph
from gamlp.graph.edges_table import EdgeNames
from gamlp.graph.ingest import IngestOptions, IngestReport, ingest
from gamlp.graph.nodes_table import NodeNames

NODES = "id,f1,f2,label,split\na,1,2,x,train\nb,3,4,y,train\nc,5,6,,\nd,7,8,x,test\n"
EDGES = "src,dst\na,b\nb,c\nc,d\n"


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., tuple[Graph, IngestReport]]:
    """build(nodes, edges, option=…): ingest tables given as CSV text or as paths."""

    def run(nodes: Any = NODES, edges: Any = EDGES, **options: Any) -> tuple[Graph, IngestReport]:
        def place(content: Any, name: str) -> Path:
            if isinstance(content, str):
                (tmp_path / name).write_text(content)
                return tmp_path / name
            return Path(content)

        node_names = NodeNames(**{k: options.pop(k) for k in NodeNames.__dataclass_fields__ if k in options})
        edge_names = EdgeNames(**{k: options.pop(k) for k in EdgeNames.__dataclass_fields__ if k in options})
        out = options.pop("out", tmp_path / "graph")
        report = ingest(
            IngestOptions(place(edges, "edges.csv"), place(nodes, "nodes.csv"), out, edge_names, node_names, **options)
        )
        return Graph.open(out), report

    return run
