"""A store that shares the features of another: the same files under a second name, beside labels of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gamlp.io import Place, sealed, share_file
from gamlp.propagation.store.manifest import MANIFEST, StoredFile
from gamlp.propagation.store.store import HopStore


def share_features(store: HopStore, folder: Path) -> None:
    """Begin a store in `folder` with the features of another; nothing is computed, and on one disk nothing copied.

    Done twice, once. Its labels are to be propagated into it: the manifest says last that features are there.
    """
    if (folder / MANIFEST).exists():
        return
    features = {
        name: entry for name, entry in store.manifest.signals.items() if name.partition("@")[0].startswith("features")
    }
    for file in store.manifest.targets.files:
        share_stored(store.place, folder, file)
    for entry in features.values():
        own: list[StoredFile] = [*entry.shards, *([entry.rows] if entry.rows else [])]
        for file in own:
            share_stored(store.place / entry.folder, folder / entry.folder, file)
    manifest = store.manifest.model_copy(update={"signals": features})
    Place.of(folder / MANIFEST).put(json.dumps(sealed(manifest.model_dump(mode="json")), indent=1).encode(), sync=True)


def share_stored(place: Place, folder: Path, file: StoredFile) -> None:
    """A file of one store in another: a link to the same bytes, or a copy; files of a store are never written again."""
    folder.mkdir(parents=True, exist_ok=True)
    target, source = folder / file.name, place / file.name
    if Place.of(target).size() == file.bytes:  # of an attempt that was killed
        return
    target.unlink(missing_ok=True)
    if source.local is not None:
        share_file(source.local, target)
        return
    with Place.of(target).atomic_file() as new, source.as_file() as found:
        shutil.copyfile(found, new)
