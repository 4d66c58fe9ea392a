"""Real runs behind HTTP: the same answers as `gamlp predict`, alone and under load; whatever is asked, no 500."""

from __future__ import annotations

import asyncio
import csv
import json
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.run import predict
from gamlp.serve import ServedRun, refresh_run
from gamlp.serve.http.app import Service
from tests.serve.http.fakes import InProcess, in_process, listening
from tests.serve.trained import trained_run

KINDS = {"size": (1.5, -3, 1e30, "x", None, True, [1, 2], "7", ""), "colour": ("u", "w", "never", 3, None, "", "é"),
         "since": ("2024-03-01", "2024-03-01T10:00:00", "yesterday", 5, None, "9999-99-99")}  # fmt: skip

MORE: dict[str, Any] = {
    "weights": ([1], [], [0.5, 2], {"edge": [1]}), "type": ("node", "x"), "features": ([1.0],),
    "label": ("x", "new", 5, ["x", "y"]), "leads_to": (["n1"], {"edge": ["n2"]}, []),
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("tables"))


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy that a test may add newcomers to."""
    return Path(shutil.copytree(trained.parent, tmp_path / "copy")) / trained.name


@contextmanager
def opened(run: Path) -> Iterator[ServedRun]:
    served = ServedRun.open(run)
    try:
        yield served
    finally:
        served.close()


def new(name: str | None = None, *neighbours: str) -> dict[str, Any]:
    columns = {"size": 0.25, "colour": "v", "since": "2024-05-06"}
    return {"id": name, "columns": columns, "neighbours": list(neighbours)}


def test_known_nodes_have_the_probabilities_that_predict_writes(run: Path, tmp_path: Path) -> None:
    predict(run, tmp_path / "predictions.csv")
    rows = list(csv.DictReader((tmp_path / "predictions.csv").read_text().splitlines()))

    async def work(client: InProcess, *_: Any) -> None:
        found = (await client.ask("POST", "/predict", {"ids": [row["id"] for row in rows]})).json["predictions"]
        for row, said in zip(rows, found):
            assert (said["id"], said["label"]) == (row["id"], row["label"])
            written = [float(row[f"p_{name}"]) for name in said["probabilities"]]
            assert np.allclose(list(said["probabilities"].values()), written, atol=1e-6)

    in_process(work, ServedRun.open(run))


def test_answers_under_load_are_answers_alone(run: Path) -> None:
    """Many kinds of questions from many clients at once, over sockets; batches of them are one forward pass."""
    bodies = [{"ids": [f"n{number}" for number in range(first, first + 3)]} for first in range(30)]
    bodies += [{"nodes": [new(None, f"n{number}", f"n{number + 5}")]} for number in range(30)]
    alone = {}

    async def each(client: InProcess, *_: Any) -> None:
        for body in bodies:
            reply = await client.ask("POST", "/predict", body)
            assert reply.status == 200, reply.content
            alone[json.dumps(body)] = reply.json["predictions"]

    in_process(each, ServedRun.open(run))

    async def load(port: int) -> int:
        async def client(number: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            order = random.Random(number).sample(bodies, 20)
            try:
                for body in order:
                    raw = json.dumps(body).encode()
                    writer.write(
                        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw
                    )
                    head = await reader.readuntil(b"\r\n\r\n")
                    assert b" 200 " in head.partition(b"\r\n")[0]
                    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                    found = json.loads(await reader.readexactly(length))["predictions"]
                    for one, other in zip(found, alone[json.dumps(body)], strict=True):
                        assert (one["id"], one["label"]) == (other["id"], other["label"])
                        values = [list(row["probabilities"].values()) for row in (one, other)]
                        assert np.allclose(*values, atol=1e-6)
            finally:
                writer.close()
                await writer.wait_closed()

        await asyncio.gather(*(client(number) for number in range(25)))
        return 25 * 20

    with listening(ServedRun.open(run)) as server:
        assert asyncio.run(load(server.address.port)) == 500
        sizes = server.running.service.metrics.batch_questions
        assert sum(sizes.counts) < sizes.sum == 500, "some were answered together"


def test_newcomers_are_kept_named_explained_and_become_nodes_without_a_dropped_request(run: Path) -> None:
    with listening(ServedRun.open(run), look=0.1) as server:
        first = server.ask("POST", "/predict", {"nodes": [new("m1", "n1", "n2"), new("m2", "m1", "n3")], "keep": True})
        assert first.status == 200, first.content
        again = server.ask("POST", "/predict", {"ids": ["m1", "m2"]})
        assert again.json["predictions"] == first.json["predictions"]
        assert server.ask("POST", "/predict", {"nodes": [new("m1", "n5")], "keep": True}).status == 409
        assert server.ask("POST", "/predict", {"nodes": [new("n1", "n5")]}).status == 409
        assert server.ask("POST", "/predict", {"nodes": [new(None, "nobody")]}).status == 404
        assert server.ask("POST", "/predict", {"nodes": [new(None)], "keep": True}).status == 422
        why = server.ask("POST", "/explain", {"ids": ["n1", "m2"], "nodes": [new(None, "m1")]}).json["explanations"]
        assert [one["id"] for one in why] == ["n1", "m2", None]
        assert server.ask("GET", "/about").json["newcomers"] == 2
        refresh_run(run)
        until = time.monotonic() + 30
        while (about := server.ask("GET", "/about").json)["generation"] == 0:
            assert server.ask("POST", "/predict", {"ids": ["n1", "m1"]}).status == 200
            assert time.monotonic() < until
        assert about["generation"] == 1 and about["newcomers"] == 0 and about["nodes"] == 42
        assert server.ask("POST", "/predict", {"ids": ["m1", "m2"]}).json["generation"] == 1
        assert server.ask("POST", "/predict", {"nodes": [new("m3", "m1")], "keep": True}).status == 200


def drawn(draw: random.Random) -> Any:
    """A body that is nearly right."""

    def name() -> Any:
        return draw.choice(
            [f"n{draw.randrange(45)}", f"m{draw.randrange(5)}", draw.randrange(50), "", "n1 ", None, 1.5]
        )

    def node() -> dict[str, Any]:
        found: dict[str, Any] = {"columns": {key: draw.choice(values) for key, values in KINDS.items()}}
        if draw.random() < 0.7:
            found["columns"] = {"size": 1, "colour": "u", "since": None}
        if draw.random() < 0.1:
            found["columns"].pop("size")
        if draw.random() < 0.5:
            found["id"] = name()
        if draw.random() < 0.9:
            ids = [f"n{draw.randrange(40)}" for _ in range(draw.randrange(6))]
            found["neighbours"] = draw.choice([ids, ids, ids, {"edge": ids}, {"link": ids}, [name()], {}])
        for key, values in MORE.items():
            if draw.random() < 0.08:
                found[key] = draw.choice(values)
        return found

    found: dict[str, Any] = {}
    if draw.random() < 0.5:
        found["ids"] = [f"n{draw.randrange(40)}" if draw.random() < 0.95 else name() for _ in range(draw.randrange(4))]
    if draw.random() < 0.7:
        found["nodes"] = [node() for _ in range(draw.randrange(1, 3))]
    if draw.random() < 0.3:
        found["keep"] = draw.random() < 0.5
    for key, values in (
        ("threshold", (0.3, 2, -1)),
        ("abstain_below", (0.5, 0.9)),
        ("positive", ("x", 1)),
        ("probabilities", (False,)),
    ):
        if draw.random() < 0.05:
            found[key] = draw.choice(values)
    return found


def test_five_thousand_nearly_right_questions_of_a_real_run_give_no_500(run: Path) -> None:
    draw = random.Random(7)
    statuses: dict[int, int] = {}

    async def work(client: InProcess, service: Service, _: Any) -> None:
        begun, asked = time.monotonic(), 0
        while asked < 5000 and time.monotonic() - begun < 120:
            paths = [draw.choice(["/predict", "/predict", "/predict", "/explain"]) for _ in range(20)]
            replies = await asyncio.gather(*(client.ask("POST", path, drawn(draw)) for path in paths))
            for reply in replies:
                statuses[reply.status] = statuses.get(reply.status, 0) + 1
                if reply.status >= 400:
                    assert reply.error
            asked += len(replies)
        assert asked == 5000, f"{asked} requests in two minutes"
        assert service.metrics.failures == 0

    with opened(run) as served:
        in_process(work, served)
    assert set(statuses) <= {200, 404, 409, 422} and statuses[200] > 800, statuses
    with opened(run) as served:  # what was kept is there again
        assert served.newcomers > 0


def test_tensors_of_a_real_run_with_triton(run: Path) -> None:
    triton = pytest.importorskip("tritonclient.http")
    with (
        listening(ServedRun.open(run)) as server,
        triton.InferenceServerClient(f"127.0.0.1:{server.address.port}") as client,
    ):
        assert client.get_model_metadata("run")["inputs"][0]["datatype"] == "BYTES"
        names = np.array(["n1", "n2"], object)
        ids = triton.InferInput("ids", names.shape, "BYTES")
        ids.set_data_from_numpy(names)
        found = client.infer("run", [ids])
        said = server.ask("POST", "/predict", {"ids": ["n1", "n2"]}).json["predictions"]
        for row, label, one in zip(found.as_numpy("probabilities"), found.as_numpy("label"), said):
            assert label.decode() == one["label"]
            assert np.array_equal(row, np.asarray(list(one["probabilities"].values()), np.float32))
