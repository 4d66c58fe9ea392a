"""Rows that a person asks for, the split and the labels they give, and the hops that are read of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation import weights_of_rows
from gamlp.graph import ROLES, Graph, Labels, Split
from gamlp.models import HopWeights
from gamlp.propagation import HopStore, row_numbers
from gamlp.training import Bundle, rows_of


def rows_among(count: int, rows: Any, name: str = "rows") -> Array:
    """Row numbers, in the order given, or a mask of all nodes.

    >>> rows_among(3, [True, False, True]).tolist(), rows_among(3, [2, 0]).tolist()
    ([0, 2], [2, 0])
    """
    if hasattr(rows, "detach"):
        rows = rows.detach().cpu()
    values = np.asarray(rows)
    if values.dtype == bool:
        if values.shape != (count,):
            raise GamlpError(f"the mask '{name}' has shape {values.shape} for {count} nodes", hint="one value a node")
        return np.flatnonzero(values)
    numbers = row_numbers(values)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        wrong = numbers[(numbers < 0) | (numbers >= count)][0]
        raise GamlpError(f"'{name}' has row {wrong} of {count} nodes", hint=f"rows count from 0 to {count - 1}")
    return numbers


def split_of(count: int, *, train: Any = None, valid: Any = None, test: Any = None) -> Split:
    """A split from row numbers or masks; a row of two parts is refused.

    >>> split_of(4, train=[0, 3], test=[False, True, False, False]).roles.tolist()
    [1, 3, 0, 1]
    """
    roles = np.zeros(count, np.int8)
    for role, rows in enumerate((train, valid, test), start=1):
        numbers = np.zeros(0, np.int64) if rows is None else rows_among(count, rows, ROLES[role])
        if (taken := numbers[roles[numbers] > 0]).size:
            before = ROLES[int(roles[taken[0]])]
            raise GamlpError(f"row {taken[0]} is in '{before}' and in '{ROLES[role]}'", hint="give a row one part")
        roles[numbers] = role
    return Split(roles)


def with_split(graph: Graph, split: Split) -> Graph:
    """The graph with another split, held in memory."""
    return replace(graph.with_targets(split=split), folder=None)


def number_type(given: Any, classes: tuple[str, ...]) -> str | None:
    """The numpy type in which class numbers were given; None where classes have names.

    >>> number_type(np.array([3, 5], np.int16), ("3", "5")), number_type(["ant"], ("ant",))
    ('int16', None)
    """
    if given is None or isinstance(given, Labels):
        return None
    kind = str(getattr(given, "dtype", None) or np.asarray(given).dtype).removeprefix("torch.").lower()
    if kind.startswith(("int", "uint", "bool")):
        return kind
    if kind.startswith(("float", "bfloat")):  # whole numbers, NaN where unknown
        return "int64"
    if kind == "object" and all(name.lstrip("-").isdigit() for name in classes):
        texts = any(isinstance(value, str | bytes) for value in np.asarray(given, object).ravel())
        return None if texts else "int64"
    return None


@dataclass(frozen=True)
class ScoredHops:
    """Hops of a graph's nodes, with the graph whose labels and split are scored by."""

    store: HopStore
    graph: Graph

    @property
    def labels(self) -> Labels | None:
        return self.graph.nodes.labels

    @property
    def split(self) -> Split | None:
        return self.graph.nodes.split

    @property
    def count(self) -> int:
        return self.store.manifest.nodes

    def rows(self, rows: Any) -> Array:
        return np.arange(self.count) if rows is None else rows_among(self.count, rows)

    def rows_to_score(self, rows: Any) -> Array:
        """Labelled test rows, or all labelled rows of a graph without a split; rows asked for must be labelled."""
        if self.labels is None:
            raise GamlpError("the graph has no labels to score by", hint="give y, or predict instead")
        known = self.labels.known()
        if rows is not None:
            asked = self.rows(rows)
            if not known[asked].all():
                raise GamlpError(f"node {asked[~known[asked]][0]} has no label to score by", hint="leave it out")
        else:
            asked = np.flatnonzero(known) if self.split is None else self.split.test[known[self.split.test]]
        if not len(asked):
            raise GamlpError("there are no labelled test rows", hint="say which: score(rows=...)")
        return asked


def hop_weights(bundle: Bundle, hops: ScoredHops, rows: Array, device: torch.device) -> HopWeights:
    """Every row's weights over hops, on the CPU."""
    size, source = bundle.recipe.training.batch_size, rows_of(hops.store, bundle.recipe, rows)
    found = weights_of_rows(bundle.model().to(device), source, size=size, device=device)
    if found is None:
        raise GamlpError(f"model '{bundle.recipe.model.name}' tells no hop weights", hint="give it a hop_weights(x, y)")
    return found
