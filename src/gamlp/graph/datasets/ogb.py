"""OGB's node property datasets, from the raw files that its zip holds.

They are read here and not through `ogb`: it keeps its own cache as a pickle, which ogb 1.3.6 cannot reload
with today's torch (torch.load without weights_only), it asks questions on the terminal, and it holds the
whole graph in memory.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion, RawRelation, numbered
from gamlp.graph.datasets.raw_files import Npz, named, table, tables
from gamlp.graph.datasets.split_dict import NAME, PARTS, read_split_dict
from gamlp.graph.graph import Split

_EDGES = 1 << 22
_BYTES = 64 << 20  # bytes of features copied at a time


def read_csv(raw: Conversion) -> None:
    """ogbn-arxiv, ogbn-products: tables in .csv.gz."""
    count = int(table(raw.file("raw/num-node-list.csv.gz"))[0, 0])
    most = int(table(raw.file("raw/num-edge-list.csv.gz"))[0, 0])
    raw.writer.nodes(count)
    _csv_features(raw, raw.file("raw/node-feat.csv.gz"), count, "node")
    raw.writer.labels(numbered(table(raw.file("raw/node-label.csv.gz")), raw.options["classes"]))
    raw.writer.split(_split(raw, raw.file("split/{split}"), count))
    chunks = tables(raw.file("raw/edge.csv.gz"))
    raw.write_edges(((part[:, 0], part[:, 1]) for part in chunks), count, most)


def read_binary(raw: Conversion) -> None:
    """ogbn-papers100M: arrays in .npz, 111 million nodes; everything streams."""
    with Npz(raw.file("raw/data.npz")) as stored:
        count, width = stored.shape("node_feat")
        raw.writer.nodes(count)
        raw.write_dense(stored.chunks("node_feat", max(1, _BYTES // (4 * width))), width, count)
        with Npz(raw.file("raw/node-label.npz")) as labels:
            raw.writer.labels(numbered(labels.read_all("node_label"), raw.options["classes"]))
        raw.writer.split(_split(raw, raw.file("split/{split}"), count))
        raw.write_edges(stored.edges("edge_index", _EDGES), count, stored.shape("edge_index")[1])


def read_types(raw: Conversion) -> None:
    """ogbn-mag: several node types, relations as OGB has them and their reverses; papers have features and labels."""
    nodes = _counts(raw.file("raw/num-node-dict.csv.gz"))
    target = raw.options["target"]
    for node_type, count in nodes.items():
        raw.writer.nodes(count, node_type)
        path = raw.file(f"raw/node-feat/{node_type}/node-feat.csv.gz")
        if path.exists():
            _csv_features(raw, path, count, node_type)
    labels = table(raw.file(f"raw/node-label/{target}/node-label.csv.gz"))
    raw.writer.labels(numbered(labels, raw.options["classes"]), target)
    raw.writer.split(_split(raw, raw.file("split/{split}"), nodes[target], target), target)
    for head, relation, tail in _triplets(raw.file("raw/triplet-type-list.csv.gz")):
        if head not in nodes or tail not in nodes:
            raise GamlpError(f"relation '{relation}' joins unknown types {head} and {tail}", file=raw.raw)
        edges = table(raw.file(f"raw/relations/{head}___{relation}___{tail}/edge.csv.gz"))
        ends = (edges[:, 0].astype(np.int32), edges[:, 1].astype(np.int32))
        # One at a time: 7 million edges are sorted while no others are in memory.
        raw.write_relations([RawRelation(f"{head}-{relation}-{tail}", (head, nodes[head]), (tail, nodes[tail]), ends)])


def _csv_features(raw: Conversion, path: Path, count: int, node_type: str) -> None:
    parts = tables(path, np.float32)
    first = next(parts)
    raw.write_dense(chain([first], parts), first.shape[1], count, node_type)


def _split(raw: Conversion, folder: Path, count: int, node_type: str | None = None) -> Split:
    """Of three tables, below the type's folder where there are types; or of OGB's other form, one split_dict.pt."""
    tabled = folder if node_type is None else folder / node_type
    files = {part: tabled / f"{part}.csv.gz" for part in PARTS}
    if all(file.is_file() for file in files.values()):
        rows = {part: table(file)[:, 0].astype(np.int64) for part, file in files.items()}
    else:
        files = dict.fromkeys(PARTS, folder / NAME)
        rows = read_split_dict(folder / NAME, node_type)
    for part, numbers in rows.items():
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
            raise GamlpError(f"a row beyond the {count} nodes", file=files[part], hint="fetch it again")
    return Split.of(count, train=rows["train"], valid=rows["valid"], test=rows["test"])


def _counts(path: Path) -> dict[str, int]:
    found = named(path, header=True)
    return {name: int(found[name][0].as_py()) for name in found.column_names}


def _triplets(path: Path) -> list[tuple[str, ...]]:
    found = named(path, header=False)
    return sorted(tuple(str(cell) for cell in row.values()) for row in found.to_pylist())
