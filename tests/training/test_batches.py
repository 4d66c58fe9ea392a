"""Batches: every row once an epoch, the same numbers resident or streamed, and only the rows asked for."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gamlp.models import Shape
from gamlp.propagation import StoredSignal
from gamlp.training import order as order_module
from gamlp.training.batches import Batches, HopRows
from gamlp.training.order import shuffled
from gamlp.training.scores import evaluate, loss_of
from tests.training.small import (
    CLASSES,
    NODES,
    WIDTH,
    hop_rows,
    make_graph,
    prepared_in,
    rows_of_role,
    same_weights,
    store_of,
    trained,
)

CPU = torch.device("cpu")


@pytest.fixture
def train(tmp_path: Path) -> HopRows:
    return hop_rows(store_of(make_graph(), tmp_path / "hops"), "train")


class Linear(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.map = nn.Linear((shape.hops + 1) * shape.features, shape.classes)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        result: Tensor = self.map(x.flatten(1))
        return result


@pytest.mark.parametrize("memory", [0, None], ids=["streamed", "resident"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 29, 30, 31, 1000])
def test_an_epoch_has_every_row_once_with_its_own_hops_and_label(train: HopRows, size: int, memory: int | None) -> None:
    batches = Batches(train, size, CPU, memory)
    assert batches.resident == (memory is None)
    labels = train.store.labels
    assert labels is not None
    for generator in (None, torch.Generator().manual_seed(1)):
        seen = list(batches.epoch(generator))
        rows = np.concatenate([batch.rows for batch in seen])
        assert sorted(rows) == sorted(train.rows)
        if generator is None:
            assert (rows == train.rows).all()
        for batch in seen:
            assert len(batch.x) == len(batch.rows) <= size + 1 and batch.x.dtype == torch.float32
            assert batch.y is not None
            hops = train.store.gather(batch.rows, hops=2, label_hops=2)
            assert hops.x is not None and hops.y is not None
            assert np.array_equal(batch.x.numpy(), hops.x) and np.array_equal(batch.y.numpy(), hops.y)
            assert np.array_equal(batch.target.numpy(), labels.values[batch.rows])


@pytest.mark.parametrize("memory", [0, None], ids=["streamed", "resident"])
@pytest.mark.parametrize("weights", ["none", "balanced"])
def test_gradients_of_an_epochs_batches_add_up_to_that_of_all_rows(
    train: HopRows, memory: int | None, weights: str
) -> None:
    model = Linear(Shape(WIDTH, CLASSES, 2))
    loss = loss_of(train.targets, CLASSES, weights, CPU)

    def gradient(size: int) -> Tensor:
        model.zero_grad()
        for batch in Batches(train, size, CPU, memory).epoch(torch.Generator().manual_seed(3)):
            (loss(model(batch.x), batch.target) * len(batch.target)).backward()
        assert model.map.weight.grad is not None
        return model.map.weight.grad.clone()

    torch.testing.assert_close(gradient(7), gradient(1000), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [5, 16, 29, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_resident_and_streamed_rows_train_to_the_same_bits(tmp_path: Path, size: int, dtype: str) -> None:
    prepared = prepared_in(
        tmp_path, make_graph(), propagation__dtype=dtype, training__batch_size=size, training__epochs=3
    )
    resident, streamed = trained(prepared), trained(prepared, memory=0)
    assert same_weights(resident.weights, streamed.weights) and resident.valid == streamed.valid


@pytest.mark.parametrize("size", [5, 7])
@pytest.mark.parametrize("chunk", [1, 3, 4, 100])
def test_chunks_of_rows_are_shuffled_then_rows_within_windows_of_batches(
    monkeypatch: pytest.MonkeyPatch, chunk: int, size: int
) -> None:
    monkeypatch.setattr(order_module, "WINDOW", 20)
    count = 203
    window = 20 // size * size
    order = shuffled(count, size, torch.Generator().manual_seed(0), chunk)
    assert sorted(order.tolist()) == list(range(count))
    assert not torch.equal(order, shuffled(count, size, torch.Generator().manual_seed(1), chunk))
    at = torch.empty(count, dtype=torch.int64)
    at[order] = torch.arange(count) // window  # the window that every row falls into
    for begin in range(0, count, chunk):
        rows = at[begin : begin + chunk]
        most = -(-chunk // window) + 1  # a chunk is cut where a window ends
        assert rows.max() - rows.min() < most, "rows of a chunk are read together"
    if chunk == 1:
        near = (order.diff().abs() <= 2).float().mean()
        assert near < 0.1, "single rows are shuffled among all"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("size", [5, 16, 29])
def test_shuffled_chunks_train_to_the_same_bits_from_memory_and_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, dtype: str
) -> None:
    monkeypatch.setattr(order_module, "WINDOW", 12)
    prepared = prepared_in(
        tmp_path, make_graph(), propagation__dtype=dtype, training__batch_size=size, training__chunk=4
    )
    resident, streamed = trained(prepared), trained(prepared, memory=0)
    assert same_weights(resident.weights, streamed.weights) and resident.valid == streamed.valid


def test_a_window_of_chunks_is_read_in_few_requests_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "WINDOW", 20)
    train = replace(hop_rows(store_of(make_graph(), tmp_path / "hops"), "train"), chunk=4)
    asked: list[Any] = []
    gather = HopRows.gather
    monkeypatch.setattr(HopRows, "gather", lambda self, rows, *more: asked.append(rows) or gather(self, rows, *more))
    seen = list(Batches(train, 5, CPU, 0).epoch(torch.Generator().manual_seed(0)))
    assert len(seen) > len(asked) == -(-len(train) // 20)
    assert sorted(np.concatenate(asked)) == list(range(len(train)))
    assert all((np.diff(rows) > 0).all() for rows in asked), "ascending, so that neighbours are one request"


def test_evaluation_holds_a_few_batches_however_many_rows_there_are(train: HopRows) -> None:
    """Fails where batches of the past, or hops of all rows, are kept."""
    rows = np.tile(train.rows, 20)
    many = Batches(replace(train, rows=rows), 10, CPU, 0)
    alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
    most = 0

    class Watching(Linear):
        def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
            nonlocal most
            alive.add(x)
            most = max(most, len(alive))
            return super().forward(x, y)

    evaluate(Watching(Shape(WIDTH, CLASSES, 2)), many)
    assert len(many) > 50 and most <= 2


def test_a_batch_of_one_row_left_over_does_not_break_batch_norm(tmp_path: Path) -> None:
    graph = make_graph()
    count = len(rows_of_role(graph, "train"))
    prepared = prepared_in(tmp_path, graph, model__batch_norm=True, training__batch_size=count - 1)
    for memory in (None, 0):
        assert trained(prepared, memory=memory).epochs == 6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_stores_of_half_precision_train_nearly_as_float32(tmp_path: Path, dtype: str) -> None:
    graph = make_graph()
    half = trained(prepared_in(tmp_path / "half", graph, propagation__dtype=dtype, training__epochs=40))
    full = trained(prepared_in(tmp_path / "full", graph, training__epochs=40))
    assert abs(half.valid["loss"] - full.valid["loss"]) < 0.1 and half.valid["score"] > 0.6


def test_validation_rows_stay_within_the_memory_that_training_rows_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepared_in(tmp_path, make_graph())
    assert prepared.valid is not None
    needs = [Batches(part, 16, CPU).resident_bytes() for part in (prepared.train, prepared.valid)]
    held: list[bool] = []
    before = Batches.__init__

    def spy(self: Batches, *given: Any, **more: Any) -> None:
        before(self, *given, **more)
        held.append(self.resident)

    monkeypatch.setattr(Batches, "__init__", spy)
    for memory in (0, needs[0] - 1, needs[0], needs[0] + needs[1]):
        trained(prepared, memory=memory)
    assert held == [False, False, False, True, True, False, True, True]


@pytest.mark.parametrize("folds", [0, 3])
def test_training_reads_the_hops_of_training_and_validation_rows_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folds: int
) -> None:
    graph = make_graph()
    prepared = prepared_in(tmp_path, graph, propagation__folds=folds)
    seen: dict[str, set[int]] = {}
    gather, read = StoredSignal.gather, StoredSignal.read

    def note(signal: StoredSignal, positions: Any) -> None:
        rows = positions if signal.rows is None else signal.rows[positions]
        seen.setdefault(signal.name, set()).update(np.asarray(rows).tolist())

    def spy_gather(self: StoredSignal, rows: Any, hops: int | None = None) -> Any:
        note(self, self.positions(rows))
        return gather(self, rows, hops)

    def spy_read(self: StoredSignal, start: int, stop: int, hops: int | None = None) -> Any:
        note(self, np.arange(start, stop))
        return read(self, start, stop, hops)

    monkeypatch.setattr(StoredSignal, "gather", spy_gather)
    monkeypatch.setattr(StoredSignal, "read", spy_read)
    train, valid = (set(rows_of_role(graph, role).tolist()) for role in ("train", "valid"))
    for memory in (None, 0):
        seen.clear()
        trained(prepared, memory=memory)
        assert seen["features"] == train | valid
        # Cross-fitted: training rows read what the other folds say, validation rows what all training rows say.
        assert seen["labels"] == (valid if folds else train | valid)
        assert seen.get("crossfit", set()) == (train if folds else set())


def test_what_is_prepared_is_the_training_rows_and_the_validation_rows(tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path, make_graph())
    assert prepared.valid is not None and prepared.shape == Shape(WIDTH, CLASSES, 2, 2)
    labels = prepared.store.labels
    assert labels is not None and len(labels.values) == NODES
    assert set(prepared.train.rows.tolist()) == set(rows_of_role(make_graph(), "train").tolist())
    assert set(prepared.valid.rows.tolist()) == set(rows_of_role(make_graph(), "valid").tolist())
