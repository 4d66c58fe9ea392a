"""Thresholds and abstention: which label is said, what is counted, and what is refused in a sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Ids
from gamlp.propagation import HopStore
from gamlp.run.decision import LIKELIEST, NOT_SAID, Decided, Decision
from gamlp.run.prediction_table import batch_probabilities, write_predictions
from gamlp.training.bundle import Bundle
from tests.run.test_predictions import bundle_for, store

__all__ = ["store"]  # the fixture

TWO = np.array([[0.9, 0.1], [0.7, 0.3], [0.45, 0.55], [0.1, 0.9]], np.float32)


def two(positive: str | None = "yes") -> Bundle:
    return replace(bundle_for(5, ("no", "yes")), positive=positive)


def chosen(decision: Decision, bundle: Bundle, probabilities: np.ndarray = TWO) -> list[int]:
    found = decision.settled(bundle).chosen(bundle, probabilities)
    assert isinstance(found.tolist(), list)
    return list(found.tolist())


def test_the_likeliest_unless_something_is_asked_for() -> None:
    assert chosen(LIKELIEST, two()) == [0, 0, 1, 1]


def test_a_threshold_is_for_the_rarer_of_two_classes_or_the_one_that_is_named() -> None:
    assert chosen(Decision(threshold=0.3), two()) == [0, 1, 1, 1]
    assert chosen(Decision(threshold=0.6), two()) == [0, 0, 0, 1]
    assert chosen(Decision(threshold=0.8), two("no")) == [0, 1, 1, 1]
    assert chosen(Decision(threshold=0.8, positive="no"), two()) == [0, 1, 1, 1]
    assert chosen(Decision(threshold=0.0), two()) == [1, 1, 1, 1]


def test_no_label_where_it_would_not_be_sure_enough() -> None:
    assert chosen(Decision(abstain_below=0.8), two()) == [0, NOT_SAID, NOT_SAID, 1]
    assert chosen(Decision(threshold=0.6, abstain_below=0.6), two()) == [0, 0, NOT_SAID, 1]
    three = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    assert chosen(Decision(abstain_below=0.6), bundle_for(5, ("x", "y", "z")), three) == [NOT_SAID, 2]


def test_of_many_labels_each_has_the_threshold() -> None:
    many = bundle_for(5, ("x", "y"), multi_label=True)
    assert chosen(Decision(threshold=0.3), many)[1] == [True, True] and chosen(LIKELIEST, many)[1] == [True, False]


@pytest.mark.parametrize(
    ("decision", "classes", "multi_label", "told"),
    [
        (Decision(threshold=0.5), "xyz", False, "for two classes, and the model knows 3; --abstain-below P"),
        (Decision(threshold=1.5), "xy", False, "1.5 is no probability; --threshold takes a number from 0 to 1"),
        (Decision(abstain_below=float("nan")), "xy", False, "nan is no probability; --abstain-below takes"),
        (Decision(positive="x"), "xy", False, "means nothing without a threshold; give --threshold P too"),
        (Decision(threshold=0.5, positive="q"), "xy", False, "no class 'q'; --positive is 'x' or 'y'"),
        (Decision(threshold=0.5), "xy", False, "which of its two classes is the rarer; .*--positive y"),
        (Decision(abstain_below=0.5), "xy", True, "none to abstain from; --threshold P"),
        (Decision(0.3, "x", abstain_below=0.6), "xy", False, "below 0.5 says .* less likely .*; give --threshold or"),
        (Decision(threshold=0.5, positive="x"), "xy", True, "for every one of them; leave out --positive"),
    ],
)
def test_what_makes_no_sense_is_refused(decision: Decision, classes: str, multi_label: bool, told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        decision.settled(bundle_for(5, tuple(classes), multi_label=multi_label))


def test_tables_have_empty_cells_where_no_label_is_said(store: HopStore, tmp_path: Path) -> None:
    bundle = two()
    probabilities = np.concatenate([part for _, part in batch_probabilities(bundle, store, range(90))])
    likely = int(probabilities.mean(0).argmax())  # an untrained model: its likelier class reaches the threshold
    bundle = replace(bundle, positive=bundle.classes[likely])
    edge = max(0.5, float(np.sort(probabilities[:, likely])[60]))
    yes = probabilities[:, likely] >= np.float32(edge)
    own = np.where(yes, probabilities[:, likely], probabilities[:, 1 - likely])
    sure = float(np.sort(own)[30])
    decision = Decision(threshold=edge, abstain_below=sure)
    expected = [
        None if value < np.float32(sure) else bundle.classes[likely if said else 1 - likely]
        for value, said in zip(own, yes.tolist())
    ]
    written = write_predictions(bundle, store, Ids(90), tmp_path / "p.parquet", decision=decision, batch_size=32)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert table["label"].to_pylist() == expected and None in expected and bundle.positive in expected
    said = [place for place, label in enumerate(expected) if label is not None]
    assert np.array_equal(table["probability"].to_numpy()[said], own[said])
    write_predictions(bundle, store, Ids(90), tmp_path / "p.csv", decision=decision)
    text = pyarrow.csv.read_csv(
        tmp_path / "p.csv", convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    )
    assert text["label"].to_pylist() == expected
    counts = {"positives": expected.count(bundle.positive), "abstained": expected.count(None)}
    assert written.decided == {"threshold": edge, "positive": bundle.positive, "abstain_below": sure, **counts}
    assert any(f"{counts['abstained']} of 90 rows have no label" in note for note in written.notes)
    assert any(f"likely: {counts['positives']} of 90 rows" in note for note in written.notes)


def test_nothing_is_said_where_nothing_was_asked_for(store: HopStore, tmp_path: Path) -> None:
    written = write_predictions(two(), store, Ids(90), tmp_path / "p.parquet")
    assert (written.notes, written.decided) == ((), {})
    many = bundle_for(5, ("x", "y", "z"), multi_label=True)
    some = write_predictions(many, store, Ids(90), tmp_path / "p.parquet", decision=Decision(threshold=0.4))
    lists = pyarrow.parquet.read_table(tmp_path / "p.parquet")["label"].to_pylist()
    assert some.decided == {"threshold": 0.4, "labels": sum(map(len, lists))}
    assert Decided().as_json(LIKELIEST) == {}
