"""Graphs of several types through the whole of training: prepared, fitted, saved, read again; nothing leaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.features import missing
from gamlp.graph.folder import save_graph
from gamlp.io import Place, Ranges, RangeWork, State, tally_by_tasks
from gamlp.propagation import HopStore, LocalPropagator
from gamlp.recipe import Recipe
from gamlp.run.evaluation import evaluate_rows
from gamlp.run.prediction_table import batch_probabilities
from gamlp.run.preparation import hops_for, prepare
from gamlp.run.source import open_source, resolve_recipe
from gamlp.training.batches import Batches, OwnBatches
from gamlp.training.bundle import Bundle
from gamlp.training.ranks.world import World
from gamlp.training.rows import from_store, plan_of, rows_of
from gamlp.training.seeds import bundle_of
from gamlp.training.typed import expected_shape, prepare_graph, resolve_relations, views_of
from tests.conformance.engines import one_after_the_other
from tests.conformance.typed_graphs import TARGET
from tests.training.small import ONE_THREAD, trained
from tests.training.typed_small import RECIPE, planted, relabelled

CPU = torch.device("cpu")
SAMPLED = RECIPE.changed({"training.subset_sample": 2, "relations.separate_types": "yes"})


@pytest.mark.parametrize("way", ["complex", "mean"])
def test_features_are_made_by_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Embeddings, means and reduced columns, by a process that opens the graph's folder: nobody else computes them."""
    changes = {"relations.missing": way, "relations.dimension": 4, "relations.reduce": 2 if way == "mean" else 0}
    recipe = RECIPE.changed({name: value for name, value in changes.items() if value})
    made = [planted().graph().save(tmp_path / name / "graph") for name in ("here", "there")]
    engine, at_work, done = LocalPropagator(), [False], []
    expected, _ = prepare_graph(made[0], recipe, tmp_path / "here", engine)

    kept = missing.Cache.keep

    def keep(self: Any, *given: Any) -> Any:
        assert at_work[0], "the driver makes features"
        done.append("kept")
        return kept(self, *given)

    monkeypatch.setattr(missing.Cache, "keep", keep)

    def take(work: RangeWork, ranges: Ranges, stage: str = "", progress: Any = None) -> Iterator[State]:
        at_work[0] = True
        yield from tally_by_tasks(one_after_the_other, Place.of(tmp_path / "there"), work, ranges, stage)
        at_work[0] = False

    found, _ = prepare_graph(made[1], recipe, tmp_path / "there", engine, take=take)
    assert "kept" in done
    for name, nodes in expected.node_types.items():
        features = found.node_types[name].features
        assert nodes.features is not None and features is not None
        assert np.array_equal(features.values[:], nodes.features.values[:])


def test_the_shape_is_known_before_and_after(tmp_path: Path) -> None:
    graph = planted().graph()
    recipe, notes = resolve_relations(graph, RECIPE)
    views = views_of(recipe)
    assert views is not None and len(views) == 7 and not notes
    assert resolve_relations(graph, recipe) == (recipe, [])
    assert recipe.relations.separate_types == "yes", "widths differ"
    prepared = prepare(graph, RECIPE, tmp_path, resources=ONE_THREAD)
    assert prepared.recipe == recipe and prepared.shape.label_views == views
    node_types = [(part.node_type, part.width) for part in prepared.shape.parts]
    assert node_types == [(TARGET, 4)] * 7 + [("author", 3)] * 4 + [("venue", 4)] * 4
    guessed = expected_shape(graph, RECIPE)
    assert [(part.view, part.node_type) for part in guessed.parts] == [
        (part.view, part.node_type) for part in prepared.shape.parts
    ]
    same_width = planted(widths=(4, 4)).graph()
    assert prepare_graph(same_width, RECIPE, tmp_path / "same", LocalPropagator())[1].relations.separate_types == "no"
    assert expected_shape(same_width, RECIPE).node_types == (None,)


@pytest.mark.parametrize("changes", [{}, {"propagation.folds": 3}, {"model.name": "nars", "model.beta": 0.0}], ids=str)
def test_a_bundle_reads_what_was_trained(changes: dict[str, Any], tmp_path: Path) -> None:
    graph = planted().graph()
    recipe = RECIPE.changed({"training.epochs": 30, **changes})
    prepared = prepare(graph, recipe, tmp_path / "run", resources=ONE_THREAD)
    fitted = trained(prepared)
    bundle = bundle_of(prepared, fitted, 0)
    again = Bundle.load(bundle.save(tmp_path / "bundle.safetensors"))
    assert again.shape == prepared.shape and again.recipe == prepared.recipe
    test = np.flatnonzero(planted().roles == 3)
    store = hops_for(again, graph, tmp_path / "hops", ONE_THREAD)
    one, two = _probabilities(bundle, prepared.store), _probabilities(again, store)
    assert np.array_equal(one, two)
    assert evaluate_rows({0: again}, store, test)["mean"]["score"] > 0.7, "authors tell the class"


