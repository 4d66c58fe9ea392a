"""Splits at random: over labelled nodes, by ids and the seed, each node in one part at most."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Ids, Labels, random_split
from gamlp.graph.splits import classes_without_training, per_class_split

FRACTIONS = (0.6, 0.2, 0.2)
UNEVEN = Labels(np.repeat(np.array([0, 1, 2, -1], np.int32), [500, 50, 10, 40]), ("a", "b", "c"))


def sizes(split, labels, number):
    return [int((labels.values[rows] == number).sum()) for rows in (split.train, split.valid, split.test)]


def labels_of(values, classes="abcde"):
    return Labels(np.asarray(values, np.int32), tuple(classes))


def ids_of(texts):
    return Ids(len(texts), pa.array(texts, pa.large_string()))


def test_every_class_has_the_fractions_but_for_chance():
    """Within five standard deviations of a binomial, which a fair hash leaves once in a million."""
    labels = labels_of(np.repeat([0, 1, 2], [20000, 3000, 500]))
    for seed in range(5):
        split = random_split(labels, Ids(len(labels.values)), (0.5, 0.1, 0.2), seed)
        for number, count in enumerate((20000, 3000, 500)):
            for found, share in zip(sizes(split, labels, number), (0.5, 0.1, 0.2)):
                assert abs(found - share * count) < 5 * np.sqrt(count * share * (1 - share))


ROWS = st.lists(
    st.tuples(st.text(max_size=6), st.integers(-1, 3)), min_size=1, max_size=40, unique_by=lambda row: row[0]
)


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 9))
def test_rows_that_come_and_go_move_no_node(rows, random, seed):
    """A node that trained must never be among those that test later: whatever other rows there are, in any order."""

    def roles(some):
        labels = labels_of([label for _, label in some])
        return dict(
            zip((name for name, _ in some), random_split(labels, ids_of([n for n, _ in some]), FRACTIONS, seed).roles)
        )

    before = roles(rows)
    others = random.sample(rows, random.randint(1, len(rows)))
    added = [(f"new {number}", random.randint(-1, 3)) for number in range(random.randint(0, 20))]
    mixed = [*others, *added]
    random.shuffle(mixed)
    after = roles(mixed)
    assert {name: after[name] for name, _ in others} == {name: before[name] for name, _ in others}


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20, unique=True), st.integers(0, 9))
def test_integers_keep_their_roles_when_ids_become_text(numbers, seed):
    labels = labels_of([0] * len(numbers))
    integers = random_split(labels, Ids(len(numbers), np.asarray(numbers, np.int64)), FRACTIONS, seed)
    texts = random_split(labels, ids_of([str(number) for number in numbers]), FRACTIONS, seed)
    assert np.array_equal(integers.roles, texts.roles)


def test_rows_without_ids_go_by_their_numbers():
    labels = labels_of([0] * 50)
    plain = random_split(labels, Ids(50), FRACTIONS, 3)
    assert np.array_equal(plain.roles, random_split(labels, Ids(50, np.arange(50)), FRACTIONS, 3).roles)
    longer = random_split(labels_of([0] * 60), Ids(60), FRACTIONS, 3)
    assert np.array_equal(plain.roles, longer.roles[:50])


def test_the_roles_of_some_ids_are_these_for_good():
    """A later version with another hash would let nodes that trained a model test it: this must never change."""
    split = random_split(labels_of([0] * 16), Ids(16), FRACTIONS, 0)
    assert "".join(str(role) for role in split.roles) == "3111113113131111"


def test_per_class_counts():
    split = per_class_split(UNEVEN, 20, 25, seed=0)
    assert [sizes(split, UNEVEN, c) for c in range(3)] == [[20, 25, 455], [20, 25, 5], [10, 0, 0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: random_split(UNEVEN, Ids(600), FRACTIONS, seed),
        lambda seed: per_class_split(UNEVEN, 5, 5, seed),
    ],
)
def test_the_seed_decides(make):
    assert np.array_equal(make(7).roles, make(7).roles)
    assert not np.array_equal(make(7).roles, make(8).roles)
    assert not make(7).roles[UNEVEN.values < 0].any()


@given(ROWS, st.integers(0, 5), st.sampled_from([FRACTIONS, (0.7, 0.2, 0.1), (0.1, 0.7, 0.2)]))
def test_full_fractions_use_every_labelled_node(rows, seed, fractions):
    labels = labels_of([label for _, label in rows])
    split = random_split(labels, ids_of([name for name, _ in rows]), fractions, seed)
    assert np.array_equal(split.roles > 0, labels.known())


def test_many_labels_are_split_alike():
    labels = Labels(np.array([[1, 0], [0, 1], [-1, -1], [1, 1], [0, 0], [1, 0]], np.int8), ("a", "b"))
    one = random_split(labels_of([0, 0, -1, 0, 0, 0]), Ids(6), FRACTIONS, 0)
    assert np.array_equal(random_split(labels, Ids(6), FRACTIONS, 0).roles, one.roles)
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
        random_split(UNEVEN, Ids(600), fractions, 0)
