"""Requests that come together are answered together, within limits, whatever one of them does."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gamlp.serve import Ends, Limits, NewNode, Question, Refusal
from gamlp.serve.http.batching import Batcher
from gamlp.serve.http.metrics import Metrics
from tests.serve.http.fakes import FakeRun


def batching(work: Callable[[Batcher, FakeRun], Any], run: FakeRun | None = None, **limits: Any) -> FakeRun:
    """Run a coroutine function with a batcher; the run that it had."""

    async def main() -> FakeRun:
        served = FakeRun() if run is None else run
        batcher = Batcher(served, Limits(**limits), Metrics())  # type: ignore[arg-type]
        try:
            await work(batcher, served)
        finally:
            served.may_answer.set()
            await batcher.close()
        assert "gamlp-answers" not in {thread.name for thread in threading.enumerate()}
        return served

    return asyncio.run(main())


def known(*ids: Any) -> Question:
    return Question(ids=ids)


async def held(batcher: Batcher, run: FakeRun, *questions: Question) -> list[asyncio.Task[Any]]:
    """Questions that wait behind one that is being answered."""
    run.may_answer.clear()
    first = asyncio.create_task(batcher.ask(known(0)))
    while not run.batches:
        await asyncio.sleep(0.001)
    tasks = [first, *(asyncio.create_task(batcher.ask(question)) for question in questions)]
    await asyncio.sleep(0)
    return tasks


def test_what_waits_is_answered_by_one_call_and_each_gets_its_own() -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        tasks = await held(batcher, run, *(known(number, number + 1) for number in range(20)))
        assert batcher.waiting == 21
        run.may_answer.set()
        found = await asyncio.gather(*tasks)
        assert batcher.waiting == 0
        for number, (served, answers) in enumerate(found[1:]):
            assert served is run and answers.ids == (number, number + 1)
            assert np.array_equal(answers.probabilities, run.probabilities(answers.ids))

    run = batching(work)
    assert [len(batch) for batch in run.batches] == [1, 20] and len(run.threads) == 1 and run.closed


def test_an_idle_thread_answers_at_once() -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        begun = asyncio.get_running_loop().time()
        for number in range(50):
            await batcher.ask(known(number))
        assert asyncio.get_running_loop().time() - begun < 1.0  # no waiting for company: a thousandth each

    assert len(batching(work).batches) == 50


def test_a_batch_has_no_more_rows_or_edges_than_it_may() -> None:
    def new(neighbours: int) -> Question:
        return Question(nodes=(NewNode(hears={None: Ends(tuple(range(neighbours)))}),))

    async def rows(batcher: Batcher, run: FakeRun) -> None:
        tasks = await held(
            batcher, run, known(1, 2, 3), known(4, 5, 6), known(7, 8), *[known(9)] * 3, known(*range(50))
        )
        run.may_answer.set()
        await asyncio.gather(*tasks)

    async def edges(batcher: Batcher, run: FakeRun) -> None:
        tasks = await held(batcher, run, new(6), new(6), new(3))
        run.may_answer.set()
        await asyncio.gather(*tasks)

    sizes = [[question.rows for question in batch] for batch in batching(rows, batch_rows=8).batches]
    assert sizes == [[1], [3, 3, 2], [1, 1, 1], [50]]
    assert [len(batch) for batch in batching(edges, neighbours=10).batches] == [1, 1, 2]


def test_a_refusal_is_of_its_own_question_alone() -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        tasks = await held(batcher, run, known(1), known("nobody"), known(2))
        run.may_answer.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[2], Refusal) and found[2].status == 404
        assert [answers.ids for _, answers in (found[1], found[3])] == [(1,), (2,)]

    batching(work)


def test_an_unexpected_error_is_of_its_own_question_alone_and_the_thread_lives_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        tasks = await held(batcher, run, known(1), known(13), known(2))
        run.may_answer.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[2], Refusal) and found[2].status == 500 and "wrong" in str(found[2])
        assert [answers.ids for _, answers in (found[1], found[3])] == [(1,), (2,)]
        with pytest.raises(Refusal, match="went wrong"):
            await batcher.call(lambda served: served.no_such_thing)  # type: ignore[attr-defined]
        assert (await batcher.ask(known(3)))[1].ids == (3,)

    with caplog.at_level(logging.ERROR, "gamlp.serve"):
        batching(work, FakeRun(fails=[13]))
    assert "ZeroDivisionError" in caplog.text and "no_such_thing" in caplog.text


def test_more_than_may_wait_are_told_to_come_again() -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        tasks = await held(batcher, run, known(1), known(2))
        for ask in (batcher.ask(known(3)), batcher.call(lambda served: served.about())):
            with pytest.raises(Refusal) as caught:
                await ask
            assert caught.value.status == 503 and "3 requests wait" in str(caught.value)
        run.may_answer.set()
        await asyncio.gather(*tasks)
        assert (await batcher.ask(known(3)))[1].ids == (3,)

    batching(work, waiting=3)


def test_a_client_that_went_away_is_not_answered() -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        [first] = await held(batcher, run)
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        second = asyncio.create_task(batcher.ask(known(66), receive))
        third = asyncio.create_task(batcher.ask(known(67)))
        cancelled = asyncio.create_task(batcher.ask(known(68)))
        await asyncio.sleep(0.1)
        gone.set()
        cancelled.cancel()
        with pytest.raises(Refusal) as caught:
            await second
        assert caught.value.status == 499 and batcher.waiting == 2
        run.may_answer.set()
        await asyncio.gather(first, third)

    asked = [question.ids for batch in batching(work).batches for question in batch]
    assert asked == [(0,), (67,)]


def test_who_waits_too_long_is_told_so_but_not_who_is_being_answered() -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        first, second = await held(batcher, run, known(1))
        with pytest.raises(Refusal) as caught:
            await second
        assert caught.value.status == 503 and "within 0.2 seconds" in str(caught.value)
        await asyncio.sleep(0.2)
        assert not first.done()  # it may be kept by now: a refusal would be a lie
        run.may_answer.set()
        assert (await first)[1].ids == (0,)

    asked = [question.ids for batch in batching(work, wait_seconds=0.2).batches for question in batch]
    assert asked == [(0,)]


def test_a_newer_generation_answers_from_the_next_batch_on() -> None:
    newer = FakeRun(generation=1)

    async def work(batcher: Batcher, run: FakeRun) -> None:
        before = await held(batcher, run, known(1))
        swap = asyncio.create_task(batcher.swap(newer))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        after = asyncio.create_task(batcher.ask(known(2)))
        await asyncio.sleep(0)
        assert not run.closed
        run.may_answer.set()
        assert [served.generation for served, _ in await asyncio.gather(*before)] == [0, 0]
        await swap
        assert run.closed and newer.caught_up
        assert (await after)[0].generation == 1

    batching(work)
    assert newer.closed


def test_a_newer_generation_that_does_not_fit_leaves_the_older_one() -> None:
    class Torn(FakeRun):
        def catch_up(self, progress: Any = None) -> None:
            raise Refusal(422, "it is torn")

    async def work(batcher: Batcher, run: FakeRun) -> None:
        with pytest.raises(Refusal, match="torn"):
            await batcher.swap(Torn())  # type: ignore[arg-type]
        assert (await batcher.ask(known(1)))[0] is run

    batching(work)


def test_what_waits_at_the_end_is_refused_and_nothing_more_is_taken() -> None:
    async def work(batcher: Batcher, run: FakeRun) -> None:
        first, second = await held(batcher, run, known(1))
        batcher.give_up("the end")
        for ask in (second, batcher.ask(known(2))):
            with pytest.raises(Refusal, match="the end"):
                await ask
        run.may_answer.set()
        assert (await first)[1].ids == (0,)

    batching(work)
