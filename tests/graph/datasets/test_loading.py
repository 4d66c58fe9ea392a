"""Datasets by name: published counts, PyG's readings, protocols, the cache, and missing files."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.datasets import loading as datasets
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.download import pyg_dataset
from gamlp.graph.datasets.loading import load, open_or_load, presence


def edge_set(graph: Graph) -> set[tuple[int, int]]:
    parts = list(graph.relation.edges())
    return {(int(a), int(b)) for rows, columns, _ in parts for a, b in zip(rows, columns)}


@pytest.mark.parametrize(
    "name",
    ["digits", "karate", "cora", "citeseer", "pubmed", "amazon-computers", "amazon-photo", "coauthor-cs"],
)
def test_a_loaded_graph_has_the_counts_of_the_catalogue(name: str, data_dir: Path) -> None:
    graph, counts = load(name, data_dir), DATASETS[name].counts
    assert graph.nodes.features is not None and graph.nodes.labels is not None
    assert graph.nodes.count == counts.nodes
    assert graph.relation.entries == 2 * counts.edges
    assert graph.nodes.features.width == counts.features
    assert len(graph.nodes.labels.classes) == counts.classes
    assert set(np.unique(graph.nodes.labels.values)) == set(range(counts.classes))


@pytest.mark.parametrize(("name", "folder"), [("cora", "Cora"), ("citeseer", "CiteSeer"), ("pubmed", "PubMed")])
def test_planetoid_reads_as_pyg_reads_it(name: str, folder: str, data_dir: Path) -> None:
    io = pytest.importorskip("torch_geometric.io")
    theirs = io.read_planetoid_data(str(data_dir / "Planetoid" / folder / "raw"), name)
    graph = load(name, data_dir)
    nodes, split = graph.nodes, graph.nodes.split
    assert nodes.features is not None and nodes.labels is not None and split is not None
    assert np.array_equal(nodes.features.values, theirs.x.numpy())
    assert np.array_equal(nodes.labels.values, theirs.y.numpy())
    # PyG merges duplicates and drops self-loops as we do, so entries agree one by one.
    assert edge_set(graph) == {(a, b) for a, b in theirs.edge_index.t().tolist()}
    assert np.array_equal(split.train, np.flatnonzero(theirs.train_mask))
    assert np.array_equal(split.valid, np.flatnonzero(theirs.val_mask))
    assert np.array_equal(split.test, np.flatnonzero(theirs.test_mask))


def test_whole_amazon_reads_as_pyg_reads_it(data_dir: Path) -> None:
    io = pytest.importorskip("torch_geometric.io")
    theirs = io.read_npz(str(data_dir / "Amazon/Photo/raw/amazon_electronics_photo.npz"))
    graph = load("amazon-photo", data_dir, whole=True)
    assert graph.nodes.features is not None and graph.nodes.labels is not None
    assert graph.nodes.count == 7650 and graph.relation.entries == 238_162
    assert np.array_equal(graph.nodes.features.values, theirs.x.numpy())
    assert np.array_equal(graph.nodes.labels.values, theirs.y.numpy())
    assert edge_set(graph) == {(a, b) for a, b in theirs.edge_index.t().tolist()}


def test_amazon_is_the_largest_component_of_the_whole(data_dir: Path) -> None:
    part, whole = load("amazon-photo", data_dir), load("amazon-photo", data_dir, whole=True)
    rows = part.nodes.ids.take(np.arange(part.nodes.count)).to_numpy()
    assert part.nodes.count == 7487
    assert part.nodes.features is not None and whole.nodes.features is not None
    assert np.array_equal(part.nodes.features.values, whole.nodes.features.values[rows])
    inside = set(rows.tolist())
    kept = {(a, b) for a, b in edge_set(whole) if a in inside}
    assert {(int(rows[a]), int(rows[b])) for a, b in edge_set(part)} == kept  # no edge leaves the component


def test_a_random_protocol_depends_on_the_seed_alone(data_dir: Path) -> None:
    one, again, other = (load("amazon-photo", data_dir, seed=seed).nodes for seed in (1, 1, 2))
    assert one.split is not None and again.split is not None and other.split is not None
    assert one.labels is not None
    assert np.array_equal(one.split.roles, again.split.roles)
    assert not np.array_equal(one.split.roles, other.split.roles)
    assert np.bincount(one.labels.values[one.split.train]).tolist() == [20] * 8
    assert np.bincount(one.labels.values[one.split.valid]).tolist() == [30] * 8
    assert len(one.split.test) == 7487 - 400


def test_names_of_classes_are_kept_where_the_file_has_them(data_dir: Path) -> None:
    labels = load("amazon-photo", data_dir).nodes.labels
    assert labels is not None and "Digital Cameras" in labels.classes


@pytest.fixture
def copied(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cora's raw files in a folder of our own, with an empty cache."""
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    raw = tmp_path / "data" / "Planetoid" / "Cora" / "raw"
    shutil.copytree(data_dir / "Planetoid" / "Cora" / "raw", raw)
    for path in (raw, *raw.iterdir()):
        path.chmod(0o755)
    return raw


