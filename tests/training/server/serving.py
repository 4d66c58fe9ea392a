"""A parameter server in this process, with workers as threads, for tests that need no processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gamlp.io import Place
from gamlp.training.loop import Fitted, Machine
from gamlp.training.rows import Prepared
from gamlp.training.seeds import fit_prepared
from gamlp.training.server.parameter_server import ParameterServer
from gamlp.training.server.service import Certificate, ParameterService
from gamlp.training.server.worker import ServedWorld

RUN, TOKEN = "a run", "a token"


@contextmanager
def served(
    prepared: Prepared, workers: int = 1, checkpoint: Path | None = None, tls: Certificate | None = None
) -> Iterator[tuple[ParameterServer, ServedWorld]]:
    """The server, and the world of its first worker."""
    place = None if checkpoint is None else Place.of(checkpoint)
    server = ParameterServer(RUN, prepared.recipe.training, workers, place)
    service = ParameterService(server, TOKEN, tls=tls)
    answering = threading.Thread(target=service.serve, daemon=True)
    answering.start()
    root = None if tls is None else tls.trusted()
    try:
        yield server, ServedWorld(address=service.address, token=TOKEN, run=RUN, root=root, patience=5.0)
    finally:
        service.shutdown()
        answering.join()


def fit_with(prepared: Prepared, world: ServedWorld, memory: int | None = None, **observing: Any) -> Fitted:
    return fit_prepared(prepared, 0, Machine(torch.device("cpu"), memory, world=world), **observing)


def fit_by(prepared: Prepared, world: ServedWorld, workers: int) -> list[Fitted]:
    """Workers at once, as threads; they share a random stream, so that dropout is not compared bit by bit."""
    found: list[Fitted | None] = [None] * workers

    def fit(rank: int) -> None:
        found[rank] = fit_with(prepared, replace(world, rank=rank))

    threads = [threading.Thread(target=fit, args=(rank,)) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one is not None for one in found)
    return [one for one in found if one is not None]
