"""Features where there are none, and narrower ones: against dense algebra; what is kept, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from gamlp.errors import GamlpError
from gamlp.graph import Block, Features, Graph, Ids, Nodes, Relation
from gamlp.graph.features import missing as completing
from gamlp.graph.features import missing as means
from gamlp.graph.features import missing as reducing
from gamlp.graph.features.missing import completed
from gamlp.io import Place
from gamlp.recipe import RelationsSettings

Array = np.ndarray[Any, Any]


def typed_graph(
    counts: dict[str, int],
    towards: dict[str, tuple[str, str, Array]],
    features: dict[str, Array] | None = None,
    *,
    reverses: bool = True,
    target: str = "paper",
) -> Graph:
    """`links[name]` = source type, target type, dense matrix [sources, targets] of weights; each with its reverse."""
    relations = {}
    for name, (source, end, matrix) in towards.items():
        relations[name] = _relation(name, source, end, matrix.T, f"rev-{name}" if reverses else None)
        if reverses:
            relations[f"rev-{name}"] = _relation(f"rev-{name}", end, source, matrix, name)
    given = {node_type: Features(values.astype(np.float32)) for node_type, values in (features or {}).items()}
    types = {
        node_type: Nodes(node_type, count, Ids(count), given.get(node_type)) for node_type, count in counts.items()
    }
    return Graph("typed", types, relations, target)


def _relation(name: str, source: str, target: str, rows: Array, reverse: str | None) -> Relation:
    weighted, blocks = bool((rows > 0).any() and (rows[rows > 0] != 1).any()), []
    for start, stop in ((0, len(rows) // 2), (len(rows) // 2, len(rows))):  # two blocks: numbers of rows must be minded
        part = sparse.csr_array(rows[start:stop])
        weights = part.data.astype(np.float32) if weighted else None
        blocks.append(Block(start, stop, part.indptr.astype(np.int64), part.indices.astype(np.int32), weights))
    return Relation(name, source, target, True, tuple(blocks), reverse)


def matrix(rows: int, columns: int, seed: int, share: float = 0.3) -> Array:
    return (np.random.default_rng(seed).random((rows, columns)) < share).astype(float)


def values(graph: Graph, node_type: str) -> Array:
    features = graph.node_types[node_type].features
    assert features is not None
    return features.read(slice(None))


def decaying(rows: int, columns: int, seed: int) -> Array:
    """Singular values 1, 0.9, 0.81, …: no two the same, so that the leading ones are well defined."""
    draws = np.random.default_rng(seed)
    size = min(rows, columns)
    left = np.linalg.qr(draws.normal(size=(rows, size)))[0]
    right = np.linalg.qr(draws.normal(size=(columns, size)))[0]
    return np.asarray(10 * left * 0.9 ** np.arange(size) @ right.T)


WRITES = {"writes": ("author", "paper", matrix(30, 120, 0))}


def test_a_homogeneous_graph_and_a_complete_one_stay_as_they_are(tmp_path: Path) -> None:
    alone = Graph.from_arrays([[0, 1], [1, 2]], np.eye(3))
    assert completed(alone, RelationsSettings(reduce=2), tmp_path) is alone
    whole = typed_graph({"paper": 120, "author": 30}, WRITES, {"paper": np.ones((120, 3)), "author": np.ones((30, 5))})
    assert completed(whole, RelationsSettings(reduce=8), tmp_path) is whole
    assert not list(tmp_path.iterdir())


def test_wide_features_become_their_leading_singular_vectors(tmp_path: Path) -> None:
    """Papers and authors have one width and so one basis: that of their rows together, without centring."""
    together = decaying(150, 80, 1)
    papers, authors = together[:120], together[120:]
    graph = typed_graph({"paper": 120, "author": 30}, WRITES, {"paper": papers, "author": authors})
    found = completed(graph, RelationsSettings(reduce=12), tmp_path)
    left, sizes, right = np.linalg.svd(together, full_matrices=False)
    rows = np.concatenate([values(found, "paper"), values(found, "author")]).astype(np.float64)
    assert rows.shape == (150, 12) and values(found, "paper").dtype == np.float32
    # The same products of rows as the best approximation of rank 12: a basis is known up to signs, these are not.
    best = left[:, :12] * sizes[:12]
    np.testing.assert_allclose(rows @ rows.T, best @ best.T, atol=2e-4)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=0), sizes[:12], rtol=1e-4)
    signs = np.sign(right[np.arange(12), np.abs(right[:12]).argmax(1)])
    np.testing.assert_allclose(rows, together @ (right[:12] * signs[:, None]).T, atol=2e-3)


@pytest.mark.parametrize("share", [0.02, 1.0])  # sparse rows and dense ones take different roads
def test_the_reduced_rows_reconstruct_as_well_as_any_of_their_width(share: float) -> None:
    draws = np.random.default_rng(2)
    rows = (draws.normal(size=(400, 150)) * (draws.random((400, 150)) < share)).astype(np.float32)
    shared = reducing.basis([Features(rows[:250]), Features(rows[250:])], 20, 0, lambda *_, **__: None)
    np.testing.assert_allclose(shared.T @ shared, np.eye(20), atol=1e-5)
    sizes = np.linalg.svd(rows, compute_uv=False)
    lost = np.linalg.norm(rows - rows @ shared @ shared.T) ** 2
    assert np.sum(sizes[20:] ** 2) <= lost * (1 + 1e-5) and lost < 1.01 * np.sum(sizes[20:] ** 2)
    assert (shared[np.abs(shared).argmax(0), np.arange(20)] > 0).all()
    assert sparse.issparse(reducing.as_sparse(rows)) == (share < 0.1)


def test_a_sample_gives_the_basis_of_many_rows_and_the_rest_is_brought_there_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.random.default_rng(3)
    low = (draws.normal(size=(3000, 6)) @ draws.normal(size=(6, 40))).astype(np.float32)  # rank 6: any sample shows it
    graph = typed_graph({"paper": 3000, "author": 30}, {"w": ("author", "paper", matrix(30, 3000, 0))}, {"paper": low})
    monkeypatch.setattr(reducing, "SAMPLE", 100)
    monkeypatch.setattr(reducing, "_PIECE", 4096)  # 25 rows at a time
    found = values(completed(graph, RelationsSettings(reduce=8, missing="none"), tmp_path), "paper")
    np.testing.assert_allclose(found[::7] @ found[::7].T, low[::7] @ low[::7].T, atol=1e-2)
    assert not found[:, 6:].any()  # no more than its rank


def test_fewer_rows_than_columns_are_filled_up_with_zeros(tmp_path: Path) -> None:
    few = np.random.default_rng(4).normal(size=(5, 40))
    graph = typed_graph({"paper": 120, "author": 5}, {"w": ("author", "paper", matrix(5, 120, 0))}, {"author": few})
    found = values(completed(graph, RelationsSettings(reduce=16, missing="none"), tmp_path), "author")
    assert found.shape == (5, 16) and not found[:, 5:].any()
    np.testing.assert_allclose(found @ found.T, few @ few.T, atol=1e-4)


def test_half_precision_is_read_as_what_it_means(tmp_path: Path) -> None:
    wide = decaying(120, 40, 5).astype(np.float32)
    graph = typed_graph({"paper": 120, "author": 30}, WRITES, {"paper": wide})
    bits = (wide.view(np.uint32) >> 16).astype(np.uint16)
    half = graph.with_features(paper=Features(bits, "bfloat16"))
    found = values(completed(half, RelationsSettings(reduce=40 - 1, missing="none"), tmp_path), "paper")
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(wide, axis=1), rtol=0.02)


@pytest.mark.parametrize("reverses", [True, False])
def test_means_are_those_of_dense_algebra(reverses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over two links at once, weights included; where a reverse is not stored, edges are followed backwards."""
    draws = np.random.default_rng(6)
    writes, reviews = matrix(30, 120, 7, 0.05) * draws.integers(1, 4, (30, 120)), matrix(120, 30, 8, 0.02)
    writes[3] = reviews[:, 3] = 0
    papers = draws.normal(size=(120, 9))
    towards = {"writes": ("author", "paper", writes), "reviewed": ("paper", "author", reviews)}
    graph = typed_graph({"paper": 120, "author": 30}, towards, {"paper": papers}, reverses=reverses)
    monkeypatch.setattr(means, "_PIECE", 8 * 120 * 4)  # four columns at a time
    found = values(completed(graph, RelationsSettings(missing="mean"), tmp_path), "author")
    weights = writes + reviews.T
    expected = weights @ papers / np.maximum(weights.sum(1, keepdims=True), 1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not found[3].any() and found.dtype == np.float32


def test_types_further_away_take_the_means_of_means(tmp_path: Path) -> None:
    writes, works = matrix(30, 120, 9), matrix(30, 6, 10)
    papers = np.random.default_rng(11).normal(size=(120, 4))
    towards = {"works": ("author", "place", works), "writes": ("author", "paper", writes)}
    graph = typed_graph({"place": 6, "paper": 120, "author": 30, "alone": 2}, towards, {"paper": papers})
    found = completed(graph, RelationsSettings(missing="mean"), tmp_path)
    authors = writes @ papers / writes.sum(1, keepdims=True)
    np.testing.assert_allclose(values(found, "author"), authors, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values(found, "place"), works.T @ authors / works.sum(0)[:, None], rtol=1e-5, atol=1e-6)
    assert found.node_types["alone"].features is None  # nothing leads there


def test_of_several_widths_the_target_types_is_taken_and_told(tmp_path: Path) -> None:
    features = {"place": np.ones((6, 3)), "paper": np.full((120, 4), 2.0), "group": np.full((5, 3), 5.0)}
    towards = {
        "works": ("author", "place", np.ones((30, 6))),
        "writes": ("author", "paper", np.ones((30, 120))),
        "member": ("author", "group", np.ones((30, 5))),
    }
    graph = typed_graph({"place": 6, "paper": 120, "author": 30, "group": 5}, towards, features)
    told = []
    found = completed(graph, RelationsSettings(missing="mean"), tmp_path / "a", lambda *what, **more: told.append(what))
    assert (values(found, "author") == 2).all() and values(found, "author").shape == (30, 4)
    assert told[-1][0] == "features of 'author'" and told[-1][-1] == "means of paper, width 4"
    other = replace(graph, relations={name: each for name, each in graph.relations.items() if "writes" not in name})
    found = completed(other, RelationsSettings(missing="mean"), tmp_path / "b")
    np.testing.assert_allclose(values(found, "author"), np.full((30, 3), (6 * 1 + 5 * 5) / 11), rtol=1e-6)


def test_none_leaves_a_type_without(tmp_path: Path) -> None:
    graph = typed_graph({"paper": 120, "author": 30}, WRITES, {"paper": np.ones((120, 3))})
    assert completed(graph, RelationsSettings(missing="none"), tmp_path).node_types["author"].features is None


def test_what_was_made_is_found_again_and_made_anew_where_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = typed_graph({"paper": 120, "author": 30}, WRITES, {"paper": decaying(120, 40, 12)})
    wanted = RelationsSettings(reduce=5, missing="mean")
    first = completed(graph, wanted, tmp_path)
    files = sorted((tmp_path / "made").glob("*.npy"))
    assert [file.name.split("-")[0] for file in files] == ["author", "paper"]
    before = [file.read_bytes() for file in files]

    def refuse(*_: Any) -> Any:
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(reducing, "basis", refuse)
        patch.setattr(means, "mean_of_neighbours", refuse)
        again = completed(graph, wanted, Place.of(tmp_path))
        np.testing.assert_array_equal(values(again, "author"), values(first, "author"))
        with pytest.raises(AssertionError, match="made again"):  # another seed, another sample
            completed(graph, RelationsSettings(reduce=5, missing="mean", seed=1), tmp_path)
        other = graph.with_features(paper=Features(decaying(120, 40, 13).astype(np.float32)))
        with pytest.raises(AssertionError, match="made again"):
            completed(other, wanted, tmp_path)
    np.save(files[0], np.zeros((30, 4), np.float32))  # another shape
    files[1].write_bytes(before[1][:-1])  # cut off
    completed(graph, wanted, tmp_path)
    assert [file.read_bytes() for file in files] == before
    flipped = bytearray(before[0])
    flipped[-9] ^= 1
    files[0].write_bytes(flipped)
    completed(graph, wanted, tmp_path)
    assert [file.read_bytes() for file in files] == before


def test_it_works_behind_a_url(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    graph = typed_graph({"paper": 120, "author": 30}, WRITES, {"paper": decaying(120, 40, 14)})
    wanted = RelationsSettings(reduce=5, missing="mean")
    here = completed(graph, wanted, tmp_path)
    there = completed(graph, wanted, Place.of(f"memory://{tmp_path.name}-embeddings"))
    for node_type in ("paper", "author"):
        np.testing.assert_array_equal(values(there, node_type), values(here, node_type))


def test_an_odd_dimension_is_refused_before_any_work(tmp_path: Path) -> None:
    graph = typed_graph({"paper": 120, "author": 30}, WRITES, {"paper": decaying(120, 40, 15)})
    with pytest.raises(GamlpError, match=r"relations.dimension is 7, .*; give an even number\.$"):
        completed(graph, RelationsSettings(reduce=5, dimension=7), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("widths", "wanted", "expected"),
    [
        ((1902, 1902), {}, 128),
        ((6, 6), {}, 128),
        ((6, 200), {}, 128),
        ((600, 300), {"reduce": 256}, 256),
        ((600, 6), {"reduce": 256}, 128),
        ((600, 300), {"reduce": 255}, 128),  # half of the columns are imaginary parts
        ((1902, 1902), {"dimension": 16}, 16),
    ],
)
def test_embeddings_have_a_width_of_their_own(widths: tuple[int, int], wanted: dict[str, int], expected: int) -> None:
    """However wide the tables are: 1,902 columns once took ten minutes to describe 60 nodes."""
    shapes = {"paper": np.ones((120, widths[0])), "author": np.ones((30, widths[1]))}
    graph = typed_graph({"paper": 120, "author": 30, "place": 4}, WRITES, shapes)
    assert completing.made_width(graph, RelationsSettings(**wanted)) == expected
