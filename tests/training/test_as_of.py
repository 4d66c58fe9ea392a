"""Whether rows see edges of all times: chosen where the split is by time, and what would not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph
from gamlp.recipe import Recipe
from gamlp.run import prepare
from gamlp.training.as_of import by_time, resolve_as_of
from tests.propagation.typed import typed_graph
from tests.training.small import ONE_THREAD, make_graph

TYPED = Recipe.of({"propagation": {"hops": 1, "label_hops": 1, "scaling": "standard"}, "relations": {"subsets": "one"}})


def with_cuts(graph: Graph, drop: tuple[str, ...] = ()) -> Graph:
    """As if all edges had been there always, but for those of the relations that are dropped."""

    def empty(name: str) -> bool:
        return name.removeprefix("rev-") in drop

    early = {
        name: replace(
            one,
            blocks=tuple(
                replace(
                    block,
                    offsets=np.zeros_like(block.offsets),
                    neighbours=block.neighbours[:0],
                    weights=None if block.weights is None else block.weights[:0],
                )
                for block in one.blocks
            ),
        )
        if empty(name)
        else one
        for name, one in graph.relations.items()
    }
    return replace(graph, earlier={"train": early, "valid": graph.relations})


def test_it_is_chosen_where_the_split_is_by_time() -> None:
    plain, timed = make_graph(), with_cuts(make_graph())
    assert resolve_as_of(plain, Recipe()) == (Recipe(), []) and not by_time(plain, Recipe())
    recipe, notes = resolve_as_of(timed, Recipe())
    assert recipe.propagation.as_of_split is True and len(notes) == 1 and by_time(timed, Recipe())
    assert resolve_as_of(timed, recipe) == (recipe, [])  # done twice it changes nothing
    whole = Recipe.of({"propagation": {"as_of_split": False}})
    assert resolve_as_of(timed, whole)[0] == whole and not by_time(timed, whole)


def test_embeddings_of_all_edges_are_not_made() -> None:
    timed = with_cuts(typed_graph())
    recipe, notes = resolve_as_of(timed, TYPED)
    assert recipe.relations.missing == "mean" and "relations.missing mean" in notes[1]
    for key, value in (("relations.missing", "complex"), ("relations.reduce", 2)):
        with pytest.raises(GamlpError, match=f"{key}.* is not for a split by time"):
            resolve_as_of(timed, TYPED.changed({key: value}))


def test_types_of_later_edges_reach_no_training_row(tmp_path: Path) -> None:
    """`writes` and `works-on` come after training: other authors change no training row, and do change test rows."""
    stores = []
    for number in range(2):
        graph = with_cuts(typed_graph(width=4), drop=("writes", "reviews", "works-on", "edits"))
        features = graph.node_types["author"].features
        assert features is not None
        if number:
            graph = graph.with_features(author=Features(features.values + 3))
        recipe = TYPED.changed({"propagation.scaling": "none", "relations.missing": "mean"})
        stores.append(prepare(graph, recipe, tmp_path / str(number), resources=ONE_THREAD).store)
    train, test = stores[0].split.train, stores[0].split.test
    one, two = (store.gather(train).x for store in stores)
    assert one.tobytes() == two.tobytes()
    assert stores[0].gather(test).x.tobytes() != stores[1].gather(test).x.tobytes()
