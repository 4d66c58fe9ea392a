"""Few validation rows: further splits of the rows that train and validate, so that chance decides less. No test row."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Graph, Labels, Split
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.run import LOCAL, Resources, prepare_split
from gamlp.training import Prepared, by_time, prepare_graph

FEW = 200  # validation rows; with as many, one split tells enough
MORE = 4  # splits beside the graph's own


def can_repeat(graph: Graph, recipe: Recipe, valid_graph: Graph | None) -> bool:
    """Whether rows may change their part: not where parts see different graphs."""
    apart = recipe.training.setting == "inductive" or by_time(graph, recipe)
    return valid_graph is None and not apart


def another_split(labels: Labels, split: Split, seed: int) -> Split:
    """As many training and validation rows of every class as before, drawn anew from both; others have no part."""
    known = labels.known()
    train, valid = (rows[known[rows]] for rows in (split.train, split.valid))
    generator = np.random.default_rng(seed)
    roles = np.zeros(len(split.roles), np.int8)
    for members, count in _strata(labels, train, valid):
        drawn = generator.permutation(members)
        roles[drawn[:count]], roles[drawn[count:]] = 1, 2
    return Split(roles)


def _strata(labels: Labels, train: Array, valid: Array) -> list[tuple[Array, int]]:
    """Rows of a class with how many of them train; where a node has many labels, all rows together."""
    if labels.multi_label:
        return [(np.sort(np.concatenate([train, valid])), len(train))]
    found = []
    for number in range(len(labels.classes)):
        own = [rows[labels.values[rows] == number] for rows in (train, valid)]
        found.append((np.sort(np.concatenate(own)), len(own[0])))
    return found


def prepared_splits(
    graph: Graph,
    deepest: Prepared,
    out: Path,
    folder: Path,
    count: int,
    *,
    seed: int,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> list[Prepared]:
    """Rows of further splits: features come from the run's own hops in `out`, labels are propagated for each split."""
    with closing(resources.open_engine()) as engine:
        graph, recipe = prepare_graph(graph, deepest.recipe, out, engine, progress)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    found = []
    for number in range(1, count + 1):
        other = graph.with_targets(split=another_split(labels, split, seed + number))
        own = prepare_split(other, recipe, deepest.store, folder / str(number), resources=resources, progress=progress)
        found.append(own)
    return found
