"""Nothing is fitted anew at prediction: a node that a graph gains changes no other node's input or prediction."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gamlp.graph import Graph, Labels, Split
from gamlp.run.prediction_table import batch_probabilities
from gamlp.run.preparation import hops_for, prepare
from gamlp.training.bundle import Bundle
from gamlp.training.seeds import bundle_of
from tests.conformance.typed_graphs import TypedCase
from tests.training import typed_small
from tests.training.small import NODES, ONE_THREAD, WIDTH, make_graph, prepared_in, trained

Array = np.ndarray[Any, Any]
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-9e7, max_value=9e7)


def grown(graph: Graph, x: Array, at: int) -> Graph:
    """With one node more, without edges or label, as row `at`."""
    nodes = graph.nodes
    assert nodes.features is not None and nodes.labels is not None and nodes.split is not None
    edges = np.stack([np.concatenate(part) for part in zip(*((b, a) for a, b, _ in graph.relation.edges()))])
    edges = edges + (edges >= at)
    features = np.insert(np.asarray(nodes.features.values), at, x, 0)
    labels = Labels(np.insert(nodes.labels.values, at, -1, 0), nodes.labels.classes)
    split = Split(np.insert(nodes.split.roles, at, 0))
    return Graph.from_arrays(edges, features, labels, split=split, name="grown")


def heard(bundle: Bundle, graph: Graph, rows: Array, folder: Path) -> list[bytes]:
    """All that the model reads of these rows, and what it says of them."""
    store = hops_for(bundle, graph, folder, ONE_THREAD)
    found = store.gather(rows)
    said = [probabilities for _, probabilities in batch_probabilities(bundle, store, rows, 16)]
    return [found.x.tobytes(), b"" if found.y is None else found.y.tobytes(), np.concatenate(said).tobytes()]


@pytest.fixture(scope="module", params=["none", "row", "l2", "standard"])
def scaling(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["transductive", "inductive"])
def known(
    request: pytest.FixtureRequest, scaling: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bundle, list[bytes]]:
    folder = tmp_path_factory.mktemp("known")
    changes = {"training__setting": request.param, "propagation__scaling": scaling}
    prepared = prepared_in(folder / "run", make_graph(), **changes)
    bundle = Bundle.load(bundle_of(prepared, trained(prepared), 0).save(folder / "bundle"))
    return bundle, heard(bundle, make_graph(), np.arange(NODES), folder / "hops")


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays.arrays(np.float32, WIDTH, elements=FINITE), st.integers(0, NODES))
def test_a_node_that_is_added_changes_no_other(
    known: tuple[Bundle, list[bytes]], tmp_path_factory: pytest.TempPathFactory, x: Array, at: int
) -> None:
    bundle, before = known
    rows = np.delete(np.arange(NODES + 1), at)
    assert heard(bundle, grown(make_graph(), x, at), rows, tmp_path_factory.mktemp("grown")) == before


@pytest.mark.parametrize("separate", ["yes", "no"])
def test_an_author_who_is_added_changes_no_paper(tmp_path: Path, separate: str) -> None:
    case = typed_small.planted(widths=(4, 4))
    recipe = typed_small.RECIPE.changed({"propagation.scaling": "standard", "relations.separate_types": separate})
    prepared = prepare(case.graph(), recipe, tmp_path / "run", resources=ONE_THREAD)
    bundle = Bundle.load(bundle_of(prepared, trained(prepared), 0).save(tmp_path / "bundle"))
    rows = np.arange(case.counts["paper"])
    before = heard(bundle, case.graph(), rows, tmp_path / "before")
    assert before[0] == prepared.store.gather(rows).x.tobytes()
    assert heard(bundle, _with_author(case).graph(), rows, tmp_path / "after") == before


def _with_author(case: TypedCase) -> TypedCase:
    authors = case.features["author"]
    assert authors is not None
    features = {**case.features, "author": np.concatenate([authors, np.full((1, 4), 9e7, np.float32)])}
    return dataclasses.replace(case, counts={**case.counts, "author": len(authors) + 1}, features=features)
