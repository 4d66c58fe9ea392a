"""OGB's raw folders, fabricated small, against ogb's own readers; loaded twice, then from our cache."""

from __future__ import annotations

import io
import shutil
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.conversion import Conversion
from gamlp.graph.datasets.loading import load
from gamlp.graph.datasets.raw_files import Npz
from gamlp.graph.folder import GraphWriter
from tests.graph.datasets.raw_folders import (
    MAG_COUNTS,
    MAG_RELATIONS,
    NODES,
    PARTS,
    Array,
    ogb_arrays,
    write_csv,
    write_mag,
    write_papers,
    write_split_dict,
    write_tables,
)


@pytest.fixture
def arrays() -> dict[str, Array]:
    return ogb_arrays()


@pytest.fixture
def arxiv(arrays: dict[str, Array], tmp_path: Path) -> Path:
    """A data folder with ogbn_arxiv in the layout of OGB's zip."""
    write_tables(tmp_path / "data" / "ogbn_arxiv", arrays)
    write_csv(tmp_path / "data" / "ogbn_arxiv" / "raw" / "node_year.csv.gz", np.full(NODES, 2015))
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
    write_papers(tmp_path / "ogbn_papers100M", arrays, save, order)
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
    edges = write_mag(tmp_path / "ogbn_mag", arrays)
    for _ in range(2):
        graph = load("ogbn-mag", tmp_path)
        assert {node_type: nodes.count for node_type, nodes in graph.node_types.items()} == MAG_COUNTS
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
            for head, name, tail in MAG_RELATIONS
        }
    ogb = pytest.importorskip("ogb.io.read_graph_raw")
    (theirs,) = ogb.read_csv_heterograph_raw(str(tmp_path / "ogbn_mag" / "raw"))
    assert theirs["num_nodes_dict"] == MAG_COUNTS
    assert np.array_equal(theirs["edge_index_dict"]["author", "writes", "paper"], edges["author", "writes", "paper"])


def test_a_folder_under_its_archives_name_is_found(arxiv: Path, arrays: dict[str, Array]) -> None:
    """What the zips unpack to: arxiv, products, mag, papers100M-bin."""
    (arxiv / "ogbn_arxiv").rename(arxiv / "arxiv")
    check(load("ogbn-arxiv", arxiv), arrays, 40)
    for name, folder in (("products", "products"), ("mag", "mag"), ("papers100m", "papers100M-bin")):
        assert folder in DATASETS[f"ogbn-{name}"].folders


@pytest.mark.parametrize("tensors", [True, False])
def test_a_split_dict_is_read_as_the_three_tables_are(arrays: dict[str, Array], tmp_path: Path, tensors: bool) -> None:
    """OGB's other form of a split: tensors or arrays, by part, and by part and type where there are types."""
    write = partial(write_split_dict, tensors=tensors)
    write_tables(tmp_path / "products", arrays, "sales_ranking", write)
    write_papers(tmp_path / "papers100M-bin", arrays, write=write)
    write_mag(tmp_path / "mag", arrays, write)
    for name in ("products", "papers100m", "mag"):
        split = load(f"ogbn-{name}", tmp_path).nodes.split
        assert split is not None
        for part in ("train", "valid", "test"):
            assert np.array_equal(split.rows(part), arrays[part])


def test_tables_of_a_split_are_preferred_to_its_split_dict(arxiv: Path, arrays: dict[str, Array]) -> None:
    (arxiv / "ogbn_arxiv" / "split" / "time" / "split_dict.pt").write_bytes(b"x")
    check(load("ogbn-arxiv", arxiv), arrays, 40)


def _zipped(content: bytes, member: str = "split_dict/data.pkl") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as stored:
        stored.writestr(member, content)
        stored.writestr("split_dict/data/0", np.arange(9).tobytes())
    return file.getvalue()


def _stored(rows: Any) -> bytes:
    file = io.BytesIO()
    torch.save(rows, file)
    return file.getvalue()


def _pickle_of(rows: int) -> bytes:
    """data.pkl of so many rows in every part."""
    with zipfile.ZipFile(io.BytesIO(_stored({part: torch.arange(rows) for part in PARTS}))) as stored:
        return next(stored.read(name) for name in stored.namelist() if name.endswith("data.pkl"))


def _old() -> bytes:
    file = io.BytesIO()
    torch.save({part: torch.arange(3) for part in PARTS}, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"x", "not a readable split_dict.pt .*; save it again with a torch from 1.6 on, or put train.csv.gz"),
        (_old(), "not a readable split_dict.pt .*; save it again with a torch from 1.6 on"),
        (_zipped(b"\x80\x02}.", "other/file"), "no file that torch.save writes"),
        (_zipped(b"cos\nsystem\n(S'true'\ntR."), "names os.system, which is no array"),
        (_zipped(b"\x80\x02}."), "no rows of 'train' inside"),
        (_stored([1, 2]), "rows by name are expected"),
        (_stored(dict.fromkeys(PARTS, "x")), "an array is expected"),
        (_stored({part: torch.rand(3) for part in PARTS}), "names torch.FloatStorage, which is no array"),
        (_stored({part: torch.arange(6).reshape(2, 3) for part in PARTS}), "a tensor of one dimension is expected"),
        (_stored({"train": torch.arange(3)}), "no rows of 'valid' inside"),
        (_stored({part: torch.tensor([NODES]) for part in PARTS}), "a row beyond the 60 nodes"),
        (_zipped(_pickle_of(9).replace(b"K\t\x85", b"K\n\x85")), "reaches beyond its storage"),
    ],
)
def test_a_split_dict_that_is_none_is_told(arxiv: Path, content: bytes, told: str) -> None:
    """Nothing that it names is called, and a tensor that lies about its size is refused."""
    split = arxiv / "ogbn_arxiv" / "split" / "time"
    for path in split.iterdir():
        path.unlink()
    (split / "split_dict.pt").write_bytes(content)
    with pytest.raises(GamlpError, match=f"split_dict.pt: .*{told}"):
        load("ogbn-arxiv", arxiv)


def test_a_stretch_of_a_tensor_is_that_stretch(arxiv: Path) -> None:
    """Parts that are views of one tensor share its storage in the file."""
    split, all_rows = arxiv / "ogbn_arxiv" / "split" / "time", torch.arange(NODES)
    for path in split.iterdir():
        path.unlink()
    torch.save({"train": all_rows[:30], "valid": all_rows[30:40], "test": all_rows[40:].int()}, split / "split_dict.pt")
    found = load("ogbn-arxiv", arxiv).nodes.split
    assert found is not None
    assert [(part[0], part[-1], len(part)) for part in (found.train, found.valid, found.test)] == [
        (0, 29, 30), (30, 39, 10), (40, 59, 20),
    ]  # fmt: skip


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
