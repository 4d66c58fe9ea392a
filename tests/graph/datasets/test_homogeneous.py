"""Generated graphs have the shape that was asked for, and the same bytes for the same seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, damaged_files, folder
from gamlp.graph.datasets.synthetic import matched, planted
from gamlp.graph.datasets.synthetic.homogeneous import communities, short_video
from gamlp.graph.datasets.synthetic.matched import Matched
from gamlp.graph.datasets.synthetic.planted import Group, Planted
from gamlp.kernel import FloatName, matched_rows, store_as


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    out = tmp_path_factory.mktemp("made") / "graph"
    return communities(out, nodes=20_000, edges=200_000, features=32, classes=8, homophily=0.5, seed=3)


def same_bytes(one: Graph, other: Graph) -> bool:
    return one.checksums == other.checksums


def features_of(graph: Graph) -> np.ndarray:
    assert graph.nodes.features is not None
    return np.asarray(graph.nodes.features.values)


def edges_of(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    parts = list(graph.relation.edges())
    return np.concatenate([rows for rows, _, _ in parts]), np.concatenate([columns for _, columns, _ in parts])


def test_the_counts_are_those_asked_for(graph: Graph) -> None:
    assert graph.nodes.count == 20_000
    assert graph.nodes.features is not None and graph.nodes.features.width == 32
    assert graph.nodes.labels is not None and np.bincount(graph.nodes.labels.values).tolist() == [2500] * 8
    assert graph.relation.entries == pytest.approx(400_000, rel=0.01)
    assert damaged_files(graph) == []


def test_repeated_edges_are_made_up_for_where_they_are_many(tmp_path: Path) -> None:
    dense = communities(tmp_path / "graph", nodes=1_000, edges=60_000, features=2, classes=5, homophily=0.9)
    assert dense.relation.entries == pytest.approx(120_000, rel=0.01)


def test_rows_are_symmetric_sorted_and_without_loops_or_repeats(graph: Graph) -> None:
    rows, columns = edges_of(graph)
    keys = rows * graph.nodes.count + columns
    assert (np.diff(keys) > 0).all()
    assert (rows != columns).all()
    assert np.array_equal(np.sort(columns.astype(np.int64) * graph.nodes.count + rows), keys)


def test_degrees_have_a_power_law_tail(graph: Graph) -> None:
    degrees = graph.relation.degrees()
    # Hill's estimator on the top 2 %: exponent = 1 + 1 / mean log(degree / threshold); planted: 2.6.
    tail = np.sort(degrees)[-400:]
    assert 2.0 < 1 + 1 / np.log(tail / tail[0]).mean() < 3.0
    # A random graph with this mean degree (20) has a largest degree near 45.
    assert degrees.max() > 20 * degrees.mean()
    assert 0.4 < np.median(degrees) / degrees.mean() < 0.65


def test_neighbours_know_each_other_as_in_a_citation_graph(graph: Graph) -> None:
    neighbours = np.split(edges_of(graph)[1], np.cumsum(graph.relation.degrees())[:-1])
    known = [set(one.tolist()) for one in neighbours]

    def clustering(node: int) -> float:
        """Pairs of neighbours that are joined, among all pairs; 0 without a pair."""
        around = known[node]
        pairs = len(around) * (len(around) - 1)
        return sum(len(known[other] & around) for other in around) / pairs if pairs else 0.0

    # The same degrees joined by chance alone have 0.02.
    assert 0.1 < np.mean([clustering(node) for node in range(0, 20_000, 20)]) < 0.25


def test_neighbours_lie_anywhere(graph: Graph) -> None:
    rows, columns = edges_of(graph)
    # Of two numbers drawn by chance the mean distance is a third of the whole.
    assert np.abs(rows - columns).mean() == pytest.approx(20_000 / 3, rel=0.02)


def test_edges_stay_inside_classes_as_often_as_asked(graph: Graph) -> None:
    assert graph.nodes.labels is not None
    rows, columns = edges_of(graph)
    labels = graph.nodes.labels.values
    # 0.5 by choice and an eighth of the rest by chance; merged repeats, mostly inside a class, take a little.
    assert np.mean(labels[rows] == labels[columns]) == pytest.approx(0.5 + 0.5 / 8, abs=0.06)


def test_features_tell_classes_apart_and_neighbours_help(graph: Graph) -> None:
    assert graph.nodes.labels is not None and graph.nodes.features is not None and graph.nodes.split is not None
    x, y, split = np.asarray(graph.nodes.features.values), graph.nodes.labels.values, graph.nodes.split

    def nearest_centre(values: np.ndarray) -> float:
        centres = np.stack([values[split.train][y[split.train] == c].mean(0) for c in range(8)])
        distance = ((values[split.test][:, None] - centres) ** 2).sum(2)
        return float(np.mean(distance.argmin(1) == y[split.test]))

    rows, columns = edges_of(graph)
    smooth = np.zeros_like(x)
    np.add.at(smooth, rows, x[columns])
    smooth /= np.maximum(graph.relation.degrees(), 1)[:, None]
    alone, together = nearest_centre(x), nearest_centre(smooth)
    assert alone > 2 / 8
    assert together > alone + 0.2


def test_the_split_has_the_shares_asked_for(graph: Graph) -> None:
    assert graph.nodes.split is not None
    parts = [len(rows) for rows in (graph.nodes.split.train, graph.nodes.split.valid, graph.nodes.split.test)]
    assert sum(parts) == 20_000
    assert parts[0] == pytest.approx(2_000, rel=0.1) and parts[1] == pytest.approx(2_000, rel=0.1)


def test_few_nodes_may_have_labels(tmp_path: Path) -> None:
    options = {"nodes": 5_000, "edges": 20_000, "features": 2, "classes": 3}
    made = communities(tmp_path / "few", **options, labelled=0.1, train=0.5, valid=0.2)  # type: ignore[arg-type]
    labels, split = made.nodes.labels, made.nodes.split
    assert labels is not None and split is not None
    assert [len(rows) for rows in (split.train, split.valid, split.test)] == [250, 100, 150]
    known = split.rows("train", "valid", "test")
    assert np.array_equal(np.flatnonzero(labels.known()), known)
    whole = communities(tmp_path / "all", **options).nodes.labels  # type: ignore[arg-type]
    assert whole is not None and np.array_equal(whole.values[known], labels.values[known])
    # By chance: the mean row and the classes are those of all.
    assert known.mean() == pytest.approx(2_500, rel=0.1)
    assert np.bincount(labels.values[known]).min() > 120


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_features_may_be_stored_in_half(dtype: FloatName, tmp_path: Path) -> None:
    options = {"nodes": 500, "edges": 2_000, "features": 6, "classes": 3, "seed": 2}
    exact = communities(tmp_path / "exact", **options)  # type: ignore[arg-type]
    made = communities(tmp_path / "half", dtype=dtype, **options)  # type: ignore[arg-type]
    assert made.nodes.features is not None and exact.nodes.features is not None
    assert made.nodes.features.dtype == dtype and made.source["dtype"] == dtype
    assert features_of(made).tobytes() == store_as(features_of(exact), dtype).tobytes()
    read = made.nodes.features.read(slice(None))
    assert read.dtype == np.float32
    assert np.abs(read - features_of(exact)).max() < {"float16": 2e-3, "bfloat16": 2e-2}[dtype]
    assert (
        made.checksums["relations/edge/00000/neighbours.npy"]
        == (exact.checksums["relations/edge/00000/neighbours.npy"])
    )


def test_features_are_the_centre_of_the_class_and_noise_of_deviation_one(tmp_path: Path) -> None:
    made = communities(tmp_path / "graph", nodes=6_000, edges=20_000, features=10, classes=2, signal=3.0)
    assert made.nodes.labels is not None
    x, y = features_of(made), made.nodes.labels.values
    for label in (0, 1):
        mine = x[y == label]
        assert np.linalg.norm(mine.mean(0)) == pytest.approx(3.0, abs=0.15)
        assert mine.std(0) == pytest.approx(np.ones(10), abs=0.05)
        noise = (mine - mine.mean(0)) / mine.std(0)
        assert np.mean(noise**4) == pytest.approx(3.0, abs=0.15), "as of a normal distribution"


def test_without_the_kernel_the_bytes_are_the_same(tmp_path: Path) -> None:
    words = "generate communities --nodes 2000 --edges 15000 --features 5 --classes 4 --labelled 0.3 --dtype float16"
    call = [sys.executable, "-m", "gamlp.cli.main", *words.split(), "--out"]
    for name, more in (("kernel", {}), ("numpy", {"GAMLP_NO_KERNEL": "1"})):
        subprocess.run([*call, str(tmp_path / name)], env={**os.environ, **more}, check=True, capture_output=True)
    assert same_bytes(Graph.open(tmp_path / "kernel"), Graph.open(tmp_path / "numpy"))


def test_large_features_are_several_files_and_each_is_verified_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"nodes": 1_000, "edges": 3_000, "features": 6, "classes": 3}
    whole = communities(tmp_path / "whole", **options)  # type: ignore[arg-type]
    monkeypatch.setattr(folder, "SHARD_BYTES", 6 * 4 * 300)
    made = communities(tmp_path / "graph", **options)  # type: ignore[arg-type]
    assert made.nodes.features is not None and damaged_files(made) == []
    assert features_of(made).tobytes() == features_of(whole).tobytes()
    path = tmp_path / "graph" / "nodes" / "node" / "features" / "00002.npy"
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    again = Graph.open(tmp_path / "graph").nodes.features
    assert again is not None and len(again.read(slice(0, 600))) == 600
    with pytest.raises(GamlpError, match=r"00002.npy.*is damaged"):
        again.read(slice(500, 700))


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def stop(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        if stage == "features":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        communities(tmp_path / "graph", nodes=1_000, edges=3_000, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_seed_fixes_every_byte_whatever_the_threads(graph: Graph, tmp_path: Path) -> None:
    options = {"nodes": 20_000, "edges": 200_000, "features": 32, "classes": 8, "homophily": 0.5}
    assert same_bytes(graph, communities(tmp_path / "one", seed=3, threads=1, **options))  # type: ignore[arg-type]
    assert same_bytes(graph, communities(tmp_path / "three", seed=3, threads=3, **options))  # type: ignore[arg-type]
    assert not same_bytes(graph, communities(tmp_path / "other", seed=4, **options))  # type: ignore[arg-type]


def test_a_graph_of_many_blocks_is_the_same_and_any_row_can_be_made_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"nodes": 2_000, "edges": 10_000, "features": 2, "classes": 3, "seed": 5}
    whole = communities(tmp_path / "whole", **options)  # type: ignore[arg-type]
    monkeypatch.setattr(matched, "BLOCK_ENTRIES", 3_000)
    monkeypatch.setattr(matched, "_PART", 700)
    made = communities(tmp_path / "graph", **options, threads=2)  # type: ignore[arg-type]
    assert len(made.relation.blocks) == 7
    assert damaged_files(made) == []
    for one, other in zip(edges_of(whole), edges_of(made)):
        assert np.array_equal(one, other)
    assert features_of(whole).tobytes() == features_of(made).tobytes()
    plan = Matched(2_000, 10_000, 3, 0.6, 5).matching
    rows, columns = edges_of(made)
    for row in (0, 571, 1_999):
        assert np.array_equal(matched_rows(plan, row, row + 1).neighbours, columns[rows == row])


def test_short_videos_of_many_blocks_are_whole_and_any_block_can_be_made_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted, "BLOCK_ENTRIES", 3_000)
    made = short_video(tmp_path / "graph", scale=0.01)
    assert len(made.relation.blocks) == 10
    rows, columns = edges_of(made)
    assert set(zip(rows.tolist(), columns.tolist())) == set(zip(columns.tolist(), rows.tolist()))
    groups = [Group(6_000, steep=2, hot=0.2), Group(4_000, steep=2)]
    alone = Planted(groups, 14_344, 11, 0.5, 0, between=True).block(4)
    assert np.array_equal(alone.neighbours, made.relation.blocks[4].neighbours)
    assert np.array_equal(alone.offsets, made.relation.blocks[4].offsets)


def test_short_video_has_the_papers_shape_times_the_scale(tmp_path: Path) -> None:
    made = short_video(tmp_path / "graph", scale=0.05)
    nodes, split, labels = made.nodes, made.nodes.split, made.nodes.labels
    assert split is not None and labels is not None and nodes.features is not None
    assert (nodes.count, nodes.features.width, len(labels.classes)) == (50_000, 64, 11)
    assert made.relation.entries == pytest.approx(2 * 71_719, rel=0.03)
    assert [len(rows) for rows in (split.train, split.valid, split.test)] == [250, 500, 1500]
    assert np.array_equal(np.flatnonzero(labels.known()), split.rows("train", "valid", "test"))
    rows, columns = edges_of(made)
    assert ((rows < 30_000) != (columns < 30_000)).all()  # users watch videos, nothing else
    watched = made.relation.degrees()[:30_000]
    assert watched.max() > 30 * watched.mean() and np.mean(watched <= 1) > 0.4  # popular ones, and many cold ones


def test_anybody_watches_hot_videos_and_the_others_are_watched_by_their_own_taste() -> None:
    plan = Planted([Group(6_000, 2, 0.2), Group(4_000, 2)], 14_000, 11, 0.5, 0, between=True)
    labels, hot = plan.labels(), plan.hot()
    assert not hot[6_000:].any()
    block = plan.block(0, 1)
    rows = np.repeat(np.arange(6_000), np.diff(block.offsets))
    alike = labels[rows] == labels[block.neighbours]
    assert hot[:6_000].mean() == pytest.approx(0.2, abs=0.01)
    assert alike[~hot[rows]].all()
    assert alike[hot[rows]].mean() == pytest.approx(1 / 11, abs=0.02)
    assert hot[rows].mean() == pytest.approx(0.5, abs=0.03)  # half of the views, by which each has four times as many


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"nodes": 1}, "nodes is 1"),
        ({"edges": 0}, "edges is 0"),
        ({"classes": 500}, "500 classes"),
        ({"homophily": 1.5}, "homophily"),
        ({"edges": 6000}, "too many"),
        ({"train": 0.9, "valid": 0.2}, "split"),
        ({"seed": -1}, "seed is -1"),
        ({"labelled": 0.0}, "labelled is 0"),
        ({"labelled": 1.5}, "labelled is 1.5"),
        ({"dtype": "float64"}, "dtype is float64"),
    ],
)
def test_impossible_wishes_are_told_in_a_sentence(wrong: dict[str, object], told: str, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=told):
        communities(tmp_path / "graph", **{"nodes": 100, "edges": 300, "classes": 4, **wrong})  # type: ignore[arg-type]
    assert not (tmp_path / "graph").exists()
