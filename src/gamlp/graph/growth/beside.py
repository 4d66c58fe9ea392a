"""A grown graph in a folder of its own: what did not change is shared with the folder of the graph before."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.graph.folder import save_graph
from gamlp.graph.graph import Graph
from gamlp.graph.growth.growth import GrownGraph
from gamlp.graph.growth.in_place import grow_folder, remove_unnamed
from gamlp.graph.manifest import MANIFEST, read_manifest
from gamlp.io import Place, atomic_folder, share_file


def grow_beside(growth: GrownGraph, folder: Path, tables: Mapping[str, Sequence[Path]]) -> Graph:
    """The grown graph in `folder`; that of its base stays as it is, whatever is written here.

    `tables` are the files of what is added. Killed at any moment and called again, it ends with the same bytes.
    """
    if not (folder / MANIFEST).exists():
        _begin(growth.base, folder)
    graph, _ = grow_folder(folder, tables, lambda *_: (growth, None))
    remove_unnamed(folder, read_manifest(Place.of(folder)))  # files of the base that are no longer those of the graph
    return graph


def _begin(base: Graph, folder: Path) -> None:
    """The base under another name: links to its files, copies where there can be none."""
    own = None if base.folder is None else Place.of(base.folder).local
    if own is None:
        save_graph(base, folder)
        return
    manifest = read_manifest(Place.of(own))
    if {name: (entry.bytes, entry.crc32) for name, entry in manifest.files.items()} != base.checksums:
        raise GamlpError("has grown since it was opened", file=own, hint="run the command again")
    with atomic_folder(folder) as new:
        for at in (entry.at or name for name, entry in manifest.files.items()):
            (new / at).parent.mkdir(parents=True, exist_ok=True)
            share_file(own / at, new / at)
        shutil.copyfile(own / MANIFEST, new / MANIFEST)  # a copy: it is written anew
