"""Random tables of nodes and edges, and graphs compared part by part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from gamlp.graph import Graph, Nodes, Relation, damaged_files

WORDS = ["p", "q7", "Zürich", "zebra", "Ω", "日本", "a b", "ab", "a", "…", "\U0001f600", "\ufb01"]


@dataclass
class Tables:
    """A table of nodes in ascending order of ids, and one of edges."""

    nodes: pa.Table
    edges: pa.Table

    def shuffled(self, seed: int) -> Tables:
        rng = np.random.default_rng(seed)
        return Tables(*(table.take(rng.permutation(table.num_rows)) for table in (self.nodes, self.edges)))

    def write(self, folder: Path, ending: str) -> tuple[Path, Path]:
        """(edges, nodes): a CSV, or a folder of three Parquet files."""
        folder.mkdir(parents=True, exist_ok=True)
        if ending == "csv":
            pa.csv.write_csv(self.edges, folder / "e.csv")
            pa.csv.write_csv(self.nodes, folder / "n.csv")
            return folder / "e.csv", folder / "n.csv"
        for table, name in ((self.edges, "e"), (self.nodes, "n")):
            (folder / name).mkdir()
            step = max(1, -(-table.num_rows // 3))
            for part in range(3):
                pq.write_table(table.slice(part * step, step), folder / name / f"{part}.parquet")
        return folder / "e", folder / "n"


def random_tables(
    seed: int, ids: str, count: int, edges: int, *, weighted: bool = False, relations: int = 0,
    multi_label: bool = False, split: bool = False, lists: bool = False, labels: bool = True,
) -> Tables:  # fmt: skip
    """`ids`: range, sparse (integers of any size) or text."""
    rng = np.random.default_rng(seed)
    names = _ids(rng, ids, count)
    nodes: dict[str, Any] = {"id": names}
    if lists:
        nodes["vector"] = pa.array(list(rng.normal(size=(count, 3)).astype(np.float32)), pa.list_(pa.float32()))
    nodes |= {"x": rng.normal(size=count).round(3), "y": rng.integers(-5, 5, count)}
    if multi_label:
        nodes["label"] = [
            None if rng.random() < 0.2 else [f"c{c}" for c in rng.choice(5, rng.integers(0, 4))] for _ in range(count)
        ]
    elif labels:
        nodes["label"] = [None if rng.random() < 0.2 else str(rng.choice(["b", "a", "10", "9"])) for _ in range(count)]
    if split:
        nodes["split"] = [str(rng.choice(["train", "valid", "val", "test", ""])) for _ in range(count)]
    kind = pa.array(names).type
    ends = {end: pa.array([names[i] for i in rng.integers(0, count, edges)], kind) for end in ("src", "dst")}
    found: dict[str, Any] = dict(ends)
    if weighted:
        found["weight"] = rng.random(edges).astype(np.float32)
    if relations:
        found["relation"] = [f"r{i}" for i in rng.integers(0, relations, edges)]
    return Tables(pa.table(nodes), pa.table(found))


def _ids(rng: Any, kind: str, count: int) -> list[Any]:
    if kind == "range":
        return list(range(count))
    if kind == "sparse":
        values = {-(2**63), 2**63 - 1, 0, -1, *(int(v) for v in rng.integers(-(2**62), 2**62, 3 * count))}
        return sorted(int(v) for v in rng.permutation(sorted(values))[:count])
    texts = {f"{rng.choice(WORDS)}{rng.integers(0, 10**6)}" for _ in range(3 * count)}
    return sorted(sorted(texts)[:: len(texts) // count][:count], key=lambda text: text.encode())


def assert_same(found: Graph, expected: Graph) -> None:
    """All that a graph says, whatever its blocks are; the bytes of features, and every checksum."""
    assert damaged_files(found) == []
    assert (found.target, list(found.node_types)) == (expected.target, list(expected.node_types))
    for node_type in found.node_types:
        _same_nodes(found.node_types[node_type], expected.node_types[node_type])
    assert found.earlier.keys() == expected.earlier.keys()
    for part, relations in (("", found.relations), *found.earlier.items()):
        _same_relations(relations, expected.earlier[part] if part else expected.relations)
    assert {key: found.source[key] for key in found.source if key not in ("edges", "nodes")} == {
        key: expected.source[key] for key in expected.source if key not in ("edges", "nodes")
    }


def _same_relations(relations: dict[str, Relation], others: dict[str, Relation]) -> None:
    assert set(relations) == set(others)
    for name, relation in relations.items():
        other = others[name]
        assert (relation.directed, relation.weighted) == (other.directed, other.weighted)
        assert (relation.source, relation.target, relation.reverse) == (other.source, other.target, other.reverse)
        assert np.array_equal(relation.degrees(), other.degrees())
        for part in ("neighbours", "weights"):
            mine, theirs = (
                [np.asarray(getattr(block, part)) for block in each.blocks if getattr(block, part) is not None]
                for each in (relation, other)
            )
            assert np.array_equal(np.concatenate([[0], *mine]), np.concatenate([[0], *theirs]))


def _same_nodes(a: Nodes, b: Nodes) -> None:
    assert a.count == b.count
    rows = np.arange(a.count)
    assert a.ids.take(rows).to_pylist() == b.ids.take(rows).to_pylist()
    assert (a.ids.values is None) == (b.ids.values is None)
    for name in ("features", "labels", "split"):
        assert (getattr(a, name) is None) == (getattr(b, name) is None), name
    if a.features is not None and b.features is not None:
        assert a.features.dtype == b.features.dtype
        assert np.asarray(a.features.values).tobytes() == np.asarray(b.features.values).tobytes()
    if a.labels is not None and b.labels is not None:
        assert a.labels.classes == b.labels.classes
        assert np.array_equal(a.labels.values, b.labels.values) and a.labels.values.dtype == b.labels.values.dtype
    if a.split is not None and b.split is not None:
        assert np.array_equal(a.split.roles, b.split.roles)
