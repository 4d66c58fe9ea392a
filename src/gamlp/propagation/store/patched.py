"""Shards of a store from those of another one: files that stay are shared, other rows are copied or written over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.propagation.local.slabs import Reader
from gamlp.propagation.store.manifest import ShardEntry
from gamlp.propagation.store.shards import Assembly, Shard
from gamlp.propagation.store.sharing import share_stored
from gamlp.propagation.store.store import StoredSignal


@dataclass(frozen=True)
class PatchedAssembly(Assembly):
    """`rows`, ascending, are those that the sources have; all others are those of `before`, under the same numbers."""

    rows: Array
    before: StoredSignal

    def copied(self) -> int:
        """Bytes of before that are read, since the files that they lie in change."""
        last = self.before.entry.count
        written = (shard for shard in self.planned() if self._same(shard) is None)
        return sum(max(0, min(shard.stop, last) - shard.start) for shard in written) * self._row_bytes()

    def write_shard(self, shard: Shard) -> Shard:
        same = self._same(shard)
        if same is None:
            return super().write_shard(shard)
        assert self.folder.local is not None
        share_stored(self.before.place, self.folder.local, same)
        return Shard(shard.name, shard.start, shard.stop, same.bytes, same.crc32)

    def _same(self, shard: Shard) -> ShardEntry | None:
        """The file of before that holds these very rows, where none of them changed."""
        first, last = np.searchsorted(self.rows, [shard.start, shard.stop])
        if first < last or self.before.entry.hops != self.signal.hops:
            return None
        wanted = shard.name, shard.start, shard.stop
        return next((one for one in self.before.entry.shards if (one.name, one.start, one.stop) == wanted), None)

    def _fill(self, out: Array, begin: int, readers: list[dict[int, Reader]]) -> None:
        end = begin + len(out)
        old = min(end, self.before.entry.count)
        if begin < old:
            out[: old - begin] = self.before.stored(begin, old, self.signal.hops)
        first, last = (int(at) for at in np.searchsorted(self.rows, [begin, end]))
        if first < last:
            made: Array = np.empty((last - first, *out.shape[1:]), out.dtype)
            super()._fill(made, first, readers)
            out[self.rows[first:last] - begin] = made
