"""Which rows the whole path predicts where a store of some rows was made before: sets of rows that it has whole."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Labels
from gamlp.io import Ranges, RangeWork, State
from gamlp.progress import Progress, silent
from gamlp.propagation import LocalPropagator
from gamlp.run import path
from gamlp.run.path import _rows_kept
from gamlp.training.rows import plan_of
from tests.training.small import RECIPE, make_graph, with_nodes


def one_range_a_task(work: RangeWork, ranges: Ranges, stage: str = "", progress: Progress = silent) -> Iterator[State]:
    for each in ranges:
        yield pickle.loads(pickle.dumps(work))([each])


@pytest.mark.parametrize(
    ("kept", "split"),
    [("all", True), ("split", True), ("labelled", True), ("train+test", True), ("valid", True), ("labelled", False)],
)
def test_sets_of_rows_that_a_store_has_whole_are_found_range_by_range(
    tmp_path: Path, kept: str, split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path, "_NODES", 13)
    graph = make_graph(nodes=100)
    nodes = graph.nodes
    assert nodes.labels is not None and nodes.split is not None
    values, roles = nodes.labels.values.copy(), nodes.split.roles.copy()
    values[::5], roles[::7] = -1, 0
    changed = with_nodes(graph, labels=Labels(values, nodes.labels.classes), split=type(nodes.split)(roles))
    if not split:
        changed = with_nodes(changed, split=None)
    plan = plan_of(RECIPE, labels=False).model_copy(update={"rows": kept, "labels": None})
    store = LocalPropagator().propagate(changed, plan, tmp_path / "store")
    have = np.ones(100, bool) if store.kept is None else np.isin(np.arange(100), store.kept)
    sets = {"labelled": values != -1, "unlabelled": values == -1}
    if split:
        sets |= {"split": roles > 0, "train": roles == 1, "valid": roles == 2, "test": roles == 3}
    whole = [name for name, wanted in sets.items() if all(have[row] for row in np.flatnonzero(wanted))]
    found = _rows_kept(store, RECIPE, one_range_a_task)
    assert found == ("all" if kept == "all" else "+".join(whole)) and found


def test_rows_that_the_recipe_keeps_are_those_and_nothing_is_counted(tmp_path: Path) -> None:
    store = LocalPropagator().propagate(
        make_graph(), plan_of(RECIPE).model_copy(update={"rows": "train+valid"}), tmp_path
    )

    def never(work: RangeWork, ranges: Ranges, stage: str = "", progress: Progress = silent) -> Iterator[State]:
        raise AssertionError

    assert _rows_kept(store, RECIPE.changed({"propagation.rows": "train+valid"}), never) == "train+valid"
