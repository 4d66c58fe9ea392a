"""Recipes that fit a graph: its own first, then by what the graph is; what cannot read it last."""

from __future__ import annotations

from gamlp.graph.datasets import load
from gamlp.peers import METHODS, recipes_for
from gamlp.recipe import shipped_names
from tests.training.typed_small import planted


def test_a_graph_of_one_relation() -> None:
    """Fails where recipes of other datasets are listed, or those of several relations before those that fit."""
    found = recipes_for(load("karate"), "karate")
    names = [one.name for one in found]
    assert names[:2] == ["jk", "recursive"] and found[0].fits
    assert {one.name for one in found if not one.fits} == {
        "nars",
        "one-view",
        "r-gcn",
        "hgt",
        "hgconv",
        "r-hgnn",
        "r-gsn",
    }
    assert not any(one.fits for one in found[-6:])
    assert set(names) == set(shipped_names()) & {*METHODS, "jk", "recursive", "one-view"}
    assert names.index("gcn") < names.index("graphsaint")  # 34 nodes need no sampling
    assert "34 nodes" in next(one.why for one in found if one.name == "gcn")


def test_a_dataset_called_by_its_name_has_its_own_first() -> None:
    found = recipes_for(load("karate"), "cora")
    assert [one.name for one in found][:2] == ["cora-jk", "cora-recursive"]
    assert found[0].why == "found by a search on this dataset's validation rows"
    own = [one.name.startswith("cora-") for one in found]
    assert own == sorted(own, reverse=True) and sum(own) == sum(name.startswith("cora-") for name in shipped_names())


def test_several_relations() -> None:
    found = recipes_for(planted().graph())
    assert all(one.fits for one in found) and [one.name for one in found][:3] == ["jk", "nars", "recursive"]
