"""HGB's heterogeneous graphs, from a zip or a raw folder, against PyG's reading of the same files."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Relation
from gamlp.graph.datasets import download as archive
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.loading import load


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acm", "dblp", "imdb"])
def test_counts_are_those_of_the_catalogue(name: str, data_dir: Path) -> None:
    graph, counts = load(f"hgb-{name}", data_dir), DATASETS[f"hgb-{name}"].counts
    assert graph.nodes.features is not None and graph.nodes.labels is not None
    assert sum(nodes.count for nodes in graph.node_types.values()) == counts.nodes
    # Of ACM's 547,872 links 16 lead from a paper to itself: loops are dropped.
    assert sum(relation.entries for relation in graph.relations.values()) == counts.edges
    assert (graph.nodes.features.width, len(graph.nodes.labels.classes)) == (counts.features, counts.classes)


@pytest.mark.slow
def test_acm_reads_as_pyg_reads_it(data_dir: Path, tmp_path: Path) -> None:
    pyg = pytest.importorskip("torch_geometric.datasets")
    raw = tmp_path / "HGBDataset" / "acm" / "raw" / "ACM"
    given = data_dir / "HGBDataset" / "acm" / "raw" / "ACM"
    if given.is_dir():  # the data, laid out; else as they come
        shutil.copytree(given, raw)
    else:
        archive.unpack(data_dir / "HGBDataset" / "acm.zip", DATASETS["hgb-acm"].files, raw)
    lines = (line.split("\t") for line in (raw / "node.dat").read_text().rstrip("\n").split("\n"))
    # PyG takes 15 seconds for 1902 features: eight of them show the same.
    cut = ("\t".join([*cells[:3], *(",".join(cell.split(",")[:8]) for cell in cells[3:])]) for cells in lines)
    (raw / "node.dat").write_text("\n".join(cut) + "\n")
    theirs = pyg.HGBDataset(str(tmp_path / "HGBDataset"), "acm")[0]
    graph = load("hgb-acm", tmp_path)
    assert set(graph.node_types) == set(theirs.node_types) and graph.target == "paper"
    for node_type in ("paper", "author", "subject"):
        features = graph.node_types[node_type].features
        assert features is not None and np.array_equal(features.values, theirs[node_type].x.numpy())
    assert graph.node_types["term"].features is None and graph.node_types["term"].count == theirs["term"].num_nodes
    for source, relation, target in theirs.edge_types:
        name = f"{source}-{target}" if relation == "to" else f"{source}-{relation}-{target}"
        mine = graph.relations[name]
        assert (mine.source, mine.target, mine.directed) == (source, target, True)
        pairs = {
            (a, b) for a, b in theirs[source, relation, target].edge_index.t().tolist() if a != b or source != target
        }
        rows, columns, _ = next(mine.edges())
        assert {(int(b), int(a)) for a, b in zip(rows, columns)} == pairs
    paper, split = theirs["paper"], graph.nodes.split
    assert graph.nodes.labels is not None and split is not None
    assert np.array_equal(graph.nodes.labels.values, paper.y.numpy())
    assert np.array_equal(split.rows("train", "valid"), np.flatnonzero(paper.train_mask))
    assert np.array_equal(split.test, np.flatnonzero(paper.test_mask))


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("acm", "paper-cite-paper/paper-ref-paper paper-author/author-paper paper-subject/subject-paper "
                "paper-term/term-paper"),
        ("dblp", "author-paper/paper-author paper-term/term-paper paper-venue/venue-paper"),
        ("imdb", "movie-director/director-movie movie-actor/actor-movie movie-keyword/keyword-movie"),
    ],
)  # fmt: skip
def test_both_directions_of_the_files_are_one_link(name: str, pairs: str, data_dir: Path) -> None:
    graph = load(f"hgb-{name}", data_dir)
    expected = [tuple(pair.split("/")) for pair in pairs.split()]
    assert graph.relation_pairs == {one: (one, other) for one, other in expected}
    for one, other in expected:
        assert graph.relations[other].reverse == one
        assert entries(graph.relations[one]) == {(b, a) for a, b in entries(graph.relations[other])}


def entries(relation: Relation) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for rows, columns, _ in relation.edges() for a, b in zip(rows, columns)}


def test_a_fifth_of_the_training_rows_validates_by_seed(data_dir: Path) -> None:
    one, other = (load("hgb-acm", data_dir, seed=seed).nodes.split for seed in (0, 1))
    assert one is not None and other is not None
    assert len(one.valid) == round(0.2 * (len(one.train) + len(one.valid)))
    assert not np.array_equal(one.valid, other.valid)
    assert np.array_equal(one.rows("train", "valid"), other.rows("train", "valid"))


def test_imdb_has_many_labels_and_unknown_ones_are_marked(data_dir: Path) -> None:
    graph = load("hgb-imdb", data_dir)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None and labels.multi_label
    assert np.array_equal(np.flatnonzero(labels.known()), split.rows("train", "valid", "test"))
    assert (labels.values[split.train].sum(1) >= 1).all() and labels.values[split.train].sum(1).max() > 1


INFO = {
    "node.dat": {"node type": {"0": "paper", "1": "author"}},
    "link.dat": {"link type": {"0": {"start": 0, "end": 1, "meaning": "paper-author"}}},
    "label.dat": {"node type": {"0": {"0": "x", "1": "y"}}},
}
FILES = {
    "info.dat": json.dumps(INFO),
    "node.dat": "0\tone\t0\t1,2.5\n1\ttwo\t0\t3,4\n2\tann\t1\n",
    "link.dat": "0\t2\t0\t1.0\n1\t2\t0\t2.0\n",
    "label.dat": "0\tone\t0\t1\n",
    "label.dat.test": "1\ttwo\t0\t0\n",
}


def make(root: Path, inside: str = "ACM/", **changed: str) -> Path:
    (root / "HGBDataset").mkdir(parents=True)
    with zipfile.ZipFile(root / "HGBDataset" / "acm.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in {**FILES, **changed}.items():
            made.writestr(inside + name, content)
    return root


def test_links_between_types_keep_equal_numbers_and_weights(tmp_path: Path) -> None:
    graph = load("hgb-acm", make(tmp_path))
    rows, columns, weights = next(graph.relations["paper-author"].edges())
    assert weights is not None
    # Author 0 is linked with paper 0: the same number in two types is no self-loop.
    assert (rows.tolist(), columns.tolist(), weights.tolist()) == ([0, 0], [0, 1], [1.0, 2.0])
    assert graph.nodes.features is not None and graph.nodes.features.values.tolist() == [[1, 2.5], [3, 4]]


def links(*node_types: tuple[int, int, str]) -> str:
    """info.dat with these relations: types at both ends, and what they mean."""
    described = {str(n): {"start": a, "end": b, "meaning": name} for n, (a, b, name) in enumerate(node_types)}
    return json.dumps(INFO | {"link.dat": {"link type": described}})


def test_a_reverse_is_made_where_the_files_have_none(tmp_path: Path) -> None:
    graph = load("hgb-acm", make(tmp_path))
    assert graph.relation_pairs == {"paper-author": ("paper-author", "rev-paper-author")}
    made = graph.relations["rev-paper-author"]
    assert (made.source, made.target, made.directed, made.reverse) == ("author", "paper", True, "paper-author")
    rows, columns, weights = next(made.edges())
    assert weights is not None
    assert (rows.tolist(), columns.tolist(), weights.tolist()) == ([0, 1], [0, 0], [1.0, 2.0])


def test_reverses_are_found_by_content_weights_included(tmp_path: Path) -> None:
    info = links((0, 1, "paper-author"), (1, 0, "author-paper"), (1, 0, "author-likes-paper"))
    # The first lists the same edges with other weights, the second the same edges with the same weights.
    turned = "2\t0\t1\t1.0\n2\t1\t1\t9.0\n2\t1\t2\t2.0\n2\t0\t2\t1.0\n"
    graph = load("hgb-acm", make(tmp_path, **{"info.dat": info, "link.dat": FILES["link.dat"] + turned}))
    assert graph.relation_pairs == {
        "paper-author": ("paper-author", "author-likes-paper"),
        "author-paper": ("author-paper", "rev-author-paper"),
    }


def test_a_relation_that_is_its_own_reverse_has_no_direction(tmp_path: Path) -> None:
    info = links((0, 0, "paper-near-paper"), (0, 0, "paper-cite-paper"))
    both = "0\t1\t0\t1.0\n1\t0\t0\t1.0\n0\t1\t1\t1.0\n"
    graph = load("hgb-acm", make(tmp_path, **{"info.dat": info, "link.dat": both}))
    near, cites = graph.relations["paper-near-paper"], graph.relations["paper-cite-paper"]
    assert (near.directed, near.reverse, entries(near)) == (False, None, {(0, 1), (1, 0)})
    assert (cites.directed, cites.reverse, entries(cites)) == (True, "rev-paper-cite-paper", {(1, 0)})
    assert entries(graph.relations["rev-paper-cite-paper"]) == {(0, 1)}


def test_an_archive_cannot_write_elsewhere(tmp_path: Path) -> None:
    graph = load("hgb-acm", make(tmp_path / "data", inside="../../../../escaped/"))
    assert graph.nodes.count == 2
    assert not list(tmp_path.rglob("escaped*"))


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    with pytest.raises(GamlpError, match=r"node\.dat would unpack to"):
        load("hgb-acm", make(tmp_path, **{"node.dat": "0" * 2000}))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"node.dat": "0\tone\t7\t1\n"}, r"node\.dat, row 1: not a node"),
        ({"node.dat": "0\tone\n"}, r"node\.dat, row 1: 2 fields"),
        ({"node.dat": "0\tone\t0\t1,2\n1\ttwo\t0\tx,4\n2\tann\t1\n"}, r"node\.dat: features of type 'paper'"),
        (
            {"node.dat": "0\tone\t0\t1,2\n1\ttwo\t0\n2\tann\t1\n"},
            "some nodes of type 'paper' have no features",
        ),
        ({"link.dat": "0\t9\t0\t1.0\n"}, r"link\.dat: not a list of links"),
        ({"link.dat": "0\t2\t0\t1.0\n1\t0\t0\t1.0\n"}, r"link\.dat, row 2: node 0 is no author, which 'paper-author'"),
        ({"link.dat": "2\t2\t0\t1.0\n"}, r"link\.dat, row 1: node 2 is no paper"),
        ({"label.dat": "0\tone\t0\tz\n"}, r"label\.dat, row 1: not a label"),
        ({"info.dat": "{"}, r"info\.dat: not readable JSON"),
    ],
)
def test_files_that_do_not_fit_are_named(changed: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=told):
        load("hgb-acm", make(tmp_path, **changed))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "HGBDataset" / "acm.zip").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(GamlpError, match=r"acm\.zip: not a readable zip"):
        load("hgb-acm", tmp_path)
