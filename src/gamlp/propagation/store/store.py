"""HopStore: hops by node, memory-mapped: `gather(rows) → Hops(x, y, target)`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Labels, Split, check_label_numbers, check_roles
from gamlp.io import FileRows, Place, map_array, open_rows, parallel_map, read_scattered, usable_cores, verify
from gamlp.kernel import NUMPY_DTYPES
from gamlp.propagation.store.manifest import SignalEntry, StoredFile, StoreManifest, files_of, read_manifest

RANGE_BYTES = 32 << 20  # of hops that a task reads at a time
_AGAIN = "remove the store and propagate again"


@dataclass(frozen=True)
class Channel:
    """One stored signal that a model reads beside others: of a view, and of one type's features (None: of all)."""

    signal: str
    view: str
    node_type: str | None = None


@dataclass(frozen=True)
class Hops:
    """A batch: `x[b, channel, hop, d]`, `y[b, channel, hop, c]`, `target[b]` (many labels: `[b, c]`), or None."""

    x: Array | None
    y: Array | None
    target: Array | None


class StoredSignal:
    """One signal's shards: mapped; behind a URL, fetched or read in ranges when first asked for."""

    def __init__(self, place: Place, name: str, entry: SignalEntry, nodes: int, *, copies: bool = True) -> None:
        self.name = name
        self.entry = entry
        self.place = place / entry.folder
        self._copies = copies
        self._nodes = nodes
        self._starts = np.array([shard.start for shard in entry.shards])
        self._opened: dict[int, Any] = {}
        self._verified: set[int] = set()
        if place.local is not None:
            for index in range(len(entry.shards)):
                self._shard(index)

    @cached_property
    def rows(self) -> Array | None:
        """Node numbers that are stored, ascending; None: all."""
        return None if self.entry.rows is None else verified_array(self.place, self.entry.rows, self.entry.count)

    def _checked_shard(self, index: int) -> Any:
        """Its bytes are those that were written; behind a URL and without copies, ranges are read as they are."""
        values = self._shard(index)
        if index not in self._verified:
            shard = self.entry.shards[index]
            place = self.place / shard.name
            if place.local is not None or self._copies:
                verify(place, shard.crc32, hint=_AGAIN, copy=_copy_of(place, shard.crc32))
            self._verified.add(index)
        return values

    def _shard(self, index: int) -> Any:
        if index not in self._opened:
            entry, shard = self.entry, self.entry.shards[index]
            place = self.place / shard.name
            values = map_array(_copy_of(place, shard.crc32)) if self._copies else open_rows(place)
            expected = NUMPY_DTYPES[entry.dtype]
            shape = (shard.stop - shard.start, entry.hops + 1, entry.width)
            if tuple(values.shape) != shape or values.dtype != expected:
                found = f"{values.dtype} of shape {tuple(values.shape)}, not {np.dtype(expected)} of shape {shape}"
                raise GamlpError(f"shard is {found}", file=place)
            self._opened[index] = values
        return self._opened[index]

    def check(self) -> None:
        """Open and verify all shards now: later reads then wait for nothing, and need no file by its name."""
        for _ in parallel_map(usable_cores(), self._checked_shard, range(len(self.entry.shards))):
            pass

    def positions(self, rows: Array) -> Array:
        """Where node numbers lie among the stored rows; an unstored one is told."""
        rows = row_numbers(rows)
        if rows.size and (rows.min() < 0 or rows.max() >= self._nodes):
            bad = rows[(rows < 0) | (rows >= self._nodes)][0]
            raise GamlpError(f"row {bad} is not among the graph's {self._nodes} nodes")
        if self.rows is None:
            return rows
        at = np.searchsorted(self.rows, rows)
        missing = self.rows[np.minimum(at, len(self.rows) - 1)] != rows
        if missing.any():
            raise GamlpError(
                f"node {rows[missing][0]} was not kept in the store's {self.name}",
                hint="propagate more of them: gamlp propagate --rows",
            )
        return at

    def gather(self, rows: Array, hops: int | None = None) -> Array:
        """`[b, hops + 1, width]` of node numbers in any order, repeats allowed; bfloat16 comes as float32."""
        positions = self.positions(rows)
        depth = self._depth(hops)
        out = np.empty((len(positions), depth + 1, self.entry.width), NUMPY_DTYPES[self.entry.dtype])
        order = np.argsort(positions, kind="stable")
        bounds = np.searchsorted(positions[order], [*self._starts, self.entry.count])
        apart = []  # not in memory: of all shards, so that the disk has many requests at once
        for index, (first, last) in enumerate(itertools.pairwise(bounds)):
            if first < last:
                into = order[first:last]
                part = FileRows(self._checked_shard(index), positions[into] - self._starts[index], into)
                if part.in_memory:
                    out[into] = part.values[part.rows][:, : depth + 1]
                else:
                    apart.append(part)
        read_scattered(apart, out)
        return self._float(out)

    def take(self, rows: Array, hops: int | None = None) -> Array:
        """`gather` of a few rows that ascend, through the maps as they are: no plans are made for the disk."""
        positions, depth = self.positions(rows), self._depth(hops)
        out = np.empty((len(positions), depth + 1, self.entry.width), NUMPY_DTYPES[self.entry.dtype])
        bounds = np.searchsorted(positions, [*self._starts, self.entry.count]).tolist()
        for index, (first, last) in enumerate(itertools.pairwise(bounds)):
            if first < last:
                values = np.asarray(self._checked_shard(index))
                out[first:last] = values[positions[first:last] - self._starts[index], : depth + 1]
        return self._float(out)

    def read(self, start: int, stop: int, hops: int | None = None) -> Array:
        """Contiguous positions start..stop: a view of the map where they lie in one shard."""
        return self._float(self.stored(start, stop, hops))

    def stored(self, start: int, stop: int, hops: int | None = None) -> Array:
        """The same as it is stored: bfloat16 as the uint16 of its bits."""
        depth = self._depth(hops)
        parts = [
            self._checked_shard(index)[max(start - shard.start, 0) : stop - shard.start][:, : depth + 1]
            for index, shard in enumerate(self.entry.shards)
            if shard.start < stop and shard.stop > start
        ]
        if not parts:
            return np.empty((0, depth + 1, self.entry.width), NUMPY_DTYPES[self.entry.dtype])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _depth(self, hops: int | None) -> int:
        if hops is not None and not 0 <= hops <= self.entry.hops:
            raise GamlpError(
                f"the store holds {self.entry.hops} hops of {self.name}, not {hops}", hint="propagate further"
            )
        return self.entry.hops if hops is None else hops

    def _float(self, values: Array) -> Array:
        if self.entry.dtype != "bfloat16":
            return values
        return (values.astype(np.uint32) << 16).view(np.float32)


