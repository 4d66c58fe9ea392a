"""ComplEx embeddings: the score, what is learned, the same bytes for a seed and after an interruption, no labels."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, Labels, Relation, Split
from gamlp.graph.datasets.loading import load
from gamlp.graph.features.complex import entity_starts, triples_of
from gamlp.graph.features.missing import completed
from gamlp.recipe import RelationsSettings
from tests.graph.features.test_missing import Array, matrix, typed_graph, values

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from gamlp.graph.features import complex as embedding  # noqa: E402

GROUPS = 6
BRIEF = RelationsSettings(dimension=8, embedding_epochs=4)


def planted(seed: int = 0, *, authors: int = 180, papers: int = 240) -> Graph:
    """Authors write papers of their own group only, one in four of them: who knows the groups knows the edges."""
    same = (np.arange(authors) % GROUPS)[:, None] == (np.arange(papers) % GROUPS)[None]
    return typed_graph(
        {"paper": papers, "author": authors},
        {"writes": ("author", "paper", same * matrix(authors, papers, seed, 0.25))},
        {"paper": np.ones((papers, 4))},
    )


def small() -> Graph:
    return planted(authors=24, papers=36)


def made(folder: Path, node_type: str = "author") -> bytes:
    (file,) = (folder / "made").glob(f"{node_type}-*.npy")
    return file.read_bytes()


def test_the_score_is_the_real_part_of_a_trilinear_product() -> None:
    """Re⟨h, r, conj(t)⟩, for the true triples by PyG and for the others by products of matrices."""
    graph = small()
    triples = triples_of(graph)
    model = embedding.new_model(60, 1, 5, seed=0)
    weights = {name: value.detach().numpy().astype(np.float64) for name, value in model.named_parameters()}
    entity = weights["node_emb.weight"] + 1j * weights["node_emb_im.weight"]
    relation = (weights["rel_emb.weight"] + 1j * weights["rel_emb_im.weight"])[0]

    def score(head: int, tail: int) -> float:
        return float(np.real(np.sum(entity[head] * relation * np.conj(entity[tail]))))

    rows, heads, tails = np.array([0, 7, 20]), np.array([36, 50]), np.array([3, 4, 5, int(triples.tails[7])])
    loss, penalty = embedding.batch_loss(model, triples, 0, rows, (heads, tails))
    expected, cubes = [], []
    for row in rows:
        head, tail = int(triples.heads[row]), int(triples.tails[row])
        true = score(head, tail)
        np.testing.assert_allclose(float(model(*map(torch.tensor, ([head], [0], [tail]))).detach()), true, rtol=1e-4)
        for wrong in (
            [score(head, other) for other in tails if other != tail],
            [score(other, tail) for other in heads if other != head],
        ):
            expected.append(-np.log(np.exp(true) / (np.exp(true) + np.exp(wrong).sum())))
        cubes.append((np.abs(entity[[head, tail]]) ** 3).sum())
    np.testing.assert_allclose(float(loss.detach()), np.mean(expected), rtol=1e-5)
    np.testing.assert_allclose(float(penalty.detach()), np.mean(cubes), rtol=1e-4)


def test_triples_are_the_edges_of_one_direction_of_each_link() -> None:
    writes, cites = matrix(5, 9, 1), np.triu(matrix(9, 9, 2), 1)
    graph = typed_graph({"author": 5, "paper": 9}, {"writes": ("author", "paper", writes)})
    both = typed_graph({"paper": 9}, {"cites": ("paper", "paper", cites + cites.T)}, reverses=False).relations["cites"]
    graph = replace(graph, relations={**graph.relations, "cites": replace(both, directed=False)})
    triples = triples_of(graph)
    assert triples.heads.dtype == triples.tails.dtype == np.int32
    edges = np.stack([triples.heads, triples.tails], 1)
    of_writes, of_cites = np.split(edges, [triples.stops[0]])
    assert sorted(map(tuple, of_writes.tolist())) == [(a, p + 5) for a, p in np.argwhere(writes).tolist()]
    once = {tuple(sorted(pair)) for pair in of_cites.tolist()}  # one of both directions, whichever
    assert len(once) == len(of_cites) and once == {(a + 5, b + 5) for a, b in np.argwhere(cites).tolist()}


def test_negatives_are_of_the_types_that_a_link_joins() -> None:
    graph = typed_graph(
        {"paper": 50, "author": 20, "place": 3},
        {"writes": ("author", "paper", matrix(20, 50, 3)), "works": ("author", "place", matrix(20, 3, 4, 0.9))},
    )
    triples, draws = triples_of(graph), np.random.default_rng(0)
    heads, tails = triples.others(0, 10, draws)
    assert len(heads) == len(tails) == 10 and ((heads >= 50) & (heads < 70)).all() and (tails < 50).all()
    heads, tails = triples.others(1, 10, draws)
    assert ((heads >= 50) & (heads < 70)).all() and tails.tolist() == [70, 71, 72]  # few: each once
    seen = list(triples.batches(np.arange(0, len(triples), 2), 16, draws))
    assert {relation for relation, _ in seen} == {0, 1} and max(len(rows) for _, rows in seen) == 16
    assert sorted(np.concatenate([rows for _, rows in seen])) == list(range(0, len(triples), 2))
    bounds = [0, *triples.stops]
    assert all(((rows >= bounds[relation]) & (rows < bounds[relation + 1])).all() for relation, rows in seen)


def test_edges_that_were_held_out_are_ranked_far_better_than_by_chance(tmp_path: Path) -> None:
    """A true paper is among 240, of which 40 share the author's group: groups known, its mean rank is about 20."""
    graph = planted()
    held = _without(graph, every=20)
    found = completed(held[0], RelationsSettings(dimension=32, embedding_epochs=60), tmp_path)
    # With one link, its weights can be taken into the papers: what remains is a nearest neighbour of group means.
    authors = values(found, "author")
    assert authors.shape == (180, 32)
    groups = np.arange(180) % GROUPS
    unit = authors / np.linalg.norm(authors, axis=1, keepdims=True)
    alike = unit @ unit.T - 2 * np.eye(180)
    assert np.mean(groups[alike.argmax(1)] == groups) > 0.95  # by chance one in six
    triples, training = triples_of(held[0]), embedding.Training(32, 60, 0, embedding.Place.of(tmp_path / "again"))
    embedding._train(triples, 420, training, lambda *_, **__: None)
    model = embedding.new_model(420, 1, 16, 0)
    model.load_state_dict(embedding._read(training.best))
    ranks = []
    with torch.no_grad():
        for author, paper in held[1]:
            scores = model(torch.tensor([240 + author]), torch.tensor([0]), torch.arange(240))
            ranks.append(int((scores > scores[paper]).sum()) + 1)
    assert len(ranks) > 80 and np.mean(ranks) < 35  # by chance 120


