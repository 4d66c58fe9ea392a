"""Who has which batches: each is pushed once, lost ones are handed out again, and the fast wait for the slow."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass

import pytest
import torch

from gamlp.recipe import TrainingSettings
from gamlp.training.ranks.exchange import Stretch
from gamlp.training.server.ledger import LEASE, Ledger
from gamlp.training.server.parameters import Layout, Parameters


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def ledger_of(batches: int, epochs: int, workers: int, staleness: int = 0) -> tuple[Ledger, Clock]:
    clock = Clock()
    ledger = Ledger(batches, epochs, workers, staleness, clock)
    for worker in range(workers):
        ledger.heard(worker)
    return ledger, clock


def push(ledger: Ledger, worker: int, part: Stretch, loss: float = 1.0) -> list[int]:
    """All batches of a part."""
    assert part.end is not None
    return [
        ended for batch in range(part.begin, part.end) for ended in ledger.pushed(worker, part.epoch, batch, [loss], 2)
    ]


def taken(ledger: Ledger, worker: int) -> Stretch:
    part = ledger.take(worker)
    assert part is not None
    return part


def test_one_worker_takes_all_batches_of_an_epoch_in_order_and_then_looks() -> None:
    ledger, _ = ledger_of(batches=16, epochs=2, workers=1)
    for epoch in range(2):
        seen: list[int] = []
        while (asked := ledger.may_look(0)) is None:
            part = taken(ledger, 0)
            assert part.epoch == epoch and part.end is not None
            seen += range(part.begin, part.end)
            push(ledger, 0, part)
        assert seen == list(range(16)) and asked == epoch and ledger.losses(epoch) == [1.0]
        assert ledger.may_look(0) is None  # it is looked at already
        ledger.look_ended(stopped=False)
    assert ledger.finished and ledger.take(0) is None


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_a_worker_is_never_more_than_so_many_pushes_ahead(staleness: int) -> None:
    ledger, _ = ledger_of(batches=100, epochs=1, workers=40, staleness=staleness)  # one batch at a time
    slow = taken(ledger, 1)
    pushes = 0
    while (part := ledger.take(0)) is not None:
        push(ledger, 0, part)
        pushes += 1
    assert pushes == staleness + 1 and ledger.ahead(0)
    push(ledger, 1, slow)
    assert not ledger.ahead(0) and ledger.take(0) is not None


def test_a_worker_that_is_lost_holds_nobody_and_its_batches_go_to_others() -> None:
    ledger, clock = ledger_of(batches=8, epochs=1, workers=2)
    lost = taken(ledger, 1)
    push(ledger, 0, taken(ledger, 0))
    assert ledger.take(0) is None  # it waits for the other
    clock.now += LEASE + 1
    ledger.heard(0)
    seen = []
    while (part := ledger.take(0)) is not None:
        seen.append(part.begin)
        push(ledger, 0, part)
    assert lost.begin in seen and ledger.to_look == [0]
    assert not ledger.owns(1, 0, lost.begin)  # what it pushes now is too late


def test_one_that_idled_is_not_the_slowest() -> None:
    ledger, _ = ledger_of(batches=100, epochs=1, workers=40, staleness=2)
    for _ in range(50):
        push(ledger, 0, taken(ledger, 0))
    part = taken(ledger, 0)
    taken(ledger, 1)  # comes late
    push(ledger, 0, part)
    assert not ledger.ahead(0)


def test_an_evaluation_that_is_lost_is_asked_of_another() -> None:
    ledger, clock = ledger_of(batches=1, epochs=3, workers=2, staleness=9)
    push(ledger, 0, taken(ledger, 0))
    assert ledger.may_look(1) == 0 and ledger.may_look(0) is None
    clock.now += LEASE + 1
    ledger.heard(0)
    assert ledger.may_look(0) == 0 and not ledger.is_looking(1, 0) and ledger.is_looking(0, 0)


def test_epochs_that_are_begun_before_one_is_looked_at_are_few() -> None:
    ledger, _ = ledger_of(batches=1, epochs=100, workers=4, staleness=1000)
    begun = 0
    while (part := ledger.take(begun % 4)) is not None:
        push(ledger, begun % 4, part)
        begun += 1
    assert begun == ledger.ahead_of_looks == 6 and ledger.to_look == list(range(6))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_dies_every_batch_of_every_epoch_is_pushed_once(seed: int) -> None:
    """Also over checkpoints."""
    chance = random.Random(seed)
    batches, epochs, workers = chance.randint(1, 9), chance.randint(1, 5), chance.randint(1, 4)
    ledger, clock = ledger_of(batches, epochs, workers, chance.randint(0, 3))
    held: dict[int, list[tuple[int, int]]] = {}
    pushed: Counter[tuple[int, int]] = Counter()
    for _ in range(10_000):
        if ledger.finished:
            break
        worker = chance.randrange(workers)
        event = chance.random()
        if event < 0.02:  # lost, and back again
            ledger.release(worker)
        elif event < 0.03:
            kept = json.loads(json.dumps(ledger.kept()))
            ledger = Ledger(batches, epochs, workers, ledger.staleness, clock)
            ledger.restore(kept)
        ledger.heard(worker)
        mine = [one for one in held.get(worker, []) if ledger.owns(worker, *one)]
        if mine:
            pushed[mine[0]] += 1
            ledger.pushed(worker, *mine[0], [1.0], 1)
        elif ledger.may_look(worker) is not None:
            ledger.look_ended(stopped=False)
        elif (part := ledger.take(worker)) is not None:
            assert part.end is not None
            held[worker] = [(part.epoch, batch) for batch in range(part.begin, part.end)]
    assert ledger.finished
    assert pushed == Counter({(epoch, batch): 1 for epoch in range(epochs) for batch in range(batches)})


def test_running_statistics_are_moving_averages_of_all_pushes_whoever_pulled_when() -> None:
    first = {"weight": torch.zeros(1), "mean": torch.zeros(2), "own": torch.zeros(2)}
    shared = Parameters(first, Layout([(0.0, 1.0, ["weight"])], {"mean": 0.1}), TrainingSettings())
    norm = torch.nn.BatchNorm1d(2)
    for value in range(1, 20):
        batch = torch.full((4, 2), float(value))
        norm(batch)
        shared.step({"weight": torch.ones(1), "mean": batch.mean(0), "own": batch.mean(0)}, 0)
    assert norm.running_mean is not None
    torch.testing.assert_close(shared.buffers["mean"], norm.running_mean)
    assert shared.buffers["own"].tolist() == [19.0, 19.0]  # others are those of the last push