class HopStore:
    """A finished store. A deeper one serves a shallower plan: `gather(rows, hops=2)`."""

    def __init__(self, place: Place, manifest: StoreManifest, *, copies: bool = True) -> None:
        self.place = place
        self.folder: Path | Place = place.local or place
        self.manifest = manifest
        self._copies = copies
        self._targets: dict[str, Any] = {}
        self.signals = {
            name: StoredSignal(place, name, entry, manifest.nodes, copies=copies)
            for name, entry in manifest.signals.items()
        }

    @classmethod
    def open(cls, folder: str | Path | Place, *, copies: bool = True) -> HopStore:
        """Map a finished store; one that is foreign, damaged or unfinished is refused with a sentence.

        Behind a URL, shards are fetched when first read; without `copies`, only the rows that are asked for.
        """
        place = Place.of(folder)
        return cls(place, read_manifest(place), copies=copies)

    @cached_property
    def labels(self) -> Labels | None:
        """The graph's labels as they were when the store was written."""
        classes, file = self.manifest.targets.classes, self._targets_entry("labels.npy")
        if classes is None or file is None:
            return None
        values = verified_array(self.place, file, self.manifest.nodes, len(classes))
        check_label_numbers(values, self.place / file.name, classes=len(classes))
        return Labels(values, tuple(classes), self.manifest.targets.class_type)

    @cached_property
    def split(self) -> Split | None:
        """The graph's split as it was when the store was written."""
        if (file := self._targets_entry("split.npy")) is None:
            return None
        roles = verified_array(self.place, file, self.manifest.nodes)
        check_roles(roles, self.place / file.name)
        return Split(roles)

    def targets_file(self, name: str) -> Any:
        """Labels or roles; behind a URL and without copies, ranges of them are read as they are."""
        if name not in self._targets:
            file = self._targets_entry(name)
            assert file is not None
            columns = len(self.manifest.targets.classes or ())
            if self.place.local is None and not self._copies:
                self._targets[name] = open_rows(self.place / name)
            else:
                self._targets[name] = verified_array(self.place, file, self.manifest.nodes, columns)
        return self._targets[name]

    def labels_at(self, rows: Array) -> Array:
        """Labels of some rows, as they were when the store was written; without `copies` no others are looked at."""
        if self._copies:
            if self.labels is None:
                raise self._no_labels()
            return self.labels.values[rows]
        if not self.labelled:
            raise self._no_labels()
        values = np.asarray(self.targets_file("labels.npy")[rows])
        check_label_numbers(values, self.place / "labels.npy", classes=len(self.manifest.targets.classes or ()))
        return values

    def _no_labels(self) -> GamlpError:
        return GamlpError("the store has no labels", file=self.folder, hint="propagate a graph with labels")

    @property
    def multi_label(self) -> bool:
        """Whether a node may have many labels."""
        return self.labelled and len(self.targets_file("labels.npy").shape) == 2

    @property
    def labelled(self) -> bool:
        """Whether it holds labels."""
        return self.manifest.targets.classes is not None and self._targets_entry("labels.npy") is not None

    @property
    def has_split(self) -> bool:
        """Whether it holds roles of rows."""
        return self._targets_entry("split.npy") is not None

    def ranges(self, row_bytes: int) -> list[tuple[int, int]]:
        """Places of stored rows in ranges of about RANGE_BYTES, none of which crosses from a shard to the next."""
        size = max(1, RANGE_BYTES // max(1, row_bytes))
        return [
            (begin, min(begin + size, shard.stop))
            for shard in self.signals[self.channels()[0].signal].entry.shards
            for begin in range(shard.start, shard.stop, size)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same store, though another one may lie there by then; it reads ranges of files."""
        return _sent, (self.place.resolved(), self.manifest.model_dump_json())

    def _targets_entry(self, name: str) -> StoredFile | None:
        return next((file for file in self.manifest.targets.files if file.name == name), None)

    @property
    def kept(self) -> Array | None:
        """Node numbers whose hops of features are kept; None: all."""
        return self.signals[self.channels()[0].signal].rows

    @property
    def stored_rows(self) -> int:
        """How many nodes' hops of features are kept."""
        return self.signals[self.channels()[0].signal].entry.count

    def channels(
        self, views: Sequence[str] | None = None, signal: str = "features", separate_types: bool | None = None
    ) -> list[Channel]:
        """The channels of a signal, type by type and view by view (None: all views; a homogeneous graph has one).

        Features may be stored apart by type, together, or both: None reads those apart where there are any.
        """
        if not self.manifest.views:
            return [Channel(signal, "")] if signal in self.signals else []
        names = list(self.manifest.views) if views is None else views
        node_types = dict.fromkeys(node_type for name in names for node_type in self.manifest.views[name].types)
        by_type = [
            Channel(f"{signal}@{name}@{node_type}", name, node_type) for node_type in node_types for name in names
        ]
        together = [Channel(f"{signal}@{name}", name) for name in names]
        if separate_types is None:
            separate_types = any(channel.signal in self.signals for channel in by_type)
        return [channel for channel in (by_type if separate_types else together) if channel.signal in self.signals]

    def gather(
        self, rows: Array, *, hops: int | None = None, label_hops: int | None = None, crossfit: bool = False
    ) -> Hops:
        """A batch of node numbers in any order. With `crossfit`, y comes from the other folds' labels alone."""
        rows = row_numbers(rows)
        x = side_by_side([self.signals[channel.signal].gather(rows, hops) for channel in self.channels()])
        name = "crossfit" if crossfit else "labels"
        if crossfit and not self.channels(signal=name):
            raise GamlpError(
                "the store has no cross-fitted labels",
                file=self.folder,
                hint="make them: gamlp propagate --label-folds 5",
            )
        y = side_by_side(
            [self.signals[channel.signal].gather(rows, label_hops) for channel in self.channels(signal=name)]
        )
        labels = self.labels
        return Hops(x, y, None if labels is None else labels.values[rows])

    def files(self) -> list[tuple[Place, StoredFile]]:
        """Every file with what is known of it."""
        return files_of(self.place, self.manifest)

    def damaged(self) -> list[str]:
        """Names of files whose bytes are not those that were written."""
        wrong = parallel_map(
            usable_cores() + 2, lambda pair: (pair[0], pair[0].checksum() != pair[1].crc32), self.files()
        )
        return sorted(place.url[len(self.place.url) + 1 :] for place, damaged in wrong if damaged)


def _sent(place: Place, manifest: str) -> HopStore:
    return HopStore(place, StoreManifest.model_validate_json(manifest), copies=False)


def _copy_of(place: Place, crc32: int) -> Path:
    """By its content: another file may be behind the same URL later, and processes live long."""
    return place.local_copy(f"-{crc32:08x}")


def verified_array(folder: Place, file: StoredFile, rows: int, columns: int | None = None) -> Array:
    """Whole numbers `[rows]` or `[rows, columns]`, fetched where they are elsewhere, as they were written."""
    place = folder / file.name
    path = _copy_of(place, file.crc32)
    verify(place, file.crc32, hint=_AGAIN, copy=path)
    values = map_array(path)
    if values.shape not in ((rows,), (rows, columns)) or values.dtype.kind != "i":
        raise GamlpError(f"holds {values.dtype} of shape {values.shape} for {rows} rows", file=place, hint=_AGAIN)
    return values


def side_by_side(channels: Sequence[Array], width: int = 0) -> Array | None:
    """`[b, channel, hop, d]` of `[b, hop, d]` each; narrower ones are followed by zeros."""
    if not channels:
        return None
    first, width = channels[0], max(width, *(values.shape[2] for values in channels))
    if len(channels) == 1 and first.shape[2] == width:
        return first[:, None]
    out = np.zeros((len(first), len(channels), first.shape[1], width), np.result_type(*channels))
    for index, values in enumerate(channels):
        out[:, index, :, : values.shape[2]] = values
    return out


def row_numbers(rows: Any) -> Array:
    """Node numbers as int64; a mask is refused, since its zeros and ones are node numbers too."""
    numbers = np.asarray(rows)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.ndim != 1):
        raise GamlpError(
            f"rows are {numbers.dtype} of shape {numbers.shape}",
            hint="give a list of node numbers; np.flatnonzero(mask) for a mask",
        )
    return numbers.reshape(-1).astype(np.int64, copy=False)
