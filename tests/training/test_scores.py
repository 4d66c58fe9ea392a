"""Losses and scores against scikit-learn's, one label or many; evaluation with flat memory."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    precision_recall_fscore_support,
    roc_auc_score,
)
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.nn import functional

from gamlp.graph import Graph, Labels, Split
from gamlp.propagation import FeatureSignal, LocalPropagator, Plan
from gamlp.run.evaluation import evaluate_rows
from gamlp.training.batches import Batches, HopRows
from gamlp.training.metrics import metric_value
from gamlp.training.scores import ScoreCounts, evaluate, full_report, loss_of, to_probabilities
from gamlp.training.seeds import bundle_of
from tests.training.small import ONE_THREAD, make_graph, prepared_in, rows_of_role, trained

CPU = torch.device("cpu")


class Given(nn.Module):
    """The features are the logits."""

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return x[:, 0, 0]


def batches_of(folder: Path, logits: np.ndarray, labels: Labels, size: int = 16, memory: int | None = 0) -> Batches:
    count = len(logits)
    split = Split.of(count, train=[], valid=[], test=np.arange(count))
    graph = Graph.from_arrays(np.zeros((2, 0), np.int64), logits.astype(np.float32), labels, split=split)
    store = LocalPropagator(threads=1).propagate(graph, Plan(features=FeatureSignal(hops=0)), folder)
    return Batches(HopRows(store, np.arange(count), 0), size, CPU, memory)


def named(values: np.ndarray, classes: int) -> Labels:
    return Labels(values, tuple(str(index) for index in range(classes)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 99))
def test_balanced_is_scikit_learns_class_weight(classes: list[int], seed: int) -> None:
    targets = np.array(classes, np.int32)
    present = np.unique(targets)
    known = dict(zip(present.tolist(), compute_class_weight("balanced", classes=present, y=targets)))
    logits = torch.randn(len(targets), 5, generator=torch.Generator().manual_seed(seed))
    each = functional.cross_entropy(logits, torch.from_numpy(targets).long(), reduction="none")
    expected = (each * torch.tensor([known[name] for name in classes])).mean()
    found = loss_of(targets, 5, "balanced", CPU)(logits, torch.from_numpy(targets).long())
    torch.testing.assert_close(float(found), float(expected), rtol=1e-5, atol=1e-6)


def test_balanced_weighs_a_positive_by_the_negatives_beside_it_and_never_by_nothing() -> None:
    targets = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]], np.int8)
    logits = torch.zeros(4, 3)
    loss = loss_of(targets, 3, "balanced", CPU)(logits, torch.from_numpy(targets).float())
    half = float(np.log(2))
    positives, negatives = 3 * half + 4 * half / 4, 3 * half + 4 * half  # pos_weight 3/1 and 1/4 (never 0/4)
    assert float(loss) == pytest.approx((positives + negatives) / 12)


def test_balanced_training_finds_the_rare_class_that_plain_training_misses(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    count = 400
    labels = (random.random(count) < 0.08).astype(np.int32)
    features = random.normal(size=(count, 2)) + labels[:, None]
    split = Split.of(count, train=np.arange(200), valid=np.arange(200, 400), test=[])
    graph = Graph.from_arrays(np.zeros((2, 0), np.int64), features, labels, split=split)
    found = {}
    for weights in ("none", "balanced"):
        same = {"training__class_weights": weights, "training__epochs": 30, "training__keep": "last"}
        prepared = prepared_in(tmp_path / weights, graph, propagation__hops=0, model__beta=0, **same)
        assert prepared.valid is not None
        (batch,) = Batches(prepared.valid, 1000, CPU).epoch()
        chosen = trained(prepared).model(batch.x, batch.y).argmax(1)
        rare = prepared.valid.targets == 1
        found[weights] = float((chosen.numpy()[rare] == 1).mean())
    assert found["balanced"] > found["none"] + 0.2


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("memory", [0, None], ids=["streamed", "resident"])
def test_scores_of_one_label_a_node_are_scikit_learns(tmp_path: Path, classes: int, memory: int | None) -> None:
    random = np.random.default_rng(classes)
    logits, target = random.normal(size=(101, classes)), random.integers(0, classes, 101).astype(np.int32)
    batches = batches_of(tmp_path, logits, named(target, classes), memory=memory)
    probabilities = torch.softmax(torch.from_numpy(logits.astype(np.float32)), 1).double().numpy()
    probabilities /= probabilities.sum(1, keepdims=True)
    report, quick = full_report(Given(), batches), evaluate(Given(), batches)
    assert quick["score"] == report["score"] == accuracy_score(target, logits.argmax(1))
    assert quick["loss"] == pytest.approx(log_loss(target, probabilities), rel=1e-5)
    assert report["loss"] == pytest.approx(quick["loss"], rel=1e-5)
    assert report["macro_f1"] == pytest.approx(f1_score(target, logits.argmax(1), average="macro"))
    expected = roc_auc_score(
        target, probabilities[:, 1] if classes == 2 else probabilities, multi_class="ovr", average="macro"
    )
    assert report["roc_auc"] == pytest.approx(expected)
    assert report["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(target, logits.argmax(1)))
    rare = int(np.bincount(target).argmin())
    each = [average_precision_score(target == one, probabilities[:, one]) for one in range(classes)]
    assert report["average_precision"] == pytest.approx(each[rare] if classes == 2 else np.mean(each))
    other = full_report(Given(), batches, positive=1 - rare) if classes == 2 else report
    assert other["average_precision"] == pytest.approx(each[1 - rare] if classes == 2 else np.mean(each))
    for name in ("average_precision", "balanced_accuracy"):  # as validation has them
        assert report[name] == pytest.approx(metric_value(name, probabilities, target))
    other = full_report(Given(), batches, positive=0)
    if classes == 2:
        assert other["average_precision"] == pytest.approx(metric_value("average_precision", probabilities, target, 0))


@pytest.mark.parametrize("memory", [0, None], ids=["streamed", "resident"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), share=st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_scores_of_many_labels_a_node_are_scikit_learns(
    tmp_path_factory: pytest.TempPathFactory, memory: int | None, seed: int, share: float
) -> None:
    random = np.random.default_rng(seed)
    logits, target = random.normal(size=(37, 4)), (random.random((37, 4)) < share).astype(np.int8)
    batches = batches_of(tmp_path_factory.mktemp("many"), logits, named(target, 4), memory=memory)
    report, quick = full_report(Given(), batches), evaluate(Given(), batches)
    expected = f1_score(target, logits > 0, average="micro", zero_division=1.0)
    assert quick["score"] == pytest.approx(expected) and report["score"] == pytest.approx(expected)
    torch_loss = functional.binary_cross_entropy_with_logits(torch.tensor(logits), torch.tensor(target).double())
    assert quick["loss"] == pytest.approx(float(torch_loss), rel=1e-5)
    assert report["loss"] == pytest.approx(float(torch_loss), rel=1e-5)
    varied = [column for column in range(4) if 0 < target[:, column].mean() < 1]
    if varied:
        assert report["roc_auc"] == pytest.approx(roc_auc_score(target[:, varied], logits[:, varied], average="macro"))
        for name in ("average_precision", "balanced_accuracy"):
            assert report[name] == pytest.approx(metric_value(name, 1 / (1 + np.exp(-logits)), target))
    else:
        assert "roc_auc" not in report
    sums = [balanced_accuracy_score(target[:, one], logits[:, one] > 0) for one in varied]
    assert report.get("balanced_accuracy") == (pytest.approx(np.mean(sums)) if varied else None)


@pytest.mark.parametrize("multi_label", [False, True])
def test_every_class_has_scikit_learns_precision_recall_and_f1(multi_label: bool) -> None:
    random = np.random.default_rng(0)
    names, probabilities = tuple("abcde"), random.dirichlet(np.ones(5), 83)
    probabilities[:, 4] = 0  # never chosen
    target = random.integers(1, 5, 83)  # the first never occurs
    true, chosen = target, probabilities.argmax(1)
    if multi_label:
        probabilities, true = random.random((83, 5)), random.integers(0, 2, (83, 5))
        chosen = probabilities > 0.5
    counts = ScoreCounts(multi_label, 5)
    for part in np.array_split(np.arange(83), 4):
        counts.add(probabilities[part], true[part])
    labels = None if multi_label else np.arange(5)
    expected = precision_recall_fscore_support(true, chosen, labels=labels, zero_division=0.0)
    table = counts.class_table(names)
    assert [row["class"] for row in table] == list(names)
    for values, name in zip(expected, ("precision", "recall", "f1", "rows")):
        assert [row[name] for row in table] == pytest.approx(values.tolist())


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
@pytest.mark.parametrize("folds", [0, 3])
def test_nodes_of_many_labels_are_learned_end_to_end(tmp_path: Path, setting: str, folds: int) -> None:
    graph = make_graph(1, nodes=200, multi_label=True)
    changes = {"training__setting": setting, "propagation__folds": folds, "training__epochs": 40}
    prepared = prepared_in(tmp_path, graph, **changes)
    assert prepared.multi_label
    done = trained(prepared)
    rows = rows_of_role(graph, "test")
    report = evaluate_rows({0: bundle_of(prepared, done, 0)}, prepared.store, rows, ONE_THREAD)["mean"]
    read = HopRows(prepared.store, rows, 2, 2)
    (batch,) = Batches(read, 1000, CPU).epoch()
    logits = done.model(batch.x, batch.y).detach()
    assert report["score"] == pytest.approx(f1_score(read.targets, logits.numpy() > 0, average="micro"))
    assert report["score"] > 0.7
    assert (to_probabilities(logits, True) > 0.5).equal(logits > 0)


def test_memory_of_evaluation_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    peaks = []
    for count in (2_000, 40_000):
        random = np.random.default_rng(0)
        logits = random.normal(size=(count, 64))
        labels = named(random.integers(0, 64, count).astype(np.int32), 64)
        batches = batches_of(tmp_path / str(count), logits, labels, size=500)
        evaluate(Given(), batches)
        tracemalloc.start()
        evaluate(Given(), batches)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 40_000 * 16 + 200_000  # row numbers, not hops: those would be 10 MB


def test_evaluation_keeps_no_tensor_of_a_batch(tmp_path: Path) -> None:
    alive: list[int] = []

    class Counting(Given):
        def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
            alive.append(sum(type(one) is Tensor for one in gc.get_objects()))
            return super().forward(x, y)

    logits = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    evaluate(Counting(), batches_of(tmp_path, logits, named(np.arange(400) % 3, 3), size=10))
    assert len(alive) == 40 and alive[-1] <= alive[2], "what is kept cuts freed memory into pieces"
