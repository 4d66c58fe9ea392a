"""Newcomers on disk: one line each, written before it is acknowledged, read again after whatever ended the process.

A line is the CRC-32 of its JSON and the JSON. What a kill cut off at the end was never acknowledged, and goes.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.io import Place, atomic_file, sole_writer
from gamlp.serve.questions import Ends, NewNode, Refusal

OVERLAY = "newcomers.log"
_LONGEST = 1 << 28  # bytes of a line: a node with some ten million neighbours


@dataclass(frozen=True)
class Newcomer:
    """A newcomer and its number: they are numbered from 1 for as long as the run lives."""

    number: int
    node: NewNode


class Overlay:
    """The file, held by one process at a time. `folded`: numbers up to it are in the graph, and their lines may go."""

    def __init__(self, folder: Path, folded: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._holding = folder / OVERLAY, ExitStack()
        self._holding.enter_context(
            sole_writer(Place.of(folder), refused="another process serves this run and keeps its newcomers")
        )
        try:
            kept, whole = read_overlay(self.path)
            if self.path.exists() and self.path.stat().st_size > whole:
                os.truncate(self.path, whole)
            if any(one.number <= folded for one in kept):
                kept = [one for one in kept if one.number > folded]
                with atomic_file(self.path, sync=True) as new:
                    new.write_bytes(b"".join(_line(one.number, one.node) for one in kept))
            self.last = max([folded, *(one.number for one in kept)])
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except BaseException:
            self._holding.close()
            raise

    def since(self, number: int) -> list[Newcomer]:
        """Newcomers with higher numbers."""
        return [one for one in read_overlay(self.path)[0] if one.number > number]

    def append(self, nodes: Sequence[NewNode]) -> None:
        """All of them, on the disk when this returns; or none, and the file as it was."""
        before = os.fstat(self._file).st_size
        lines = b"".join(_line(self.last + place, node) for place, node in enumerate(nodes, start=1))
        try:
            view = memoryview(lines)
            while len(view):
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, before)
            raise Refusal(
                507, f"the newcomers cannot be written down ({error.strerror})", hint="free some disk; nothing was kept"
            ) from error
        self.last += len(nodes)

    def close(self) -> None:
        os.close(self._file)
        self._holding.close()


def read_overlay(path: Path) -> tuple[list[Newcomer], int]:
    """Newcomers of a file in their order, and how many bytes are whole lines; a torn end is passed over."""
    found: list[Newcomer] = []
    whole = 0
    try:
        with path.open("rb") as file:
            for line in _lines(file):
                try:
                    one = _parsed(line)
                except ValueError as error:
                    ended = line.endswith(b"\n") or len(line) == _LONGEST
                    if ended and file.read(1):  # not the end that a kill tore, or that is being written just now
                        raise GamlpError(
                            "is damaged in the middle", file=path, row=len(found) + 1,
                            hint="restore it from a copy, or move it away: its newcomers are then unknown",
                        ) from error  # fmt: skip
                    break
                found.append(one)
                whole += len(line)
    except FileNotFoundError:
        return [], 0
    return found, whole


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(_LONGEST):
        yield line


def _line(number: int, node: NewNode) -> bytes:
    text = json.dumps(
        {"number": number, **content_of(node)}, ensure_ascii=False, separators=(",", ":"), default=str
    ).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parsed(line: bytes) -> Newcomer:
    if not line.endswith(b"\n") or line[8:9] != b" " or int(line[:8], 16) != zlib.crc32(line[9:-1]):
        raise ValueError("torn or changed")
    content = json.loads(line[9:-1])
    number = content.pop("number")
    return Newcomer(int(number), node_of(content))


def content_of(node: NewNode) -> dict[str, Any]:
    """A node as JSON; nothing that is not there."""
    found: dict[str, Any] = {"id": node.id}
    given = {"type": node.node_type, "features": node.features, "label": node.label, "cells": dict(node.cells) or None}
    found |= {name: value for name, value in given.items() if value is not None}
    for name, ends in (("hears", node.hears), ("leads_to", node.leads_to)):
        if ends:
            found[name] = [[relation, list(one.ids), one.weights] for relation, one in ends.items()]
    return found


def node_of(content: Mapping[str, Any]) -> NewNode:
    """The node that `content_of` wrote."""
    ends = {
        name: {
            relation: Ends(tuple(ids), None if weights is None else tuple(weights))
            for relation, ids, weights in content.get(name, ())
        }
        for name in ("hears", "leads_to")
    }
    features = content.get("features")
    return NewNode(
        content["id"], content.get("type"), content.get("cells", {}), None if features is None else tuple(features),
        ends["hears"], ends["leads_to"], content.get("label"),
    )  # fmt: skip
