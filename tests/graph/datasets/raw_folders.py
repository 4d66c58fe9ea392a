"""Raw folders of OGB's and PyG's datasets, fabricated small: their own file names, as an archive unpacks.

Every function writes one folder; what it holds comes back, so that a test can compare.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

Array = np.ndarray[Any, Any]
PARTS = ("train", "valid", "test")
NODES, EDGES, WIDTH = 60, 400, 128
MAG_COUNTS = {"author": 30, "field_of_study": 8, "institution": 5, "paper": NODES}
MAG_RELATIONS = (
    ("author", "affiliated_with", "institution"),
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "has_topic", "field_of_study"),
)


def ogb_arrays(classes: int = 40, width: int = WIDTH) -> dict[str, Array]:
    """Edges, features, labels and the rows of each part, half of them training rows."""
    random = np.random.default_rng(0)
    return {
        "edges": random.integers(0, NODES, (2, EDGES)),
        # OGB writes six decimals; whole numbers among them must not decide a column's type.
        "features": np.where(random.random((NODES, width)) < 0.1, 0, random.standard_normal((NODES, width)).round(6)),
        "labels": random.integers(0, classes, NODES),
        "train": np.arange(30),
        "valid": np.arange(30, 40),
        "test": np.arange(40, NODES),
    }


def write_csv(path: Path, rows: Any, header: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [header] if header else []
    lines += [",".join(str(cell) for cell in np.atleast_1d(row)) for row in rows]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


def write_split(folder: Path, arrays: dict[str, Array], node_type: str | None = None) -> None:
    """Three tables of rows, in a folder of the type's name where there are types."""
    place = folder if node_type is None else folder / node_type
    for part in PARTS:
        write_csv(place / f"{part}.csv.gz", arrays[part])


def write_split_dict(
    folder: Path, arrays: dict[str, Array], node_type: str | None = None, *, tensors: bool = True
) -> None:
    """The split in OGB's other form: what torch.save makes of tensors, or of numpy's arrays."""
    import torch

    rows: dict[str, Any] = {part: torch.from_numpy(arrays[part]) if tensors else arrays[part] for part in PARTS}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(rows if node_type is None else {part: {node_type: rows[part]} for part in PARTS}, folder / NAME)


NAME = "split_dict.pt"
Split = Callable[..., None]  # write_split or write_split_dict


def write_tables(folder: Path, arrays: dict[str, Array], split: str = "time", write: Split = write_split) -> None:
    """ogbn-arxiv, ogbn-products: `folder` is what their zip unpacks to."""
    raw = folder / "raw"
    write_csv(raw / "edge.csv.gz", arrays["edges"].T)
    write_csv(raw / "node-feat.csv.gz", arrays["features"])
    write_csv(raw / "node-label.csv.gz", arrays["labels"])
    write_csv(raw / "num-node-list.csv.gz", [NODES])
    write_csv(raw / "num-edge-list.csv.gz", [EDGES])
    write(folder / "split" / split, arrays)
    (folder / "RELEASE_v1.txt").touch()
    (folder / "mapping").mkdir()


def write_papers(
    folder: Path, arrays: dict[str, Array], save: Any = np.savez, order: Any = "C", write: Split = write_split
) -> None:
    """ogbn-papers100M: every third label is unknown."""
    (folder / "raw").mkdir(parents=True)
    save(
        folder / "raw" / "data.npz",
        edge_index=np.asarray(arrays["edges"], order=order),
        node_feat=arrays["features"].astype(np.float32),
        node_year=np.full((NODES, 1), 2015),
        num_nodes_list=[NODES],
        num_edges_list=[EDGES],
    )
    unknown = np.where(np.arange(NODES) % 3 == 0, np.nan, arrays["labels"]).astype(np.float32)[:, None]
    save(folder / "raw" / "node-label.npz", node_label=unknown)
    write(folder / "split" / "time", arrays)


def write_mag(folder: Path, arrays: dict[str, Array], write: Split = write_split) -> dict[tuple[str, str, str], Array]:
    """ogbn-mag; gives the edges of each relation."""
    random, raw = np.random.default_rng(2), folder / "raw"
    names = ",".join(MAG_COUNTS)
    write_csv(raw / "num-node-dict.csv.gz", [list(MAG_COUNTS.values())], header=names)
    write_csv(raw / "triplet-type-list.csv.gz", MAG_RELATIONS)
    write_csv(raw / "nodetype-has-label.csv.gz", [["False", "False", "False", "True"]], header=names)
    write_csv(raw / "node-feat" / "paper" / "node-feat.csv.gz", arrays["features"])
    write_csv(raw / "node-label" / "paper" / "node-label.csv.gz", arrays["labels"])
    edges = {}
    for head, name, tail in MAG_RELATIONS:
        ends = [random.integers(0, MAG_COUNTS[node_type], 50) for node_type in (head, tail)]
        edges[head, name, tail] = np.stack(ends)
        place = raw / "relations" / f"{head}___{name}___{tail}"
        write_csv(place / "edge.csv.gz", edges[head, name, tail].T)
        write_csv(place / "num-edge-list.csv.gz", [50])
    write(folder / "split" / "time", arrays, "paper")
    return edges


def write_ppi(raw: Path) -> None:
    """Rings as tissues: two train, one validates, one tests."""
    random = np.random.default_rng(0)
    raw.mkdir(parents=True)
    for part, counts in {"train": [7, 5], "valid": [4], "test": [6]}.items():
        count = sum(counts)
        links, start = [], 0
        for size in counts:
            ring = [(start + i, start + (i + 1) % size) for i in range(size)]
            links += [{"source": a, "target": b} for a, b in ring] + [{"source": b, "target": a} for a, b in ring]
            start += size
        nodes = [{"id": node} for node in range(count)]
        graph = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}
        (raw / f"{part}_graph.json").write_text(json.dumps(graph))
        np.save(raw / f"{part}_feats.npy", random.standard_normal((count, 50)))
        np.save(raw / f"{part}_labels.npy", random.integers(0, 2, (count, 121)))
        np.save(raw / f"{part}_graph_id.npy", np.repeat(np.arange(len(counts)) + 1, counts))


def _symmetric(random: np.random.Generator, count: int, edges: int) -> Any:
    a, b = random.integers(0, count, (2, edges))
    matrix = scipy.sparse.coo_array((np.ones(edges), (a, b)), (count, count)).tocsr()
    return ((matrix + matrix.T) > 0).astype(np.float32)


def write_flickr(raw: Path) -> None:
    """Some nodes are in no part."""
    random = np.random.default_rng(0)
    raw.mkdir(parents=True)
    matrix = _symmetric(random, 50, 200)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez(raw / "adj_full.npz", **parts)
    np.save(raw / "feats.npy", random.standard_normal((50, 500)))
    (raw / "class_map.json").write_text(json.dumps({str(i): i % 7 for i in range(50)}))
    (raw / "role.json").write_text(json.dumps({"tr": list(range(20)), "va": list(range(20, 30)), "te": [40, 41]}))


def write_reddit(raw: Path) -> None:
    """Parts in turn."""
    random = np.random.default_rng(0)
    raw.mkdir(parents=True)
    features, labels = random.standard_normal((60, 602)).astype(np.float32), np.arange(60) % 41
    np.savez(raw / "reddit_data.npz", feature=features, label=labels, node_types=np.arange(60) % 3 + 1)
    scipy.sparse.save_npz(raw / "reddit_graph.npz", _symmetric(random, 60, 300).tocoo())
