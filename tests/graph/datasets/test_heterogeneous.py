"""The graph of ogbn-mag's shape: its counts, its reverses, and labels along the one metapath that was planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gamlp.errors import GamlpError
from gamlp.graph import Graph, damaged_files
from gamlp.graph.datasets import loading as datasets
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.synthetic import planted
from gamlp.graph.datasets.synthetic.heterogeneous import METAPATHS, hidden_classes, mag_like

SCALE, CLASSES = 0.01, 10
EDGES = {
    "author-affiliated_with-institution": 1_043_998,
    "author-writes-paper": 7_145_660,
    "paper-cites-paper": 5_416_271,
    "paper-has_topic-field": 7_505_078,
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """One graph for each metapath."""
    folder = tmp_path_factory.mktemp("made")
    return {
        metapath: mag_like(folder / metapath, scale=SCALE, metapath=metapath, classes=CLASSES, width=32, seed=3)
        for metapath in METAPATHS
    }


@pytest.fixture
def graph(graphs: dict[str, Graph]) -> Graph:
    return graphs["paper-field"]


def matrix(graph: Graph, name: str) -> csr_matrix:
    """Rows of targets, columns of sources."""
    relation = graph.relations[name]
    parts = list(relation.edges())
    rows, columns = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    shape = (graph.node_types[relation.target].count, graph.node_types[relation.source].count)
    found = csr_matrix((np.ones(len(rows)), (rows, columns)), shape)
    assert found.nnz == len(rows) and found.max() == 1  # nothing is stored twice
    return found


def hidden(graph: Graph, node_type: str) -> np.ndarray:
    return hidden_classes(node_type, graph.node_types[node_type].count, CLASSES, 3)


def agreement(graph: Graph, name: str) -> float:
    """Share of a relation's edges whose ends are of one class."""
    relation, edges = graph.relations[name], matrix(graph, name).tocoo()
    return float(np.mean(hidden(graph, relation.target)[edges.row] == hidden(graph, relation.source)[edges.col]))


@pytest.mark.parametrize("metapath", METAPATHS)
def test_counts_are_ogbn_mags_times_the_scale(metapath: str, graphs: dict[str, Graph]) -> None:
    graph = graphs[metapath]
    counts = {node_type: nodes.count for node_type, nodes in graph.node_types.items()}
    assert counts == {"paper": 7364, "author": 11_346, "institution": 87, "field": 600}
    assert {name: graph.relations[name].entries for name in EDGES} == {
        name: pytest.approx(SCALE * edges, rel=0.02) for name, edges in EDGES.items()
    }
    labels, split = graph.nodes.labels, graph.nodes.split
    assert graph.target == "paper" and labels is not None and split is not None
    assert set(np.bincount(labels.values)) == {736, 737} and len(labels.classes) == CLASSES
    assert [len(rows) for rows in (split.train, split.valid, split.test)] == [6296, 649, 419]
    assert damaged_files(graph) == []


def test_every_relation_has_its_transpose_as_its_reverse(graph: Graph) -> None:
    assert graph.relation_pairs == {name: (name, f"rev-{name}") for name in EDGES}
    for name in EDGES:
        relation, reverse = graph.relations[name], graph.relations[f"rev-{name}"]
        assert (relation.source, relation.target) == (reverse.target, reverse.source)
        assert relation.reverse == reverse.name and reverse.reverse == relation.name
        assert (matrix(graph, name) != matrix(graph, reverse.name).T).nnz == 0


def test_citations_are_directed_and_no_paper_cites_itself(graph: Graph) -> None:
    cites = matrix(graph, "paper-cites-paper")
    assert cites.diagonal().sum() == 0
    assert (cites.multiply(cites.T)).nnz < 0.1 * cites.nnz
    # Ends of different types with the same number are no self-loop.
    assert matrix(graph, "author-writes-paper").diagonal().sum() > 0


def test_a_few_nodes_have_very_many_neighbours(graph: Graph) -> None:
    for name in ("rev-author-writes-paper", "paper-cites-paper", "author-affiliated_with-institution"):
        degrees = np.diff(matrix(graph, name).indptr)
        # Independent draws would stay within 6 deviations of the mean.
        assert degrees.max() > degrees.mean() + 20 * np.sqrt(degrees.mean()), name


@pytest.mark.parametrize("metapath", METAPATHS)
def test_ends_agree_in_class_as_often_as_asked_along_the_metapath_alone(
    metapath: str, graphs: dict[str, Graph]
) -> None:
    graph, steps = graphs[metapath], METAPATHS[metapath]
    share = 0.8 ** (1 / len(steps))
    for name in EDGES:
        asked = share + (1 - share) / CLASSES if name in steps else 1 / CLASSES
        assert agreement(graph, name) == pytest.approx(asked, abs=0.02), name


def test_two_steps_lead_to_the_papers_class_with_the_share_asked_for(graphs: dict[str, Graph]) -> None:
    graph = graphs["paper-author-institution"]
    writes, works = (matrix(graph, name) for name in METAPATHS["paper-author-institution"])
    paths = (writes @ works.T).tocoo()  # paper × institution: number of authors on the way
    same = hidden(graph, "paper")[paths.row] == hidden(graph, "institution")[paths.col]
    assert np.average(same, weights=paths.data) == pytest.approx(0.8 + 0.2 / CLASSES, abs=0.03)


