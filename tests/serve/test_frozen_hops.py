"""Hops of new nodes against dense algebra, and against what `gamlp predict --add-nodes` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from gamlp.graph.ingest import IngestOptions, ingest
from gamlp.run import Newcomers, predict, train
from gamlp.serve import Answered, Ends, NewNode, Question, ServedRun, serving
from tests.graph.growing_tables import typed_tables
from tests.serve.trained import RECIPE, dense_hops, matrix_of, new_hops, trained_run

CELLS = {"size": 0.3, "colour": "v", "since": "2024-05-06"}


def recipe(**propagation: Any) -> dict[str, Any]:
    return {**RECIPE, "propagation": {**RECIPE["propagation"], **propagation}}


def first_of(served: ServedRun, name: str) -> np.ndarray:
    """Stored X^(0) or Y^(0) of all nodes."""
    signal = next(signal for signal in served.nodes.signals if signal.name == name)
    return signal.stored.gather(np.arange(signal.view.count), 0)[:, 0].astype(np.float64)


@pytest.mark.parametrize("r", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_hops_are_those_of_the_equation(r: float, directed: bool, weighted: bool, loops: bool, tmp_path: Path) -> None:
    """Fails where a degree, a weight, a direction or the loop of the new node is left out or counted twice."""
    run = trained_run(tmp_path, weighted=weighted, recipe=recipe(r=r, loops=loops), directed=directed)
    hears, weights = ["n3", "n7", "n7", "n11"], (0.5, 1.0, 0.25, 2.0) if weighted else None
    out, out_weights = (["n5", "n3"], (1.5, 0.5) if weighted else None) if directed else ([], None)
    node = NewNode(
        "new", cells=CELLS, hears={None: Ends(tuple(hears), weights)},
        leads_to={None: Ends(tuple(out), out_weights)} if directed else {},
    )  # fmt: skip
    rows = {3: 0.5, 7: 1.25, 11: 2.0} if weighted else {3: 1.0, 7: 1.0, 11: 1.0}
    away = ({5: 1.5, 3: 0.5} if weighted else {5: 1.0, 3: 1.0}) if directed else rows
    with serving(run) as served:
        for signal in served.nodes.signals:
            matrix = matrix_of(served.graph, signal.view)
            stored = dense_hops(matrix, first_of(served, signal.name), signal.hops, r, loops)
            first, _ = served.nodes.readers["node"].read(node)
            expected_first = first if signal.name == "features" else np.zeros(signal.width)
            expected = new_hops(matrix, stored, expected_first, rows, away, r=r, loops=loops)
            found, _, _ = served.nodes.hops_of("node", node, keep=False)
            np.testing.assert_allclose(found[signal.name], expected, rtol=2e-5, atol=2e-6)
        assert {signal.name for signal in served.nodes.signals} == {"features", "labels"}


def test_a_newcomer_that_changes_nobody_has_the_answer_of_predict(tmp_path: Path) -> None:
    """Edges that lead to a newcomer alone, and row means: what neighbours hear stays as it is."""
    run = trained_run(tmp_path, recipe=recipe(r=0.0), directed=True)
    (tmp_path / "new.csv").write_text("id,size,colour,since,label\nq1,0.3,v,2024-05-06,\nq2,-1,w,,\n")
    (tmp_path / "new_edges.csv").write_text("src,dst\nn3,q1\nn8,q1\nn9,q2\nq1,q2\n")
    newcomers = Newcomers(tmp_path / "new.csv", tmp_path / "new_edges.csv")
    predict(run, tmp_path / "new.parquet", newcomers=newcomers)
    table = pyarrow.parquet.read_table(tmp_path / "new.parquet")
    expected = np.stack([table[name].to_numpy() for name in table.column_names[3:]], 1)
    nodes = (
        NewNode("q1", cells=CELLS, hears={None: Ends(("n3", "n8"))}),
        NewNode("q2", cells={"size": -1, "colour": "w", "since": None}, hears={None: Ends(("n9", "q1"))}),
    )
    with serving(run) as served:
        [found] = served.answer([Question(nodes=nodes)])
        assert isinstance(found, Answered) and found.ids == ("q1", "q2") == tuple(table["id"].to_pylist())
        np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
        assert served.newcomers == 0  # they were asked about, and not kept


def test_known_nodes_have_the_answer_of_predict(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    predict(run, tmp_path / "all.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "all.parquet")
    expected = np.stack([table[name].to_numpy() for name in table.column_names[3:]], 1)
    with serving(run) as served:
        [found] = served.answer([Question(ids=tuple(table["id"].to_pylist()))])
    assert isinstance(found, Answered)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)


def test_directions_that_are_told_apart(tmp_path: Path) -> None:
    """A view along the edges and one against them: in the second, those are heard that the node leads to."""
    run = trained_run(tmp_path, recipe=recipe(directions="both", r=0.5), directed=True)
    node = NewNode("new", cells=CELLS, hears={None: Ends(("n3", "n7"))}, leads_to={None: Ends(("n5",))})
    with serving(run) as served:
        assert {signal.view.direction for signal in served.nodes.signals} == {"in", "out"}
        found, _, _ = served.nodes.hops_of("node", node, keep=False)
        for signal in served.nodes.signals:
            matrix = matrix_of(served.graph, signal.view)
            hears, away = {3: 1.0, 7: 1.0}, {5: 1.0}
            if signal.view.turned:
                matrix, hears, away = matrix.T, away, hears
            stored = dense_hops(matrix, first_of(served, signal.name), signal.hops, 0.5, True)
            first = served.nodes.readers["node"].read(node)[0] if "features" in signal.name else np.zeros(signal.width)
            expected = new_hops(matrix, stored, first, hears, away, r=0.5, loops=True)
            np.testing.assert_allclose(found[signal.name], expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("separate", ["yes", "no"])
def test_of_several_types(separate: str, tmp_path: Path) -> None:
    """A paper with authors and citations; an author who came before is heard as the graph's own are."""
    old, _, _, options = typed_tables(tmp_path)
    ingest(*old, tmp_path / "graph", IngestOptions(**options))
    settings = {**RECIPE, "relations": {"separate_types": separate}}
    train(tmp_path / "graph", settings, tmp_path / "run")
    author = NewNode(77, node_type="author", cells={"u": 0.1, "v": -0.4}, hears={"writes": Ends(("p1", "p2"))})
    paper = NewNode("q", cells={"a": 0.5, "b": 1.5}, hears={"cites": Ends(("p4", "p9")), "writes": Ends((3, 77))})
    with serving(tmp_path / "run") as served:
        [kept] = served.answer([Question(nodes=(author,), keep=True)])
        assert isinstance(kept, Answered) and kept.ids == ()  # nobody asks for the class of an author
        found, _, _ = served.nodes.hops_of("paper", paper, keep=False)
        assert len(found) == len(served.nodes.signals) > 2
        for signal in served.nodes.signals:
            graph, view = served.graph, signal.view
            matrix = matrix_of(graph, view)
            r, loops = signal.operator.r, signal.operator.loops
            stored = dense_hops(matrix, first_of(served, signal.name), signal.hops, r, loops)
            wrote = {1: 1.0, 2: 1.0} if "writes" in view.relation_pairs else {}
            first = np.zeros(signal.width)
            expected = stored
            if "author" in view.types:
                own = served.nodes.readers["author"].read(author)[0] if "author" in signal.node_types else first
                hops = new_hops(matrix, stored, own, wrote, wrote, r=r, loops=loops)
                stored = np.concatenate([stored, hops[None]])  # the new author, behind all others
                matrix = np.pad(matrix, (0, 1))
                matrix[:, -1] = 0
                for row, weight in wrote.items():
                    matrix[row, -1] = weight  # its degree is that of the day on which it came
            hears = {4: 1.0, 9: 1.0} if "cites" in view.relation_pairs else {}
            if "writes" in view.relation_pairs:
                hears |= {view.start("author") + 3: 1.0, view.count: 1.0}
            # Degrees of all others stay as they were before the author came.
            frozen = matrix.copy()
            if "author" in view.types:
                frozen[:, :-1] = np.pad(matrix_of(graph, view), (0, 1))[:, :-1]
            first = served.nodes.readers["paper"].read(paper)[0] if "paper" in signal.node_types else first
            expected = new_hops(frozen, stored, first, hears, hears, r=r, loops=loops)
            np.testing.assert_allclose(found[signal.name], expected, rtol=2e-5, atol=2e-6)
        [answer] = served.answer([Question(ids=("p1",), nodes=(paper,))])
        assert isinstance(answer, Answered) and answer.ids == ("p1", "q")
        np.testing.assert_allclose(answer.probabilities.sum(1), 1, atol=1e-6)


def test_half_precision_stores_are_heard_in_float32(tmp_path: Path) -> None:
    exact = trained_run(tmp_path)
    settings = {**RECIPE, "propagation": {**RECIPE["propagation"], "dtype": "float16"}}
    train(tmp_path / "graph", settings, tmp_path / "half")
    node = NewNode(cells=CELLS, hears={None: Ends(("n3", "n7"))})
    found = []
    for run in (exact, tmp_path / "half"):
        with serving(run) as served:
            found.append(served.nodes.hops_of("node", node, keep=False)[0]["features"])
    assert found[1].dtype == np.float32
    np.testing.assert_allclose(found[1], found[0], rtol=2e-3, atol=2e-3)
