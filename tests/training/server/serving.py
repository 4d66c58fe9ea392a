"""A parameter server in this process, its slices and workers as threads, for tests that need no processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import torch

from gamlp.io import Place
from gamlp.training.loop import Fitted, Machine
from gamlp.training.rows import Prepared
from gamlp.training.seeds import fit_prepared
from gamlp.training.server.checkpoint_sets import CheckpointSets
from gamlp.training.server.client import Client
from gamlp.training.server.parameter_server import ParameterServer
from gamlp.training.server.service import Certificate, ParameterService, SliceService
from gamlp.training.server.slice_server import SliceServer
from gamlp.training.server.worker import ServedWorld

RUN, TOKEN = "a run", "a token"


@contextmanager
def served(
    prepared: Prepared,
    workers: int = 1,
    checkpoint: Path | None = None,
    tls: Certificate | None = None,
    slices: bool = True,
) -> Iterator[tuple[ParameterServer, ServedWorld]]:
    """The server, and the world of its first worker; with the servers of all slices, or none."""
    place = None if checkpoint is None else Place.of(checkpoint)
    server = ParameterServer(RUN, prepared.recipe.training, workers, place)
    service = ParameterService(server, TOKEN, tls=tls)
    answering = threading.Thread(target=service.serve, daemon=True)
    answering.start()
    root = None if tls is None else tls.trusted()
    world = ServedWorld(address=service.address, token=TOKEN, run=RUN, root=root, patience=5.0)
    try:
        with ExitStack() as stack:
            for number in range(1, prepared.recipe.training.servers + 1 if slices else 1):
                stack.enter_context(slice_served(prepared, world, number, checkpoint, tls))
            yield server, world
    finally:
        service.shutdown()
        answering.join()


@contextmanager
def slice_served(
    prepared: Prepared, world: ServedWorld, number: int, checkpoint: Path | None = None, tls: Certificate | None = None
) -> Iterator[SliceServer]:
    """The server of a slice, which attends to the parameter server."""
    settings = prepared.recipe.training
    sets = None if checkpoint is None else CheckpointSets(Place.of(checkpoint), settings.servers)
    server, ended = SliceServer(RUN, settings, number, sets), threading.Event()
    service, client = SliceService(server, TOKEN, tls=tls), Client(world)
    attending = threading.Thread(target=server.attend, args=(service.address, client.say, ended), daemon=True)
    attending.start()
    try:
        yield server
    finally:
        ended.set()
        attending.join()
        service.shutdown()
        client.close()


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


def certificate(folder: Path) -> Certificate:
    """A new one for loopback, signed by itself, in one file with its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gamlp")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    both = folder / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + private)
    return Certificate(both, both)


def wait_for(what: Callable[[], Any], seconds: float = 120) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not come")
