"""A server from its first socket to its last answer: opening, newer generations, connections that hang, stopping."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import uvicorn

from gamlp.errors import GamlpError
from gamlp.io import Trust
from gamlp.progress import Progress, silent
from gamlp.run import LOCAL, Resources
from gamlp.serve.http.app import Service, application
from gamlp.serve.http.batching import Batcher
from gamlp.serve.http.connections import close_hanging, protocol
from gamlp.serve.http.keys import Admission, read_keys
from gamlp.serve.http.limits import Limits
from gamlp.serve.http.listening import Address, Tls, listening_at
from gamlp.serve.http.process import allow_files, fast_loop, keep_as_it_is, short_turns, told_on_stderr
from gamlp.serve.questions import Question
from gamlp.serve.served import MOST_NEWCOMERS, ServedRun

_LOG = logging.getLogger("gamlp.serve")
_LOOK = 2.0  # seconds between looks at the run folder
_SLOWEST_LOOK = 60.0  # the same after newer generations that could not be opened
_STOPPING = "the server is stopping"
_Found = TypeVar("_Found")


class _Stopped(Exception):
    """Opening is not needed any more."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are this module's own."""
        yield


class Running:
    """One server. `open_run` is called in a thread; `told` in the event loop, once all is ready."""

    def __init__(
        self,
        open_run: Callable[[Progress], ServedRun],
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        admission: Admission | None = None,
        limits: Limits | None = None,
        tls: Tls | None = None,
        grace: float = 10.0,
        look: float = _LOOK,
        access_log: bool = False,
        told: Callable[[Address], None] = lambda address: None,
        progress: Progress = silent,
    ) -> None:
        self._open_run, self._host, self._port, self._tls = open_run, host, port, tls
        self._grace, self._look_every, self._access_log = grace, look, access_log
        self._told, self._progress = told, progress
        self.service = Service(limits, admission if admission is not None else Admission.of(host, ()))

    def run(self) -> None:
        """Until a signal, or `stop`, ends it."""
        if self._tls is not None:
            self._tls.check()
        with ExitStack() as stack:
            listening = stack.enter_context(listening_at(self._host, self._port))
            stack.enter_context(told_on_stderr(self._access_log))
            stack.enter_context(short_turns())
            stack.callback(gc.unfreeze)
            allow_files()
            with asyncio.Runner(loop_factory=fast_loop()) as runner:
                runner.run(self._run(listening))

    def stop(self) -> None:
        """From any thread: as SIGTERM does."""
        self._loop.call_soon_threadsafe(self._stop)

    def reload(self) -> None:
        """From any thread: as SIGHUP does."""
        self._loop.call_soon_threadsafe(self._reload.set)

    async def _run(self, listening: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self._reload = asyncio.Event(), asyncio.Event()
        host, port = listening.getsockname()[:2]
        gate = application(self.service)
        self._server = _Server(self._config(gate))
        gate.connections = lambda: len(self._server.server_state.connections)
        with self._signals():
            serving = asyncio.create_task(self._server.serve(sockets=[listening]))
            serving.add_done_callback(lambda _: self._stopping.set())
            sweeping = asyncio.create_task(
                close_hanging(self._server.server_state.connections, self.service.limits.idle_seconds)
            )
            batcher = None
            try:
                served = await self._opened()
                if served is not None and self._stopping.is_set():
                    served.close()
                elif served is not None:
                    batcher = self.service.begin(served)
                    keep_as_it_is()
                    self._told(Address(host, port, self._tls is not None))
                    await self._renew(batcher)
            finally:
                self._end()
                if batcher is not None:
                    self._loop.call_later(self._grace, batcher.give_up, _STOPPING)
                await serving
                sweeping.cancel()
                if batcher is not None:
                    await batcher.close(max(1.0, self._grace))

    def _config(self, gate: Any) -> uvicorn.Config:
        tls = self._tls
        return uvicorn.Config(
            gate, http=protocol(), ws="none", lifespan="off", interface="asgi3", log_config=None,
            access_log=self._access_log, proxy_headers=False, server_header=False,
            timeout_keep_alive=self.service.limits.keep_alive_seconds,
            timeout_graceful_shutdown=int(self._grace) + 1,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None or tls.key is None else tls.key,
        )  # fmt: skip

    async def _opened(self) -> ServedRun | None:
        """The run; None where the server is stopped before."""

        def progress(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
            if self._stopping.is_set():
                raise _Stopped
            self._progress(stage, done, total, unit, note)

        opening = _in_thread(lambda: self._open_run(progress))
        stopping = asyncio.ensure_future(self._stopping.wait())
        both: list[asyncio.Future[Any]] = [opening, stopping]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():  # at its next step it sees that it is not needed
                await asyncio.wait({opening}, timeout=self._grace)
            if not opening.done():
                return None
            with suppress(_Stopped):
                return opening.result()
            return None
        finally:
            stopping.cancel()

    async def _renew(self, batcher: Batcher) -> None:
        """Take up newer generations until the server stops."""
        wait = self._look_every
        while not self._stopping.is_set():
            asked = await self._waited(wait)
            if self._stopping.is_set():
                return
            try:
                if asked or (await batcher.call(lambda served: served.changed_on_disk(), admitted=True))[1]:
                    await self._newer(batcher)
                wait = self._look_every
            except Exception as error:
                known = isinstance(error, GamlpError)
                _LOG.warning("the newer run is not taken up: %s", error, exc_info=None if known else error)
                wait = min(2 * wait, _SLOWEST_LOOK)

    async def _waited(self, seconds: float) -> bool:
        """Whether somebody asked for a newer generation meanwhile."""
        waiting = [asyncio.create_task(event.wait()) for event in (self._reload, self._stopping)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        asked = self._reload.is_set()
        self._reload.clear()
        return asked

    async def _newer(self, batcher: Batcher) -> None:
        older = batcher.served
        newer = await _in_thread(lambda: older.reopened(silent))
        try:
            await batcher.swap(newer)
        except BaseException:
            newer.hand_over(older)
            raise
        _LOG.warning("generation %d answers from now on", newer.generation)

    def _stop(self) -> None:
        if self.service.stopping:  # asked for twice: now
            self._server.force_exit = True
            self.service.give_up(_STOPPING)
        self._end()

    def _end(self) -> None:
        self._stopping.set()
        self.service.stopping = True
        self._server.should_exit = True

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop, SIGHUP looks for a newer generation; what they did before is put back."""
        wanted = {"SIGTERM": self._stop, "SIGINT": self._stop, "SIGHUP": self._reload.set}
        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
            for name, function in wanted.items():
                number = getattr(signal, name)
                before[number] = signal.getsignal(number)
                self._loop.add_signal_handler(number, function)
        try:
            yield
        finally:
            for number, handler in before.items():
                self._loop.remove_signal_handler(number)
                signal.signal(number, handler)


def serve_run(
    place: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    api_key_file: Path | None = None,
    without_key: bool = False,
    allowed_hosts: Iterable[str] = (),
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    limits: Limits | None = None,
    most_newcomers: int = MOST_NEWCOMERS,
    read_only: bool = False,
    grace: float = 10.0,
    access_log: bool = False,
    trust: Trust = None,
    resources: Resources = LOCAL,
    told: Callable[[Address], None] = lambda address: None,
    progress: Progress = silent,
) -> None:
    """Answer over HTTP until a signal ends it.

    place: the run folder.
    host, port: where to listen; beyond loopback only with a key. Port 0: any that is free.
    api_key_file: keys that clients may send, one a line. (default: the variable GAMLP_API_KEY, or none)
    without_key: nobody has to send one, beyond loopback neither.
    allowed_hosts: names by which clients may call a server on loopback, such as that of a proxy.
    tls_cert, tls_key: PEM files.
    limits: what requests may ask of the server.
    most_newcomers, read_only, trust, resources, progress: as in `ServedRun.open`.
    grace: seconds that a signal leaves to what waits.
    access_log: a line on stderr for each request.
    told: is called with the address once the run is opened.
    """
    if tls_key is not None and tls_cert is None:
        raise GamlpError("a key of TLS without its certificate", hint="give --tls-cert too")
    keys = () if without_key and api_key_file is None else read_keys(api_key_file)
    admission = Admission.of(host, keys, without_key=without_key, hosts=allowed_hosts)

    def open_run(telling: Progress) -> ServedRun:
        served = ServedRun.open(
            place, trust=trust, resources=resources, progress=telling, most_newcomers=most_newcomers,
            read_only=read_only,
        )  # fmt: skip
        first = served.graph.nodes.ids.take(np.arange(min(1, served.graph.nodes.count))).to_pylist()
        served.answer([Question(ids=tuple(first))])  # what libraries do once, a fifth of a second, no client waits for
        return served

    Running(
        open_run, host=host, port=port, admission=admission, limits=limits,
        tls=None if tls_cert is None else Tls(tls_cert, tls_key), grace=grace, access_log=access_log, told=told,
        progress=progress,
    ).run()  # fmt: skip


def _in_thread(function: Callable[[], _Found]) -> asyncio.Future[_Found]:
    """A thread of its own, which the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Found] = loop.create_future()

    def settle(found: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(found)
        else:
            future.set_exception(error)

    def work() -> None:
        found, error = None, None
        try:
            found = function()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=work, name="gamlp-opens", daemon=True).start()
    return future