def _without(graph: Graph, every: int) -> tuple[Graph, list[tuple[int, int]]]:
    pairs = [
        (int(author), int(paper))
        for rows, cols, _ in graph.relations["writes"].edges()
        for paper, author in zip(rows, cols)
    ]
    kept, dense = [pair for index, pair in enumerate(pairs) if index % every], np.zeros((180, 240))
    dense[tuple(np.transpose(kept))] = 1
    features = graph.node_types["paper"].features
    assert features is not None
    smaller = typed_graph(
        {"paper": 240, "author": 180}, {"writes": ("author", "paper", dense)}, {"paper": features.values}
    )
    return smaller, pairs[::every]


def of_author(names: Iterable[str]) -> bool:
    """Whether these are the features of authors and their checksum, and nothing else."""
    return [re.sub("-[0-9a-f]+", "", name) for name in sorted(names)] == ["author.npy", "author.npy.json"]


def test_a_seed_says_every_byte_and_only_what_is_missing_is_made(tmp_path: Path) -> None:
    for name in ("a", "b"):
        found = completed(small(), BRIEF, tmp_path / name)
        assert values(found, "author").shape == (24, 8) and values(found, "paper").shape == (36, 4)
        assert of_author(file.name for file in (tmp_path / name / "made").iterdir())
        torch.rand(3)  # whatever else draws numbers
    completed(small(), BRIEF.model_copy(update={"seed": 1}), tmp_path / "c")
    assert made(tmp_path / "a") == made(tmp_path / "b") != made(tmp_path / "c")


@pytest.mark.parametrize("width", [6, 0])
def test_the_width_is_what_is_asked_for_else_128(width: int, tmp_path: Path) -> None:
    graph = small().with_features(paper=Features(np.ones((36, 7), np.float32)))
    settings = RelationsSettings(embedding_epochs=1, dimension=width)
    found = values(completed(graph, settings, tmp_path), "author")
    assert found.shape == (24, width or 128) and np.isfinite(found).all()


def test_labels_and_splits_never_enter(tmp_path: Path) -> None:
    draws = np.random.default_rng(5)
    for name in ("a", "b"):
        labels = Labels(draws.integers(0, 3, 36).astype(np.int32), ("x", "y", "z"))
        rows = draws.permutation(36)
        split = Split.of(36, train=rows[:12], valid=rows[12:24], test=rows[24:])
        completed(small().with_targets(labels=labels, split=split), BRIEF, tmp_path / name)
    assert made(tmp_path / "a") == made(tmp_path / "b")


