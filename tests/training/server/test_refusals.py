"""What a parameter server does not take: it is counted, told, and changes nothing; who may speak with it at all."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from pyarrow import flight

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import Weights
from gamlp.training.rows import Prepared
from gamlp.training.server import parameter_server
from gamlp.training.server.client import Client
from gamlp.training.server.parameter_server import ParameterServer
from gamlp.training.server.parameters import Layout, run_digest
from gamlp.training.server.process import refusals
from gamlp.training.server.service import Certificate, saving
from gamlp.training.server.streams import kinds_of
from gamlp.training.server.worker import ServedWorld
from tests.training.server.serving import RUN, certificate, fit_by, fit_with, served
from tests.training.small import make_graph, prepared_in, same_weights, trained

FIRST: Weights = {"weight": torch.ones(2, 3), "mean": torch.zeros(3)}
LAYOUT = Layout([(0.0, 1.0, ["weight"])])
DIGEST = run_digest(RUN, LAYOUT, 4, kinds_of(FIRST))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_in(tmp_path_factory.mktemp("refusals"), make_graph(), training__batch_size=7)


def begin(world: ServedWorld, worker: int = 0, digest: str = DIGEST, first: Weights = FIRST) -> tuple[Client, Any]:
    client = Client(world)
    about = {**LAYOUT.as_json(), "batches": 4, "kinds": kinds_of(FIRST)}
    return client, client.stream("begin", first, run=digest, worker=worker, **about)[0]


def push(client: Client, given: Weights, batch: int = 0, worker: int = 0, digest: str = DIGEST) -> dict[str, Any]:
    about = {"epoch": 0, "batch": batch, "losses": [1.0], "rows": 2, "more": False}
    return client.stream("push", given, run=digest, worker=worker, **about)[0]


def weights_on(server: ParameterServer) -> Weights:
    assert server.slice is not None
    return server.slice.parameters.now()


def test_gradients_that_are_not_finite_of_another_shape_or_another_run_change_nothing(prepared: Prepared) -> None:
    with served(prepared) as (server, world):
        client, answer = begin(world)
        assert not answer.get("refused")
        before = weights_on(server)
        good = {"weight": torch.ones(2, 3), "mean": torch.ones(3)}
        assert client.say("next", run=DIGEST, worker=0)["task"] == "part"
        for given, reason in [
            ({"weight": torch.full((2, 3), torch.nan)}, "not finite"),
            ({"weight": torch.ones(3, 2)}, "of another shape"),
            ({"weight": torch.ones(2, 3, dtype=torch.float64)}, "of another shape"),
            ({"other": torch.ones(2, 3)}, "of another shape"),
        ]:
            assert push(client, given)["refused"] == reason
        assert push(client, good, digest="f" * 64)["refused"] == "of another run"
        assert push(client, good, batch=3)["refused"] == "too late"  # it is not handed out
        assert same_weights(weights_on(server), before)
        assert client.say("next", run=DIGEST, worker=0)["task"] == "part"
        assert not push(client, good, batch=1)["refused"]
        assert not same_weights(weights_on(server), before) and torch.equal(weights_on(server)["mean"], torch.ones(3))
        counts = client.say("counts")
    assert counts["updates"] == 1
    expected = {"not finite": 1, "of another shape": 3, "of another run": 1, "too late": 1}
    assert counts["refused"] == expected
    assert refusals(counts) == (
        "the parameter server refused 5 messages: 1 not finite, 1 of another run, 3 of another shape"
    )


def test_a_worker_of_another_run_or_with_other_tensors_does_not_begin(prepared: Prepared) -> None:
    with served(prepared) as (server, world):
        assert begin(world, digest="0" * 64)[1]["refused"] == "of another run"
        assert begin(world, first={"weight": torch.ones(3, 3), "mean": torch.zeros(3)})[1]["refused"] == (
            "of another shape"
        )
        assert not server.known
        assert not begin(world)[1].get("refused") and server.known
    with served(prepared) as (_, world), pytest.raises(GamlpError, match="refuses this worker: it is of another run"):
        fit_with(prepared, replace(world, run="another recipe"))


@pytest.mark.parametrize("token", ["", "another"])
def test_without_the_token_nothing_is_said(prepared: Prepared, token: str) -> None:
    with served(prepared) as (server, world):
        stranger = replace(world, token=token)
        with pytest.raises(GamlpError, match="does not know the token"):
            fit_with(prepared, stranger)
        with pytest.raises(GamlpError, match="does not know the token"):
            Client(stranger).say("counts")
        bare = flight.connect(f"grpc://{world.address}")
        for ask in (lambda: list(bare.list_flights()), lambda: list(bare.do_action("counts"))):
            with pytest.raises(flight.FlightUnauthenticatedError):
                ask()
        assert server.counts()["refused"]["without the token"] >= 4 and not server.known


def test_workers_train_beside_a_stranger_and_the_run_is_its_own(prepared: Prepared) -> None:
    with served(prepared, 2) as (server, world):
        with pytest.raises(GamlpError):
            fit_with(prepared, replace(world, token="wrong"))
        one, other = fit_by(prepared, world, 2)
        assert server.counts()["refused"] == {"without the token": 1}
        assert server.counts()["updates"] == prepared.recipe.training.epochs * server.ledger.batches
    assert same_weights(one.weights, other.weights) and one.epochs == prepared.recipe.training.epochs


def test_it_listens_on_loopback_alone(prepared: Prepared) -> None:
    with served(prepared) as (_, world):
        port = int(world.address.rpartition(":")[2])
        listening = [one for one in psutil.Process().net_connections("inet") if one.status == psutil.CONN_LISTEN]
        found = [one.laddr.ip.removeprefix("::ffff:") for one in listening if one.laddr.port == port]
        assert found == ["127.0.0.1"]


def test_with_a_certificate_all_is_encrypted(prepared: Prepared, tmp_path: Path) -> None:
    tls = certificate(tmp_path)
    assert "PRIVATE" not in tls.trusted() and tls.trusted().count("BEGIN CERTIFICATE") == 1
    with served(prepared, tls=tls) as (_, world):
        fitted = fit_with(prepared, world)
        plain = replace(world, root=None, patience=0.5)
        with pytest.raises(GamlpError, match="does not answer"):
            Client(plain).say("counts")
        other = certificate(tmp_path).trusted()
        with pytest.raises(GamlpError, match="does not answer"):
            Client(replace(world, root=other, patience=0.5)).say("counts")
    alone = trained(prepared)
    for name, value in alone.weights.items():
        torch.testing.assert_close(fitted.weights[name], value, rtol=0, atol=1e-5)


def test_files_that_are_no_certificates_are_told(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="cannot be read"):
        Certificate(tmp_path / "nothing.pem", tmp_path / "nothing.pem").trusted()
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(GamlpError, match="holds no certificate"):
        Certificate(tmp_path / "empty.pem", tmp_path / "empty.pem").trusted()


def test_a_server_that_is_not_there_is_told(prepared: Prepared) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    world = ServedWorld(address=f"127.0.0.1:{port}", token="x", run=RUN, patience=0.5)
    with pytest.raises(GamlpError, match=rf"the parameter server at 127\.0\.0\.1:{port} does not answer; run it again"):
        fit_with(prepared, world)


def test_weights_that_a_server_lost_after_the_end_are_asked_for_again(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(prepared) as (_, world):
        expected = fit_with(prepared, world).weights
    plain, asked = ParameterServer.ended, []

    def ended(self: ParameterServer, epoch: int) -> Weights | None:
        if self.ledger.finished:
            asked.append(epoch)
            if len(asked) == 1:
                return None  # as after a restart from an older checkpoint
        return plain(self, epoch)

    monkeypatch.setattr(ParameterServer, "ended", ended)
    with served(prepared) as (_, world):
        assert same_weights(fit_with(prepared, world).weights, expected)
    assert len(asked) == 2


def test_what_a_lost_copy_of_a_worker_left_is_handed_out_again() -> None:
    server = ParameterServer(RUN, TrainingSettings(exchange="server", epochs=1), 1)
    first, good = {"weight": torch.ones(2, 3)}, {"weight": torch.ones(2, 3)}
    kinds = kinds_of(first)
    digest = run_digest(RUN, LAYOUT, 8, kinds)
    for _ in range(2):  # the copy that is thought lost, and the one in its place
        assert server.begin(0, digest, LAYOUT, 8, kinds, first) == ""
        assert server.next(0)["task"] == "part"
    assert server.push((0, 0, 0), [1.0], 2, good) == ""  # the old copy, then it dies
    assert server.push((0, 0, 0), [1.0], 2, good) == "too late"
    while (task := server.next(0))["task"] == "part":
        for batch in range(task["begin"], task["end"]):
            assert server.push((0, 0, batch), [1.0], 2, good) == ""
    assert task["task"] == "look", "and not 'wait', for ever"


def test_a_checkpoint_that_could_not_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, first = Place.of(tmp_path / "checkpoint"), {"weight": torch.ones(2, 3)}
    server = ParameterServer(RUN, TrainingSettings(exchange="server"), 1, place)
    kinds = kinds_of(first)
    server.begin(0, run_digest(RUN, LAYOUT, 8, kinds), LAYOUT, 8, kinds, first)
    server.next(0)
    assert server.push((0, 0, 0), [1.0], 2, first) == ""
    real, failed = parameter_server.write_checkpoint, []

    def write(*given: Any) -> None:
        if not failed:
            failed.append(True)
            raise GamlpError("no space left on the device")
        real(*given)

    monkeypatch.setattr(parameter_server, "write_checkpoint", write)
    ended = threading.Event()
    thread = saving(server, 0.05, ended)
    until = time.monotonic() + 10
    while not place.exists() and time.monotonic() < until:
        time.sleep(0.02)
    ended.set()
    thread.join()
    assert failed and place.exists()
