"""What every method of the benchmark answers: one contract, no test labels read, the same from the same seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.peers.contract import Report, Workspace
from gamlp.peers.registry import METHODS, method, recipe_for, run
from gamlp.recipe import Recipe
from tests.training.small import ONE_THREAD, make_graph, relabelled, rows_of_role

pytest.importorskip("torch_geometric")
EPOCHS = 4


def quick(name: str) -> Recipe:
    """The shipped recipe, narrow and short."""
    narrow = {} if METHODS[name].family == "solved" else {"model.hidden": 8}
    return recipe_for(name).changed({"training.epochs": EPOCHS, "training.patience": 0, **narrow})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("hops"), ONE_THREAD, probabilities=True)


@pytest.fixture(scope="module")
def small() -> Graph:
    return make_graph(name="planted")


@pytest.fixture(scope="module", params=METHODS)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def report(name: str, small: Graph, place: Workspace) -> Report:
    return run_named(name, small, place)


def run_named(name: str, graph: Graph, place: Workspace, seed: int = 0) -> Report:
    """As `bench run` does it: by the recipe, whose model may be another's (a step after it)."""
    return run(graph, quick(name), seed, place)


def test_a_report_is_whole(report: Report, small: Graph) -> None:
    for scores in (report.valid, report.test):
        assert scores and 0 <= scores["score"] <= 1
    seconds = report.seconds
    assert min(seconds.preparation, seconds.training, seconds.inference) >= 0
    assert isinstance(report.peak_memory, int) and report.peak_memory >= 0
    assert isinstance(report.parameters, int) and report.parameters >= 0
    assert 0 <= report.epoch <= report.epochs <= EPOCHS
    assert set(report.as_json()) >= {"method", "seed", "valid", "test", "seconds", "peak_memory", "parameters"}
    assert report.probabilities is not None and report.probabilities.shape == (small.nodes.count, 3)
    np.testing.assert_allclose(report.probabilities.sum(1), 1, atol=1e-4)
    assert report.probabilities.min() >= 0


def test_scores_are_those_of_the_chances(report: Report, small: Graph) -> None:
    assert report.probabilities is not None and small.nodes.labels is not None
    rows = rows_of_role(small, "test")
    right = report.probabilities[rows].argmax(1) == small.nodes.labels.values[rows]
    assert report.test["score"] == pytest.approx(right.mean(), abs=1e-6)


def test_the_same_seed_gives_the_same(name: str, report: Report, small: Graph, place: Workspace) -> None:
    again = run_named(name, small, place)
    assert again.valid == report.valid and again.test == report.test
    assert np.array_equal(again.probabilities, report.probabilities)


def test_test_labels_change_nothing_but_the_test_score(name: str, report: Report, small: Graph, tmp_path: Path) -> None:
    """Into hops of its own: a store that is shared would hide a leak."""
    other = relabelled(small, rows_of_role(small, "test"), seed=5)
    again = run_named(name, other, Workspace(tmp_path, ONE_THREAD, probabilities=True))
    assert again.valid == report.valid
    assert np.array_equal(again.probabilities, report.probabilities)


def test_a_method_says_where_it_comes_from(name: str) -> None:
    one = METHODS[name]
    assert one.name == name and one.title and one.paper
    assert one.family in ("hops", "solved", "labels", "message passing", "sampled", "types")
    # GAMLP has a recipe for each dataset and attention; elsewhere its defaults hold.
    assert name == "gamlp" or recipe_for(name).about, "a recipe says where its settings come from"


def test_a_method_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(GamlpError, match="did you mean 'appnp'"):
        method("apnp")
