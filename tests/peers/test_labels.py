"""Methods with labels around a model: the contract, what is written out by hand, and what must not leak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.classifier import NodeClassifier
from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, Labels, Split, hash_key
from gamlp.graph.datasets.loading import load
from gamlp.peers.contract import Report, Task, Workspace
from gamlp.peers.hops import prepare_task, store_probabilities
from gamlp.peers.labels import _predicted, _with_predictions
from gamlp.peers.registry import METHODS, method, recipe_for, run
from gamlp.peers.smoothing import correct_and_smooth
from gamlp.propagation import LabelSignal, LocalPropagator, Operator, Plan
from gamlp.recipe import Recipe
from gamlp.run.source import Source
from gamlp.run.training import train
from gamlp.training.loop import Machine
from gamlp.training.seeds import fit_prepared
from tests.graph.test_id_hash import by_hand

COUNT, CLASSES = 90, 3
QUICK = {"epochs": 8, "patience": 0, "learning_rate": 0.02}
REUSE = {
    "propagation": {"hops": 2, "label_hops": 2, "folds": 3},
    "model": {"hidden": 8, "layers": 1, "label_layers": 1, "dropout": 0.0},
    "training": {**QUICK, "reuse": 2},
}
SMOOTH = {
    "model": {"name": "sgc", "hidden": 8, "layers": 1},
    "training": QUICK,
    "smoothing": {"smooth_alpha": 0.7, "smooth_steps": 10, "correct_steps": 10},
}


@pytest.fixture
def graph() -> Graph:
    """Three communities; rows 80 to 89 have no role."""
    random = np.random.default_rng(0)
    truth = random.permutation(np.arange(COUNT) % CLASSES)
    pairs = random.integers(0, COUNT, (2, 900))
    alike = truth[pairs[0]] == truth[pairs[1]]
    edges = pairs[:, alike | (random.uniform(size=900) < 0.15)]
    features = np.eye(CLASSES)[truth] + random.normal(size=(COUNT, CLASSES)) * 1.5
    split = Split.of(COUNT, train=np.arange(24), valid=np.arange(24, 50), test=np.arange(50, 80))
    return Graph.from_arrays(edges, features, truth, split=split)


def with_other_labels(graph: Graph, rows: Any) -> Graph:
    assert graph.nodes.labels is not None
    values = graph.nodes.labels.values.copy()
    values[rows] = (values[rows] + 1) % CLASSES
    return graph.with_targets(labels=Labels(values, graph.nodes.labels.classes))


def accuracy(graph: Graph, report: Report, part: str) -> float:
    assert graph.nodes.labels is not None and graph.nodes.split is not None and report.probabilities is not None
    rows = graph.nodes.split.rows(part)
    return float((report.probabilities[rows].argmax(1) == graph.nodes.labels.values[rows]).mean())


@pytest.mark.parametrize(
    "content", [{"model": {"name": "label-propagation"}}, SMOOTH, REUSE, {**REUSE, "smoothing": {}}]
)
def test_the_report_is_of_the_probabilities_it_gives(content: dict[str, Any], graph: Graph, tmp_path: Path) -> None:
    recipe = Recipe.of(content)
    report = run(graph, recipe, 0, Workspace(tmp_path, probabilities=True))
    assert report.probabilities is not None and report.probabilities.shape == (COUNT, CLASSES)
    assert np.allclose(report.probabilities.sum(1), 1, atol=1e-5) and report.probabilities.min() >= 0
    assert report.valid["score"] == pytest.approx(accuracy(graph, report, "valid"))
    assert report.test["score"] == pytest.approx(accuracy(graph, report, "test"))
    assert {"score", "loss", "macro_f1", "roc_auc"} <= set(report.test) and set(report.valid) == {"score", "loss"}
    again = run(graph, recipe, 0, Workspace(tmp_path))
    assert again.probabilities is None and again.test == report.test and again.valid == report.valid
    other = run(with_other_labels(graph, slice(50, None)), recipe, 0, Workspace(tmp_path, probabilities=True))
    assert other.probabilities is not None and np.array_equal(
        other.probabilities, report.probabilities
    )  # test labels entered nowhere


def test_label_propagation_has_no_parameters_and_all_its_time_is_inference(graph: Graph, tmp_path: Path) -> None:
    report = run(graph, Recipe.of({"model": {"name": "label-propagation"}}), 0, Workspace(tmp_path))
    assert report.parameters == 0 and report.seconds.preparation == report.seconds.training == 0
    assert report.seconds.inference > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [({"alpha": 2.0}, r"model\.options\.alpha"), ({"step": 5}, r"model\.options\.step.*it has alpha, steps, clamped")],
)
def test_a_wrong_option_of_label_propagation_is_told(
    options: dict[str, Any], told: str, graph: Graph, tmp_path: Path
) -> None:
    with pytest.raises(GamlpError, match=told):
        run(graph, Recipe.of({"model": {"name": "label-propagation", "options": options}}), 0, Workspace(tmp_path))


def test_smoothing_comes_after_the_base_and_leaves_the_rest_of_its_report(graph: Graph, tmp_path: Path) -> None:
    recipe, place = Recipe.of(SMOOTH), Workspace(tmp_path, probabilities=True)
    assert recipe.smoothing is not None
    base = run(graph, recipe.changed({"smoothing": None}), 0, place)
    found = run(graph, recipe, 0, place)
    assert base.probabilities is not None and found.probabilities is not None
    assert np.array_equal(found.probabilities, correct_and_smooth(graph, base.probabilities, recipe.smoothing))
    assert np.abs(found.probabilities - base.probabilities).max() > 0.05
    assert (found.parameters, found.epoch, found.epochs) == (base.parameters, base.epoch, base.epochs)


def test_smoothing_follows_a_method_that_passes_messages_too(graph: Graph, tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    recipe = Recipe.of({"model": {"name": "gcn", "hidden": 8, "layers": 2}, "training": QUICK, "smoothing": {}})
    report = run(graph, recipe, 0, Workspace(tmp_path, probabilities=True))
    assert report.test["score"] == pytest.approx(accuracy(graph, report, "test"))


def dense(graph: Graph, r: float) -> np.ndarray:
    matrix = np.eye(COUNT)
    for rows, columns, _ in graph.relation.edges():
        matrix[rows, columns] = 1
    degrees = matrix.sum(1)
    return degrees[:, None] ** (r - 1) * matrix * degrees ** (-r)


def test_soft_labels_are_propagated_beside_training_labels_fold_by_fold(graph: Graph, tmp_path: Path) -> None:
    said = np.random.default_rng(1).dirichlet(np.ones(CLASSES), COUNT).astype(np.float32)
    assert graph.nodes.labels is not None and graph.nodes.split is not None
    spoken = replace(graph, node_types={"node": replace(graph.nodes, features=Features(said))})
    signal = LabelSignal(hops=3, operator=Operator(r=0.3), folds=4, soft=True)
    store = LocalPropagator().propagate(spoken, Plan(features=None, labels=signal), tmp_path / "soft")
    train, matrix = graph.nodes.split.train, dense(graph, 0.3)
    truth = np.eye(CLASSES)[graph.nodes.labels.values]
    first = said.astype(np.float64)
    first[train] = truth[train]
    wanted = np.stack([np.linalg.matrix_power(matrix, k) @ first for k in range(4)], 1)
    assert np.abs(store.signals["labels"].gather(np.arange(COUNT)) - wanted).max() < 1e-5
    folds = np.array([by_hand(str(row).encode(), hash_key(0, "folds")) % 4 for row in train])
    found = store.signals["crossfit"].gather(train)
    for fold in range(4):
        own = first.copy()
        own[train[folds == fold]] = said[train[folds == fold]]  # what was said of them, not their labels
        wanted = np.stack([np.linalg.matrix_power(matrix, k) @ own for k in range(4)], 1)[train]
        assert np.abs(found - wanted)[folds == fold].max() < 1e-5
    with pytest.raises(GamlpError, match="soft labels of 3 columns for 4 classes"):
        four = spoken.with_targets(labels=Labels(graph.nodes.labels.values, ("a", "b", "c", "d")))
        LocalPropagator().propagate(four, Plan(features=None, labels=signal), tmp_path / "wrong")


def test_a_training_row_never_meets_its_own_label_in_a_later_round(graph: Graph, tmp_path: Path) -> None:
    recipe, place = Recipe.of(REUSE).changed({"training.reuse": 0}), Workspace(tmp_path / "a", probabilities=True)
    prepared, _ = prepare_task(Task(graph), recipe, place)
    fitted = fit_prepared(prepared, 0, Machine())
    said = _predicted(graph, prepared, fitted, place)
    x, y = prepared.train.gather(np.arange(len(prepared.train)))  # cross-fitted
    assert y is not None
    with torch.no_grad():
        wanted = torch.softmax(fitted.model(torch.from_numpy(x), torch.from_numpy(y)), 1).numpy()
    assert np.abs(said[prepared.train.rows] - wanted).max() < 1e-6
    plain = store_probabilities(graph, prepared, fitted, torch.device("cpu"))[prepared.train.rows]
    assert np.abs(said[prepared.train.rows] - plain).max() > 1e-4
    second = _with_predictions(graph, prepared, said, tmp_path / "one", place)
    other = _with_predictions(with_other_labels(graph, [5]), prepared, said, tmp_path / "two", place)
    (_, before), (_, after) = (one.train.gather(np.array([5])) for one in (second, other))
    assert before is not None and after is not None and np.array_equal(before, after)
    (_, before), (_, after) = (one.train.gather(np.arange(24)) for one in (second, other))
    assert before is not None and after is not None and not np.array_equal(before, after)  # other folds hear of it


def test_the_round_that_is_best_on_validation_rows_is_kept(graph: Graph, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    report = run(graph, Recipe.of(REUSE), 3, Workspace(tmp_path, observe=lines.append))
    assert [line["epoch"] for line in lines] == 3 * list(range(1, 9))
    best = max(lines, key=lambda line: (line["valid_score"], -line["valid_loss"]))
    assert report.valid == {"score": best["valid_score"], "loss": best["valid_loss"]}
    assert report.epoch == best["epoch"]
    assert not list(tmp_path.glob("tmp*"))  # later rounds' hops are gone


def test_what_cannot_be_done_is_told(graph: Graph, tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    for content in ({"model": {"name": "label-propagation"}}, SMOOTH, REUSE):
        recipe = Recipe.of(content)
        with pytest.raises(GamlpError, match="so it cannot be inductive"):
            run(graph, recipe.changed({"training.setting": "inductive"}), 0, place)
        with pytest.raises(GamlpError, match="so it cannot be inductive"):
            run(Task(graph, tests={"other": graph}), recipe, 0, place)
    with pytest.raises(GamlpError, match="a recipe around a model, not a model"):
        run(graph, Recipe.of({"model": {"name": "correct-and-smooth"}}), 0, place)
    with pytest.raises(GamlpError, match="'sgc' reads no labels"):
        run(graph, Recipe.of({"model": {"name": "sgc"}, "training": {"reuse": 1}}), 0, place)
    with pytest.raises(GamlpError, match="'gcn' reads no hops of labels"):
        run(graph, Recipe.of({"model": {"name": "gcn"}, "training": {"reuse": 1}}), 0, place)
    assert graph.nodes.split is not None
    none = graph.with_targets(split=Split.of(COUNT, train=np.arange(24), valid=[], test=np.arange(50, 80)))
    with pytest.raises(GamlpError, match="chooses its round by validation rows"):
        run(none, Recipe.of(REUSE), 0, place)
    with pytest.raises(GamlpError, match="for all nodes at once"):
        run(graph, Recipe.of(SMOOTH), 0, Workspace(tmp_path, replace(place.resources, memory=100)))


@pytest.mark.parametrize(("content", "told"), [(SMOOTH, "Correct & Smooth"), (REUSE, "label reuse")])
def test_where_one_model_is_trained_and_saved_it_is_refused(
    content: dict[str, Any], told: str, graph: Graph, tmp_path: Path
) -> None:
    with pytest.raises(GamlpError, match=f"{told}.*a saved model is one alone"):
        train(Source("arrays", None, graph), Recipe.of(content), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(GamlpError, match=f"{told}.*a saved model is one alone"):
        NodeClassifier(content).fit(graph)


@pytest.mark.parametrize("name", ["label-propagation", "correct-and-smooth", "label-reuse"])
def test_every_method_has_a_recipe_that_says_its_source(name: str) -> None:
    assert method(name).family == "labels"
    recipe = recipe_for(name, "cora")
    assert recipe.model.name in METHODS and len(recipe.about) > 80
    assert (recipe.smoothing is not None) == (name == "correct-and-smooth")
    assert (recipe.training.reuse > 0) == (name == "label-reuse")


def test_on_cora_label_propagation_beats_the_majority_by_thirty_points(data_dir: Path, tmp_path: Path) -> None:
    graph = load("cora", data_dir)
    report = run(graph, recipe_for("label-propagation", "cora"), 0, Workspace(tmp_path))
    assert report.test["score"] > _majority(graph) + 0.30


@pytest.mark.slow
def test_on_cora_correct_and_smooth_is_at_least_five_points_better_than_its_base(
    data_dir: Path, tmp_path: Path
) -> None:
    graph, recipe = load("cora", data_dir), recipe_for("correct-and-smooth", "cora")
    base = run(graph, recipe.changed({"smoothing": None}), 0, Workspace(tmp_path))
    assert run(graph, recipe, 0, Workspace(tmp_path)).test["score"] > base.test["score"] + 0.05


def test_on_cora_smoothing_sgc_loses_at_most_two_points(data_dir: Path, tmp_path: Path) -> None:
    graph, smoothing = load("cora", data_dir), recipe_for("correct-and-smooth").explicit()["smoothing"]
    sgc = recipe_for("sgc", "cora")
    base = run(graph, sgc, 0, Workspace(tmp_path))
    found = run(graph, sgc.changed({"smoothing": smoothing}), 0, Workspace(tmp_path))
    assert found.test["score"] > base.test["score"] - 0.02


@pytest.mark.slow
def test_on_cora_label_reuse_beats_the_majority_by_forty_points(data_dir: Path, tmp_path: Path) -> None:
    graph = load("cora", data_dir)
    quick = recipe_for("label-reuse", "cora").changed({"training.epochs": 20, "training.reuse": 1})
    assert run(graph, quick, 0, Workspace(tmp_path)).test["score"] > _majority(graph) + 0.40


def _majority(graph: Graph) -> float:
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    known = np.bincount(labels.values[split.test])
    return float(known.max() / known.sum())
