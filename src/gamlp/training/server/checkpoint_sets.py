"""Checkpoints of several servers on shared storage: a file of each for a version; only a whole set is gone on from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from safetensors import SafetensorError

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.training.checkpoint import Weights, read_tensors, save_tensors, with_digest


def read_checkpoint(place: Place) -> tuple[dict[str, Any], Weights]:
    """What a server wrote of itself, and its tensors."""
    with damage_as_error(place):
        text, unchanged, tensors = read_tensors(place)
        if not unchanged:
            raise ValueError("its bytes are not those that were written")
        about: dict[str, Any] = json.loads(text)
    return about, tensors


def write_checkpoint(place: Place, about: dict[str, Any], tensors: Weights) -> None:
    """So that a reader sees all of it or nothing."""
    save_tensors(place, tensors, with_digest(json.dumps(about), tensors))


@contextmanager
def damage_as_error(place: Place) -> Iterator[None]:
    """One sentence of a file that is not what a server wrote."""
    try:
        yield
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise GamlpError(
            "damaged or foreign checkpoint", file=place.url, hint="remove it to train this seed from the start"
        ) from error


@dataclass(frozen=True)
class CheckpointSets:
    """A folder with the checkpoints of a parameter server, number 0, and its slices, from 1 to `slices`."""

    place: Place
    slices: int

    def file(self, version: int, number: int) -> Place:
        return self.place / f"{version:012d}.{number}"

    def whole(self) -> list[int]:
        """Versions of which every server has written its file, ascending."""
        found: dict[int, set[int]] = {}
        for name in self.place.names():
            version, _, number = name.partition(".")
            if version.isdigit() and number.isdigit():
                found.setdefault(int(version), set()).add(int(number))
        wanted = set(range(self.slices + 1))
        return sorted(version for version, numbers in found.items() if wanted <= numbers)

    def last(self) -> int:
        """The version that all go on from; 0: the beginning."""
        return max(self.whole(), default=0)

    def write(self, version: int, number: int, about: dict[str, Any], tensors: Weights) -> None:
        self.place.make()
        write_checkpoint(self.file(version, number), about, tensors)

    def read(self, version: int, number: int) -> tuple[dict[str, Any], Weights]:
        return read_checkpoint(self.file(version, number))

    def tidy(self) -> None:
        """Remove what is older than the last whole set; a newer one may still be written."""
        last = self.last()
        for name in self.place.names():
            version = name.partition(".")[0]
            if version.isdigit() and int(version) < last:
                (self.place / name).remove()
