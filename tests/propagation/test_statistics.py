"""`standard` scaling by given statistics: the training graph's, applied to the whole graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, digest, fingerprint
from gamlp.propagation import FeatureSignal, LocalPropagator, Plan, Statistics, feature_statistics, hops_in_memory
from gamlp.propagation.signals import resolve

ENGINE = LocalPropagator(threads=1)


def make_graph(seed: int = 0, count: int = 40) -> Graph:
    random = np.random.default_rng(seed)
    x = random.normal(2.0, 3.0, (count, 6)).astype(np.float32)
    x[:, 2] = 0.1  # a constant column
    return Graph.from_arrays(random.integers(0, count, (2, 90)), x)


def plan(statistics: Statistics | None, **options: Any) -> Plan:
    return Plan(features=FeatureSignal(**{"hops": 1, "scaling": "standard", "statistics": statistics, **options}))


def signal(graph: Graph, statistics: Statistics | None, **options: Any) -> Any:
    return resolve(graph, plan(statistics, **options))[0]


def test_statistics_are_mean_and_deviation_over_all_rows() -> None:
    graph = make_graph()
    x = graph.nodes.features.values.astype(np.float64)
    found = feature_statistics(graph)
    assert np.allclose(found.mean, x.mean(0), rtol=1e-12, atol=0)
    assert np.allclose(found.deviation, np.where(x.std(0) < 1e-12, 1.0, x.std(0)), rtol=1e-9, atol=0)
    assert found.deviation[2] == 1.0
    assert Statistics.model_validate_json(found.model_dump_json()) == found


def test_another_graphs_statistics_scale_this_one(tmp_path: Path) -> None:
    whole, train = make_graph(0), make_graph(1, 20)
    given = feature_statistics(train)
    expected = (whole.nodes.features.values - np.float32(given.mean)) / np.float32(given.deviation)
    found = hops_in_memory(whole, plan(given).features)
    assert np.allclose(found[0], expected, rtol=1e-5, atol=1e-6)
    stored = ENGINE.propagate(whole, plan(given), tmp_path / "store").gather(np.arange(40)).x[:, 0]
    assert np.allclose(np.moveaxis(stored, 1, 0), found, rtol=1e-5, atol=1e-6)


def test_hops_in_memory_keep_the_digits_of_a_column_far_from_zero() -> None:
    x = (np.random.default_rng(2).normal(size=(40, 3)) + np.array([1e6, -1e6, 0.0])).astype(np.float32)
    wide = x.astype(np.float64)
    found = hops_in_memory(Graph.from_arrays([[0, 1], [1, 2]], x), plan(None).features)[0]
    assert np.abs(found - (wide - wide.mean(0)) / wide.std(0)).max() < 1e-6


def test_a_graphs_own_statistics_give_the_same_bytes_as_none() -> None:
    graph = make_graph()
    for given, own in zip(
        hops_in_memory(graph, plan(feature_statistics(graph)).features), hops_in_memory(graph, plan(None).features)
    ):
        assert given.tobytes() == own.tobytes()


def test_without_statistics_the_key_is_what_it_was_before_there_were_any() -> None:
    graph = make_graph()
    settings = {"operator": {"r": 0.5, "loops": True}, "scaling": "standard", "dtype": "float32"}
    found = signal(graph, None)
    assert found.settings == settings and list(found.settings) == list(settings)
    assert found.key == digest([fingerprint.structure(graph), fingerprint.features(graph), settings])


def test_the_key_changes_with_the_statistics_and_the_settings_hold_a_digest() -> None:
    graph = make_graph()
    given = feature_statistics(graph)
    other = given.model_copy(update={"mean": (given.mean[0] + 1e-12, *given.mean[1:])})
    assert len({signal(graph, statistics).key for statistics in (None, given, other)}) == 3
    assert len(json.dumps(signal(graph, given).settings)) < 200
    # The other scalings leave statistics aside, so they do not change what is stored.
    assert signal(graph, given, scaling="l2").key == signal(graph, None, scaling="l2").key


@pytest.mark.parametrize("stored", [True, False], ids=["stored with", "stored without"])
def test_a_store_of_other_statistics_is_refused(tmp_path: Path, stored: bool) -> None:
    graph = make_graph()
    given = feature_statistics(graph)
    ENGINE.propagate(graph, plan(given if stored else None), tmp_path / "store")
    with pytest.raises(GamlpError, match=r"features with statistics \w+ where \w+ is asked for"):
        ENGINE.propagate(graph, plan(None if stored else given), tmp_path / "store")
    assert ENGINE.propagate(graph, plan(given if stored else None), tmp_path / "store").damaged() == []


def test_statistics_that_do_not_fit_are_told() -> None:
    graph = make_graph()
    with pytest.raises(GamlpError, match="statistics of 2 columns for 6 features of graph 'arrays'; give those of"):
        hops_in_memory(graph, plan(Statistics(mean=(0.0, 1.0), deviation=(1.0, 1.0))).features)
    with pytest.raises(GamlpError, match="statistics have 2 means and 1 deviations"):
        Statistics(mean=(0.0, 1.0), deviation=(1.0,))
    with pytest.raises(GamlpError, match="deviation 0 cannot scale a column"):
        Statistics(mean=(0.0,), deviation=(0.0,))
    with pytest.raises(GamlpError, match="has no features"):
        feature_statistics(Graph.from_arrays([[0], [1]]))


def test_a_feature_that_is_not_finite_is_told() -> None:
    values = np.array([[1.0, 2.0], [3.0, np.nan]], np.float32)
    graph = Graph.from_arrays([[0], [1]], np.ones((2, 2)))
    nodes = graph.nodes.__class__("node", 2, graph.nodes.ids, Features(values))
    with pytest.raises(GamlpError, match="feature 1 is not finite"):
        feature_statistics(Graph("damaged", {"node": nodes}, graph.relations))
