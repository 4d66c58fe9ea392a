"""The store: hops by node in checksummed shards, the manifest last."""

# A finished store, its signals and batches
from gamlp.propagation.store.manifest import StoreManifest
from gamlp.propagation.store.store import Hops, HopStore, StoredSignal, row_numbers, side_by_side

__all__ = ["HopStore", "Hops", "StoreManifest", "StoredSignal", "row_numbers", "side_by_side"]
