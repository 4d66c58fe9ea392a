"""Hops → tensors: rows held in memory where they fit, gathered from the store a batch ahead where they do not."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import UNKNOWN
from gamlp.io import available_memory
from gamlp.propagation import HopStore, StoredSignal, side_by_side
from gamlp.training.label_counts import AT_ONCE, LabelCounts
from gamlp.training.order import batches_of_a_window, parts_of
from gamlp.training.ranks.world import World

PIECE = 1 << 18  # numbers
READ_BYTES = 32 << 20  # of hops that are read at a time where nobody says how many rows
ROW_NUMBERS = 48  # bytes a row beside its hops: its number, its label, its place in the order of an epoch, their copies


@dataclass(frozen=True)
class Batch:
    """x `[b, channel, hop, d]`, y `[b, channel, hop, c]` or None, target `[b]` or `[b, c]`; all float32 but numbers.

    A peer that passes messages reads a part of the graph as x and known labels as y (gamlp.peers.tensors).
    With `share` `[b]` the loss of training is Σ share · loss of a row, not the rows' mean. `whole` counts the rows of
    the global batch that this is one rank's part of, `counted` those of them that are its own.
    """

    rows: Array
    x: Any
    y: Any
    target: Tensor
    share: Tensor | None = None
    whole: int | None = None
    counted: int | None = None
    views: tuple[int, ...] | None = None  # x and y hold these alone; None: all


class LabelledRows(Protocol):
    """Rows with their labels, which the loop trains on or looks at."""

    def __len__(self) -> int: ...

    @property
    def targets(self) -> Array: ...

    @property
    def classes(self) -> int: ...

    def batches(self, size: int, device: torch.device, memory: int | None = None) -> Passes: ...


class Passes(Protocol):
    """What gives the batches of an epoch. `held` are the bytes it keeps in memory while others do their work."""

    target: Tensor
    device: torch.device

    @property
    def held(self) -> int: ...

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]: ...


class Sharded(Protocol):
    """What gives one rank its batches of a source."""

    def __call__(
        self, source: HopRows, size: int, device: torch.device, memory: int | None = None, *, world: World
    ) -> Passes: ...


@dataclass(frozen=True)
class HopRows:
    """Some rows of a store, as deep as a model reads them. `label_hops` None: no labels are read.

    `features_from` is another store of the same nodes, where features are shared by several splits of the labels.
    `channels` are the signals of features that are read side by side: one for each operator, or for each view and
    type; `views` those whose labels are read.
    """

    store: HopStore
    rows: Array
    hops: int
    label_hops: int | None = None
    crossfit: bool = False
    features_from: HopStore | None = None
    channels: tuple[str, ...] = ("features",)
    views: tuple[str, ...] = ("",)
    sample: int = 0  # views that a training step reads, by chance; 0: all
    chunk: int = 0  # rows that stay near each other when they are shuffled; 0: none do
    label_factor: float = 1.0  # hops of labels are read times this

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def row_bytes(self) -> int:
        """Of one row, held as it is stored (bfloat16 is held as float32)."""
        signals = [(signal, self.hops) for signal in self._features]
        widest = max(signal.entry.width for signal, _ in signals)
        size = sum((hops + 1) * widest * _item(signal) for signal, hops in signals)
        for signal in self._labels:
            assert self.label_hops is not None
            item = _item(signal) if self.label_factor == 1 else 4
            size += (self.label_hops + 1) * signal.entry.width * item
        return size

    @property
    def signals(self) -> list[StoredSignal]:
        """All that is read: of features and of labels."""
        return [*self._features, *self._labels]

    @property
    def _features(self) -> list[StoredSignal]:
        store = self.features_from or self.store
        return [store.signals[name] for name in self.channels]

    @property
    def _labels(self) -> list[StoredSignal]:
        if self.label_hops is None:
            return []
        name = "crossfit" if self.crossfit else "labels"
        return [self.store.signals[f"{name}@{view}" if view else name] for view in self.views]

    @property
    def targets(self) -> Array:
        """Labels of these rows."""
        return self.store.labels_at(self.rows)

    @cached_property
    def label_counts(self) -> LabelCounts:
        """How many of these rows have each class; labels are read some rows at a time."""
        found = LabelCounts(0, np.zeros(self.classes, np.int64), self.store.multi_label)
        for begin in range(0, len(self), AT_ONCE):
            targets = self.store.labels_at(self.rows[begin : begin + AT_ONCE])
            found = found.with_more(LabelCounts.of(targets, self.classes))
        return found

    @property
    def classes(self) -> int:
        return len(self.store.manifest.targets.classes or ())

    def batches(self, size: int, device: torch.device, memory: int | None = None) -> Batches:
        return Batches(self, size, device, memory)

    def gather(self, positions: Array, views: Sequence[int] | None = None) -> tuple[Array, Array | None]:
        """Hops of the rows at these positions, in the store's precision; of some views alone where they are named."""
        rows = self.rows[positions]
        some = range(len(self.channels)) if views is None else self.channels_of(views)
        width = max(signal.entry.width for signal in self._features)
        x = side_by_side([_gather(self._features[number], rows, self.hops) for number in some], width)
        assert x is not None
        if self.label_hops is None:
            return x, None
        chosen = range(len(self.views)) if views is None else views
        y = side_by_side([_gather(self._labels[number], rows, self.label_hops) for number in chosen])
        if y is not None and self.label_factor != 1:
            y = np.multiply(y, np.float32(self.label_factor), dtype=np.float32)
        return x, y

    def gathered(self) -> tuple[Array, Array | None]:
        """Hops of all rows, read a part at a time: beside the result there is never more than READ_BYTES of them."""
        count, step = len(self), max(1, READ_BYTES // 2 // max(1, self.row_bytes))
        if count <= step:
            return self.gather(np.arange(count))
        found: list[Array | None] = []
        for begin in range(0, count, step):
            part = slice(begin, min(begin + step, count))
            for index, values in enumerate(self.gather(np.arange(part.start, part.stop))):
                if begin == 0:
                    found.append(None if values is None else np.empty((count, *values.shape[1:]), values.dtype))
                if values is not None:
                    found[index][part] = values  # type: ignore[index]
        x, y = found
        assert x is not None
        return x, y

    def tensors(self, positions: Array, device: torch.device | None = None) -> tuple[Tensor, Tensor | None]:
        """Hops of the rows at these positions, as a model reads them: float32, on the device."""
        x, y = self.gather(positions)
        where = device or torch.device("cpu")
        labels = None if y is None else torch.from_numpy(y).to(where, torch.float32)
        return torch.from_numpy(x).to(where, torch.float32), labels

    def channels_of(self, views: Sequence[int]) -> list[int]:
        """Numbers of the channels that are of these views."""
        names = {self.views[number] for number in views}
        return [number for number, channel in enumerate(self.channels) if channel.split("@")[1] in names]

    def drawn(self, batches: int, generator: torch.Generator | None) -> list[list[int] | None]:
        """Views for each batch of an epoch: all, or a sample by the generator."""
        if generator is None or not 0 < self.sample < len(self.views):
            return [None] * batches
        draws = [torch.randperm(len(self.views), generator=generator)[: self.sample] for _ in range(batches)]
        return [sorted(int(number) for number in draw) for draw in draws]


@dataclass(frozen=True)
class UnlabelledRows(HopRows):
    """Rows that are read for their hops alone: what is known of their labels is not looked at."""

    @property
    def targets(self) -> Array:
        """All unknown."""
        return np.full(len(self), UNKNOWN, np.int64)


def read_batches(
    source: HopRows, rows: range | Array | None = None, *, size: int | None = None, device: torch.device | None = None
) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
    """(part of the rows, x, y) in order: hops of rows whose labels are not asked for.

    `rows` stand in place of the source's own; a range never becomes an array of all rows. Without a size READ_BYTES of
    hops are read at a time.
    """
    rows = source.rows if rows is None else rows
    size = size or int(np.clip(READ_BYTES // max(1, source.row_bytes), 64, 10_000))
    for begin in range(0, len(rows), size):
        part = slice(begin, min(begin + size, len(rows)))
        some = np.asarray(rows[part], np.int64)
        yield part, *replace(source, rows=some).tensors(np.arange(len(some)), device)


def _item(signal: StoredSignal) -> int:
    """Bytes of a number as it is held."""
    return 2 if signal.entry.dtype == "float16" else 4


def _gather(signal: StoredSignal, rows: Array, hops: int) -> Array:
    positions = signal.positions(rows)
    if len(positions) and positions[-1] - positions[0] == len(positions) - 1 and (np.diff(positions) == 1).all():
        # Neighbours in the file: one copy from front to back, here, so that a reader ahead does the reading.
        found = signal.read(int(positions[0]), int(positions[-1]) + 1, hops)
        return found if found.flags.owndata else np.array(found)  # across shards it is a copy already
    return signal.gather(rows, hops)


_Window = tuple[Tensor | None, Tensor, Tensor | None]  # positions, ascending (None: a batch's own), with x and y


class Batches:
    """Batches of rows; `resident` says whether their hops are in memory. `part_of_larger`: parts of larger batches."""

    def __init__(
        self,
        source: HopRows,
        size: int,
        device: torch.device,
        memory: int | None = None,
        *,
        part_of_larger: bool = False,
    ) -> None:
        self.source = source
        self.size = size
        self.device = device
        self.target = target_tensor(source.targets)
        budget = available_memory() // 2 if memory is None else memory
        self.resident = self.resident_bytes() <= budget
        if self.resident:
            x, y = source.gathered()
            self._x = torch.from_numpy(x)
            self._y = None if y is None else torch.from_numpy(y)
            if len(source) <= size and not part_of_larger:  # the one batch of every epoch
                self._x, self._y = self._placed(self._x), None if self._y is None else self._placed(self._y)
                self.target = self.target.to(device)

    def __len__(self) -> int:
        return -(-len(self.source) // self.size)

    @property
    def count(self) -> int:
        """Rows."""
        return len(self.source)

    def resident_bytes(self) -> int:
        """What holding all hops takes, with what is read at a time while they are brought in."""
        rows, row = len(self.source), self.source.row_bytes
        return rows * row + min(rows * row, READ_BYTES) + self._beside()

    def _beside(self) -> int:
        """Row numbers, and where there are several batches one in float32 beside the next."""
        rows, row = len(self.source), self.source.row_bytes
        return rows * ROW_NUMBERS + (0 if rows <= self.size else 2 * self.size * row)

    @property
    def _window(self) -> int:
        """Batches that are read at a time where rows are not held, and whose rows are shuffled together."""
        return batches_of_a_window(self.size) if self.source.chunk else 1

    @property
    def held(self) -> int:
        if self.resident:
            return self._beside() + len(self.source) * self.source.row_bytes
        windows = 2 * self._window * self.size * self.source.row_bytes if self._window > 1 else 0
        return self._beside() + min(windows, len(self.source) * self.source.row_bytes)

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """All rows once: shuffled by the generator, or in order."""
        parts, in_order = parts_of(len(self.source), self.size, generator, self.source.chunk)
        return self.of(parts, in_order, self.source.drawn(len(parts), generator))

    def of(self, parts: Iterable[Tensor], in_order: bool, views: Sequence[Sequence[int] | None]) -> Generator[Batch]:
        """A batch for the positions and views of each part; `in_order` ones follow each other."""
        parts, step = list(parts), 1 if in_order else self._window
        if self.resident:
            for part, some in zip(parts, views):
                x, y = self._x, self._y
                channels = None if some is None else self.source.channels_of(some)
                if in_order and len(part) == len(self.source) and some is None:  # all rows: nothing is copied
                    yield self._batch(part.numpy(), x, y, self.target)
                    continue
                pick = slice(int(part[0]), int(part[-1]) + 1) if in_order else part
                x, y = _picked(x, pick, channels), None if y is None else _picked(y, pick, some)
                yield self._batch(part.numpy(), x, y, self.target[pick], some)
            return
        windows = [range(begin, min(begin + step, len(parts))) for begin in range(0, len(parts), step)]
        with ThreadPoolExecutor(1) as ahead:  # the next window is read while this one is trained on
            coming: Future[Any] | None = ahead.submit(self._read, [parts[at] for at in windows[0]], views[0], step)
            for number, window in enumerate(windows):
                assert coming is not None
                held, x, y = coming.result()
                coming = None
                if number + 1 < len(windows):
                    after = windows[number + 1]
                    coming = ahead.submit(self._read, [parts[at] for at in after], views[after[0]], step)
                for at in window:
                    yield self._of_window(parts[at], views[at], held, x, y)
                del held, x, y

    def _read(self, parts: Sequence[Tensor], views: Sequence[int] | None, step: int) -> _Window:
        """Hops of a window's rows: of a single batch in its own order and views, of several ascending and of all."""
        if step == 1:
            x, y = self.source.gather(parts[0].numpy(), views)
            return None, torch.from_numpy(x), None if y is None else torch.from_numpy(y)
        held = torch.unique(torch.cat(list(parts)))  # ascending: neighbours in the file are read by one request
        x, y = self.source.gather(held.numpy())
        return held, torch.from_numpy(x), None if y is None else torch.from_numpy(y)

    def _of_window(
        self, part: Tensor, views: Sequence[int] | None, held: Tensor | None, x: Tensor, y: Tensor | None
    ) -> Batch:
        if held is not None:
            pick, channels = torch.searchsorted(held, part), None if views is None else self.source.channels_of(views)
            x, y = _picked(x, pick, channels), None if y is None else _picked(y, pick, views)
        return self._batch(part.numpy(), x, y, self.target[part], views)

    def _batch(
        self, positions: Array, x: Tensor, y: Tensor | None, target: Tensor, views: Sequence[int] | None = None
    ) -> Batch:
        placed = None if y is None else self._placed(y)
        some = None if views is None else tuple(views)
        return Batch(self.source.rows[positions], self._placed(x), placed, target.to(self.device), views=some)

    def _placed(self, values: Tensor) -> Tensor:
        return values.to(self.device, torch.float32, non_blocking=True)


class OwnBatches:
    """Of every global batch the rows that one rank owns: it holds and reads no others.

    The order of rows and the batches are those of one process. A rank without a row in a batch gives one of its rows
    with share 0, since all ranks take every step together.
    """

    def __init__(
        self, source: HopRows, size: int, device: torch.device, memory: int | None = None, *, world: World
    ) -> None:
        if len(source) < world.size:
            raise GamlpError(
                f"{len(source)} training rows are too few for {world.size} processes", hint="use fewer --processes"
            )
        self.count, self.size = len(source), size
        self.begin, self.end = world.share(len(source))
        mine = replace(source, rows=source.rows[self.begin : self.end])
        self.own = Batches(mine, size, device, memory, part_of_larger=len(source) > size)
        self.target, self.device = self.own.target, device

    @property
    def source(self) -> HopRows:
        """Rows of this rank."""
        return self.own.source

    @property
    def held(self) -> int:
        return self.own.held

    def __len__(self) -> int:
        return -(-self.count // self.size)

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """All batches of an epoch, this rank's part of each."""
        parts, in_order = parts_of(self.count, self.size, generator, self.source.chunk)
        yield from self.of(parts, in_order, self.own.source.drawn(len(parts), generator))

    def of(self, parts: Iterable[Tensor], in_order: bool, views: Sequence[Sequence[int] | None]) -> Generator[Batch]:
        """This rank's part of the batch for the positions and views of each part."""
        parts = list(parts)
        mine = [part[(part >= self.begin) & (part < self.end)] - self.begin for part in parts]
        given = [own if len(own) else torch.zeros(1, dtype=torch.int64) for own in mine]
        for part, own, batch in zip(parts, mine, self.own.of(given, in_order, views)):
            share = torch.full((len(batch.target),), 1 / len(part), dtype=torch.float64, device=self.device)
            share = share if len(own) else torch.zeros_like(share)
            yield replace(batch, share=share, whole=len(part), counted=len(own))


def own_rows(source: HopRows, size: int, device: torch.device, memory: int | None = None, *, world: World) -> Batches:
    """The rows that one rank looks at; there may be none."""
    begin, end = world.share(len(source))
    return Batches(replace(source, rows=source.rows[begin:end]), size, device, memory)


def _rows(values: Tensor, pick: Tensor | slice) -> Tensor:
    """A view of a slice; others as float32, converted piece by piece while they are in the cache."""
    if isinstance(pick, slice):
        return values[pick]
    if values.dtype == torch.float32:
        return values.index_select(0, pick)
    out = torch.empty((len(pick), *values.shape[1:]), dtype=torch.float32)
    piece = max(1, PIECE // max(1, values[0].numel()))
    for into, rows in zip(torch.split(out, piece), torch.split(pick, piece)):
        into.copy_(values.index_select(0, rows))
    return out


def _picked(values: Tensor, pick: Tensor | slice, channels: Sequence[int] | None) -> Tensor:
    """Rows, of some channels alone where they are named: others are not copied."""
    if channels is None:
        return _rows(values, pick)
    return torch.stack([_rows(values[:, channel], pick) for channel in channels], 1)


def target_tensor(values: Array) -> Tensor:
    """Labels as a loss reads them: class numbers, or 0 and 1 of every class in float32."""
    return torch.from_numpy(values.astype(np.float32 if values.ndim == 2 else np.int64))
