"""Hops of newcomers alone are, byte for byte, those of propagating the grown graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.growth import ViewLists, around
from gamlp.graph.ingest import IngestOptions, ingest, read_additions
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Operator, Plan, propagate_newcomers
from tests.graph.growing_tables import some_tables, typed_tables


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    "signal",
    [
        {"operator": Operator(r=0.5)},
        {"operator": Operator(r=0.0), "scaling": "l2"},
        {"operator": Operator(r=0.3, loops=False), "dtype": "float16"},
        {"operator": Operator(r=1.0), "dtype": "bfloat16", "also": (Operator(r=0.0),)},
    ],
)
def test_the_bytes_are_those_of_the_grown_graph(
    signal: dict[str, Any], directed: bool, weighted: bool, tmp_path: Path
) -> None:
    tables = some_tables(tmp_path, weighted=weighted)
    base, whole = tables.graph(directed=directed), tables.graph(grown=True, directed=directed)
    plan = Plan(features=FeatureSignal(hops=3, **signal), labels=LabelSignal(hops=2, operator=signal["operator"]))
    expected = LocalPropagator(threads=1).propagate(whole, plan, tmp_path / "all")
    growth = tables.additions(base).growth
    found = propagate_newcomers(growth, growth.graph, plan, tmp_path / "new", threads=1)
    rows = growth.newcomers
    assert rows.tolist() == list(range(60, 67)) and list(found.signals) == list(expected.signals)
    for name, stored in found.signals.items():
        assert stored.gather(rows - 60).tobytes() == expected.signals[name].gather(rows).tobytes(), name
    assert found.labels is not None and expected.labels is not None
    assert np.array_equal(found.labels.values, expected.labels.values[rows])


@pytest.mark.parametrize("separate_types", [False, True])
def test_of_several_types_too(separate_types: bool, tmp_path: Path) -> None:
    old, more, every, options = typed_tables(tmp_path)
    for out, tables in (("base", old), ("whole", every)):
        ingest(*tables, tmp_path / out, IngestOptions(**options))
    base, whole = Graph.open(tmp_path / "base"), Graph.open(tmp_path / "whole")
    (tmp_path / "scratch").mkdir()
    growth = read_additions(base, more[1], more[0], tmp_path / "scratch").growth
    plan = Plan(
        features=FeatureSignal(hops=3),
        labels=LabelSignal(hops=2),
        subsets=(("cites",), ("writes",), ("cites", "writes")),
        separate_types=separate_types,
    )
    expected = LocalPropagator(threads=1).propagate(whole, plan, tmp_path / "all")
    found = propagate_newcomers(growth, growth.graph, plan, tmp_path / "new", threads=1)
    assert list(found.signals) == list(expected.signals) and len(found.signals) > 5
    for name, stored in found.signals.items():
        assert stored.gather(np.arange(5)).tobytes() == expected.signals[name].gather(growth.newcomers).tobytes(), name


def test_columns_in_several_goes_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = some_tables(tmp_path)
    growth, plan = tables.additions(tables.graph()).growth, Plan(features=FeatureSignal(hops=2))
    whole = propagate_newcomers(growth, growth.graph, plan, tmp_path / "whole").gather(np.arange(7)).x
    monkeypatch.setattr("gamlp.propagation.local.some_rows.RowsRun._widest", lambda run: 2)
    parts = propagate_newcomers(growth, growth.graph, plan, tmp_path / "parts").gather(np.arange(7)).x
    assert whole is not None and parts is not None and whole.tobytes() == parts.tobytes()


def test_what_is_heard_ends_with_the_hops(tmp_path: Path) -> None:
    """On a path 0 - 1 - 2 - … a newcomer at its end hears as many nodes as it has hops."""
    tables = some_tables(tmp_path, nodes=20, more=2)
    rows = [f"n{i},1,2,3,x" for i in range(22)]
    tables.write("nodes", "id,a,b,c,label", rows[:20], rows[20:])
    path = [f"n{i},n{i + 1}" for i in range(21)]
    tables.write("edges", "src,dst", path[:19], path[19:])
    growth = tables.additions(tables.graph()).growth
    graph = growth.graph
    view = ViewLists(growth, graph, Plan().views(graph)[0])
    heard = around(view, np.array([21]), 3, 1 << 30)
    assert heard.rows.tolist() == [18, 19, 20, 21] and heard.distance.tolist() == [3, 2, 1, 0]
    with pytest.raises(GamlpError, match="within 2 hops the 1 newcomers hear more edges than 40 B of memory hold"):
        around(view, np.array([21]), 3, 40)