def _probabilities(bundle: Bundle, store: HopStore) -> np.ndarray:
    return np.concatenate([found for _, found in batch_probabilities(bundle, store, range(60))])


def test_labels_of_other_rows_change_no_byte_of_any_hop(tmp_path: Path) -> None:
    case = planted()
    recipe = RECIPE.changed({"propagation.folds": 2, "relations.reduce": 2})
    for name, one in (("one", case), ("two", relabelled(case))):
        prepare(one.graph(), recipe, tmp_path / name, resources=ONE_THREAD)
    assert not np.array_equal(case.labels, relabelled(case).labels)
    files = {name: _hops(tmp_path / name) for name in ("one", "two")}
    assert len(files["one"]) > 15 + 7 + 7 and files["one"] == files["two"]
    assert any("made" in name for name in files["one"]), "features that were made are compared too"


def _hops(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    copied = ("labels.npy", "store.json")  # the answers themselves, and their checksum
    return {name: content for name, content in found.items() if Path(name).name not in copied}


def test_some_views_a_step_are_the_same_batches_from_memory_and_from_disk(tmp_path: Path) -> None:
    prepared = prepare(planted().graph(), SAMPLED, tmp_path, resources=ONE_THREAD)
    source = prepared.train
    assert source.sample == 2 and prepared.valid is not None and prepared.valid.sample == 0
    held, streamed = Batches(source, 16, CPU), Batches(source, 16, CPU, memory=0)
    assert held.resident and not streamed.resident
    seen = set()
    for epoch in range(3):
        generators = [torch.Generator().manual_seed(epoch) for _ in range(2)]
        pairs = list(zip(held.epoch(generators[0]), streamed.epoch(generators[1]), strict=True))
        assert len(pairs) == 2
        for one, other in pairs:
            assert one.views is not None and one.views == other.views and len(one.views) == 2
            seen.add(one.views)
            assert torch.equal(one.x, other.x) and torch.equal(one.y, other.y) and np.array_equal(one.rows, other.rows)
            channels = source.channels_of(one.views)
            names = {source.views[view] for view in one.views}
            assert [source.channels[number].split("@")[1] in names for number in channels] == [True] * len(channels)
            x, y = source.gather(np.searchsorted(source.rows, one.rows))
            assert y is not None
            assert np.array_equal(one.x.numpy(), x[:, channels]) and np.array_equal(
                one.y.numpy(), y[:, list(one.views)]
            )
    assert len(seen) > 2, "another sample at each step"
    whole = next(iter(held.epoch()))
    assert whole.views is None and whole.x.shape[1] == len(source.channels)


def test_ranks_read_their_rows_of_the_same_views(tmp_path: Path) -> None:
    prepared = prepare(planted().graph(), SAMPLED, tmp_path, resources=ONE_THREAD)
    whole = list(Batches(prepared.train, 16, CPU).epoch(torch.Generator().manual_seed(5)))
    ranks = []
    for rank in range(2):
        own = OwnBatches(prepared.train, 16, CPU, world=World(rank, 2))
        ranks.append(list(own.epoch(torch.Generator().manual_seed(5))))
    for one, *parts in zip(whole, *ranks, strict=True):
        assert all(part.views == one.views for part in parts)
        rows = np.concatenate([part.rows for part in parts])
        assert sorted(rows) == sorted(one.rows)
        x = torch.cat([part.x for part in parts])
        assert torch.equal(x[np.argsort(rows)], one.x[np.argsort(one.rows)])


def test_the_memory_of_a_batch_is_linear_in_subsets(tmp_path: Path) -> None:
    graph = planted(widths=(4, 4)).graph()
    sizes = {}
    for count in (1, 2, 4):
        subsets = [["cites"], ["writes"], ["appears-in"], ["cites", "writes"]][:count]
        recipe = RECIPE.changed({"relations.subsets": subsets})
        source = prepare(graph, recipe, tmp_path / str(count), resources=ONE_THREAD).train
        batch = next(iter(Batches(source, 16, CPU).epoch()))
        sizes[count] = batch.x.nbytes + batch.y.nbytes
        assert sizes[count] == 16 * source.row_bytes
    assert sizes == {count: count * sizes[1] for count in sizes}


def test_training_on_some_views_a_step_learns_and_is_the_same_for_a_seed(tmp_path: Path) -> None:
    graph = planted().graph()
    prepared = prepare(graph, SAMPLED.changed({"training.epochs": 40}), tmp_path, resources=ONE_THREAD)
    one, two = trained(prepared), trained(prepared)
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)
    assert one.valid["score"] > 0.7
    every = trained(dataclasses.replace(prepared, train=dataclasses.replace(prepared.train, sample=0)))
    assert any(not torch.equal(one.weights[name], every.weights[name]) for name in one.weights)


