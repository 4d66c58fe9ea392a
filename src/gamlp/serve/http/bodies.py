"""Bodies of requests, read piece by piece within limits of size, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from gamlp.serve.http.limits import Limits
from gamlp.serve.questions import Refusal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

READ = "gamlp.body_read"  # in a scope: nothing more comes, and the connection may be used again
GONE = 499  # what the client never sees


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name, which is in small letters."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


class BodyReader:
    """Knows how many bytes of all requests are held."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held = 0

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
        """The whole body; it counts as held until the request is answered."""
        self._check_headers(scope)
        parts: list[bytes] = []
        taken = 0
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(GONE, "the client went away")
                    part = message.get("body", b"")
                    taken += len(part)
                    self.held += len(part)
                    if taken > self._limits.body_bytes:
                        raise self._too_large()
                    if self.held > self._limits.held_bytes:
                        raise Refusal(503, "too many large requests wait", hint="ask again in a second")
                    parts.append(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            self.held -= taken
            raise Refusal(
                408, f"the body did not arrive within {self._limits.read_seconds:g} seconds", hint="send it at once"
            ) from None
        except BaseException:
            self.held -= taken
            raise
        scope[READ] = True
        try:
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self.held -= taken

    def _check_headers(self, scope: Scope) -> None:
        """What the headers say already is refused before anything is read."""
        encoding = header(scope, b"content-encoding")
        if encoding is not None and encoding.strip().lower() not in ("", "identity"):
            raise Refusal(415, "the body is compressed", hint="send it as it is")
        length = header(scope, b"content-length")
        if length is not None and length.isascii() and length.isdigit() and int(length[:20]) > self._limits.body_bytes:
            raise self._too_large()

    def _too_large(self) -> Refusal:
        most = self._limits.body_bytes
        return Refusal(413, f"a body of more than {most:,} bytes", hint="ask in several requests")


async def linger(receive: Receive, seconds: float = 1.0, most: int = 64 << 20) -> None:
    """Take what is still sent and throw it away for a moment: a client that sends would lose the answer otherwise.

    A connection that is closed over unread bytes is reset, and with it goes what the client has not read yet.
    """
    taken = 0
    try:
        async with asyncio.timeout(seconds):
            while taken < most:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                taken += len(message.get("body", b""))
    except TimeoutError:
        return
