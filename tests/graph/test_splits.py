"""Splits at random: over labelled nodes, by the seed, each node in one part at most."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Labels, random_split
from gamlp.graph.splits import classes_without_training, per_class_split

UNEVEN = Labels(np.repeat(np.array([0, 1, 2, -1], np.int32), [500, 50, 10, 40]), ("a", "b", "c"))


def sizes(split, labels, number):
    return [int((labels.values[rows] == number).sum()) for rows in (split.train, split.valid, split.test)]


def test_stratified_keeps_the_fractions_of_every_class():
    split = random_split(UNEVEN, (0.6, 0.2, 0.2), seed=1, stratified=True)
    assert [sizes(split, UNEVEN, c) for c in range(3)] == [[300, 100, 100], [30, 10, 10], [6, 2, 2]]


def test_unstratified_keeps_the_fractions_of_the_whole():
    split = random_split(UNEVEN, (0.5, 0.1, 0.2), seed=1, stratified=False)
    assert [len(split.train), len(split.valid), len(split.test)] == [280, 56, 112]
    assert sizes(split, UNEVEN, 0) != [250, 50, 100]


def test_per_class_counts():
    split = per_class_split(UNEVEN, 20, 25, seed=0)
    assert [sizes(split, UNEVEN, c) for c in range(3)] == [[20, 25, 455], [20, 25, 5], [10, 0, 0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: random_split(UNEVEN, (0.6, 0.2, 0.2), seed),
        lambda seed: per_class_split(UNEVEN, 5, 5, seed),
    ],
)
def test_the_seed_decides(make):
    assert np.array_equal(make(7).roles, make(7).roles)
    assert not np.array_equal(make(7).roles, make(8).roles)
    assert not make(7).roles[UNEVEN.values < 0].any()


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=60), st.booleans(), st.integers(0, 5))
def test_full_fractions_use_every_labelled_node(values, stratified, seed):
    labels = Labels(np.asarray(values, np.int32), tuple("abcde"))
    split = random_split(labels, (0.6, 0.2, 0.2), seed, stratified)
    assert np.array_equal(split.roles > 0, labels.known())
    if stratified:  # every class that has a node trains
        assert set(labels.values[split.train]) == {value for value in values if value >= 0}


def test_many_labels_are_split_as_a_whole():
    labels = Labels(np.array([[1, 0], [0, 1], [-1, -1], [1, 1], [0, 0], [1, 0]], np.int8), ("a", "b"))
    split = random_split(labels, (0.6, 0.2, 0.2), 0)
    assert [len(split.train), len(split.valid), len(split.test)] == [3, 1, 1]
    assert split.roles[2] == 0
    with pytest.raises(GamlpError, match="many labels"):
        per_class_split(labels, 1, 1, 0)


def test_classes_without_training():
    split = per_class_split(UNEVEN, 20, 30, 0)
    split.roles[UNEVEN.values == 1] = 3
    assert classes_without_training(UNEVEN, split) == ["b"]
    several = Labels(np.array([[1, 0], [0, 1]], np.int8), ("a", "b"))
    split.roles[:2] = (1, 3)
    assert classes_without_training(several, type(split)(split.roles[:2])) == ["b"]


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (0.9, 0.2, 0.2), (-0.1, 0.5, 0.5), (0, 0, 0), (float("nan"), 0, 1)])
def test_bad_fractions(fractions):
    with pytest.raises(GamlpError, match="three fractions"):
        random_split(UNEVEN, fractions, 0)