def accuracy(graph: Graph, values: np.ndarray) -> float:
    """Of logistic regression on the split's rows; chance is 1 / CLASSES."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    train, test = split.train, split.rows("valid", "test")
    scaled = StandardScaler().fit(values[train]).transform(values)
    model = LogisticRegression(max_iter=200).fit(scaled[train], labels.values[train])
    return float(model.score(scaled[test], labels.values[test]))


def neighbours_mean(adjacency: csr_matrix, values: np.ndarray) -> np.ndarray:
    return np.asarray(adjacency @ values) / np.maximum(adjacency.sum(1).A, 1)


def features(graph: Graph, node_type: str) -> np.ndarray:
    found = graph.node_types[node_type].features
    assert found is not None
    return np.asarray(found.values)


def signals(graph: Graph) -> dict[str, np.ndarray]:
    """What a paper sees of each type: mean features of its neighbours, and of its authors' institutions."""
    authors, cited, citing = (
        matrix(graph, name) for name in ("author-writes-paper", "rev-paper-cites-paper", "paper-cites-paper")
    )
    institutions = neighbours_mean(
        matrix(graph, "rev-author-affiliated_with-institution"), features(graph, "institution")
    )
    return {
        "paper-field": neighbours_mean(matrix(graph, "rev-paper-has_topic-field"), features(graph, "field")),
        "paper-author": neighbours_mean(authors, features(graph, "author")),
        "paper-paper": neighbours_mean(cited + citing, features(graph, "paper")),
        "paper-author-institution": neighbours_mean(authors, institutions),
    }


@pytest.mark.parametrize("metapath", METAPATHS)
def test_features_tell_classes_along_the_metapath_and_not_elsewhere(metapath: str, graphs: dict[str, Graph]) -> None:
    graph = graphs[metapath]
    found = {name: accuracy(graph, values) for name, values in signals(graph).items()}
    told = found.pop(metapath)
    assert told > 0.8
    for other, score in found.items():
        # A way that shares a relation with the metapath is told a little: a popular author's noise is his name.
        shared = set(METAPATHS[other]) & set(METAPATHS[metapath])
        # 1068 rows are judged: 0.1 by chance, with a deviation below 0.01.
        assert score < (told - 0.5 if shared else 1 / CLASSES + 0.04), other


def test_papers_own_features_are_noise_unless_asked(graphs: dict[str, Graph], tmp_path: Path) -> None:
    graph = graphs["paper-field"]
    assert accuracy(graph, features(graph, "paper")) < 1 / CLASSES + 0.04
    told = mag_like(tmp_path / "own", scale=SCALE, classes=CLASSES, width=32, own=2.0, seed=3)
    assert accuracy(told, features(told, "paper")) > 0.5
    # Where papers are the metapath's end they hint at their class, and neighbours say more.
    cites = graphs["paper-paper"]
    alone = accuracy(cites, features(cites, "paper"))
    assert 0.15 < alone < accuracy(cites, signals(cites)["paper-paper"]) - 0.2


def test_a_seed_fixes_every_byte_whatever_the_threads(graph: Graph, tmp_path: Path) -> None:
    one, three, other = (
        mag_like(tmp_path / f"{seed}-{threads}", scale=SCALE, classes=CLASSES, width=32, seed=seed, threads=threads)
        for seed, threads in ((3, 1), (3, 3), (4, 1))
    )
    assert one.checksums == graph.checksums == three.checksums
    same = {name for name, value in one.checksums.items() if other.checksums[name] == value}
    assert same == set()


def test_many_blocks_are_one_graph_with_the_same_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "BLOCK_ENTRIES", 20_000)
    made = mag_like(tmp_path / "graph", scale=SCALE, classes=CLASSES, width=4, seed=3)
    assert len(made.relations["paper-has_topic-field"].blocks) == 4
    for name, edges in EDGES.items():
        assert (matrix(made, name) != matrix(made, f"rev-{name}").T).nnz == 0
        assert made.relations[name].entries == pytest.approx(SCALE * edges, rel=0.02)
    assert agreement(made, "paper-has_topic-field") == pytest.approx(0.82, abs=0.02)
    assert agreement(made, "paper-cites-paper") == pytest.approx(0.1, abs=0.02)


def test_features_of_papers_alone_on_request_and_defaults_by_name(tmp_path: Path) -> None:
    bare = mag_like(tmp_path / "bare", scale=0.002, features="paper")
    assert [node_type for node_type, nodes in bare.node_types.items() if nodes.features is not None] == ["paper"]
    named, counts = datasets.load("mag-like"), DATASETS["mag-like"].counts
    labels, found = named.nodes.labels, named.nodes.features
    assert labels is not None and found is not None
    assert sum(nodes.count for nodes in named.node_types.values()) == counts.nodes
    assert sum(named.relations[name].entries for name in named.relation_pairs) == pytest.approx(counts.edges, rel=0.02)
    assert (found.width, len(labels.classes)) == (counts.features, counts.classes)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"scale": 0.0}, "scale 0"),
        ({"metapath": "paper-venue"}, "metapath 'paper-venue'; choose one of paper-field"),
        ({"features": "author"}, "features of 'author'"),
        ({"classes": 1}, "classes is 1"),
        ({"width": 0}, "width is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"signal": 1.2}, "signal is 1.2"),
        ({"own": -1.0}, "own is -1"),
        ({"classes": 100}, "100 classes for 80 nodes of type field"),
        ({"classes": 60}, "too many"),
    ],
)
def test_impossible_wishes_are_told_in_a_sentence(wrong: dict[str, object], told: str, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=told):
        mag_like(tmp_path / "graph", **{"scale": 0.001, **wrong})  # type: ignore[arg-type]
    assert not (tmp_path / "graph").exists()
