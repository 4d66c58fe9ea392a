"""OGB's raw folders, fabricated small, against ogb's own readers; loaded twice, then from our cache."""

from __future__ import annotations

import gzip
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.conversion import Conversion
from gamlp.graph.datasets.loading import load
from gamlp.graph.datasets.raw_files import Npz
from gamlp.graph.folder import GraphWriter

Array = np.ndarray[Any, Any]
NODES, EDGES, WIDTH = 60, 400, 128


def write_csv(path: Path, rows: Any, header: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [header] if header else []
    lines += [",".join(str(cell) for cell in np.atleast_1d(row)) for row in rows]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


@pytest.fixture
def arrays() -> dict[str, Array]:
    random = np.random.default_rng(0)
    return {
        "edges": random.integers(0, NODES, (2, EDGES)),
        # OGB writes six decimals; whole numbers among them must not decide a column's type.
        "features": np.where(random.random((NODES, WIDTH)) < 0.1, 0, random.standard_normal((NODES, WIDTH)).round(6)),
        "labels": random.integers(0, 40, NODES),
        "train": np.arange(30),
        "valid": np.arange(30, 40),
        "test": np.arange(40, NODES),
    }


@pytest.fixture
def arxiv(arrays: dict[str, Array], tmp_path: Path) -> Path:
    """A data folder with ogbn_arxiv in the layout of OGB's zip."""
    raw = tmp_path / "data" / "ogbn_arxiv" / "raw"
    write_csv(raw / "edge.csv.gz", arrays["edges"].T)
    write_csv(raw / "node-feat.csv.gz", arrays["features"])
    write_csv(raw / "node-label.csv.gz", arrays["labels"])
    write_csv(raw / "node_year.csv.gz", np.full(NODES, 2015))
    write_csv(raw / "num-node-list.csv.gz", [NODES])
    write_csv(raw / "num-edge-list.csv.gz", [EDGES])
    for part in ("train", "valid", "test"):
        write_csv(raw.parent / "split" / "time" / f"{part}.csv.gz", arrays[part])
    (raw.parent / "RELEASE_v1.txt").touch()
    (raw.parent / "mapping").mkdir()
    return tmp_path / "data"


def undirected(edges: Array) -> set[tuple[int, int]]:
    return {(a, b) for s, t in edges.T.tolist() for a, b in ((s, t), (t, s)) if a != b}


def stored(graph: Graph, relation: str = "edge") -> set[tuple[int, int]]:
    parts = list(graph.relations[relation].edges())
    return {(int(b), int(a)) for rows, columns, _ in parts for a, b in zip(rows, columns)}


def check(graph: Graph, arrays: dict[str, Array], classes: int) -> None:
    nodes = graph.nodes
    assert nodes.features is not None and nodes.labels is not None and nodes.split is not None
    assert np.array_equal(nodes.features.values, arrays["features"].astype(np.float32))
    assert np.array_equal(nodes.labels.values, arrays["labels"])
    assert len(nodes.labels.classes) == classes
    for part in ("train", "valid", "test"):
        assert np.array_equal(nodes.split.rows(part), arrays[part])
    assert stored(graph) == undirected(arrays["edges"])


def test_tables_load_twice_the_second_time_from_the_cache(
    arxiv: Path, arrays: dict[str, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(arxiv.rglob("*"))
    first = load("ogbn-arxiv", arxiv)
    check(first, arrays, 40)
    monkeypatch.setattr("gamlp.graph.datasets.ogb.tables", None)  # the raw files are not opened again
    second = load("ogbn-arxiv", arxiv)
    check(second, arrays, 40)
    assert second.folder == first.folder
    assert sorted(arxiv.rglob("*")) == before  # OGB would leave processed/ there


def test_tables_read_as_ogb_reads_them(arxiv: Path, arrays: dict[str, Array], capsys: Any) -> None:
    ogb = pytest.importorskip("ogb.io.read_graph_raw")
    (theirs,) = ogb.read_csv_graph_raw(str(arxiv / "ogbn_arxiv" / "raw"))
    graph = load("ogbn-arxiv", arxiv)
    assert graph.nodes.features is not None
    assert np.array_equal(graph.nodes.features.values, theirs["node_feat"])
    assert stored(graph) == undirected(theirs["edge_index"])


def test_a_download_brings_the_folder_and_asks_nothing(
    arxiv: Path, arrays: dict[str, Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pytest.importorskip("ogb.utils.url")
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GAMLP_OFFLINE")
    monkeypatch.setattr("gamlp.graph.datasets.download._answers", lambda _: True)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))

    def fetched(address: str, folder: str, log: bool) -> str:
        assert address.endswith("/arxiv.zip")
        (Path(folder) / "arxiv.zip").touch()
        return str(Path(folder) / "arxiv.zip")

    monkeypatch.setattr(url, "download_url", fetched)
    monkeypatch.setattr(url, "extract_zip", lambda _, folder: shutil.copytree(arxiv / "ogbn_arxiv", f"{folder}/arxiv"))
    check(load("ogbn-arxiv", tmp_path / "empty"), arrays, 40)
    assert [path.name for path in (tmp_path / "cache" / "raw").iterdir()] == ["ogbn_arxiv"]


def test_a_folder_of_ogbs_pyg_loader_is_found_too(arxiv: Path, arrays: dict[str, Array]) -> None:
    (arxiv / "ogbn_arxiv").rename(arxiv / "ogbn_arxiv_pyg")
    check(load("ogbn-arxiv", arxiv), arrays, 40)


def test_nothing_is_asked_when_the_release_file_is_missing(arxiv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (arxiv / "ogbn_arxiv" / "RELEASE_v1.txt").unlink()
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    assert load("ogbn-arxiv", arxiv).nodes.count == NODES


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("raw/edge.csv.gz", [(0, NODES)], "an edge names node 60 of 60"),
        ("raw/node-feat.csv.gz", [[1.0, 2.0]], "1 rows of features for 60 nodes"),
        ("raw/node-feat.csv.gz", [["a", "b"]], r"node-feat\.csv\.gz: not the table"),
        ("split/time/test.csv.gz", [NODES], r"test\.csv\.gz: a row beyond the 60 nodes"),
    ],
)
def test_tables_that_do_not_fit_are_named(arxiv: Path, file: str, content: Any, told: str) -> None:
    write_csv(arxiv / "ogbn_arxiv" / file, content)
    with pytest.raises(GamlpError, match=told):
        load("ogbn-arxiv", arxiv)


def test_a_truncated_table_is_named(arxiv: Path) -> None:
    path = arxiv / "ogbn_arxiv" / "raw" / "node-feat.csv.gz"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(GamlpError, match=r"node-feat\.csv\.gz: not the table"):
        load("ogbn-arxiv", arxiv)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_papers100m_load_stored_or_compressed(
    save: Any, order: Any, arrays: dict[str, Array], tmp_path: Path
) -> None:
    folder = tmp_path / "ogbn_papers100M"
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
    for part in ("train", "valid", "test"):
        write_csv(folder / "split" / "time" / f"{part}.csv.gz", arrays[part])
    graph = load("ogbn-papers100m", tmp_path)
    assert graph.nodes.labels is not None
    assert np.array_equal(np.flatnonzero(~graph.nodes.labels.known()), np.arange(0, NODES, 3))
    arrays["labels"] = np.where(np.arange(NODES) % 3 == 0, -1, arrays["labels"])
    check(graph, arrays, 172)


def test_edges_beyond_the_memory_go_through_buckets_to_the_same_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    edges = random.integers(0, 5000, (2, 200_000))
    chunks = [(edges[0, at : at + 30_000], edges[1, at : at + 30_000]) for at in range(0, 200_000, 30_000)]
    made = []
    for name, memory in (("small", 1 << 20), ("large", 1 << 30)):
        writer = GraphWriter(tmp_path / name, "test")
        writer.nodes(5000)
        Conversion(tmp_path, writer, memory=memory).write_edges(chunks, 5000, 200_000)
        writer.finish("node")
        made.append(Graph.open(tmp_path / name))
    small, large = made
    assert len(small.relation.blocks) > 1 == len(large.relation.blocks)
    assert np.array_equal(small.relation.degrees(), large.relation.degrees())
    joined = [np.concatenate([block.neighbours for block in graph.relation.blocks]) for graph in made]
    assert np.array_equal(*joined)
    assert not list((tmp_path / "small").glob(".buckets"))


def test_a_stored_member_is_mapped_and_a_compressed_one_streams(tmp_path: Path) -> None:
    values = np.arange(1000, dtype=np.float32).reshape(100, 10)
    np.savez(tmp_path / "stored.npz", values=values)
    np.savez_compressed(tmp_path / "packed.npz", values=values)
    for name, mapped in (("stored", True), ("packed", False)):
        with Npz(tmp_path / f"{name}.npz") as members:
            parts = list(members.chunks("values", 33))
            assert all(isinstance(part, np.memmap) == mapped for part in parts)
            assert [len(part) for part in parts] == [33, 33, 33, 1]
            assert np.array_equal(np.concatenate(parts), values)


def test_mag_has_types_and_relations_as_ogb_has_them(arrays: dict[str, Array], tmp_path: Path) -> None:
    folder, random = tmp_path / "ogbn_mag", np.random.default_rng(2)
    counts = {"author": 30, "field_of_study": 8, "institution": 5, "paper": NODES}
    triplets = [
        ("author", "affiliated_with", "institution"),
        ("author", "writes", "paper"),
        ("paper", "cites", "paper"),
        ("paper", "has_topic", "field_of_study"),
    ]
    raw = folder / "raw"
    write_csv(raw / "num-node-dict.csv.gz", [list(counts.values())], header=",".join(counts))
    write_csv(raw / "triplet-type-list.csv.gz", triplets)
    write_csv(raw / "nodetype-has-label.csv.gz", [["False", "False", "False", "True"]], header=",".join(counts))
    write_csv(raw / "node-feat" / "paper" / "node-feat.csv.gz", arrays["features"])
    write_csv(raw / "node-label" / "paper" / "node-label.csv.gz", arrays["labels"])
    edges = {}
    for head, name, tail in triplets:
        edges[head, name, tail] = np.stack([random.integers(0, counts[node_type], 50) for node_type in (head, tail)])
        place = raw / "relations" / f"{head}___{name}___{tail}"
        write_csv(place / "edge.csv.gz", edges[head, name, tail].T)
        write_csv(place / "num-edge-list.csv.gz", [50])
    for part in ("train", "valid", "test"):
        write_csv(folder / "split" / "time" / "paper" / f"{part}.csv.gz", arrays[part])
    for _ in range(2):
        graph = load("ogbn-mag", tmp_path)
        assert {node_type: nodes.count for node_type, nodes in graph.node_types.items()} == counts
        assert graph.target == "paper" and graph.nodes.features is not None and graph.nodes.labels is not None
        assert graph.node_types["author"].features is None
        assert np.array_equal(graph.nodes.labels.values, arrays["labels"])
        for (head, name, tail), pairs in edges.items():
            relation = graph.relations[f"{head}-{name}-{tail}"]
            assert (relation.source, relation.target, relation.directed) == (head, tail, True)
            wanted = {(a, b) for a, b in pairs.T.tolist() if head != tail or a != b}
            assert stored(graph, f"{head}-{name}-{tail}") == wanted
            turned = graph.relations[f"rev-{head}-{name}-{tail}"]
            assert (turned.source, turned.target, turned.reverse) == (tail, head, relation.name)
            assert stored(graph, turned.name) == {(b, a) for a, b in wanted}
        assert graph.relation_pairs == {
            f"{head}-{name}-{tail}": (f"{head}-{name}-{tail}", f"rev-{head}-{name}-{tail}")
            for head, name, tail in triplets
        }
    ogb = pytest.importorskip("ogb.io.read_graph_raw")
    (theirs,) = ogb.read_csv_heterograph_raw(str(raw))
    assert theirs["num_nodes_dict"] == counts
    assert np.array_equal(theirs["edge_index_dict"]["author", "writes", "paper"], edges["author", "writes", "paper"])


def test_a_folder_under_its_archives_name_is_found(arxiv: Path, arrays: dict[str, Array]) -> None:
    """What the zips unpack to: arxiv, products, mag, papers100M-bin."""
    (arxiv / "ogbn_arxiv").rename(arxiv / "arxiv")
    check(load("ogbn-arxiv", arxiv), arrays, 40)
    for name, folder in (("products", "products"), ("mag", "mag"), ("papers100m", "papers100M-bin")):
        assert folder in DATASETS[f"ogbn-{name}"].folders


def test_a_split_that_is_a_pickle_is_told(arxiv: Path) -> None:
    split = arxiv / "ogbn_arxiv" / "split" / "time"
    for path in split.iterdir():
        path.unlink()
    (split / "split_dict.pt").write_bytes(b"x")
    with pytest.raises(GamlpError, match=r"missing: put split/time/train\.csv\.gz.*split_dict\.pt is a pickle"):
        load("ogbn-arxiv", arxiv)


def test_an_old_release_is_told(arxiv: Path) -> None:
    (arxiv / "ogbn_arxiv" / "RELEASE_v1.txt").rename(arxiv / "ogbn_arxiv" / "RELEASE_v0.txt")
    with pytest.raises(GamlpError, match="ogbn_arxiv: holds release 0 of ogbn-arxiv, and release 1 is read"):
        load("ogbn-arxiv", arxiv)
    assert DATASETS["ogbn-mag"].options["release"] == 2


def test_an_array_that_is_not_as_long_as_it_says_is_refused(tmp_path: Path) -> None:
    """Nothing is allocated for a shape of a million million numbers."""
    header = np.lib.format.magic(1, 0) + b"\x76\x00"
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as stored:
        stored.writestr("a.npy", header + text.ljust(117) + b"\n" + bytes(16))
        stored.writestr("b.npy", b"no array")
    with Npz(tmp_path / "x.npz") as found:
        for read in (found.read_all, found.shape, lambda name: next(found.chunks(name, 1))):
            with pytest.raises(GamlpError, match=r"x\.npz: 'a' is not as long as it says"):
                read("a")
        with pytest.raises(GamlpError, match=r"x\.npz: 'b' is no array"):
            found.shape("b")