def test_the_second_load_maps_the_cache_and_reads_no_raw_file(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copied.parents[2]
    first = load("cora", root)

    def fail(_: Any) -> None:
        raise AssertionError("converted again")

    monkeypatch.setitem(datasets.READERS, "planetoid", fail)
    second = load("cora", root)
    assert second.folder == first.folder and second.checksums == first.checksums
    assert sorted(path.name for path in copied.iterdir()) == sorted(DATASETS["cora"].files)  # nothing written there
    os.utime(copied / "ind.cora.x")
    with pytest.raises(AssertionError, match="converted again"):
        load("cora", root)


def test_a_damaged_conversion_is_made_again(copied: Path) -> None:
    first = load("cora", copied.parents[2])
    assert first.folder is not None
    (first.folder / "nodes" / "node" / "labels.npy").write_bytes(b"")
    assert load("cora", copied.parents[2]).checksums == first.checksums


def test_a_failed_conversion_leaves_nothing_behind(copied: Path, tmp_path: Path) -> None:
    (copied / "ind.cora.graph").write_bytes(b"\x80\x02}q\x00(K\x00")
    with pytest.raises(GamlpError, match=r"ind\.cora\.graph: not a Planetoid file"):
        load("cora", copied.parents[2])
    assert [path for path in (tmp_path / "cache").rglob("*") if "cora" in path.name] == []


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch planetoid-ran-code",)


def test_a_planetoid_file_cannot_run_code(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (copied / "ind.cora.y").write_bytes(pickle.dumps(_Evil(), protocol=2))
    with pytest.raises(GamlpError, match="which is no array"):
        load("cora", copied.parents[2])
    assert not (tmp_path / "planetoid-ran-code").exists()


def test_a_missing_file_is_named_with_its_place(copied: Path) -> None:
    (copied / "ind.cora.tx").unlink()
    with pytest.raises(GamlpError) as caught:
        load("cora", copied.parents[2])
    assert f"put ind.cora.tx into {copied}" in str(caught.value)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.raw])
def test_every_dataset_without_files_says_what_goes_where(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(GamlpError, match=f"{name} is missing: put .* into {tmp_path}/data/") as caught:
        load(name, tmp_path / "data")
    assert DATASETS[name].files[0] in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_without_a_network_the_attempt_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GAMLP_OFFLINE")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")  # nobody listens there
    with pytest.raises(GamlpError, match="network does not answer"):
        load("cora", tmp_path)


