"""HGB's heterogeneous graphs: node.dat, link.dat, label.dat, label.dat.test, described by info.dat."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion, RawRelation
from gamlp.graph.datasets.raw_files import parse
from gamlp.graph.graph import UNKNOWN, Labels, Split

_TEXT = 16 << 20  # bytes of features parsed at a time


@dataclass
class _Type:
    name: str
    ids: list[int] = field(default_factory=list)
    rows: list[bytes] = field(default_factory=list)  # features, as text


def read(raw: Conversion) -> None:
    """Node types, relations as the files have them (both directions are there, and are told to be), split.

    `label.dat` trains and `label.dat.test` tests; rows to validate are taken from the training rows by seed.
    """
    info = _info(raw.file("info.dat"))
    types = _nodes(raw.file("node.dat"), info)
    local = _local_numbers(types)
    for node_type in types.values():
        raw.writer.nodes(len(node_type.ids), node_type.name)
        raw.writer.ids(np.asarray(node_type.ids, np.int64), node_type.name)
        if node_type.rows:
            _write_features(raw, node_type)
    _write_labels(raw, types[raw.options["target_type"]], info, local)
    _write_relations(raw, types, info, local)


def _nodes(path: Path, info: Any) -> dict[int, _Type]:
    types = {int(number): _Type(name) for number, name in info["node.dat"]["node type"].items()}
    for line, cells in _lines(path, 3):
        try:
            node_type = types[int(cells[2])]
            node_type.ids.append(int(cells[0]))
        except (ValueError, KeyError) as error:
            raise GamlpError(f"not a node ({error})", file=path, row=line) from error
        node_type.rows.extend(cells[3:4])
    return types


def _write_features(raw: Conversion, node_type: _Type) -> None:
    path = raw.file("node.dat")
    if len(node_type.rows) != len(node_type.ids):
        raise GamlpError(f"some nodes of type '{node_type.name}' have no features", file=path)
    width = node_type.rows[0].count(b",") + 1
    step = max(1, _TEXT // len(node_type.rows[0]))
    parts = (b"\n".join(node_type.rows[row : row + step]) for row in range(0, len(node_type.rows), step))
    try:
        raw.write_dense((parse(part) for part in parts), width, len(node_type.ids), node_type.name)
    except (pa.ArrowException, ValueError) as error:
        raise GamlpError(f"features of type '{node_type.name}': {error}", file=path) from error
    node_type.rows.clear()


def _local_numbers(types: dict[int, _Type]) -> Array:
    """Position of each node of the files within its type; -1 where there is none."""
    last = max(max(node_type.ids, default=0) for node_type in types.values())
    local = np.full(last + 1, -1, np.int32)
    for node_type in types.values():
        local[node_type.ids] = np.arange(len(node_type.ids), dtype=np.int32)
    return local


def _write_labels(raw: Conversion, target: _Type, info: Any, local: Array) -> None:
    names = info["label.dat"]["node type"][str(raw.options["target_type"])]
    classes = tuple(names[str(number)] for number in range(len(names)))
    count, multi_label = len(target.ids), bool(raw.options["many"])
    labels = np.full((count, len(classes)) if multi_label else count, UNKNOWN, np.int8 if multi_label else np.int32)
    roles = np.zeros(count, np.int8)
    for role, name in ((1, "label.dat"), (3, "label.dat.test")):
        path = raw.file(name)
        for line, cells in _lines(path, 4):
            try:
                row, found = local[int(cells[0])], [int(label) for label in cells[3].split(b",")]
                if multi_label:
                    labels[row] = 0
                labels[(row, found) if multi_label else row] = 1 if multi_label else found[0]
                roles[row] = role
            except (ValueError, IndexError) as error:
                raise GamlpError(f"not a label ({error})", file=path, row=line) from error
    raw.writer.labels(Labels(labels, classes), target.name)
    raw.writer.split(Split(roles), target.name)


def _write_relations(raw: Conversion, types: dict[int, _Type], info: Any, local: Array) -> None:
    path = raw.file("link.dat")
    try:
        # Source, target, relation, weight: all numbers, a few million lines at most.
        table = parse(path.read_bytes(), "\t", np.float64)
        nodes = table[:, :2].astype(np.int64)
        ends = local[nodes]
    except (pa.ArrowException, ValueError, IndexError) as error:
        raise GamlpError(f"not a list of links ({error})", file=path, hint="fetch it again") from error
    type_of = np.full(len(local), -1, np.int64)
    for number, one in types.items():
        type_of[one.ids] = number
    relations = []
    for number, described in info["link.dat"]["link type"].items():
        chosen = table[:, 2] == int(number)
        source, target = types[int(described["start"])], types[int(described["end"])]
        _check_types(path, described, types, type_of[nodes], nodes, chosen)
        weights = table[chosen, 3].astype(np.float32)
        relations.append(
            RawRelation(
                _relation_name(source.name, described["meaning"], target.name),
                (source.name, len(source.ids)),
                (target.name, len(target.ids)),
                (ends[chosen, 0], ends[chosen, 1]),
                None if np.allclose(weights, 1) else weights,
            )
        )
    raw.write_relations(relations)


def _check_types(
    path: Path, described: Any, types: dict[int, _Type], found: Array, nodes: Array, chosen: Array
) -> None:
    """Refuse a link whose end is a node of another type than its relation joins."""
    wrong = chosen[:, None] & (found != [int(described["start"]), int(described["end"])])
    if wrong.any():
        row, end = (int(at[0]) for at in np.nonzero(wrong))
        expected = types[int(described[("start", "end")[end]])].name
        raise GamlpError(
            f"node {nodes[row, end]} is no {expected}, which '{described['meaning']}' joins", file=path, row=row + 1
        )


def _relation_name(source: str, meaning: str, target: str) -> str:
    """`paper-cite-paper` stays, `movie->actorh` (sic) becomes `movie-actor`."""
    between = re.split("->|-", meaning)[1:-1]
    return "-".join([source, *between, target])


def _lines(path: Path, least: int) -> Iterator[tuple[int, list[bytes]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            cells = line.rstrip(b"\r\n").split(b"\t")
            if len(cells) < least:
                raise GamlpError(f"{len(cells)} fields where {least} are expected", file=path, row=number)
            yield number, cells


def _info(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise GamlpError(f"not readable JSON ({error})", file=path, hint="fetch it again") from error
