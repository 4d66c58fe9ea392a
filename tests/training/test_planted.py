"""Labels planted along one metapath of a graph of ogbn-mag's shape: the learned weights of subsets find it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gamlp.explanation.subsets import shares_by_subset
from gamlp.graph.datasets.synthetic.heterogeneous import mag_like
from gamlp.recipe import Recipe
from gamlp.run.preparation import prepare
from gamlp.training.loop import Machine
from gamlp.training.seeds import fit_prepared

pytestmark = pytest.mark.slow

RECIPE = {
    "propagation": {"hops": 2, "r": 0.0, "loops": False},
    "relations": {"subsets": "all"},
    "model": {"attention": "jk", "hidden": 32, "layers": 2, "dropout": 0.2, "beta": 0.0},
    "training": {"epochs": 60, "patience": 20, "batch_size": 1000},
}


@pytest.mark.parametrize(
    ("metapath", "subset", "hop"),
    [
        ("paper-field", "paper-has_topic-field", 1),
        ("paper-paper", "paper-cites-paper", 1),
        ("paper-author-institution", "author-affiliated_with-institution+author-writes-paper", 2),
    ],
)
def test_the_weights_of_subsets_find_the_planted_metapath(metapath: str, subset: str, hop: int, tmp_path: Path) -> None:
    graph = mag_like(tmp_path / "graph", scale=0.005, width=16, classes=4, metapath=metapath)
    prepared = prepare(graph, Recipe.of(RECIPE), tmp_path / "run")
    assert prepared.valid is not None
    fitted = fit_prepared(prepared, 0, Machine(torch.device("cpu"), 1 << 30))
    assert fitted.valid["score"] > 0.8  # chance is 0.25
    found = shares_by_subset(fitted.model, prepared.valid)
    assert found is not None
    assert len(found.features) == 11  # of 15 subsets: affiliations alone, or beside what they do not meet, say nothing
    weights = {channel.subset: channel.weights[hop] for channel in found.features}
    shares = {channel.subset: channel.shares[hop] for channel in found.features}
    assert max(weights, key=weights.__getitem__) == subset
    assert max(shares, key=shares.__getitem__) == subset
    outside = [name for name in weights if not set(subset.split("+")) & set(name.split("+"))]
    assert weights[subset] > 1.5 * max(weights[name] for name in outside)
