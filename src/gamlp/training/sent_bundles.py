"""Trained models as tasks elsewhere open them: their bytes, and the code of a model of one's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gamlp.io import Trust
from gamlp.training.bundle import Bundle
from gamlp.training.ranks.sources import sources_of, unpacked

_CPU = torch.device("cpu")


def bytes_of(bundle: Bundle) -> bytes:
    """The bundle as its file holds it."""
    with tempfile.TemporaryDirectory(prefix="gamlp-") as folder:
        return bundle.save(Path(folder) / "bundle.safetensors").read_bytes()


def loaded(data: bytes, trust: Trust) -> Bundle:
    """The bundle of these bytes."""
    with tempfile.TemporaryDirectory(prefix="gamlp-") as folder:
        path = Path(folder) / "bundle.safetensors"
        path.write_bytes(data)
        return Bundle.load(path, trust)


class SentBundles:
    """Bundles by seed and the device of this process; in another process they are on its processor."""

    def __init__(self, bundles: Mapping[int, Bundle], device: torch.device = _CPU) -> None:
        self._bundles, self._device = dict(bundles), device
        self._sent: dict[str, Any] | None = None

    @contextmanager
    def opened(self) -> Iterator[tuple[dict[int, Bundle], torch.device]]:
        """The bundles, whose models can be made while the block runs."""
        if self._sent is None:
            yield self._bundles, self._device
            return
        with unpacked(self._sent["sources"]):
            # Whoever asked has named the model where it was sent from.
            found = {seed: loaded(data, self._sent["names"][seed]) for seed, data in self._sent["data"].items()}
            yield found, self._device

    def __getstate__(self) -> dict[str, Any]:
        names = {seed: bundle.recipe.model.name for seed, bundle in self._bundles.items()}
        return self._sent or {
            "data": {seed: bytes_of(bundle) for seed, bundle in self._bundles.items()},
            "names": names,
            "sources": {path: text for name in set(names.values()) for path, text in sources_of(name).items()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._bundles, self._device, self._sent = {}, _CPU, state
