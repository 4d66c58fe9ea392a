"""Stages (RLU): Y^(0) of a stage by dense algebra, features shared, the best stage kept, killed and gone on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run.path import run_path
from gamlp.run.source import as_source
from gamlp.run.training import Trained, train
from gamlp.training.bundle import Bundle
from gamlp.training.rows import rows_of
from gamlp.training.run_folder import RunFolder
from gamlp.training.stages import StageEnd, Stages
from gamlp.training.teacher import read_teacher
from tests.training.small import NODES, ONE_THREAD, RECIPE, make_graph, relabelled, rows_of_role, same_weights
from tests.training.typed_small import RECIPE as TYPED
from tests.training.typed_small import planted

STAGED = RECIPE.changed({"training.stages": 3, "training.reliable": 0.5, "training.seeds": [0, 1]})


def trained_in(folder: Path, graph: Graph, recipe: Recipe = STAGED, **more: Any) -> Trained:
    return train(graph, recipe, folder, resources=ONE_THREAD, **more)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_in(tmp_path_factory.mktemp("stages") / "run", make_graph())


def dense(graph: Graph) -> np.ndarray[Any, Any]:
    """D̃^(-1/2) Ã D̃^(-1/2)."""
    whole = np.eye(NODES)
    for rows, neighbours, _ in graph.relation.edges():
        whole[rows, neighbours] = 1
    scale = 1 / np.sqrt(whole.sum(1))
    return scale[:, None] * whole * scale


def test_labels_of_a_stage_are_true_ones_and_what_the_teacher_is_sure_of_propagated(unbroken: Trained) -> None:
    graph = make_graph()
    train_rows, labels = rows_of_role(graph, "train"), graph.nodes.labels
    assert labels is not None
    place = unbroken.run.path / "stages"
    for stage in (1, 2):
        before = RunFolder.open(place / str(stage - 1))
        store = HopStore.open(before.store_path())
        bundle, others = Bundle.load(before.bundle_path), np.setdiff1d(np.arange(NODES), train_rows)
        rows = rows_of(store, bundle.recipe, others)
        teacher = replace(bundle, temperature=1.0).model()  # validation labels gave the temperature
        with torch.no_grad():
            logits = teacher(*rows.tensors(np.arange(len(others))))
        said = torch.softmax(logits, 1).numpy()
        sure = said.max(1) >= 0.5
        first = np.zeros((NODES, 3))
        first[train_rows, labels.values[train_rows]] = 1
        first[others[sure]] = said[sure]
        assert 0 < sure.sum() < len(others)
        found = HopStore.open(place / str(stage) / "hops").gather(np.arange(NODES)).y
        assert found is not None
        for hop in range(3):
            expected = np.linalg.matrix_power(dense(graph), hop) @ first
            np.testing.assert_allclose(found[:, 0, hop], expected, atol=2e-6)


def test_features_are_the_first_stages_own_files(unbroken: Trained) -> None:
    first = next((unbroken.run.path / "hops").glob("features-*/*.npy"))
    for stage in (1, 2):
        other = next((unbroken.run.path / "stages" / str(stage) / "hops").glob("features-*/*.npy"))
        assert first.samefile(other)


def test_the_best_stage_by_validation_is_the_runs_own(unbroken: Trained) -> None:
    stages = [RunFolder.open(unbroken.run.path / "stages" / str(number)) for number in range(3)]
    scores = [np.mean([one.report["valid"]["score"] for one in stage.bundles().values()]) for stage in stages]
    kept = Bundle.load(unbroken.run.bundle_path).report.get("stage", 0)
    assert scores[kept] == max(scores)
    for seed, bundle in unbroken.bundles.items():
        assert same_weights(bundle.weights, stages[kept].bundles()[seed].weights)
    assert unbroken.run.store_path() == (stages[kept].store_path() if kept else unbroken.run.path / "hops")
    assert unbroken.notes[-1].startswith(f"stage {kept} of 0 to 2 is kept")
    assert [note.startswith("stage") for note in unbroken.notes[-3:]] == [True] * 3
    assert unbroken.run.metrics() == stages[kept].metrics()


@pytest.mark.parametrize(
    ("scores", "kept"), [([0.8, 0.9, 0.85], 1), ([0.8, 0.8, 0.8], 0), ([0.8, 0.7, 0.9], 2), ([0.9, 0.8, 0.7], 0)]
)
def test_a_later_stage_is_kept_only_if_it_is_better(scores: list[float], kept: int) -> None:
    ends = [StageEnd[None](None, None, {"score": one, "loss": 0.5}, lambda: None) for one in scores]  # type: ignore
    assert Stages(STAGED.training, [], ends).kept == kept


class Killed(BaseException):
    pass


def check_same(run: Path, other: Path) -> None:
    for name in ("bundle.safetensors", "seeds/0.safetensors", "seeds/1.safetensors", "stages.json"):
        assert (run / name).read_bytes() == (other / name).read_bytes(), name
    for stage in ("1", "2"):
        for name in ("teacher/rows.npy", "teacher/said.npy", "seeds/0.safetensors"):
            assert (run / "stages" / stage / name).read_bytes() == (other / "stages" / stage / name).read_bytes()


@pytest.mark.parametrize("epoch", [2, 8, 13, 20, 31])
def test_killed_in_any_stage_and_resumed_to_the_same_bytes(unbroken: Trained, tmp_path: Path, epoch: int) -> None:
    seen = 0

    def kill(line: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        if seen == epoch:
            raise Killed

    with pytest.raises(Killed):
        trained_in(tmp_path / "run", make_graph(), observe=kill)
    again = trained_in(tmp_path / "run", make_graph(), resume=True)
    check_same(again.run.path, unbroken.run.path)
    assert again.notes == unbroken.notes


@pytest.mark.parametrize(
    "moment", ["gamlp.training.stages.share_features", "gamlp.training.run_folder.RunFolder.adopt"]
)
def test_killed_between_stages(unbroken: Trained, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(moment, kill)
        trained_in(tmp_path / "run", make_graph())
    check_same(trained_in(tmp_path / "run", make_graph(), resume=True).run.path, unbroken.run.path)
    finished = trained_in(tmp_path / "run", make_graph(), resume=True)
    assert finished.notes == unbroken.notes


def test_no_validation_or_test_label_changes_a_weight_of_any_stage(tmp_path: Path) -> None:
    graph = make_graph()
    changed = relabelled(graph, rows_of_role(graph, "valid", "test"))
    recipe = STAGED.changed({"training.keep": "last", "training.seeds": [0], "propagation.folds": 3, "consistency": {}})
    for name, one in (("one", graph), ("other", changed)):
        trained_in(tmp_path / name, one, recipe)
    for stage in range(3):
        bundles = [Bundle.load(tmp_path / name / f"stages/{stage}/seeds/0.safetensors") for name in ("one", "other")]
        assert same_weights(bundles[0].weights, bundles[1].weights), stage


def test_a_model_without_labels_is_distilled_alone(tmp_path: Path) -> None:
    recipe = STAGED.changed({"model.beta": 0.0, "training.stages": 2, "training.seeds": [0]})
    done = trained_in(tmp_path / "run", make_graph(), recipe)
    assert not (tmp_path / "run" / "stages" / "1" / "hops").exists()
    stages = [Bundle.load(tmp_path / "run" / f"stages/{stage}/bundle.safetensors") for stage in (0, 1)]
    assert not same_weights(stages[0].weights, stages[1].weights)
    alone = recipe.changed({"training.distillation": 0.0})
    trained_in(tmp_path / "alone", make_graph(), alone)
    without = Bundle.load(tmp_path / "alone" / "stages/1/bundle.safetensors")
    assert same_weights(without.weights, stages[0].weights)  # nothing is heard and nothing learned: the same again
    assert done.run.store_path() == tmp_path / "run" / "hops"


def test_predictions_and_scores_of_the_run_are_those_of_its_stage(tmp_path: Path) -> None:
    graph = make_graph(3)
    done = run_path(
        as_source(graph), STAGED.changed({"training.reliable": 0.4}), tmp_path / "run", resources=ONE_THREAD
    )
    assert done.test is not None and (tmp_path / "run" / "predictions.parquet").exists()
    bundle = Bundle.load(done.trained.run.bundle_path)
    store = HopStore.open(done.trained.run.store_path())
    rows = rows_of(store, bundle.recipe, np.arange(NODES))
    with torch.no_grad():
        chances = torch.softmax(bundle.model()(*rows.tensors(np.arange(NODES))), 1).numpy()
    table = pq.read_table(tmp_path / "run" / "predictions.parquet").to_pydict()
    np.testing.assert_allclose(table["probability"], chances.max(1), rtol=1e-5)


def test_a_graph_of_several_types_has_stages(tmp_path: Path) -> None:
    case = planted()
    recipe = TYPED.changed({"training.stages": 2, "training.reliable": 0.4, "consistency": {"batch_size": 8}})
    done = train(case.graph(), recipe, tmp_path / "run", resources=ONE_THREAD)
    stage = HopStore.open(tmp_path / "run" / "stages" / "1" / "hops")
    first = HopStore.open(tmp_path / "run" / "hops")
    assert stage.manifest.signals.keys() == first.manifest.signals.keys()
    labels = next(name for name in stage.signals if name.startswith("labels"))
    rows = np.arange(case.graph().nodes.count)
    assert not np.array_equal(stage.signals[labels].gather(rows), first.signals[labels].gather(rows))
    assert len(done.notes) >= 2 and stage.manifest.columns == first.manifest.columns


def test_label_hops_by_size_count_what_the_teacher_gave(tmp_path: Path) -> None:
    recipe = STAGED.changed({"model.label_scale": "size", "training.stages": 2, "training.seeds": [0]})
    trained_in(tmp_path / "run", make_graph(), recipe)
    store = HopStore.open(tmp_path / "run" / "stages" / "1" / "hops")
    count = len(rows_of_role(make_graph(), "train")) + len(
        read_teacher(tmp_path / "run/stages/1/teacher", NODES).numbers
    )
    assert rows_of(store, recipe, np.arange(3)).label_factor == pytest.approx(NODES / count)


def test_what_stages_cannot_do_is_said(tmp_path: Path) -> None:
    graph = make_graph()
    roles = graph.nodes.split.roles.copy()  # type: ignore[union-attr]
    roles[roles == 2] = 3
    with pytest.raises(GamlpError, match="chosen by validation rows, and there are none"):
        trained_in(tmp_path / "a", graph.with_targets(split=Split(roles)))
    roles[:] = 1
    done = trained_in(tmp_path / "b", graph.with_targets(split=Split(roles)))
    assert "the training graph has none: they are left out" in done.notes[0] and not (tmp_path / "b/stages").exists()
    with pytest.raises(GamlpError, match="use one"):
        STAGED.changed({"training.reuse": 1})
    hops = trained_in(tmp_path / "run", graph, RECIPE).run.path / "hops"
    with pytest.raises(GamlpError, match="give the graph instead of its hops"):
        train(str(hops), STAGED, tmp_path / "c", resources=ONE_THREAD)


def test_stages_with_hops_of_labels_refuse_another_graph_before_training(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="validated on the graph that is trained on"):
        trained_in(tmp_path / "run", make_graph(), valid=make_graph(1, name="other"))
    assert not list((tmp_path / "run").glob("**/seeds/*.safetensors"))
