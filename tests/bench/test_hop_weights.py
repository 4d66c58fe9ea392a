"""Hop weights by degree: ranges and means against dense algebra, node by node; resumed; stopped in time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.bench import hop_weights
from gamlp.bench.figures import write_figures
from gamlp.bench.tables import PaperTable, read_table, table_of
from gamlp.bench.work import Work
from gamlp.graph.datasets.loading import load
from gamlp.peers.contract import Task, Workspace
from gamlp.peers.hops import prepare_task
from gamlp.peers.registry import recipe_named
from gamlp.training.loop import Machine
from gamlp.training.seeds import fit_prepared

HOPS, RANGES = 3, [[1, 2], [3, 5], [6, 99], [200, 300]]
CHANGES = {"training.epochs": 6, "model.hidden": 8, "model.beta": 1.0, "propagation.label_hops": 2}


def table() -> PaperTable:
    return read_table({
        "name": "hop-weights", "title": "weights", "kind": "hop-weights", "source": {"paper": "a", "label": "b"},
        "seeds": 2, "datasets": {"ogbn-products": {"title": "Products"}, "karate": {"title": "Karate"}},
        "methods": {"GAMLP(JK)": {"recipe": "jk", "changes": CHANGES}},
        "options": {"hops": HOPS, "degrees": RANGES, "nodes": 3},
    })  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("work")
    return folder, hop_weights.measure(table(), Work(folder))


def plain_weights(folder: Path, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(degrees, weights `[n, hops + 1]`) from a dense adjacency matrix and one node at a time."""
    graph = load("karate")
    assert graph.nodes.features is not None
    adjacency = np.zeros((34, 34))
    for rows, neighbours, _ in graph.relation.edges():
        adjacency[rows, neighbours] = 1
    degrees = adjacency.sum(1)
    recipe = recipe_named("jk").changed({**CHANGES, "propagation.hops": HOPS})
    loops = adjacency + np.eye(34)
    r = recipe.propagation.r
    step = np.diag(loops.sum(1) ** (r - 1)) @ loops @ np.diag(loops.sum(1) ** -r)
    features = np.asarray(graph.nodes.features.values, float)
    assert recipe.propagation.scaling == "none" or np.allclose(features.sum(1), 1)
    hops = np.stack([np.linalg.matrix_power(step, hop) @ features for hop in range(HOPS + 1)], 1)
    prepared, _ = prepare_task(Task(graph), recipe, Workspace(folder))
    model: Any = fit_prepared(prepared, seed, Machine()).model
    assert model.label_attention is not None
    found = []
    for node in range(34):
        x = torch.tensor(hops[node], dtype=torch.float32)[None, None]
        found.append(model.hop_weights(x, torch.rand(1, 1, 3, 4)).features[0].numpy())
    return degrees, np.array(found)


def test_means_by_degree_against_dense_algebra(measured: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    told = measured[1]["datasets"]["karate"]["GAMLP(JK)"]["ranges"]
    runs = [plain_weights(tmp_path, seed) for seed in range(2)]
    assert not np.allclose(runs[0][1], runs[1][1], atol=1e-4)
    for (low, high), one in zip(RANGES[:3], told):
        rows = [node for node in range(34) if low <= runs[0][0][node] <= high]
        assert one["rows"] == len(rows) and set(one["drawn"]) <= set(rows) and len(set(one["drawn"])) == 3
        for name, chosen in (("all", rows), ("some", one["drawn"])):
            weights = np.mean([weights[chosen].mean(0) for _, weights in runs], 0)
            assert np.allclose(one[name]["weights"], weights, atol=1e-5)
            assert np.allclose(one[name]["relative"], weights / weights.max(), atol=1e-4)
            assert one[name]["far"] == pytest.approx(weights[3:].sum(), abs=1e-5)
    assert told[3] == {"rows": 0, "drawn": [], "all": None, "some": None}


def test_what_is_not_at_hand_is_told(measured: tuple[Path, dict[str, Any]]) -> None:
    result = measured[1]
    assert "ogbn-products" in result["missing"] and result["complete"] and not result["refused"]


def test_a_second_call_runs_nothing_and_the_deadline_is_kept(
    measured: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr(hop_weights, "fit_prepared", never)
    folder, before = measured
    assert hop_weights.measure(table(), Work(folder)) == before
    late = hop_weights.measure(table(), Work(tmp_path, deadline=time.monotonic() - 1))
    assert not late["complete"] and late["datasets"] == {}
    more = hop_weights.measure(table(), Work(folder, seeds=3, deadline=time.monotonic() - 1))
    assert not more["complete"] and more["datasets"] == before["datasets"]
    with pytest.raises(AssertionError, match="trained again"):
        hop_weights.measure(table(), Work(folder, seeds=3))


def test_pages_and_heat_maps(measured: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    (page,) = hop_weights.render(table(), measured[1])
    assert len(page[2]) == 7 and all(len(row) == len(page[1]) for row in page[2])
    assert page[2][-1][:2] == ["200–300", "none"]
    results = hop_weights.as_results(table(), measured[1])
    assert len(results.grids) == 2 and "ogbn-products" in results.missing
    for grid in results.grids.values():
        assert grid.rows == ("1–2", "3–5", "6–99") and grid.columns == ("0", "1", "2", "3")
        assert all(max(row) == 1 and len(row) == HOPS + 1 for row in grid.values)
    assert [path.suffix for path in write_figures(results, tmp_path)] == [".png", ".svg"]


def test_margins_are_those_of_the_seeds_one_by_one() -> None:
    """Two ranges, three hops and the features: far is hop 3 alone, near hops 1 and 2 beside an equal share of 1/4."""
    first = [[0.4, 0.2, 0.1, 0.3], [0.4, 0.3, 0.2, 0.1]]
    second = [[0.1, 0.5, 0.2, 0.2], [0.1, 0.4, 0.4, 0.1]]
    kept = [
        {"valid": None, "ranges": [{"rows": 1, "drawn": [], "all": row, "some": None} for row in weights]}
        for weights in (first, second)
    ]
    margins = hop_weights._summary(kept)["margins"]
    assert margins["some"] == {}
    assert margins["all"]["nearer"] == (pytest.approx((20 + 10) / 2), pytest.approx(5.0))
    assert margins["all"]["close"] == (pytest.approx((-10 + 10) / 2), pytest.approx(10.0)), "of degrees 1 to 4"


def test_a_method_without_weights_is_refused_in_a_sentence(tmp_path: Path) -> None:
    other = table()
    method = other.methods["GAMLP(JK)"].model_copy(update={"recipe": "sign", "changes": {"training.epochs": 1}})
    result = hop_weights.measure(other.model_copy(update={"methods": {"SIGN": method}}), Work(tmp_path))
    assert "weighs no hops" in result["refused"]["SIGN on karate"] and not result["datasets"]


def test_the_shipped_table_asks_for_the_papers_ranges() -> None:
    shipped = table_of("hop-weights")
    assert [tuple(one) for one in shipped.options["degrees"]] == [(1, 4), (5, 8), (9, 12)]
    assert (shipped.options["hops"], shipped.options["nodes"]) == (hop_weights.HOPS, hop_weights.NODES)
