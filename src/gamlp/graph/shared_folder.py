"""A graph that tasks write together, on a file system or behind a URL: it appears whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.graph.manifest import MANIFEST
from gamlp.io import LOCK, Place, atomic_folder, sole_writer

_BEGUN = ".building"  # on an object store: what is here is of a graph that is not finished
_REFUSED = "another process is building a graph here"


@dataclass
class Building:
    """`graph` is to hold the files of the graph, `staging` whatever is only needed until it is done."""

    graph: Place
    staging: Place
    manifest: bytes = b""  # to be given before the block ends; written last


@contextmanager
def building(out: Place) -> Iterator[Building]:
    """On a file system: into a folder beside that is renamed. On an object store: in place, the manifest last."""
    if out.local is not None:
        with _beside(out.local.absolute()) as made:
            yield made
    else:
        with _in_place(out) as made:
            yield made


@contextmanager
def _beside(out: Path) -> Iterator[Building]:
    with atomic_folder(out) as graph:
        made = Building(Place.of(graph), Place.of(graph.with_name("staging")))
        made.staging.make()
        yield made
        (made.graph / MANIFEST).put(made.manifest)


@contextmanager
def _in_place(out: Place) -> Iterator[Building]:
    with sole_writer(out, refused=_REFUSED):
        found = _names(out)
        if MANIFEST in found or (found and _BEGUN not in found):
            raise GamlpError("already exists", file=out, hint="choose another --out or remove it first")
        _remove(out, found)  # of a run that was broken off
        (out / _BEGUN).put(b"this graph is not finished\n")
        made = Building(out, out / "staging")
        try:
            yield made
        except BaseException:
            _remove(out, _names(out))
            raise
        made.staging.remove()
        (out / MANIFEST).put(made.manifest)
        (out / _BEGUN).remove()


def _names(out: Place) -> list[str]:
    return [name for name in out.names() if not name.startswith(LOCK)]


def _remove(out: Place, names: list[str]) -> None:
    # The mark goes last: without it, what is left would be taken for somebody's own files.
    for name in sorted(names, key=lambda name: name == _BEGUN):
        (out / name).remove()
