"""Requests that come at the same time are answered by one forward pass, in one thread that alone touches the run."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gamlp.errors import GamlpError
from gamlp.serve.http.bodies import GONE, Receive
from gamlp.serve.http.limits import Limits
from gamlp.serve.http.metrics import Metrics
from gamlp.serve.http.requests import edges_of
from gamlp.serve.questions import Answered, Question, Refusal

if TYPE_CHECKING:
    from gamlp.serve.served import ServedRun

_LOG = logging.getLogger("gamlp.serve")
_WATCH_AFTER = 0.05  # seconds: most requests are answered before it is worth asking whether their client is there
_FAILED = "something went wrong here with this question, and it was written down"


class _Job:
    """Something that the thread does with the run, and who waits for it."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future


class _Asked(_Job):
    """A question that may be answered together with others."""

    def __init__(self, future: asyncio.Future[Any], question: Question) -> None:
        super().__init__(future)
        self.question, self.rows, self.edges = question, question.rows, edges_of(question)


class _Called(_Job):
    """A function of the run, done between two batches."""

    def __init__(self, future: asyncio.Future[Any], function: Callable[[ServedRun], Any]) -> None:
        super().__init__(future)
        self.function = function


class Batcher:
    """The thread and what waits for it. All but the thread itself is of one event loop."""

    def __init__(self, served: ServedRun, limits: Limits, metrics: Metrics) -> None:
        self.served = served
        self.waiting = 0
        self._limits, self._metrics = limits, metrics
        self._loop = asyncio.get_running_loop()
        # A job is taken out by the thread, or by who gives it up: whoever comes first.
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Lock()  # free: the thread is to look
        self._wake.acquire()
        self._ended = False
        self._refusing: Refusal | None = None
        self._thread = threading.Thread(target=self._work, name="gamlp-answers", daemon=True)
        self._thread.start()

    async def ask(self, question: Question, receive: Receive | None = None) -> tuple[ServedRun, Answered]:
        """The answer, and which generation gave it. `receive`: tells where the client goes away meanwhile."""
        self._admit()
        found = await self._result(_Asked(self._loop.create_future(), question), receive)
        served, answer = found
        if isinstance(answer, Refusal):
            raise answer
        return served, answer

    async def call(
        self, function: Callable[[ServedRun], Any], receive: Receive | None = None, *, admitted: bool = False
    ) -> tuple[ServedRun, Any]:
        """A function's result, and of which generation it is. `admitted`: of the server itself, refused never."""
        if not admitted:
            self._admit()
        found: tuple[ServedRun, Any] = await self._result(_Called(self._loop.create_future(), function), receive)
        return found

    async def swap(self, newer: ServedRun) -> None:
        """From the next batch on, a newer generation answers; the older one is closed."""

        def take(older: ServedRun) -> None:
            newer.catch_up()  # newcomers that were kept while it was opened
            self.served = newer
            older.hand_over(newer)

        await self.call(take, admitted=True)
        self._metrics.reloads += 1

    def refuse(self, why: str) -> None:
        """From now on nothing more is taken; what waits is answered still."""
        self._refusing = Refusal(503, why)

    def give_up(self, why: str) -> None:
        """What waits still is refused, all but what is being answered."""
        self.refuse(why)
        for job in list(self._jobs):
            self._drop(job, Refusal(503, why))

    async def close(self, seconds: float = 5.0) -> None:
        """End the thread and close the run; one that does not come back is left behind."""
        self.give_up("the server is stopping")
        self._ended = True
        self._look()
        until = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < until:
            await asyncio.sleep(0.01)

    def _look(self) -> None:
        if self._wake.locked():  # only this loop frees it
            self._wake.release()

    def _drop(self, job: _Job, why: Refusal) -> None:
        """Give up a job, unless the thread has it already."""
        with suppress(ValueError):
            self._jobs.remove(job)
            if not job.future.done():
                job.future.set_exception(why)

    def _admit(self) -> None:
        if self._refusing is not None:
            raise self._refusing
        if self.waiting >= self._limits.waiting:
            raise Refusal(503, f"{self.waiting:,} requests wait already", hint="ask again in a second")

    async def _result(self, job: _Job, receive: Receive | None) -> Any:
        watching: list[asyncio.Task[None]] = []
        later = self._loop.call_later(
            _WATCH_AFTER, lambda: watching.append(self._loop.create_task(self._watch(job, receive)))
        )
        self.waiting += 1
        self._jobs.append(job)
        self._look()
        try:
            return await job.future
        finally:
            self.waiting -= 1
            later.cancel()
            for task in watching:
                task.cancel()
            if job.future.cancelled():
                with suppress(ValueError):
                    self._jobs.remove(job)

    async def _watch(self, job: _Job, receive: Receive | None) -> None:
        """Give a job up whose client went away, or that waits for too long; not one that is being answered."""
        refusal = Refusal(GONE, "the client went away")
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                if receive is None:
                    await asyncio.sleep(self._limits.wait_seconds)
                else:
                    while (await receive())["type"] != "http.disconnect":
                        pass
        except TimeoutError:
            refusal = Refusal(
                503, f"there was no answer within {self._limits.wait_seconds:g} seconds", hint="ask again in a second"
            )
        self._drop(job, refusal)

    # What follows is done by the thread.

    def _work(self) -> None:
        while not self._ended:
            self._wake.acquire()
            while batch := self._gathered():
                first = batch[0]
                if isinstance(first, _Called):
                    self._deliver([(first, self._done(first))])
                else:
                    self._deliver(self._answered(batch))
        self.served.close()

    def _gathered(self) -> list[Any]:
        """All that waits now and fits into one pass, in its order; or one call alone; or nothing."""
        batch: list[_Job] = []
        rows = edges = 0
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                return batch
            if isinstance(job, _Asked):
                rows, edges = rows + job.rows, edges + job.edges
                small = rows <= self._limits.batch_rows and edges <= self._limits.neighbours
                if small or not batch:
                    batch.append(job)
                    continue
            elif not batch:
                return [job]
            self._jobs.appendleft(job)
            return batch

    def _answered(self, batch: list[_Asked]) -> list[tuple[_Job, Any]]:
        served, begun = self.served, time.perf_counter()
        try:
            answers: list[Any] = list(served.answer([job.question for job in batch]))
            if len(answers) != len(batch):
                raise RuntimeError(f"{len(answers)} answers to {len(batch)} questions")
        except Exception:
            _LOG.exception("a batch of %d questions failed", len(batch))
            answers = [self._alone(job) for job in batch]
        rows = sum(len(one.ids) for one in answers if isinstance(one, Answered))
        self._metrics.batch(len(batch), rows, time.perf_counter() - begun)
        return [(job, (served, answer)) for job, answer in zip(batch, answers)]

    def _alone(self, job: _Asked) -> Answered | Refusal:
        """One question of a batch that failed: the others are not to suffer from it."""
        try:
            [answer] = self.served.answer([job.question])
            return answer
        except Exception:
            _LOG.exception("a question of %d rows failed", job.rows)
            self._metrics.failures += 1
            return Refusal(500, _FAILED)

    def _done(self, job: _Called) -> Any:
        served = self.served
        try:
            return served, job.function(served)
        except GamlpError as error:
            return error
        except Exception:
            _LOG.exception("a call failed")
            self._metrics.failures += 1
            return Refusal(500, _FAILED)

    def _deliver(self, found: list[tuple[_Job, Any]]) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, found)
        except RuntimeError:  # the loop has ended: nobody waits any more
            return


def _settle(found: list[tuple[_Job, Any]]) -> None:
    for job, result in found:
        if job.future.done():
            continue
        if isinstance(result, GamlpError):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