@pytest.mark.parametrize("place", ["here", "memory"])
def test_an_interrupted_run_goes_on_to_the_same_bytes(place: str, tmp_path: Path) -> None:
    beside = embedding.Place.of(tmp_path / "b" if place == "here" else f"memory://{tmp_path.name}-complex")
    whole = completed(small(), BRIEF, tmp_path / "a")
    stages: list[str] = []

    def interrupted(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        if stage.startswith("ComplEx embeddings, epoch 3 "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        completed(small(), BRIEF, beside, interrupted)
    names = (beside / "made").names()
    assert [name.split(".", 1)[1] for name in names] == ["best.safetensors", "checkpoint.safetensors"]
    found = completed(small(), BRIEF, beside, lambda stage, *_, **__: stages.append(stage))
    assert list(dict.fromkeys(stages)) == [f"ComplEx embeddings, epoch {epoch} of at most 4" for epoch in (3, 4)]
    np.testing.assert_array_equal(values(found, "author"), values(whole, "author"))
    assert of_author((beside / "made").names())  # nothing else is left


@pytest.mark.parametrize("damage", ["cut", "foreign", "gone"])
def test_a_damaged_checkpoint_is_begun_anew(damage: str, tmp_path: Path) -> None:
    completed(small(), BRIEF, tmp_path / "a")

    def interrupted(stage: str, *_: Any, **__: Any) -> None:
        if "epoch 2 " in stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        completed(small(), BRIEF, tmp_path / "b", interrupted)
    (checkpoint,) = (tmp_path / "b" / "made").glob("*.checkpoint.safetensors")
    (best,) = (tmp_path / "b" / "made").glob("*.best.safetensors")
    if damage == "gone":
        best.unlink()
    elif damage == "cut":
        best.write_bytes(best.read_bytes()[:-9])
    else:
        checkpoint.write_bytes(best.read_bytes())
    completed(small(), BRIEF, tmp_path / "b")
    assert made(tmp_path / "a") == made(tmp_path / "b")


def test_what_was_trained_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = completed(small(), BRIEF, tmp_path)
    before = made(tmp_path)

    def refuse(*_: Any) -> None:
        raise AssertionError("trained again")

    with monkeypatch.context() as patch:
        patch.setattr(embedding, "_train", refuse)
        np.testing.assert_array_equal(values(completed(small(), BRIEF, tmp_path), "author"), values(first, "author"))
        other = small().with_features(paper=Features(np.zeros((36, 4), np.float32)))
        completed(other, BRIEF, tmp_path)  # features do not enter, only edges
        for changed in (planted(1, authors=24, papers=36), _turned(small())):
            with pytest.raises(AssertionError, match="trained again"):
                completed(changed, BRIEF, tmp_path)
    (file,) = (tmp_path / "made").glob("author-*.npy")
    np.save(file, np.zeros((24, 6), np.float32))
    completed(small(), BRIEF, tmp_path)
    assert made(tmp_path) == before


def _turned(graph: Graph) -> Graph:
    """The same relations, of which none is another's reverse."""
    alone: dict[str, Relation] = {name: replace(each, reverse=None) for name, each in graph.relations.items()}
    return replace(graph, relations=alone)


def test_it_stops_when_held_out_edges_are_no_longer_told_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 2.0, *[2.5] * embedding.PATIENCE, 1.0])
    monkeypatch.setattr(embedding, "held_out_loss", lambda *_: next(losses))
    told: dict[str, str] = {}

    def tell(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        told[stage] = note

    found = completed(small(), RelationsSettings(dimension=8, embedding_epochs=50), tmp_path / "a", tell)
    assert len(told) == 2 + embedding.PATIENCE and list(told.values())[1] == "loss of held-out edges 2.0000"
    losses = iter([3.0, 2.0])  # two epochs alone: the best of all
    best = completed(small(), RelationsSettings(dimension=8, embedding_epochs=2), tmp_path / "b")
    np.testing.assert_array_equal(values(found, "author"), values(best, "author"))


def test_held_out_edges_are_few_seeded_and_not_trained_on() -> None:
    held_out, trained = embedding._parted(1000, 0)
    assert len(held_out) == 20 and sorted([*held_out, *trained]) == list(range(1000))
    assert all(a < b for a, b in pairwise(trained.tolist()))
    assert held_out.tolist() == embedding._parted(1000, 0)[0].tolist() != embedding._parted(1000, 1)[0].tolist()
    assert [len(part) for part in embedding._parted(1, 0)] == [1, 1]


def test_a_graph_without_edges_is_refused(tmp_path: Path) -> None:
    graph = typed_graph({"paper": 4, "author": 3}, {"writes": ("author", "paper", np.zeros((3, 4)))})
    with pytest.raises(GamlpError, match=r"has no edges to train embeddings on; set relations\.missing: none"):
        completed(graph, BRIEF, tmp_path)


def test_without_pyg_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gamlp.graph.features.complex")
    monkeypatch.delattr("gamlp.graph.features.complex")
    monkeypatch.setitem(sys.modules, "torch_geometric.nn.kge", None)
    with pytest.raises(GamlpError, match=r'run: pip install "gamlp\[datasets\]"'):
        completed(small(), BRIEF, tmp_path)


def test_acm_gets_features_of_one_width_for_every_type(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load("hgb-acm", data_dir)
    monkeypatch.setattr(embedding, "BATCH", 8192)  # for the sake of time
    monkeypatch.setattr(embedding, "NEGATIVES", 16)
    terms: Array = values(completed(graph, RelationsSettings(reduce=16, embedding_epochs=1), tmp_path), "term")
    assert terms.shape == (1902, 16) and np.isfinite(terms).all() and terms.std() > 0.01
    assert entity_starts(graph)["author"] == graph.node_types["paper"].count
    mean = completed(graph, RelationsSettings(reduce=16, missing="mean"), tmp_path)
    assert {nodes.features and nodes.features.width for nodes in mean.node_types.values()} == {16}
