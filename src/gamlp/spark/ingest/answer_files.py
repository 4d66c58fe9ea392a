"""Labels and split of all nodes as single files, from what tasks left of every block: read a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import ONE_TYPE, ROLES, UNKNOWN, Labels, Split, nodes_folder, random_split
from gamlp.io import Place, npy_header, put_rows
from gamlp.spark.ingest.block_files import Rows, staged

_TRAIN = ROLES.index("train")
_ROWS = 1 << 16  # of many labels a node, at a time


@dataclass(frozen=True)
class TargetFiles:
    """Codes of labels and roles by block → labels.npy and split.npy. `numbers[code]` is a class, the last one -1."""

    graph: Place
    staging: Place
    rows: Rows
    classes: int
    numbers: Array
    multi_label: bool
    node_type: str = ONE_TYPE

    def write_labels(self) -> dict[str, Any]:
        name = f"{nodes_folder(self.node_type)}/labels.npy"
        shape = (self.rows.count, self.classes) if self.multi_label else (self.rows.count,)
        with (self.graph / name).writing() as stream:
            stream.write(npy_header(shape, np.int8 if self.multi_label else np.int32))
            for block in range(self.rows.blocks):
                for values in self._labels(block):
                    stream.write(np.ascontiguousarray(values).data)
        return {"files": {name: stream.size_and_checksum()}}

    def write_given_split(self) -> dict[str, Any]:
        """The roles of the table; where there are labels, of labelled nodes alone."""
        found = _Roles(self.classes)
        name = f"{nodes_folder(self.node_type)}/split.npy"
        with (self.graph / name).writing() as stream:
            stream.write(npy_header((self.rows.count,), np.int8))
            for block in range(self.rows.blocks):
                roles = staged(self.staging / f"roles/{block:05d}.npy").copy()  # a file is mapped for reading
                at = 0
                for values in self._labels(block) if self.classes else ():
                    part = roles[at : at + len(values)]
                    part[:] = found.add(part, values)
                    at += len(values)
                if not self.classes:
                    found.count(roles)
                stream.write(np.ascontiguousarray(roles).data)
        return {"files": {name: stream.size_and_checksum()}, **found.facts()}

    def write_random_split(self, fractions: Sequence[float], seed: int, stratified: bool) -> dict[str, Any]:
        """The split that `gamlp ingest` makes of the same labels: in one task, 13 to 30 bytes a node."""
        count = self.rows.count
        known: Array = np.empty((count, 1), np.int8) if self.multi_label else np.empty(count, np.int32)
        for begin, values in self._all():
            known[begin : begin + len(values)] = values[:, :1] if self.multi_label else values
        # Nodes with many labels are split as a whole: all that is asked is whether there are labels.
        made: Split = random_split(Labels(known, ("",) * self.classes), fractions, seed, stratified)
        del known
        found = _Roles(self.classes)
        for begin, values in self._all():
            found.add(made.roles[begin : begin + len(values)], values)
        name = f"{nodes_folder(self.node_type)}/split.npy"
        return {"files": {name: put_rows(self.graph / name, made.roles)}, **found.facts()}

    def _all(self) -> Iterator[tuple[int, Array]]:
        at = 0
        for block in range(self.rows.blocks):
            for values in self._labels(block):
                yield at, values
                at += len(values)

    def _labels(self, block: int) -> Iterator[Array]:
        codes = staged(self.staging / f"codes/{block:05d}.npy")
        if not self.multi_label:
            yield self.numbers[codes]
            return
        lengths = staged(self.staging / f"lengths/{block:05d}.npy")
        stops = np.cumsum(np.maximum(lengths, 0))
        for begin in range(0, len(lengths), _ROWS):
            some = lengths[begin : begin + _ROWS]
            first = int(stops[begin - 1]) if begin else 0
            owners = np.repeat(np.arange(len(some)), np.maximum(some, 0))
            numbers = self.numbers[codes[first : first + len(owners)]]
            values = np.zeros((len(some), self.classes), np.int8)
            values[some < 0] = UNKNOWN
            values[owners[numbers >= 0], numbers[numbers >= 0]] = 1
            yield values


class _Roles:
    """Counts roles, roles of nodes without a label, and classes that train."""

    def __init__(self, classes: int) -> None:
        self._counts = np.zeros(len(ROLES), np.int64)
        self._useless = 0
        self._seen = np.zeros(classes, bool)

    def add(self, roles: Array, labels: Array) -> Array:
        """Roles without those of nodes that have no label."""
        kept = Labels(labels, ()).known()
        self._useless += int(np.count_nonzero((roles > 0) & ~kept))
        roles = np.where(kept, roles, 0).astype(np.int8)
        trained = labels[roles == _TRAIN]
        if labels.ndim == 2:
            self._seen |= (trained > 0).any(0)
        else:
            self._seen[trained] = True
        self.count(roles)
        return roles

    def count(self, roles: Array) -> None:
        self._counts += np.bincount(roles, minlength=len(ROLES))

    def facts(self) -> dict[str, Any]:
        split = {role: int(count) for role, count in zip(ROLES[1:], self._counts[1:])}
        absent = [int(number) for number in np.flatnonzero(~self._seen)]
        return {"split": split, "useless": self._useless, "absent": absent}
