"""No verb listens beyond loopback, in several processes and on Spark neither; what a stranger sends ends nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from typer.main import get_command

from gamlp.cli.main import app
from tests.sockets import Address, beyond_loopback, listening, watch

pytestmark = pytest.mark.slow
LONG = 300.0  # seconds, on a busy machine
QUICK = "--set training.epochs=3 --set model.hidden=4 --device cpu"
SMALL = " ".join(f"--leave-out {name}" for name in ("torch", "scipy", "scikit-learn", "pyarrow", "pandas", "numpy"))
# Every verb, one after the other in one process: what it makes is what the next one reads.
VERBS = f"""
generate communities --nodes 60 --edges 200 --out made
datasets
recipes --keys
ingest --edges edges.csv --nodes nodes.csv --out graph
plan graph
propagate graph --out hops --hops 2
info hops
train hops --out trained {QUICK}
run karate --out whole {QUICK}
evaluate whole
predict whole --out predictions.csv
explain whole
refresh whole
card whole
export whole --to torchscript --out whole.pt
tune karate --out tuned.yaml --trials 2 --seeds 1 --confirm 0 {QUICK}
bench list
spark pack --out gamlp.tgz {SMALL}
"""
# Runs them all; a socket that Python binds is told even if it is closed at once.
SCRIPT = """
import sys
from gamlp.cli.main import app
sys.addaudithook(lambda name, given: name == "socket.bind" and print("bind", given[1], file=sys.stderr, flush=True))
for line in sys.stdin.read().splitlines():
    code = app(line.split(), standalone_mode=False)
    assert not code, (line, code)
"""


def start(words: str, place: Path, script: str = SCRIPT) -> subprocess.Popen[str]:
    (place / "words").write_text(words.strip() + "\n")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GAMLP_OFFLINE": "1"}
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_LOCAL_IP"):  # of a session in this process
        environment.pop(name, None)
    with (place / "words").open() as given, (place / "said").open("w") as said, (place / "err").open("w") as err:
        return subprocess.Popen(
            [sys.executable, "-c", script], stdin=given, stdout=said, stderr=err, text=True, cwd=place, env=environment
        )


def ended_well(process: subprocess.Popen[str], place: Path) -> None:
    assert process.wait(LONG) == 0, (place / "err").read_text()[-3000:]


def test_a_socket_on_all_interfaces_would_be_found() -> None:
    assert beyond_loopback(listening(os.getpid())) == set()
    with socket.create_server(("", 0)) as wide, socket.create_server(("127.0.0.1", 0)) as narrow:
        found = listening(os.getpid())
        assert narrow.getsockname() in found
        assert beyond_loopback(found) == {("0.0.0.0", wide.getsockname()[1])}
    with socket.create_server(("::", 0), family=socket.AF_INET6) as wide:
        assert beyond_loopback(listening(os.getpid())) == {("::", wide.getsockname()[1])}


def test_no_verb_listens_on_one_machine(tmp_path: Path) -> None:
    named = {line.split()[0] for line in VERBS.strip().splitlines()}
    assert set(get_command(app).commands) - {"serve"} == named, "every verb is looked at"  # type: ignore[attr-defined]
    rows = [f"n{row},{row % 2},{row % 3}.5,{'ab'[row % 2]}" for row in range(60)]
    (tmp_path / "nodes.csv").write_text("id,x,y,label\n" + "\n".join(rows))
    edges = [f"n{row},n{(row * 7 + 3) % 60}" for row in range(60)]
    (tmp_path / "edges.csv").write_text("src,dst\n" + "\n".join(edges))
    process = start(VERBS, tmp_path)
    found = watch(process.pid, lambda: process.poll() is not None, LONG)
    ended_well(process, tmp_path)
    assert found == set()
    assert "bind" not in (tmp_path / "err").read_text()


def test_serve_listens_on_loopback_unless_it_is_told_otherwise_and_has_a_key(tmp_path: Path) -> None:
    process = start(f"train karate --out run {QUICK}\nserve run --port 0 --json", tmp_path)
    try:
        found = watch(process.pid, lambda: "url" in (tmp_path / "said").read_text(), LONG)
        found |= listening(process.pid)
        assert found and beyond_loopback(found) == set()
    finally:
        process.terminate()
    ended_well(process, tmp_path)
    process = start("serve run --port 0 --host 0.0.0.0", tmp_path)
    assert watch(process.pid, lambda: process.poll() is not None, LONG) == set()
    assert process.returncode and "there is no key" in (tmp_path / "err").read_text()


@pytest.mark.long
def test_processes_that_train_together_listen_on_loopback_and_strangers_end_nothing(tmp_path: Path) -> None:
    """Whatever is sent to every port they open: they train to the weights that they train to undisturbed."""
    words = "train karate --out {} --processes 2 --set training.epochs=150 --set training.patience=0 --device cpu"
    for name in ("alone", "disturbed"):
        process = start(words.format(name), tmp_path)
        strangers = Strangers(process) if name == "disturbed" else None
        found = watch(process.pid, lambda process=process: process.poll() is not None, LONG)
        ended_well(process, tmp_path)
        assert found and beyond_loopback(found) == set()
        if strangers is not None:
            strangers.end()
            assert len(strangers.told) >= 2, "the store and the ranks were all sent something"
    one, other = ((tmp_path / name / "bundle.safetensors").read_bytes() for name in ("alone", "disturbed"))
    assert one == other
    assert not list((tmp_path / "disturbed" / "seeds").glob("*.log")), "no attempt was lost"


class Strangers:
    """Connect to every port that a process opens, send what nobody expects, and stay."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.told, self.kept = process, set[Address](), list[socket.socket]()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        sent = [b"", b"\0", b"\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096, os.urandom(4096)]
        sent.append(bytes([0]) + (0x3C85F7CE).to_bytes(4, "little") + b"\x01" + b"\xff" * 8)  # a store's own greeting
        sent.append(b"\x80\x02cos\nsystem\n(S'true'\ntR.")
        while self.process.poll() is None:
            for address in listening(self.process.pid) - self.told:
                for data in sent:
                    try:
                        connection = socket.create_connection(address, 1)
                        connection.sendall(data)
                        self.kept.append(connection)
                    except OSError:
                        continue
                self.told.add(address)
            time.sleep(0.01)

    def end(self) -> None:
        self.thread.join(30)
        for connection in self.kept:
            connection.close()


@pytest.mark.long
def test_spark_on_this_machine_listens_on_loopback(tmp_path: Path) -> None:
    """Java's own ports, those of Python's workers, and of ranks in a barrier stage."""
    pytest.importorskip("pyspark", reason="Spark comes with gamlp[spark]")
    conf = "--spark-conf spark.driver.memory=512m --spark-conf spark.sql.shuffle.partitions=2"
    words = f"run karate --out run --engine spark --master local[2] --processes 2 {QUICK} {conf}"
    process = start(words, tmp_path)
    found = watch(process.pid, lambda: process.poll() is not None, LONG)
    ended_well(process, tmp_path)
    assert len(found) > 2, "Spark listens"
    assert beyond_loopback(found) == set()
    assert not [port for _, port in found if port in range(4040, 4060)], "its pages are off"
    assert not psutil.pid_exists(process.pid) or psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
