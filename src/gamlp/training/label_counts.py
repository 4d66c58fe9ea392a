"""How many rows have each class: what the choice of a metric and constant answers need to know of labels, and no more.

Counts add up, so that labels are looked at some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Labels

AT_ONCE = 1 << 18  # rows whose labels are looked at


@dataclass(frozen=True)
class LabelCounts:
    """`rows` labelled rows, of which `of_class[c]` have class c; `multi_label`: a row may have several.

    >>> LabelCounts.of(np.array([0, 2, 2]), 3).of_class.tolist()
    [1, 0, 2]
    """

    rows: int
    of_class: Array
    multi_label: bool

    @classmethod
    def of(cls, targets: Array, classes: int = 0) -> LabelCounts:
        """Of labels `[n]` or `[n, classes]`, all of them known."""
        return cls(len(targets), class_counts(targets, classes), targets.ndim == 2)

    @classmethod
    def of_parts(cls, parts: Iterable[Array], labels: Labels) -> LabelCounts:
        """Of the labelled ones among rows that come some at a time."""
        classes = len(labels.classes)
        found = cls(0, np.zeros(classes, np.int64), labels.multi_label)
        for rows in parts:
            found = found.with_more(cls.of(labels.values[rows[labels.known_at(rows)]], classes))
        return found

    def with_more(self, other: LabelCounts) -> LabelCounts:
        """Of both; they know the same classes."""
        return LabelCounts(self.rows + other.rows, self.of_class + other.of_class, self.multi_label)

    @property
    def present(self) -> Array:
        """Numbers of the classes that some row has."""
        return np.flatnonzero(self.of_class)

    @property
    def rarer(self) -> int:
        """Of two classes the one with fewer rows, the second where they are equal."""
        return 0 if self.of_class[0] < self.of_class[1] else 1

    @property
    def varied(self) -> bool:
        """Whether some class is on some rows and not on others."""
        return bool(((self.of_class > 0) & (self.of_class < self.rows)).any())


def class_counts(targets: Array, classes: int) -> Array:
    """How many rows have each class, of labels `[n]` or `[n, classes]`."""
    found: Array = (targets > 0.5).sum(0) if targets.ndim == 2 else np.bincount(targets, minlength=classes)
    return found.astype(np.int64)
