"""The inductive setting of every peer: of nodes that do not train nothing reaches a weight; scores are of all nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gamlp.peers.hops
import gamlp.peers.whole_graph
from gamlp.bench.cells import recipe_in
from gamlp.bench.tables import table_of
from gamlp.graph import Graph
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.loading import load
from gamlp.peers import METHODS, Workspace, recipe_for, run
from gamlp.recipe import Recipe
from tests.training.small import make_graph, others_redrawn

pytest.importorskip("torch_geometric")

PEERS = [name for name, peer in METHODS.items() if peer.family in ("hops", "message passing", "sampled")]
QUICK = {"training.epochs": 4, "training.patience": 0, "training.keep": "last", "training.setting": "inductive"}
SMALL = {
    "cluster-gcn": {"model.options.clusters": 3, "model.options.together": 2},
    "graphsaint": {"model.options.roots": 20, "model.options.coverage": 3},
}


def quick(name: str) -> Recipe:
    recipe = recipe_for(name).changed(QUICK | SMALL.get(name, {}))
    return recipe.changed({"propagation.hops": min(3, recipe.propagation.hops)})


def trained(
    graph: Graph, recipe: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, torch.Tensor], Any]:
    """(weights as training left them, the report) of one run."""
    kept: list[Any] = []
    for room, name in ((gamlp.peers.whole_graph, "fit"), (gamlp.peers.hops, "fit_blend")):
        own = getattr(room, name)

        def watched(*given: Any, own: Any = own, **named: Any) -> Any:
            found = own(*given, **named)
            kept.append(found[1] if isinstance(found, tuple) else found)
            return found

        monkeypatch.setattr(room, name, watched)
    report = run(graph, recipe, 0, Workspace(folder))
    monkeypatch.undo()
    (fitted,) = kept
    return {name: value.detach().clone() for name, value in fitted.model.state_dict().items()}, report


def alike(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("name", PEERS)
def test_no_feature_edge_or_label_of_another_node_changes_a_weight(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, recipe = make_graph(1), quick(name).changed({"propagation.scaling": "standard"})
    one, report = trained(graph, recipe, tmp_path / "one", monkeypatch)
    other, changed = trained(others_redrawn(graph, 1), recipe, tmp_path / "other", monkeypatch)
    assert alike(one, other)
    assert report.test["loss"] != changed.test["loss"]  # the whole graph, which is another, is what is scored


@pytest.mark.parametrize("name", ["gcn", "sgc", "graphsage-sampled"])
def test_transductively_they_do(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above can fail."""
    graph, recipe = make_graph(1), quick(name).changed({"training.setting": "transductive"})
    one, _ = trained(graph, recipe, tmp_path / "one", monkeypatch)
    other, _ = trained(others_redrawn(graph, 1), recipe, tmp_path / "other", monkeypatch)
    assert not alike(one, other)


@pytest.mark.parametrize("table", ["inductive", "inductive-nodes"])
def test_every_row_of_the_inductive_tables_trains_on_training_nodes_alone(table: str) -> None:
    """On Twitch the graph that trains is a country of its own, all of whose nodes train."""
    content = table_of(table)
    several = content.options.get("tasks", {})
    for dataset in content.datasets:
        for method in content.runs_of(dataset):
            recipe = recipe_in(content, content.methods[method], dataset, None)
            if dataset not in several:
                assert recipe.training.setting == "inductive", f"{method} on {dataset}"
    assert all(DATASETS[graphs["train"]].split == "every row: train" for graphs in several.values())


@pytest.mark.parametrize(("name", "count"), [("amazon-inductive", 13381), ("cs-inductive", 18333)])
def test_nodes_are_split_by_seed_in_halves_and_quarters(name: str, count: int, data_dir: Path) -> None:
    one, other = (load(name, data_dir, seed=seed).nodes for seed in (0, 1))
    assert one.split is not None and other.split is not None and one.count == count
    parts = [len(rows) for rows in (one.split.train, one.split.valid, one.split.test)]
    assert sum(parts) == count
    assert np.allclose(np.array(parts) / count, [0.5, 0.25, 0.25], atol=1e-4)
    assert 0.2 < float((one.split.roles != other.split.roles).mean()) < 0.8