def test_a_download_brings_the_files_into_the_cache(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planetoid = pytest.importorskip("torch_geometric.datasets").Planetoid
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GAMLP_OFFLINE")
    monkeypatch.setattr("gamlp.graph.datasets.download._answers", lambda _: True)
    monkeypatch.setattr(
        planetoid,
        "download",
        lambda self: shutil.copytree(data_dir / "Planetoid/Cora/raw", self.raw_dir, dirs_exist_ok=True),
    )
    assert load("cora", tmp_path / "empty").nodes.count == 2708
    assert (tmp_path / "cache" / "raw" / "Planetoid" / "Cora" / "raw" / "ind.cora.x").exists()
    assert [path.name for path in (tmp_path / "cache" / "raw").iterdir()] == ["Planetoid"]


@pytest.mark.parametrize(
    "name", [name for name, one in DATASETS.items() if one.download and one.download.library == "torch_geometric"]
)
def test_pyg_puts_files_where_we_look(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    dataset = DATASETS[name]
    assert dataset.download is not None
    theirs = pyg_dataset(dataset.download, tmp_path)
    names = theirs.raw_file_names if isinstance(theirs.raw_file_names, list) else [theirs.raw_file_names]
    placed = {Path(theirs.raw_dir) / file for file in names}
    assert placed == {tmp_path / dataset.folders[0] / file for file in dataset.files}


def test_a_download_that_breaks_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planetoid = pytest.importorskip("torch_geometric.datasets").Planetoid
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GAMLP_OFFLINE")
    monkeypatch.setattr("gamlp.graph.datasets.download._answers", lambda _: True)

    def broken(self: Any) -> None:
        (Path(self.raw_dir) / "ind.cora.x").write_bytes(b"half")
        raise TimeoutError("timed out")

    monkeypatch.setattr(planetoid, "download", broken)
    with pytest.raises(GamlpError, match=r"put ind\.cora\.x.*TimeoutError"):
        load("cora", tmp_path / "data")
    assert list((tmp_path / "cache" / "raw").iterdir()) == []


def test_without_pyg_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAMLP_OFFLINE")
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("gamlp.graph.datasets.download._answers", lambda _: True)
    monkeypatch.setitem(sys.modules, "torch_geometric.datasets", None)
    with pytest.raises(GamlpError, match=r'put .* into .*pip install "gamlp\[datasets\]"'):
        load("cora", tmp_path)


def test_files_that_are_there_need_neither_pyg_nor_ogb(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("torch_geometric", "ogb", "pandas", "networkx"):
        monkeypatch.setitem(sys.modules, library, None)
    assert load("cora", copied.parents[2]).relation.entries == 10_556


def test_a_saved_dataset_keeps_the_split_of_its_seed(data_dir: Path, tmp_path: Path) -> None:
    loaded = load("amazon-photo", data_dir, seed=7)
    saved = loaded.save(tmp_path / "graph")
    assert loaded.nodes.split is not None and saved.nodes.split is not None
    assert np.array_equal(saved.nodes.split.roles, loaded.nodes.split.roles)
    assert saved.source == {**loaded.source, "seed": 7}


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(GamlpError, match="did you mean cora"):
        load("corra")


def test_presence_tells_present_from_missing(copied: Path) -> None:
    told = {one.dataset.name: one.status for one in presence(copied.parents[2])}
    assert told["cora"] == "present" and told["digits"] == "present"
    assert told["pubmed"].startswith("missing: put ind.pubmed.x")
    assert set(told) == set(DATASETS)


def test_generated_names_load_at_their_stated_size() -> None:
    graph = load("communities")
    assert graph.nodes.count == 100_000
    assert graph.relation.entries == pytest.approx(2_000_000, rel=0.03)
    assert load("communities").folder == graph.folder


def test_a_folder_or_a_name_opens_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_or_load("karate").folder is None
    load("digits").save("karate")
    assert open_or_load("karate").nodes.count == 1797  # the folder of this name comes first
    with pytest.raises(GamlpError, match="no such graph folder"):
        open_or_load("some/where")
    with pytest.raises(GamlpError, match="neither a dataset nor a graph folder"):
        open_or_load("zzzz")
