"""A served run that answers by rule, and clients: of an application in this process, of a server in a thread."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from gamlp.serve import Answered, Question, Refusal
from gamlp.serve.http.app import Service, application
from gamlp.serve.http.gate import Gate
from gamlp.serve.http.listening import Address
from gamlp.serve.http.running import Running


class FakeRun:
    """Nodes 0 … nodes-1, and newcomers by name; probabilities are a function of the id alone.

    seconds: that an answer takes. fails: ids at which it raises what nobody expects.
    """

    def __init__(
        self,
        classes: Sequence[str] = ("cat", "dog", "owl"),
        *,
        multi_label: bool = False,
        class_type: str = "string",
        positive: str | None = None,
        nodes: int = 100,
        generation: int = 0,
        seconds: float = 0.0,
        fails: Sequence[Any] = (),
        name: str = "a run",
    ) -> None:
        self.name, self.generation, self.nodes, self.seconds, self.fails = name, generation, nodes, seconds, set(fails)
        self.bundle: Any = SimpleNamespace(
            classes=tuple(classes), multi_label=multi_label, class_type=class_type, positive=positive
        )
        self.graph: Any = SimpleNamespace(nodes=SimpleNamespace(ids=SimpleNamespace(values=None)))
        self.kept: dict[Any, Any] = {}
        self.batches: list[list[Question]] = []
        self.threads: set[int] = set()
        self.newer: FakeRun | None = None
        self.closed = self.caught_up = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    @property
    def newcomers(self) -> int:
        return len(self.kept)

    def probabilities(self, ids: Sequence[Any]) -> Any:
        """Of each id, by itself: rows that are answered together change nothing."""
        width = len(self.bundle.classes)
        rows = [np.random.default_rng(list(str(name).encode()) or 0).random(width) for name in ids]
        found = np.asarray(rows, np.float32).reshape(len(ids), width)
        return found if self.bundle.multi_label else found / found.sum(1, keepdims=True)

    def answer(self, questions: Sequence[Question]) -> list[Answered | Refusal]:
        assert not self.closed, "a closed run is asked"
        self.batches.append(list(questions))
        self.threads.add(threading.get_ident())
        self.may_answer.wait(30)
        time.sleep(self.seconds)
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Answered | Refusal:
        ids = [*question.ids, *(node.id for node in question.nodes)]
        if self.fails & set(ids):
            raise ZeroDivisionError("of the test")
        named = [*question.ids, *(one for node in question.nodes for ends in node.hears.values() for one in ends.ids)]
        for name in named:
            if name not in self.kept and not (isinstance(name, int) and 0 <= name < self.nodes):
                return Refusal(404, f"there is no node '{name}'")
        if question.keep:
            self.kept.update({node.id: node for node in question.nodes})
        return Answered(tuple(ids), self.probabilities(ids), ("a note",) if question.nodes else ())

    def explain(self, question: Question) -> list[dict[str, Any]]:
        answer = self._answer(question)
        if isinstance(answer, Refusal):
            raise answer
        return [{"id": name, "hops": [{"hop": 0, "weight": 1.0}]} for name in answer.ids]

    def about(self) -> dict[str, Any]:
        return {"run": self.name, "nodes": self.nodes, "newcomers": self.newcomers, "generation": self.generation}

    def changed_on_disk(self) -> bool:
        return self.newer is not None

    def reopened(self, progress: Any = None) -> FakeRun:
        newer = self.newer or FakeRun(self.bundle.classes, nodes=self.nodes, generation=self.generation + 1)
        newer.kept = dict(self.kept)
        return newer

    def catch_up(self, progress: Any = None) -> None:
        self.caught_up = True

    def hand_over(self, other: FakeRun) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> str:
        """The one sentence; nothing else is in an error."""
        found = self.json
        assert set(found) == {"error"}, found
        sentence: str = found["error"]
        assert sentence.endswith(".") and "\n" not in sentence and "Traceback" not in sentence, sentence
        return sentence


@dataclass
class InProcess:
    """An application, asked without a socket."""

    gate: Gate
    host: str = "127.0.0.1"

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | Any = b"",
        headers: dict[str, str] | None = None,
        *,
        leaves: asyncio.Event | None = None,
    ) -> Reply:
        """`leaves`: the client goes away once it is set."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"host": self.host, "content-length": str(len(raw)), **(headers or {})}
        parts = [{"type": "http.request", "body": raw, "more_body": False}]
        messages: list[Any] = []
        over = leaves or asyncio.Event()

        async def receive() -> Any:
            if parts:
                return parts.pop()
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.append(message)

        where, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": where,
            "raw_path": where.encode(), "query_string": query.encode(), "root_path": "", "scheme": "http",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "state": {},
        }  # fmt: skip
        await self.gate(scope, receive, send)
        assert messages[0]["type"] == "http.response.start"
        found = {name.decode(): value.decode("latin-1") for name, value in messages[0]["headers"]}
        return Reply(messages[0]["status"], found, b"".join(one.get("body", b"") for one in messages[1:]))


def in_process(work: Callable[[InProcess, Service, Any], Any], run: Any = None, **service: Any) -> Any:
    """Run a coroutine function with a client of an application that answers from a run; the thread ends after it."""

    async def main() -> Any:
        made = Service(**service)
        served = FakeRun() if run is None else run
        batcher = made.begin(served)
        try:
            return await work(InProcess(application(made)), made, served)
        finally:
            await batcher.close()

    return asyncio.run(main())


@dataclass
class AtAddress:
    """A server in a thread of this process."""

    running: Running
    address: Address

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.address.port, timeout=30)
        try:
            raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, raw, headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@contextmanager
def listening(run: Any, **options: Any) -> Iterator[AtAddress]:
    """A server at a free port of loopback, stopped after."""
    told: list[Address] = []
    ready = threading.Event()
    failed: list[BaseException] = []

    def tell(address: Address) -> None:
        told.append(address)
        ready.set()

    server = Running(lambda progress: run, port=0, told=tell, **{"grace": 5.0, "look": 0.05, **options})

    def work() -> None:
        try:
            server.run()
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="server of a test")
    thread.start()
    try:
        assert ready.wait(30)
        if failed:
            raise failed[0]
        yield AtAddress(server, told[0])
    finally:
        if thread.is_alive():
            server.stop()
        thread.join(30)
        assert not thread.is_alive()
    if failed:
        raise failed[0]
