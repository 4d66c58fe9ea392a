"""Rows without labels in the loss, against the formulas written out; averaged weights; label hops scaled by size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gamlp.errors import GamlpError
from gamlp.models import Blend, Shape
from gamlp.recipe import ConsistencySettings, Recipe
from gamlp.training.batches import Batch
from gamlp.training.checks import resolve_unlabelled
from gamlp.training.loop import Machine
from gamlp.training.ranks.exchange import Stretch
from gamlp.training.ranks.world import ALONE
from gamlp.training.rows import beside_of, rows_of, unlabelled_rows
from gamlp.training.seeds import fit_prepared
from gamlp.training.teacher import SaidRows, read_teacher, write_teacher
from gamlp.training.unlabelled import Consistency, Distillation, StepFacts, Taught, positions_of
from tests.training.small import (
    CLASSES,
    NODES,
    RECIPE,
    make_graph,
    prepared_in,
    rows_of_role,
    same_weights,
    trained,
    with_labels,
)

CPU = torch.device("cpu")
MANY = pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "many labels"])


def softmax(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def chances(logits: np.ndarray[Any, Any], multi_label: bool) -> np.ndarray[Any, Any]:
    """[b, c], or of many labels [b, c, 2]: that a node has the label, and that it has not."""
    if not multi_label:
        return softmax(logits)
    own = 1 / (1 + np.exp(-logits))
    return np.stack([own, 1 - own], -1)


def consistency_of(
    passes: list[np.ndarray[Any, Any]], settings: ConsistencySettings, multi_label: bool, said: Any = None
) -> float:
    """λ · 1/M Σ_m 1/|sure| Σ_i∈sure |P_m,i - P̄_i|² (or KL(P̄_i ‖ P_m,i)), a plain loop over rows and labels."""
    each = [chances(one, multi_label) for one in passes]
    told = np.mean(each, 0) if said is None else chances(said, multi_label)
    sharp = told ** (1 / settings.temperature)
    sharp /= sharp.sum(-1, keepdims=True)
    total, sure = 0.0, 0
    for row in range(len(sharp)):
        labels = range(sharp.shape[1]) if multi_label else [slice(None)]
        if np.mean([sharp[row][label].max() for label in labels]) < settings.confidence:
            continue
        sure += 1
        for one in each:
            away = []
            for label in labels:
                p, q = sharp[row][label], one[row][label]
                away.append(np.sum(p * np.log(p / q)) if settings.distance == "kl" else np.sum((p - q) ** 2))
            total += float(np.mean(away)) / len(each)
    return settings.weight * total / max(1, sure)


def part_of(settings: ConsistencySettings, multi_label: bool, model: torch.nn.Module) -> Consistency:
    class NoRows:
        count, size = 5, 5

        class source:
            @staticmethod
            def drawn(batches: int, generator: Any) -> list[None]:
                return [None] * batches

        def of(self, *_: Any) -> Any:
            return iter(())

    part = Consistency(NoRows(), settings, model, StepFacts(ALONE, CPU, multi_label))  # type: ignore[arg-type]
    part.batches(Stretch(10), 1, 0)
    return part


@MANY
@pytest.mark.parametrize("distance", ["squared", "kl"])
@pytest.mark.parametrize("confidence", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("teacher", ["passes", "average"])
def test_consistency_is_the_formula(multi_label: bool, distance: Any, confidence: float, teacher: Any) -> None:
    settings = ConsistencySettings(
        teacher=teacher, passes=3, weight=0.7, temperature=0.4, confidence=confidence, distance=distance
    )
    random = np.random.default_rng(3)
    passes = [random.normal(size=(9, 4)) * 1.5 for _ in range(3)]
    logits = [torch.tensor(one, requires_grad=True) for one in passes]
    model = torch.nn.Linear(4, 4).double()
    with torch.no_grad():  # sure of some rows
        model.weight.copy_(2 * torch.eye(4))
        model.bias.zero_()
    part, left = part_of(settings, multi_label, model), iter(logits)
    x = torch.tensor(random.normal(size=(9, 4)))
    if teacher == "average":
        part.teacher.module.forward = lambda x, y: torch.nn.functional.linear(x, model.weight, model.bias)  # type: ignore
    loss = part.loss(lambda batch: next(left), Batch(np.arange(9), x, None, torch.zeros(9)))
    assert next(left, None) is None, "as many forward passes as `passes`"
    said = model(x).detach().numpy() if teacher == "average" else None
    expected = consistency_of(passes, settings, multi_label, said)
    assert float(loss) == pytest.approx(expected, rel=1e-9)
    assert expected > 0 or confidence == 1.0
    loss.backward()
    # P̄ carries no gradient: the gradient is that of the distance with P̄ held fixed.
    if confidence == 0 and distance == "squared" and not multi_label and teacher == "passes":
        told = np.mean([softmax(one) for one in passes], 0)
        sharp = told ** (1 / 0.4)
        sharp /= sharp.sum(-1, keepdims=True)
        own = torch.tensor(passes[0], requires_grad=True)
        fixed = 0.7 * (torch.softmax(own, 1) - torch.tensor(sharp)).square().sum(1).mean() / 3
        torch.testing.assert_close(logits[0].grad, torch.autograd.grad(fixed, own)[0])


def test_lambda_rises_over_the_warmup() -> None:
    settings, logits = ConsistencySettings(weight=2.0, warmup=4), torch.randn(9, 4, generator=torch.manual_seed(0))
    part = part_of(settings, False, torch.nn.Linear(1, 1))

    def loss() -> float:
        return float(part.loss(lambda batch: logits, Batch(np.arange(9), None, None, torch.zeros(9))))

    whole = loss()
    assert part.weight_in(0) == 0
    for epoch, share in ((1, 0.25), (3, 0.75), (4, 1.0), (9, 1.0)):
        part.batches(Stretch(epoch), 1, 0)
        assert loss() == pytest.approx(share * whole)


@MANY
def test_distillation_is_the_formula(multi_label: bool) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(size=(5, 4))
    said = random.random((20, 4)).astype(np.float32)
    said = said if multi_label else said / said.sum(1, keepdims=True)
    rows = np.array([3, 4, 9, 11, 19])
    part = Distillation(None, Taught(None, said, 0.3), StepFacts(ALONE, CPU, multi_label))  # type: ignore[arg-type]
    found = part.loss(lambda batch: torch.tensor(logits), Batch(rows, None, None, torch.zeros(5)))
    total = 0.0
    for row, logit in zip(rows, logits):
        p = said[row].astype(np.float64)
        pairs = [np.array([one, 1 - one]) for one in p] if multi_label else [p]
        own = chances(logit[None], multi_label)[0]
        others = list(own) if multi_label else [own]
        sure = np.mean([pair.max() for pair in pairs])
        total += sure * np.mean([np.sum(a * np.log(a / b)) for a, b in zip(pairs, others)])
    assert float(found) == pytest.approx(0.3 * total / 5, rel=1e-6)


@given(st.integers(1, 20), st.integers(1, 70), st.integers(0, 99))
def test_every_row_comes_as_often_as_any_other_or_once_more(count: int, wanted: int, seed: int) -> None:
    found = positions_of(count, wanted, np.random.default_rng(seed))
    times = np.bincount(found, minlength=count)
    assert len(found) == wanted and times.max() - times.min() <= 1 and len(times) == count


def test_rows_without_labels_are_all_but_those_trained_on_and_their_labels_are_not_told(tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path, make_graph(), consistency={"weight": 1.0})
    rows = unlabelled_rows(prepared)
    assert sorted([*rows.rows, *prepared.train.rows]) == list(range(NODES))
    assert (rows.targets == -1).all() and not rows.crossfit
    some = replace(prepared, recipe=prepared.recipe.changed({"consistency": None}))
    assert beside_of(some) is None and beside_of(prepared) is not None


@pytest.mark.parametrize("kind", ["passes", "average"])
def test_consistency_changes_what_is_learned_and_is_told(tmp_path: Path, kind: str) -> None:
    lines: list[dict[str, Any]] = []
    with_it = prepared_in(tmp_path, make_graph(), consistency={"teacher": kind, "warmup": 2, "batch_size": 7})
    without = replace(with_it, recipe=with_it.recipe.changed({"consistency": None}))
    fitted = fit_prepared(with_it, 0, Machine(), observe=lines.append)
    assert not same_weights(fitted.weights, trained(without).weights)
    assert "consistency" not in lines[0] and all(line["consistency"] > 0 for line in lines[1:])
    assert all(line["loss"] > line["consistency"] for line in lines[1:])


@pytest.mark.parametrize("name", ["sgc", "sign", "sagn"])
def test_every_model_on_hops_has_it(tmp_path: Path, name: str) -> None:
    recipe = Recipe.of({"model": {"name": name, "hidden": 8}, "propagation": {"hops": 2}, "training": {"epochs": 3}})
    prepared = prepared_in(tmp_path, make_graph(), recipe, consistency={})
    without = replace(prepared, recipe=prepared.recipe.changed({"consistency": None}))
    assert not same_weights(trained(prepared).weights, trained(without).weights)


def test_a_model_that_is_solved_refuses_what_belongs_to_steps(tmp_path: Path) -> None:
    recipe = Recipe.of({"model": {"name": "logistic"}})
    for change in ({"consistency": {}}, {"training__stages": 2}, {"training__ema": 0.9}):
        with pytest.raises(GamlpError, match="is solved at once"):
            prepared_in(tmp_path, make_graph(), recipe, **change)


def test_where_the_training_graph_has_no_rows_without_labels_it_is_left_out_and_told(tmp_path: Path) -> None:
    graph = make_graph()
    recipe = RECIPE.changed({"consistency": {}, "training.stages": 3, "model.beta": 0.0})
    assert resolve_unlabelled(graph, recipe) == (recipe, [])
    inductive = recipe.changed({"training.setting": "inductive"})
    found, (said,) = resolve_unlabelled(graph, inductive)
    assert found.consistency is None and found.training.stages == 1
    assert "the training graph has none: they are left out" in said
    assert not prepared_in(tmp_path, graph, inductive).recipe.reads_unlabelled
    values = graph.nodes.labels.values.copy()  # type: ignore[union-attr]
    values[rows_of_role(graph, "train")[-1]] = -1
    with pytest.raises(GamlpError, match="stages with hops of labels are trained in the transductive setting"):
        resolve_unlabelled(with_labels(graph, values), inductive.changed({"model.beta": 1.0}))


def test_averaged_weights_are_the_recursion_written_out(tmp_path: Path) -> None:
    """One step an epoch, nothing by chance: the weights after every step are known."""
    same = {"model__dropout": 0.0, "training__batch_size": 1000, "training__keep": "last"}
    prepared = prepared_in(tmp_path, make_graph(), **same)

    def after(epochs: int, ema: float = 0.0) -> dict[str, torch.Tensor]:
        changes = {"training.epochs": epochs, "training.ema": ema}
        return trained(replace(prepared, recipe=prepared.recipe.changed(changes))).weights

    steps = [after(epochs) for epochs in range(1, 6)]
    for name, found in after(5, 0.8).items():
        expected = steps[0][name].double()
        for step in steps[1:]:
            expected = 0.8 * expected + 0.2 * step[name].double()
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-7)


@MANY
def test_a_teacher_keeps_what_it_is_sure_of(tmp_path: Path, multi_label: bool) -> None:
    prepared = prepared_in(tmp_path, make_graph(multi_label=multi_label), training__stages=2)
    rows, fitted = unlabelled_rows(prepared), trained(prepared)
    with torch.no_grad():
        logits = fitted.model(*rows.tensors(np.arange(len(rows)))).numpy()
    said = chances(logits.astype(np.float64), multi_label)
    best = said.max(-1).mean(-1) if multi_label else said.max(-1)
    limit = float(np.median(best))
    write_teacher(tmp_path / "teacher", fitted.model, rows, multi_label=multi_label, reliable=limit, device=CPU)
    found = read_teacher(tmp_path / "teacher", NODES)
    sure = np.flatnonzero(best >= limit)
    assert 0 < len(sure) < len(rows) and np.abs(len(found.numbers) - len(sure)) <= 1  # the median itself may round
    own = said[..., 0] if multi_label else said
    both = np.intersect1d(found.numbers, rows.rows[sure])
    at = np.searchsorted(rows.rows, both)
    np.testing.assert_allclose(found[both], own[at], rtol=1e-4)
    left = np.setdiff1d(np.arange(NODES), found.numbers)
    assert (found[left] == 0).all() and found[:].shape == (NODES, CLASSES)
    assert found[2:5, 1:].shape == (3, CLASSES - 1)
    whole = np.empty((NODES, CLASSES), np.float32)
    whole[:] = found  # as a graph's folder is written for other machines
    np.testing.assert_array_equal(whole, found[:])


def test_nobody_may_be_sure() -> None:
    empty = SaidRows(np.zeros(0, np.int64), np.zeros((0, 3), np.float32), 7)
    assert empty[np.array([1, 2])].tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("folds", [0, 3])
def test_label_hops_by_size_are_times_nodes_over_labels(tmp_path: Path, folds: int) -> None:
    plain = prepared_in(tmp_path, make_graph(), propagation__folds=folds)
    sized = plain.recipe.changed({"model.label_scale": "size"})
    factor = NODES / len(plain.train)
    for rows in (plain.train, plain.valid):
        assert rows is not None
        scaled = replace(rows_of(rows.store, sized, rows.rows), crossfit=rows.crossfit)
        _, before = rows.gather(np.arange(len(rows)))
        _, after = scaled.gather(np.arange(len(rows)))
        assert before is not None and after is not None and after.dtype == np.float32
        np.testing.assert_allclose(after, before * factor, rtol=1e-6)


def test_gamlp_takes_label_hops_by_size(tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path, make_graph(), model__label_scale="size")
    assert not same_weights(trained(prepared).weights, trained(prepared_in(tmp_path, make_graph())).weights)
    assert RECIPE.model.label_scale == "none"


def test_a_teacher_is_asked_where_its_rows_are_and_not_as_it_trains(tmp_path: Path) -> None:
    class Recorded(nn.Module):
        where: Any = None

        def to(self, device: Any) -> Recorded:  # type: ignore[override]
            self.where = device
            return self

        def forward(self, x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
            assert not self.training
            return torch.zeros(len(x), CLASSES)

    model, rows = Recorded(), unlabelled_rows(prepared_in(tmp_path / "p", make_graph(), training__stages=2))
    here = torch.device("cpu")
    write_teacher(tmp_path / "t", model, rows, multi_label=False, reliable=0.0, device=here)
    assert model.where == here


def test_a_blend_that_teaches_has_no_temperatures() -> None:
    members: list[dict[str, Any]] = [{"model": {"name": "sgc"}}, {"model": {"name": "mlp"}}]
    made = Blend(Shape(4, 3, 5), members=members, weights=[1, 1], temperatures=[2.0, 0.5])
    assert made.uncalibrated().temperatures == (1.0, 1.0) and made.temperatures == (2.0, 0.5)
