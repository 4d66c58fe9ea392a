"""Labels counted some rows at a time, and the metric by counts, against all labels at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Labels, Split
from gamlp.training import batches
from gamlp.training.checks import check_targets
from gamlp.training.label_counts import LabelCounts
from tests.training.small import make_graph, prepared_in


@pytest.mark.parametrize("multi_label", [False, True])
def test_counts_of_parts_are_those_of_labelled_rows_written_out(multi_label: bool) -> None:
    random = np.random.default_rng(0)
    values = random.integers(-1, 3, 100).astype(np.int32)
    if multi_label:
        values = np.where(values[:, None] < 0, -1, random.integers(0, 2, (100, 3))).astype(np.int8)
    roles = random.integers(0, 3, 100).astype(np.int8)
    split, labels = Split(roles), Labels(values, ("a", "b", "c"))
    found = LabelCounts.of_parts((rows for rows in np.array_split(split.rows("train"), 7)), labels)
    wanted = [0, 0, 0]
    rows = 0
    for row in range(100):
        own = values[row]
        if roles[row] != 1 or (own[0] if multi_label else own) == -1:
            continue
        rows += 1
        for number in range(3):
            wanted[number] += int(own[number] if multi_label else own == number)
    assert (found.rows, found.of_class.tolist(), found.multi_label) == (rows, wanted, multi_label)
    assert split.count("train") == int((roles == 1).sum()) and split.count("train", "valid") == int((roles > 0).sum())


def test_two_classes_have_a_rarer_one_and_equal_ones_the_second() -> None:
    rarer = [LabelCounts.of(np.array(targets)).rarer for targets in ([0, 1, 1], [0, 0, 1], [0, 1])]
    assert rarer == [0, 1, 1]
    assert not LabelCounts.of(np.ones((3, 2), np.int8)).varied and LabelCounts.of(np.eye(2, dtype=np.int8)).varied


@pytest.mark.parametrize("multi_label", [False, True])
def test_rows_of_a_store_are_counted_in_pieces(
    tmp_path: Path, multi_label: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "AT_ONCE", 7)
    prepared = prepared_in(tmp_path, make_graph(multi_label=multi_label))
    targets = prepared.train.targets
    hot = targets if multi_label else np.eye(3, dtype=np.int64)[targets]
    assert prepared.train.label_counts.of_class.tolist() == hot.sum(0).tolist()
    assert prepared.train.label_counts.rows == len(targets) > 7
    labels = prepared.store.labels
    assert labels is not None
    check_targets(prepared.train, labels)
