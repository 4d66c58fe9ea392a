"""The store: hops by node in checksummed shards, the manifest last."""

# A finished store, its signals and batches
from gamlp.propagation.store.manifest import StoreManifest

# Into how many files a signal goes
from gamlp.propagation.store.shards import planned_shards
from gamlp.propagation.store.store import Hops, HopStore, StoredSignal, row_numbers, side_by_side

__all__ = ["HopStore", "Hops", "StoreManifest", "StoredSignal", "planned_shards", "row_numbers", "side_by_side"]
