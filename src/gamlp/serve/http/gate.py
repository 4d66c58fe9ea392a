"""Before every route: who may ask, and how many at once; behind it: errors as JSON, counts, connections let go."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import Response

from gamlp.serve.http.bodies import READ, Receive, Scope, header, linger
from gamlp.serve.http.encoding import as_json
from gamlp.serve.http.keys import Admission
from gamlp.serve.http.limits import Limits
from gamlp.serve.http.metrics import Metrics
from gamlp.serve.questions import Refusal

_LOG = logging.getLogger("gamlp.serve")
OPEN = frozenset(("/", "/health", "/ready", "/v2/health/live", "/v2/health/ready"))  # no key is asked for
FAILED = Refusal(500, "something went wrong here, and it was written down")
_STOPPING = Refusal(503, "the server is stopping")
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def error_response(refusal: Refusal) -> Response:
    """`{"error": "one sentence"}`; and when to ask again, or what to bring."""
    headers = {503: {"Retry-After": "1"}, 401: {"WWW-Authenticate": "Bearer"}}.get(refusal.status)
    return Response(as_json({"error": str(refusal)}), refusal.status, headers, "application/json")


class Gate:
    """The application that the server calls. `connections`: how many are open now."""

    def __init__(
        self,
        inner: Application,
        admission: Admission,
        limits: Limits,
        metrics: Metrics,
        *,
        connections: Callable[[], int] = lambda: 0,
    ) -> None:
        self._inner, self._admission, self._limits, self._metrics = inner, admission, limits, metrics
        self.connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # nothing else is spoken here
            return
        begun, answer = time.perf_counter(), _Answer(scope, receive, send)
        try:
            self._check(scope)
            await self._inner(scope, receive, answer.send)
        except Refusal as refusal:
            await answer.refuse(refusal)
        except asyncio.CancelledError:  # the server has waited long enough for what it had begun
            await answer.refuse(_STOPPING)
        except Exception:
            _LOG.exception("%s %s failed", scope["method"], scope["path"])
            self._metrics.failures += 1
            await answer.refuse(FAILED)
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.answered(route, answer.status, time.perf_counter() - begun)

    def _check(self, scope: Scope) -> None:
        open_to_all = scope["path"] in OPEN
        self._admission.check(scope, open_to_all=open_to_all)
        if (count := self.connections()) > self._limits.connections and not open_to_all:
            raise Refusal(503, f"{count:,} connections are open", hint="ask again in a second")


class _Answer:
    """What is sent of one answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.status = 0
        self._unread = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), _NOSNIFF]
            self._unread = READ not in self._scope and _has_body(self._scope)
            if self._unread:
                message["headers"].append(_CLOSE)
        elif self._unread and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await linger(self._receive)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        if not self.status:  # else it is too late: the connection is closed over what was sent
            await error_response(refusal)(self._scope, self._receive, self.send)


def _has_body(scope: Scope) -> bool:
    length = header(scope, b"content-length")
    return length not in (None, "0") or header(scope, b"transfer-encoding") is not None
