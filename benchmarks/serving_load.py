"""A load on loopback: so many requests a second, each sent at its time whether or not the others were answered.

    python benchmarks/serving_load.py --port 8000 --bodies bodies.jsonl --rate 200 --count 6000

prints one line of JSON: milliseconds from the moment at which a request was due to its whole answer, statuses (0: the
server went away), seconds.
With --rate 0 each connection asks as soon as it was answered. It ends by itself, by its count or after --seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from pathlib import Path

import numpy as np


class Connection:
    """One connection that is kept open; HTTP/1.1 with lengths."""

    def __init__(self, port: int, path: str) -> None:
        self.port, self.path = port, path
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, body: bytes) -> tuple[int, bytes]:
        """(status, content)."""
        if self.writer is None or self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int((await self.reader.readline()).split()[1])
        length = 0
        while (line := await self.reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, await self.reader.readexactly(length)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


async def load(given: argparse.Namespace) -> dict[str, object]:
    bodies = [line.encode() for line in given.bodies.read_text().splitlines()]
    free: asyncio.Queue[Connection] = asyncio.Queue()
    opened = [Connection(given.port, given.path) for _ in range(given.connections)]
    for one in opened:
        free.put_nowait(one)
    taken: list[float] = []
    statuses: dict[int, int] = {}
    answers: dict[int, str] = {}
    begun = time.perf_counter()

    async def ask(number: int, due: float, connection: Connection) -> None:
        try:
            status, content = await connection.ask(bodies[number % len(bodies)])
        except (OSError, IndexError, asyncio.IncompleteReadError):  # the server is gone
            status, content = 0, b""
        taken.append(time.perf_counter() - due)
        statuses[status] = statuses.get(status, 0) + 1
        if given.answers and number < len(bodies):
            answers[number] = content.decode()
        free.put_nowait(connection)

    running: set[asyncio.Task[None]] = set()
    for number in itertools.count():
        if number >= given.count or time.perf_counter() - begun > given.seconds:
            break
        due = begun + number / given.rate if given.rate else time.perf_counter()
        if (pause := due - time.perf_counter()) > 0:
            await asyncio.sleep(pause)
        connection = await free.get()  # none is free: the wait counts, since it is due
        task = asyncio.create_task(ask(number, due if given.rate else time.perf_counter(), connection))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    seconds = time.perf_counter() - begun
    for one in opened:
        one.close()
    if given.answers:
        given.answers.write_text("".join(answers[number] + "\n" for number in sorted(answers)))
    p50, p90, p99, worst = (float(np.percentile(taken, p)) * 1e3 for p in (50, 90, 99, 100))
    return {
        "count": len(taken), "seconds": seconds, "p50": p50, "p90": p90, "p99": p99, "max": worst,
        "statuses": {str(key): value for key, value in sorted(statuses.items())},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/predict")
    parser.add_argument("--bodies", type=Path, required=True, help="One body a line; they come round again.")
    parser.add_argument("--rate", type=float, default=200.0, help="Requests a second; 0: as fast as answers come.")
    parser.add_argument("--count", type=int, default=6000)
    parser.add_argument("--seconds", type=float, default=600.0, help="No request is sent later.")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--answers", type=Path, help="File for the answers to the first round of bodies.")
    print(json.dumps(asyncio.run(load(parser.parse_args()))))


if __name__ == "__main__":
    main()
