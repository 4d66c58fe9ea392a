"""What one request, and all of them together, may ask of a server: beyond it the answer is a sentence, not growth."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gamlp.errors import GamlpError

_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Each is met by a status of its own.

    body_bytes: of one request. (413)
    held_bytes: of the bodies of all requests that are read or wait; what is made of them is a few times larger. (503)
    rows: known ids and new nodes of one request. (413)
    explained: the same of one request to explain, which takes longer. (413)
    neighbours: edges of all new nodes of one request. (413)
    waiting: requests that are not answered yet. (503)
    connections: that are open. (503)
    batch_rows: that are answered by one forward pass; a larger request is a batch by itself.
    read_seconds: until a body has arrived. (408)
    wait_seconds: until a request's turn comes. (503)
    idle_seconds: a connection without a whole header, or whose reader takes nothing, is closed.
    keep_alive_seconds: the same of one that waits for its next request.
    """

    body_bytes: int = 16 * _MIB
    held_bytes: int = 128 * _MIB
    rows: int = 10_000
    explained: int = 100
    neighbours: int = 1_000_000
    waiting: int = 256
    connections: int = 1_000
    batch_rows: int = 4_096
    read_seconds: float = 30.0
    wait_seconds: float = 30.0
    idle_seconds: float = 15.0
    keep_alive_seconds: int = 75

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:  # nor NaN
                raise GamlpError(f"{one.name.replace('_', ' ')}: {getattr(self, one.name)} is no limit above 0")
        if self.held_bytes < self.body_bytes:
            object.__setattr__(self, "held_bytes", self.body_bytes)
