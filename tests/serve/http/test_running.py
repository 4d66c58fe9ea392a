"""A server on loopback: newer generations, stopping, clients that hang or come in hundreds, files of TLS."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from gamlp.errors import GamlpError
from gamlp.serve import Limits
from gamlp.serve.http.keys import Admission
from gamlp.serve.http.listening import Tls
from gamlp.serve.http.running import Running
from tests.serve.http.fakes import AtAddress, FakeRun, listening
from tests.sockets import beyond_loopback
from tests.sockets import listening as sockets_of

PREDICT = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"


def waits_for(what: Callable[[], Any], seconds: float = 20) -> Any:
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.01)
    return found


def connected(server: AtAddress) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.address.port), 20)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def test_a_server_listens_on_loopback_answers_and_leaves_nothing() -> None:
    process = psutil.Process()
    run = FakeRun()
    with listening(FakeRun()) as server:  # what libraries open once is open before
        server.ask("GET", "/health")
    threads, files = process.num_threads(), process.num_fds()
    with listening(run) as server:
        assert beyond_loopback(sockets_of(os.getpid())) == set()
        assert server.ask("POST", "/predict", {"ids": [1]}).json["predictions"][0]["id"] == 1
        reply = server.ask("GET", "/nothing")
        assert reply.status == 404 and "server" not in reply.headers
        assert server.ask("HEAD", "/health").status == server.ask("HEAD", "/").status == 200
    assert run.closed
    waits_for(lambda: process.num_threads() <= threads and process.num_fds() <= files)


def test_a_server_needs_no_fast_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uvloop", "httptools", "uvicorn.protocols.http.httptools_impl"):
        monkeypatch.setitem(sys.modules, name, None)
    with listening(FakeRun(), limits=Limits(body_bytes=1000)) as server:
        assert server.ask("POST", "/predict", {"ids": [1]}).status == 200
        assert server.ask("POST", "/predict", b" " * 2000).status == 413
        with connected(server) as stranger:
            stranger.sendall(b"\0\0\r\n\r\n")
            said = read_all(stranger)
            assert said.startswith(b"HTTP/1.1 400 ") and b'{"error":' in said


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(GamlpError, match=rf"port {port} of 127.0.0.1 cannot be listened at .*--port"):
            Running(lambda _: FakeRun(), port=port).run()  # type: ignore[arg-type, return-value]
    with pytest.raises(GamlpError, match="there is no address"):
        Running(lambda _: FakeRun(), host="no.such.name.invalid", admission=Admission()).run()  # type: ignore[arg-type, return-value]


def test_a_run_that_cannot_be_opened_ends_the_server() -> None:
    def refuse(_: Any) -> Any:
        raise GamlpError("there is no run here")

    with pytest.raises(GamlpError, match="there is no run here"):
        Running(refuse, port=0).run()


def test_while_the_run_is_opened_the_server_lives_but_is_not_ready() -> None:
    may_open, asked = threading.Event(), threading.Event()

    def slowly(_: Any) -> Any:
        asked.set()
        may_open.wait(30)
        return FakeRun()

    with socket.create_server(("127.0.0.1", 0)) as some:
        port = some.getsockname()[1]
    server = Running(slowly, port=port, grace=1.0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert asked.wait(20)

        def status(path: str) -> int:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.request("GET", path)
                return connection.getresponse().status
            except ConnectionRefusedError:
                return 0
            finally:
                connection.close()

        waits_for(lambda: status("/health") == 200)
        assert status("/ready") == 503
        may_open.set()
        waits_for(lambda: status("/ready") == 200)
    finally:
        may_open.set()
        server.stop()
        thread.join(20)
    assert not thread.is_alive()


def test_a_server_that_is_stopped_while_the_run_is_opened_ends_soon() -> None:
    def forever(progress: Any) -> Any:
        for step in range(10**6):
            progress("opening", step)
            time.sleep(0.01)

    server = Running(forever, port=0, grace=5.0)
    thread = threading.Thread(target=server.run)
    thread.start()
    time.sleep(0.5)
    begun = time.monotonic()
    server.stop()
    thread.join(20)
    assert not thread.is_alive() and time.monotonic() - begun < 4


async def ask_again_and_again(port: int, until: Callable[[], bool], clients: int) -> list[tuple[int, int]]:
    """(status, generation) of every answer to clients that keep their connections and never pause."""
    found: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"ids": [%d]}' % number
        try:
            while not until():
                writer.write(PREDICT + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                content = json.loads(await reader.readexactly(length))
                assert [row["id"] for row in content.get("predictions", [])] == [number], content
                found.append((int(head.split()[1]), content["generation"]))
        finally:
            writer.close()
            await writer.wait_closed()

    await asyncio.gather(*(one(number) for number in range(clients)))
    return found


def test_newer_generations_come_without_a_dropped_request() -> None:
    run = FakeRun()
    older: list[FakeRun] = []
    with listening(run, look=0.02) as server:
        ended = threading.Event()
        found: list[tuple[int, int]] = []
        asking = threading.Thread(
            target=lambda: found.extend(asyncio.run(ask_again_and_again(server.address.port, ended.is_set, 8)))
        )
        asking.start()
        for generation in range(1, 11):  # half of them found on disk, half after a signal
            current = server.running.service.batcher.served
            older.append(current)  # type: ignore[arg-type]
            newer = FakeRun(generation=generation)
            if generation % 2:
                current.newer = newer  # type: ignore[attr-defined]
            else:
                server.running.reload()
            waits_for(lambda generation=generation: server.running.service.batcher.served.generation >= generation)
            time.sleep(0.02)
        ended.set()
        asking.join(20)
        assert server.running.service.metrics.reloads >= 10
    assert {status for status, _ in found} == {200} and len(found) > 100
    assert {generation for _, generation in found} >= set(range(1, 10))
    assert all(one.closed for one in older)


def test_a_newer_generation_that_cannot_be_opened_is_told_and_the_older_one_answers(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Torn(FakeRun):
        def reopened(self, progress: Any = None) -> FakeRun:
            raise GamlpError("the newer store is torn")

        def changed_on_disk(self) -> bool:
            return True

    with listening(Torn(), look=0.02) as server:
        said = ""

        def told() -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return "the newer store is torn" in said

        waits_for(told)
        time.sleep(0.5)
        assert server.ask("POST", "/predict", {"ids": [1]}).json["generation"] == 0
    said += capfd.readouterr().err
    assert 1 <= said.count("not taken up") <= 6, "it is tried less and less often"


def test_stopping_answers_what_waits_and_refuses_what_comes() -> None:
    run = FakeRun()
    with listening(run) as server:
        run.may_answer.clear()
        replies: list[Any] = []
        asking = threading.Thread(target=lambda: replies.append(server.ask("POST", "/predict", {"ids": [1]})))
        asking.start()
        waits_for(lambda: run.batches)
        server.running.stop()
        waits_for(lambda: server.running.service.stopping)
        time.sleep(0.3)
        with pytest.raises(OSError):
            connected(server)
        run.may_answer.set()
        asking.join(20)
    assert replies[0].status == 200 and replies[0].headers["connection"] == "close" and run.closed


def test_what_is_not_answered_within_the_grace_is_refused() -> None:
    run = FakeRun()
    replies: list[Any] = []
    with listening(run, grace=0.3) as server:
        run.may_answer.clear()
        asking = [
            threading.Thread(target=lambda: replies.append(server.ask("POST", "/predict", {"ids": [1]})))
            for _ in range(3)
        ]
        asking[0].start()
        waits_for(lambda: run.batches)
        for thread in asking[1:]:
            thread.start()
        waits_for(lambda: server.running.service.batcher.waiting == 3)
        half = connected(server)
        half.sendall(PREDICT + b"Content-Length: 100\r\n\r\n{")
        time.sleep(0.2)
        begun = time.monotonic()
        server.running.stop()
        for thread in asking[1:]:
            thread.join(20)
        said = read_all(half)
        half.close()
        run.may_answer.set()
        asking[0].join(20)
    assert time.monotonic() - begun < 8
    assert [reply.status for reply in replies[:2]] == [503, 503] and "stopping" in replies[0].error
    assert b" 503 " in said and b"stopping" in said


# Clients


def test_half_a_body_is_a_408_and_holds_nobody_up() -> None:
    with listening(FakeRun(), limits=Limits(read_seconds=0.5)) as server:
        hanging = [connected(server) for _ in range(20)]
        for one in hanging:
            one.sendall(PREDICT + b'Content-Length: 100\r\n\r\n{"ids": [1')
        begun = time.monotonic()
        assert server.ask("POST", "/predict", {"ids": [1]}).status == 200
        assert time.monotonic() - begun < 0.4
        for one in hanging:
            said = read_all(one)
            assert said.startswith(b"HTTP/1.1 408 ") and b'"error":"the body did not arrive within 0.5' in said
            one.close()
        assert server.running.service.bodies.held == 0


def test_half_a_header_nothing_at_all_and_an_answer_that_nobody_reads_are_closed() -> None:
    limits = Limits(idle_seconds=2.0)
    with listening(FakeRun([str(number) for number in range(300)]), limits=limits) as server:
        half, silent, again = connected(server), connected(server), connected(server)
        half.sendall(b"POST /predict HTTP/1.1\r\nHost: loc")
        again.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert again.recv(1 << 16).startswith(b"HTTP/1.1 200")
        again.sendall(b"GET /health HT")
        lazy = socket.socket()
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", server.address.port))
        body = json.dumps({"ids": list(range(100)) * 30}).encode()  # some megabytes
        lazy.sendall(PREDICT + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        kept = connected(server)
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connections = server.running._server.server_state.connections
        assert len(connections) == 5
        waits_for(lambda: len(connections) == 1)
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # between two questions it may be still
        assert kept.recv(1 << 16).startswith(b"HTTP/1.1 200")
        for one in (half, silent, again, lazy, kept):
            one.close()


def test_a_body_of_a_gigabyte_is_cut_off_and_kept_nowhere() -> None:
    process = psutil.Process()
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    with listening(FakeRun(), limits=Limits(body_bytes=1 << 20)) as server:
        before = process.memory_info().rss
        said = server.ask("POST", "/predict", b"", {"Content-Length": str(10**9)})
        assert said.status == 413 and said.headers["connection"] == "close"
        connection = connected(server)
        connection.sendall(PREDICT + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 10**9:
                connection.sendall(piece)
                sent += len(piece)
                connection.settimeout(0.001)
                try:
                    if connection.recv(1, socket.MSG_PEEK):
                        break
                except TimeoutError:
                    pass
                finally:
                    connection.settimeout(20)
        except OSError:
            pytest.fail("the connection was reset before the answer was read")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413 ") and sent < 64 << 20
        connection.close()
        assert process.memory_info().rss - before < 32 << 20 and server.running.service.bodies.held == 0


def test_two_hundred_clients_at_once_are_all_answered_and_leave_nothing() -> None:
    process = psutil.Process()
    with listening(FakeRun(nodes=200, seconds=0.002)) as server:
        server.ask("GET", "/health")
        threads, files = process.num_threads(), process.num_fds()
        begun = time.monotonic()
        rounds = [0]

        def over() -> bool:
            rounds[0] += 1
            return rounds[0] > 2000 or time.monotonic() - begun > 20

        found = asyncio.run(ask_again_and_again(server.address.port, over, 200))
        assert {status for status, _ in found} == {200} and len(found) >= 1500
        sizes = server.running.service.metrics.batch_questions
        assert sizes.sum > sum(sizes.counts), "some were answered together"
        waits_for(lambda: not server.running._server.server_state.connections)
        waits_for(lambda: process.num_threads() <= threads and process.num_fds() <= files)


def test_more_than_may_wait_get_a_503_and_the_others_an_answer() -> None:
    run = FakeRun(seconds=0.05)
    with listening(run, limits=Limits(waiting=4, batch_rows=1)) as server:
        replies: list[Any] = []
        asking = [
            threading.Thread(target=lambda: replies.append(server.ask("POST", "/predict", {"ids": [1]})))
            for _ in range(20)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(20)
        statuses = [reply.status for reply in replies]
        assert set(statuses) == {200, 503} and statuses.count(200) >= 4
        assert all(reply.headers["retry-after"] == "1" for reply in replies if reply.status == 503)


def test_too_many_connections_are_told_so() -> None:
    with listening(FakeRun(), limits=Limits(connections=3)) as server:
        idle = [connected(server) for _ in range(3)]
        waits_for(lambda: len(server.running._server.server_state.connections) == 3)
        reply = server.ask("POST", "/predict", {"ids": [1]})
        assert reply.status == 503 and "4 connections are open" in reply.error and reply.headers["retry-after"] == "1"
        assert server.ask("GET", "/health").status == 200
        for one in idle:
            one.close()
        waits_for(lambda: not server.running._server.server_state.connections)
        assert server.ask("POST", "/predict", {"ids": [1]}).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\0" * 100, 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)), 400),
        (b"GET\r\n\r\n", 400),
        (b"BREW / HTTP/9.9\r\n\r\n", 400),
        (PREDICT + b"Content-Length: -5\r\n\r\n", 400),
        (PREDICT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (PREDICT + b"X: " + b"x" * 100_000, 431),
        (b"GET /" + b"x" * 100_000, 431),
        (b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 200),
        (b"GET /ready HTTP/1.0\r\n\r\n", 200),
    ],
    ids=range(10),
)
def test_what_is_no_http_is_told_so_and_ends_nothing(anyhow: AtAddress, data: bytes, status: int) -> None:
    with connected(anyhow) as stranger:
        stranger.sendall(data)
        head, _, content = stranger.recv(1 << 16).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        if status != 200:
            assert set(json.loads(content)) == {"error"} and b"connection: close" in head
    assert anyhow.ask("POST", "/predict", {"ids": [1]}).status == 200
    assert anyhow.running.service.metrics.failures == 0


@pytest.fixture(scope="module")
def anyhow() -> Iterator[AtAddress]:
    with listening(FakeRun()) as server:
        yield server


def test_a_header_without_an_end_takes_no_memory() -> None:
    process = psutil.Process()
    with listening(FakeRun()) as server, connected(server) as stranger:
        before = process.memory_info().rss
        stranger.sendall(PREDICT)
        sent = 0
        with suppress(OSError):
            while sent < 1 << 30:
                sent += stranger.send(b"X-A: " + b"a" * 8000 + b"\r\n")
        assert sent < 64 << 20 and process.memory_info().rss - before < 32 << 20


def test_requests_are_lines_on_stderr_where_that_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    for asked in (False, True):
        with listening(FakeRun(), access_log=asked) as server:
            server.ask("GET", "/health?x=1")
        assert ('"GET /health?x=1 HTTP/1.1" 200' in capfd.readouterr().err) == asked


# TLS


def certificate(folder: Path, password: bytes | None = None) -> Tls:
    """A certificate of localhost that signs itself."""
    from datetime import UTC, datetime, timedelta

    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    alternative = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    locked = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, traditional = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    (folder / "key.pem").write_bytes(key.private_bytes(pem, traditional, locked))
    return Tls(folder / "cert.pem", folder / "key.pem")


def test_https_with_files(tmp_path: Path) -> None:
    tls = certificate(tmp_path)
    with listening(FakeRun(), tls=tls) as server:
        assert server.address.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(tls.certificate))
        connection = http.client.HTTPSConnection("localhost", server.address.port, timeout=20, context=context)
        connection.request("POST", "/predict", b'{"ids": [1]}')
        assert connection.getresponse().status == 200
        connection.close()


def test_files_that_are_no_certificate_are_a_sentence(tmp_path: Path) -> None:
    tls = certificate(tmp_path)
    with pytest.raises(GamlpError, match="no such file"):
        Tls(tmp_path / "none.pem").check()
    with pytest.raises(GamlpError, match="is no certificate with its key"):
        Tls(tls.certificate).check()
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(GamlpError, match="is no certificate with its key"):
        Tls(tmp_path / "junk.pem", tls.key).check()
    with pytest.raises(GamlpError, match="needs a password"):
        certificate(tmp_path, b"secret").check()


# A process of its own


@pytest.mark.slow
def test_the_verb_serves_a_real_run_in_a_process_of_its_own(tmp_path: Path) -> None:
    from gamlp.run import train

    train("karate", {"training": {"epochs": 5}, "model": {"hidden": 8}}, tmp_path / "run")
    (tmp_path / "keys").write_text("key-of-the-test\n")
    command = [
        sys.executable,
        "-m",
        "gamlp.cli.main",
        "serve",
        "run",
        "--port",
        "0",
        "--json",
        "--api-key-file",
        "keys",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=err, text=True, env=environment
        )  # fmt: skip
    try:
        assert process.stdout is not None
        about = json.loads(process.stdout.readline())
        assert about["pid"] == process.pid and about["url"] == f"http://127.0.0.1:{about['port']}"
        assert beyond_loopback(sockets_of(process.pid)) == set()

        def ask(method: str, path: str, body: Any = None, key: str = "key-of-the-test") -> tuple[int, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", about["port"], timeout=30)
            raw = None if body is None else json.dumps(body).encode()
            connection.request(method, path, raw, {"X-API-Key": key})
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return answer.status, json.loads(content)

        assert ask("GET", "/ready", key="")[0] == 200 and ask("GET", "/about", key="")[0] == 401
        status, known = ask("POST", "/predict", {"ids": [0, 33]})
        assert status == 200 and [row["id"] for row in known["predictions"]] == [0, 33]
        new = {"id": 500, "features": [0.0] * 34, "neighbours": [0, 33]}
        status, first = ask("POST", "/predict", {"nodes": [new], "keep": True})
        assert status == 200, first
        assert ask("POST", "/predict", {"ids": [500]})[1]["predictions"] == first["predictions"]
        status, why = ask("POST", "/explain", {"ids": [0, 500]})
        assert status == 200 and len(why["explanations"]) == 2
        assert ask("POST", "/predict", {"ids": [99]})[0] == 404
        assert ask("GET", "/about")[1]["newcomers"] == 1
        process.send_signal(signal.SIGHUP)  # what is on the disk is opened again: newcomers are still there
        waits_for(lambda: "generation 0 answers" in (tmp_path / "err").read_text())
        assert ask("POST", "/predict", {"ids": [0, 33, 500]})[1]["predictions"][:2] == known["predictions"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert "Traceback" not in (tmp_path / "err").read_text()
    finally:
        process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
