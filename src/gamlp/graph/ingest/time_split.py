"""A split by the times of nodes: those until one time train, those until another validate, the others test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import ROLES, Labels, Split
from gamlp.graph.ingest.columns import CheckedRows
from gamlp.graph.ingest.report import IngestReport
from gamlp.graph.ingest.times import Cut, TimeColumn, Times

EARLIER = ("train", "valid")  # parts whose end is a cut: edges are also kept as they were then
_TRAIN = ROLES.index("train")


@dataclass(frozen=True)
class TimeSplit:
    """The column of a node table, and when training and validation end: both times are included."""

    column: str
    train_until: str
    valid_until: str

    @classmethod
    def given(cls, column: str | None, train_until: str | None, valid_until: str | None) -> TimeSplit | None:
        """From options, which go together."""
        options = {"--split-by": column, "--train-until": train_until, "--valid-until": valid_until}
        said = [option for option, value in options.items() if value is not None]
        lacking = [option for option, value in options.items() if not value]
        if not said:
            return None
        if column is None or train_until is None or valid_until is None or lacking:
            raise GamlpError(
                f"{said[0]} goes with {' and '.join(lacking)}",
                hint="a split by time is --split-by COLUMN --train-until TIME --valid-until TIME",
            )
        return cls(column, train_until, valid_until)

    def cuts(self) -> tuple[Cut, Cut]:
        """When the parts end; refused where they are no times, or in the wrong order."""
        train = Cut.of("--train-until", self.train_until, included=True)
        valid = Cut.of("--valid-until", self.valid_until, included=True)
        valid.check_after(train)
        return train, valid

    def __str__(self) -> str:
        return f"train until {self.train_until}, valid until {self.valid_until}"


class NodePeriods:
    """Periods of the nodes of the target, gathered batch by batch."""

    def __init__(self, split_by: TimeSplit, table: Path) -> None:
        self._split_by, self._table = split_by, table
        self._cuts = split_by.cuts()
        self._clock = TimeColumn(split_by.column, self._cuts)
        self._parts: list[tuple[Array, Array]] = []
        self._since = self._roles = np.zeros(0, np.int8)

    def read(self, rows: CheckedRows) -> None:
        """A batch: a row whose time cannot be read is bad; one without is in no part."""
        times = self._clock.read(rows, needed=False)
        self._parts.append((periods_of(times, self._cuts), times.known))

    def finish(self, kept: Array | None) -> Array:
        """Roles of the kept rows, int8."""
        since, known = (np.concatenate(part) for part in zip(*self._parts))
        if kept is not None:
            since, known = since[kept], known[kept]
        self._since, self._roles = since, np.where(known, since + _TRAIN, 0).astype(np.int8)
        self._parts.clear()
        return self._roles

    @property
    def since(self) -> Array:
        """The period of every node; one without a time is there in the last alone."""
        return self._since

    def split(self, labels: Labels | None, report: IngestReport) -> Split:
        """Labelled nodes by their times; what should be known of it is said."""
        for sentence in self._clock.notes():
            report.warn(sentence)
        split = Split(self._roles if labels is None else np.where(labels.known(), self._roles, 0).astype(np.int8))
        counts = {role: len(split.rows(role)) for role in ROLES[1:]}
        without = int(np.count_nonzero(self._roles == 0))
        tell_split(self._split_by, counts, without, report, labelled=labels is not None, table=self._table)
        return split


def roles_of(times: Times, cuts: Sequence[Cut]) -> Array:
    """Roles by periods, int8; a node without a time is in no part."""
    return np.where(times.known, periods_of(times, cuts) + _TRAIN, 0).astype(np.int8)


def periods_by_role(roles: Array) -> Array:
    """The same back: a node without a time is there in the last period alone."""
    return np.where(roles > 0, roles - _TRAIN, len(EARLIER)).astype(np.int8)


def tell_split(
    split_by: TimeSplit, counts: Mapping[str, int], without: int, report: IngestReport, *, labelled: bool, table: Path
) -> None:
    """Say what should be known of a split: `counts` of its parts, and how many nodes have no time."""
    if without:
        report.warn(
            f"column '{split_by.column}': {without:,} nodes have no time, and are in no part of the split; "
            "training and validation rows do not see them"
        )
    report.split_by = f"{split_by.column}: {split_by}"
    node = "labelled node" if labelled else "node"
    for role, when in (("train", f"until {split_by.train_until}"), ("valid", "then"), ("test", "later")):
        if counts[role]:
            continue
        if role == "train":
            raise GamlpError(
                f"no {node} is {when}", file=table, column=split_by.column, hint="choose a later --train-until"
            )
        report.warn(f"no {node} is in the part '{role}' of the split ({split_by})")


class NodeTimes(Protocol):
    """The period of every node of a type: an array, or rows that are read where they are asked for."""

    def __getitem__(self, rows: Array, /) -> Array: ...


@dataclass
class EdgePeriods:
    """Since when edges are there: not before their own time, where they have one, nor before either of their ends.

    `nodes`: periods of nodes by type; a type that is not there has no times.
    """

    cuts: tuple[Cut, ...]
    nodes: Mapping[str, NodeTimes]

    def of(self, own: Times | None, sources: Array, targets: Array, types: Iterable[tuple[str, str, Array]]) -> Array:
        """int8 periods. `types`: those that some edges join, and which edges these are."""
        since = np.zeros(len(sources), np.int8) if own is None else periods_of(own, self.cuts)
        for source, target, picked in types:
            for rows, node_type in ((sources, source), (targets, target)):
                if node_type in self.nodes:
                    since[picked] = np.maximum(since[picked], self.nodes[node_type][rows[picked]])
        return since


def periods_of(times: Times, cuts: Sequence[Cut]) -> Array:
    """0 until the first cut, 1 until the second, and so on; what has no time is there in the last period alone."""
    since = np.full(len(times.values), len(cuts), np.int8)
    if times.known.any():
        for number, cut in reversed(list(enumerate(cuts))):
            since[cut.keeps(times) & times.known] = number
    return since
