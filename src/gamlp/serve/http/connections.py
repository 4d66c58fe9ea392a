"""Connections of a server: what is no HTTP is told so, endless headers are cut off, those that hang are closed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from gamlp.serve.http.encoding import as_json

_LONGEST_HEADER = 1 << 16  # bytes of a request's line and headers


def protocol() -> type[asyncio.Protocol]:
    """uvicorn's own, of httptools where it is installed, with errors as JSON and a limit on headers."""
    base: Any
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base

    class Connection(base):  # type: ignore[misc]
        """One connection."""

        _header = 0  # bytes of the header that is coming

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before or not (before is None or before.response_complete):
                self._header = 0  # a request has begun, or goes on
                return
            self._header += len(data)
            if self._header > _LONGEST_HEADER and not self.transport.is_closing():
                self._refuse(b"431 Request Header Fields Too Large", "the headers are too long")

        def send_400_response(self, msg: str) -> None:
            self._refuse(b"400 Bad Request", "this is no request of HTTP")

        def _refuse(self, status: bytes, why: str) -> None:
            content = as_json({"error": f"{why}."})
            head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            self.transport.write(head % (status, len(content)) + content)
            self.transport.close()

    found: type[asyncio.Protocol] = Connection
    return found


async def close_hanging(connections: set[Any], seconds: float) -> None:
    """Close those in which nothing moves for so long: half a header, or an answer that nobody takes. It never ends."""
    seen: dict[Any, tuple[Any, float]] = {}
    while True:
        await asyncio.sleep(min(1.0, seconds / 4))
        now, before = time.monotonic(), seen
        seen = {}
        for connection in list(connections):
            state = _standing(connection)
            if state is None:
                continue
            same, since = before.get(connection, (None, now))
            seen[connection] = state, since if same == state else now
            if now - seen[connection][1] > seconds:
                connection.transport.abort()


def _standing(connection: Any) -> Any:
    """What would change if anything moved; None: it waits for an answer, or for its next question."""
    cycle = connection.cycle
    if cycle is not None and not cycle.response_started:
        return None
    unsent = connection.transport.get_write_buffer_size()
    if not unsent and getattr(connection, "timeout_keep_alive_task", None) is not None:
        return None
    return id(cycle), unsent
