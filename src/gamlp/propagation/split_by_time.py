"""Hops of a split by time in one store: those of every row over the graph as of the end of its own part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ROLES, Graph, digest
from gamlp.io import Place, npy_size, put_rows
from gamlp.kernel import NUMPY_DTYPES
from gamlp.progress import Progress, silent
from gamlp.propagation.first_values import FirstValues
from gamlp.propagation.plan import Plan, Propagator
from gamlp.propagation.signals import Signal, resolve
from gamlp.propagation.store.shards import Shard, planned_shards
from gamlp.propagation.store.store import HopStore, StoredSignal
from gamlp.propagation.store.writer import writing

_LATER = ""  # the part of all rows that see the whole graph


def propagate_as_of(
    propagator: Propagator,
    graph: Graph,
    earlier: Mapping[str, Graph],
    plan: Plan,
    store: str | Path | Place,
    progress: Progress = silent,
) -> HopStore:
    """Hops of training and validation rows over the graphs of `earlier`, of all other rows over the whole graph.

    Each is propagated as any graph is, into the folder of work; then rows are put together. Interrupted and run again:
    the same bytes. `standard` scaling goes by the statistics that are given: the graph's own would tell of later nodes.
    """
    if plan.features is not None and plan.features.scaling == "standard" and plan.features.statistics is None:
        raise GamlpError(
            "features of a split by time are scaled by the statistics of training rows, and there are none"
        )
    first = FirstValues(graph, plan.features)
    signals = resolve(graph, plan, first)
    parts = _parts(graph, earlier, plan)
    known = [{signal.name: signal.key for signal in resolve(part.graph, part.plan)} for part in parts]
    signals = [replace(one, key=digest([one.key, *(keys.get(one.name) for keys in known)])) for one in signals]
    with writing(store, graph, signals) as writer:
        missing = writer.begin()
        writer.statistics |= first.used
        if missing:
            writer.start()
            stores = []
            for part in parts:
                beside = writer.work / f"as-of-{part.name or 'all'}"
                stores.append((part, propagator.propagate(part.graph, part.plan, beside, progress)))
            for signal in missing:
                writer.record(signal, _write(signal, graph, stores, writer.folder_of(signal)))
        if missing or not writer.up_to_date():
            writer.finish()
        else:
            writer.tidy()
    return HopStore.open(store)


@dataclass(frozen=True)
class _Part:
    """Rows that see the same graph."""

    name: str
    graph: Graph
    plan: Plan


def _parts(graph: Graph, earlier: Mapping[str, Graph], plan: Plan) -> list[_Part]:
    """Those that some row of the plan is in; cross-fitted labels are of training rows alone."""
    assert graph.nodes.split is not None
    roles, kept = graph.nodes.split.roles, plan.kept_rows(graph)
    present = {ROLES[role] for role in np.unique(roles if kept is None else roles[kept])}
    labels = None if plan.labels is None else plan.labels.model_copy(update={"folds": 0})
    found = []
    for name, own in earlier.items():
        if name in present or name == "train":  # cross-fitted labels ask for training rows, whatever rows are kept
            changes = {"rows": name} if name == "train" else {"rows": name, "labels": labels}
            found.append(_Part(name, own, plan.model_copy(update=changes)))
    if present - set(earlier):
        found.append(_Part(_LATER, graph, plan.model_copy(update={"labels": labels})))
    return found


def _write(signal: Signal, graph: Graph, stores: Sequence[tuple[_Part, HopStore]], folder: Place) -> list[Shard]:
    """Shards of one signal; one that is there from an earlier run is checksummed and kept."""
    assert graph.nodes.split is not None
    numbers = np.arange(graph.nodes.count) if signal.rows is None else signal.rows
    roles = graph.nodes.split.roles[numbers]
    owners = []
    inside = np.zeros(len(numbers), bool)
    for part, store in stores:
        if signal.name not in store.signals:
            continue
        own = ~inside if part.name == _LATER else roles == ROLES.index(part.name)
        owners.append((own, store.signals[signal.name]))
        inside |= own
    assert inside.all()
    dtype, shape = np.dtype(NUMPY_DTYPES[signal.dtype]), (signal.hops + 1, signal.width)
    done = []
    for shard in planned_shards(len(numbers), int(np.prod(shape)) * dtype.itemsize):
        place, size = folder / shard.name, npy_size((shard.stop - shard.start, *shape), dtype)
        if place.size() == size:
            facts = [size, place.checksum()]
        else:
            rows = slice(shard.start, shard.stop)
            own = [(mask[rows], stored) for mask, stored in owners]
            facts = put_rows(place, _ComposedRows(numbers[rows], own, shape, dtype))
        done.append(replace(shard, bytes=facts[0], crc32=facts[1]))
    return done


class _ComposedRows:
    """Rows of a shard, read from the stores that hold them a few at a time."""

    def __init__(
        self, numbers: Array, owners: Sequence[tuple[Array, StoredSignal]], shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> None:
        self._numbers, self._owners = numbers, owners
        self.shape, self.dtype = (len(numbers), *shape), dtype

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: slice) -> Array:
        numbers = self._numbers[rows]
        out = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        for mask, stored in self._owners:
            if (own := mask[rows]).any():
                found = stored.gather(numbers[own], self.shape[1] - 1)
                if stored.entry.dtype == "bfloat16":  # read as float32, whose first half it is
                    found = (np.ascontiguousarray(found).view(np.uint32) >> 16).astype(np.uint16)
                out[own] = found
        return out
