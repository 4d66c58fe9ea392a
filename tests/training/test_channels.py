"""Further operators (propagation.also_r): channels against dense algebra, in every way hops are prepared and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.peers.contract import Workspace
from gamlp.peers.registry import run
from gamlp.propagation import HopStore, LocalPropagator
from gamlp.recipe import Recipe
from gamlp.run.evaluation import evaluate_rows
from gamlp.run.preparation import hops_for, prepare, prepare_split
from gamlp.training.rows import from_store, plan_of, rows_of
from gamlp.training.seeds import bundle_of
from tests.conformance import dense
from tests.training.small import ONE_THREAD, RECIPE, make_graph, rows_of_role, trained

XL = RECIPE.changed({"model.name": "sign-xl", "propagation.also_r": [0.0, 1.0], "model.beta": 0.0})


def expected(graph: Graph, rows: Any, r: float) -> np.ndarray:
    """Hops 0..2 of a dense Â."""
    assert graph.nodes.features is not None
    count = graph.nodes.count
    matrix = np.zeros((count, count))
    for rows_at, neighbours, _ in graph.relation.edges():
        matrix[rows_at, neighbours] = 1
    features = graph.nodes.features.read(slice(0, count), slice(None))
    return dense.hops(dense.operator(matrix, r, True), features, 2)[rows]


def test_every_operator_is_a_channel_in_the_order_of_the_recipe(tmp_path: Path) -> None:
    graph = make_graph()
    prepared = prepare(graph, XL, tmp_path, resources=ONE_THREAD)
    assert prepared.shape.channels == 3
    x, y = prepared.train.gather(np.arange(len(prepared.train)))
    assert y is None and x.shape == (len(prepared.train), 3, 3, 6)
    for channel, r in enumerate((0.5, 0.0, 1.0)):
        np.testing.assert_allclose(x[:, channel], expected(graph, prepared.train.rows, r), rtol=1e-5, atol=1e-5)
    assert prepared.train.row_bytes * len(prepared.train) == x.nbytes
    assert np.abs(x[:, 1] - x[:, 2]).max() > 0.1


def test_splits_share_the_channels_of_one_store_and_bundles_read_them_back(tmp_path: Path) -> None:
    graph = make_graph()
    features = LocalPropagator(threads=1).propagate(graph, plan_of(XL, labels=False), tmp_path / "features")
    shared = prepare_split(graph, XL, features, tmp_path / "labels")
    alone = prepare(graph, XL, tmp_path / "alone", resources=ONE_THREAD)
    assert np.array_equal(shared.train.gather(np.arange(5))[0], alone.train.gather(np.arange(5))[0])
    bundle = bundle_of(shared, trained(shared), 0)
    bundle = type(bundle).load(bundle.save(tmp_path / "bundle.safetensors"))
    assert bundle.shape.channels == 3
    found = evaluate_rows({0: bundle}, HopStore.open(features.folder), rows_of_role(graph, "test"))
    other = hops_for(bundle, graph, tmp_path / "again", ONE_THREAD)
    assert evaluate_rows({0: bundle}, other, rows_of_role(graph, "test")) == found
    assert found["mean"]["score"] > 0.5


def test_a_store_of_one_operator_is_refused_and_then_added_to(tmp_path: Path) -> None:
    graph, one = make_graph(), XL.changed({"propagation.also_r": []})
    store = LocalPropagator(threads=1).propagate(graph, plan_of(one), tmp_path)
    before = rows_of(store, one, np.arange(9)).gather(np.arange(9))[0]
    with pytest.raises(GamlpError, match=r"no hops of features with r 0\.0"):
        from_store(store, XL)
    store = LocalPropagator(threads=1).propagate(graph, plan_of(XL), tmp_path)
    after = rows_of(from_store(store, XL).store, XL, np.arange(9)).gather(np.arange(9))[0]
    assert np.array_equal(after[:, :1], before) and after.shape[1] == 3
    assert [name.partition("-")[0] for name in store.manifest.signals] == ["features"] * 3


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_the_contract_runs_over_several_operators(setting: str, tmp_path: Path) -> None:
    report = run(make_graph(), XL.changed({"training.setting": setting}), 0, Workspace(tmp_path, ONE_THREAD))
    assert report.method == "sign-xl" and report.test["score"] > 0.5
    maps = (1 + 3 * 2) * (6 * 8 + 8)  # X^(0) once, two hops of three operators
    assert report.parameters == maps + 7 * 8 * 8 + 8 + 8 * 3 + 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"propagation.also_r": [0.5]}, "differs from the others and from r"),
        ({"propagation.also_r": [0.0, 0.0]}, "differs from the others"),
        ({"propagation.also_r": [1.5]}, "from 0 to 1"),
        ({"model.name": "sgc"}, "model 'sgc' reads one operator"),
    ],
)
def test_operators_that_cannot_be_read_are_refused_in_a_sentence(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        plan_of(XL.changed(changes))


def test_operators_survive_a_recipe_written_out() -> None:
    assert Recipe.of(XL.explicit()) == XL and XL.propagation.also_r == (0.0, 1.0)