def test_a_store_by_itself_says_its_subsets(tmp_path: Path) -> None:
    graph, recipe = prepare_graph(
        planted().graph(),
        RECIPE.changed({"relations.subsets": [["writes"], ["cites", "writes"]]}),
        tmp_path,
        LocalPropagator(),
    )
    LocalPropagator(threads=1).propagate(graph, plan_of(recipe), tmp_path / "store")
    source = open_source(str(tmp_path / "store"))
    found, _ = resolve_recipe(source, Recipe.of({"training": {"epochs": 2}}))
    assert views_of(found) == ("writes", "cites+writes") and found.relations.separate_types == "yes"
    prepared = from_store(HopStore.open(tmp_path / "store"), found)
    assert prepared.shape.label_views == ("writes", "cites+writes") and trained(prepared).epochs == 2
    with pytest.raises(GamlpError, match="no hops on the relations cites, which the recipe reads"):
        from_store(HopStore.open(tmp_path / "store"), found.changed({"relations.subsets": [["cites"]]}))


def _bundle(graph: Graph, recipe: Recipe, folder: Path) -> Bundle:
    prepared = prepare(graph, recipe, folder, resources=ONE_THREAD)
    return bundle_of(prepared, trained(prepared), 0)


def test_another_graph_is_predicted_where_nothing_was_made_for_the_first(tmp_path: Path) -> None:
    bundle = _bundle(planted().graph(), RECIPE.changed({"relations.reduce": 0}), tmp_path / "run")
    other = planted(90, seed=0)
    assert other.graph().nodes.count == 90
    store = hops_for(bundle, other.graph(), tmp_path / "other", ONE_THREAD)
    read = rows_of(store, bundle.recipe, np.arange(90))
    assert read.gather(np.arange(90))[0].shape[:2] == (90, bundle.shape.channels)
    # The default brings features wider than 256 down, and these are not: nothing was made.
    bundle = _bundle(planted().graph(), RECIPE, tmp_path / "default")
    hops_for(bundle, other.graph(), tmp_path / "other-default", ONE_THREAD)


@pytest.mark.parametrize("made", [{"relations.reduce": 2}, {"relations.missing": "complex"}], ids=str)
def test_what_was_made_for_one_graph_is_refused_on_another(made: dict[str, Any], tmp_path: Path) -> None:
    if "relations.missing" in made:
        pytest.importorskip("torch_geometric", reason="ComplEx comes with gamlp[datasets]")
        made = {**made, "relations.dimension": 4, "relations.embedding_epochs": 1}
    bundle = _bundle(planted().graph(), RECIPE.changed(made), tmp_path / "run")
    with pytest.raises(GamlpError, match="were made for the graph of training mean nothing on graph 'typed'"):
        hops_for(bundle, planted(90).graph(), tmp_path / "other", ONE_THREAD)
    assert not (tmp_path / "other").exists(), "refused before anything is made"
    hops_for(bundle, planted().graph(), tmp_path / "same", ONE_THREAD)
    # Of other features on the same edges, embeddings are the same, and a basis is not.
    case = planted()
    changed = dataclasses.replace(case, features=planted(seed=1).features).graph()
    if "relations.reduce" in made:
        with pytest.raises(GamlpError, match="were made for the graph of training"):
            hops_for(bundle, changed, tmp_path / "changed", ONE_THREAD)
    else:
        hops_for(bundle, changed, tmp_path / "changed", ONE_THREAD)


def test_a_graph_of_other_types_or_of_one_relation_is_refused(tmp_path: Path) -> None:
    bundle = _bundle(planted().graph(), RECIPE.changed({"relations.reduce": 0}), tmp_path / "run")
    with pytest.raises(GamlpError, match="has 5 features of author where the model expects 3"):
        hops_for(bundle, planted(widths=(4, 5)).graph(), tmp_path / "wide", ONE_THREAD)
    case = planted()
    fewer = dataclasses.replace(case, relations=[relation for relation in case.relations if relation.name != "cites"])
    with pytest.raises(GamlpError, match="cites"):
        hops_for(bundle, fewer.graph(), tmp_path / "fewer", ONE_THREAD)


def test_a_graph_folder_is_used_as_the_graph_in_memory_is(tmp_path: Path) -> None:
    graph = planted().graph()
    save_graph(graph, tmp_path / "graph")
    one = prepare(graph, RECIPE, tmp_path / "one", resources=ONE_THREAD)
    two = prepare(Graph.open(tmp_path / "graph"), RECIPE, tmp_path / "two", resources=ONE_THREAD)
    for found, other in zip(one.train.gather(np.arange(9)), two.train.gather(np.arange(9))):
        assert np.array_equal(found, other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training.setting": "inductive"}, "inductive setting reads graphs of one relation"),
        (
            {"model.name": "sign-xl", "propagation.also_r": [0.0]},
            "further operators are read on graphs of one relation",
        ),
        ({"relations.subsets": [["cite"]]}, "did you mean 'cites'"),
    ],
    ids=str,
)
def test_what_cannot_be_is_told(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(GamlpError, match=said):
        resolve_relations(planted().graph(), RECIPE.changed(changes))
