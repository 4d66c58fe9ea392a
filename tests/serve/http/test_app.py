"""Routes of a served run, asked in this process: statuses, sentences, who may ask; and a fuzz without a 500."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.serve import Answered, Limits
from gamlp.serve.http.app import Service
from gamlp.serve.http.encoding import AnswerWriter
from gamlp.serve.http.keys import VARIABLE, Admission, is_loopback, read_keys
from tests.serve.http.fakes import FakeRun, InProcess, in_process

KEY = "a-key-of-the-test"


def test_predictions_are_of_known_nodes_first_and_as_precise_as_float32() -> None:
    async def work(client: InProcess, _: Service, run: FakeRun) -> None:
        reply = await client.ask("POST", "/predict", {"ids": [3, 4], "nodes": [{"id": "new", "neighbours": [1]}]})
        assert reply.status == 200 and reply.headers["content-type"] == "application/json"
        found = reply.json
        assert (found["run"], found["generation"], found["notes"]) == ("a run", 0, ["a note"])
        wanted = run.probabilities([3, 4, "new"])
        for row, name, values in zip(found["predictions"], [3, 4, "new"], wanted):
            assert row["id"] == name and list(row) == ["id", "label", "probability", "probabilities"]
            assert [float(value) for value in row["probabilities"].values()] == [float(str(one)) for one in values]
            assert row["label"] == run.bundle.classes[values.argmax()]
            assert row["probability"] == row["probabilities"][row["label"]]
        short = await client.ask("POST", "/predict", {"ids": [3], "probabilities": False})
        assert list(short.json["predictions"][0]) == ["id", "label", "probability"]

    in_process(work)


@pytest.mark.parametrize(
    ("classes", "class_type", "values"),
    [
        (("3", "10"), "integer", {3, 10}),
        (("False", "True"), "boolean", {True, False}),
        (("3", "10"), "string", {"3", "10"}),
    ],
)
def test_labels_are_values_of_the_type_that_training_had(classes: Any, class_type: str, values: set[Any]) -> None:
    async def work(client: InProcess, *_: Any) -> None:
        found = (await client.ask("POST", "/predict", {"ids": list(range(50))})).json["predictions"]
        assert {row["label"] for row in found} == values
        assert {type(row["label"]) for row in found} == {type(next(iter(values)))}
        assert set(found[0]["probabilities"]) == set(classes)

    in_process(work, FakeRun(classes, class_type=class_type))


def test_a_threshold_and_abstaining_decide_as_in_predict() -> None:
    run = FakeRun(("no", "yes"), positive="yes")
    of_yes = run.probabilities(range(30))[:, 1]

    async def work(client: InProcess, *_: Any) -> None:
        ids = list(range(30))
        found = (await client.ask("POST", "/predict", {"ids": ids, "threshold": 0.3})).json["predictions"]
        assert [row["label"] == "yes" for row in found] == [bool(one >= 0.3) for one in of_yes]
        found = (await client.ask("POST", "/predict", {"ids": ids, "abstain_below": 0.7})).json["predictions"]
        assert [row["label"] is None for row in found] == [max(one, 1 - one) < 0.7 for one in of_yes]
        assert all(row["probability"] == max(row["probabilities"].values()) for row in found)
        refused = await client.ask("POST", "/predict", {"nodes": [{"id": "x"}], "keep": True, "positive": "yes"})
        assert refused.status == 422 and "threshold" in refused.error and not run.kept

    in_process(work, run)


def test_many_labels_are_a_list() -> None:
    run = FakeRun(multi_label=True)

    async def work(client: InProcess, *_: Any) -> None:
        found = (await client.ask("POST", "/predict", {"ids": list(range(20))})).json["predictions"]
        for row, values in zip(found, run.probabilities(range(20))):
            assert row["label"] == [name for name, one in zip(run.bundle.classes, values) if one > 0.5]
        assert {len(row["label"]) for row in found} > {1}

    in_process(work, run)


def test_long_answers_are_whole_and_leave_turns_to_others() -> None:
    run = FakeRun(nodes=5000)

    async def work(client: InProcess, *_: Any) -> None:
        found = (await client.ask("POST", "/predict", {"ids": list(range(5000))})).json["predictions"]
        assert [row["id"] for row in found] == list(range(5000))
        ids = tuple(range(5000))
        writer = AnswerWriter(run)  # type: ignore[arg-type]
        writing = asyncio.create_task(writer.predictions(Answered(ids, run.probabilities(ids))))
        turns = 0
        while not writing.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 20 and json.loads(await writing)["predictions"] == found

    in_process(work, run)


def test_other_routes() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        explained = await client.ask("POST", "/explain", {"ids": [1], "nodes": [{"neighbours": [2]}], "keep": False})
        assert [one["id"] for one in explained.json["explanations"]] == [1, None]
        assert explained.json["generation"] == 0
        assert (await client.ask("POST", "/explain", {"ids": [1] * 101})).status == 413
        assert (await client.ask("POST", "/explain", {"ids": ["x"]})).status == 404
        assert (await client.ask("GET", "/about")).json["nodes"] == 100
        assert (await client.ask("GET", "/health")).json == {"alive": True}
        assert (await client.ask("GET", "/ready")).json == {"ready": True}
        page = await client.ask("GET", "/")
        assert page.status == 200 and page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        service.stopping = True
        assert (await client.ask("GET", "/ready")).status == 503
        assert (await client.ask("GET", "/health")).status == 200

    in_process(work)


def test_a_page_that_is_not_installed_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Any:
        raise FileNotFoundError("page.html")

    monkeypatch.setattr("gamlp.serve.http.app.page", gone)

    async def work(client: InProcess, *_: Any) -> None:
        reply = await client.ask("GET", "/")
        assert reply.status == 404 and "without its page" in reply.error

    in_process(work)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/nothing", b"", 404, "there is nothing at /nothing"),
        ("GET", "/predict/", b"", 404, "there is nothing at /predict/"),
        ("GET", "/predict", b"", 405, "/predict is not asked with GET; use POST"),
        ("DELETE", "/about", b"", 405, "use GET"),
        ("POST", "/", b"{}", 405, "use"),
        ("OPTIONS", "/predict", b"", 405, "use POST"),
        ("BREW", "/predict", b"", 405, "use POST"),
        ("POST", "/predict", b"{", 422, "no JSON"),
        ("POST", "/predict", {"ids": ["nobody"]}, 404, "there is no node 'nobody'"),
        ("POST", "/predict", {"nodes": [{"neighbours": [10**6]}]}, 404, "there is no node"),
        ("POST", "/predict", {"ids": [0] * 10_001}, 413, "10,001 nodes"),
        ("GET", "/docs", b"", 404, "nothing"),
        ("GET", "/redoc", b"", 404, "nothing"),
        ("GET", "/\x1b[2J/" + "x" * 5000, b"", 404, "nothing"),
    ],
)
def test_errors_are_one_sentence_of_json(method: str, path: str, body: Any, status: int, said: str) -> None:
    async def work(client: InProcess, *_: Any) -> None:
        reply = await client.ask(method, path, body)
        assert reply.status == status and said in reply.error and len(reply.error) < 500 and "\x1b" not in reply.error
        assert reply.headers["x-content-type-options"] == "nosniff"

    in_process(work)


def test_before_the_run_is_opened_there_is_a_503_with_when_to_ask_again() -> None:
    async def main() -> None:
        from gamlp.serve.http.app import application

        client = InProcess(application(Service()))
        for method, path in (("POST", "/predict"), ("POST", "/explain"), ("GET", "/about"), ("GET", "/ready"),
                             ("GET", "/v2/models/x"), ("POST", "/v2/models/x/infer")):  # fmt: skip
            reply = await client.ask(method, path, b'{"ids": [1]}')
            assert reply.status == 503 and reply.headers["retry-after"] == "1" and "being opened" in reply.error
        assert (await client.ask("GET", "/health")).status == 200
        assert (await client.ask("GET", "/metrics")).status == 200

    asyncio.run(main())


def test_a_question_that_fails_is_a_500_of_one_sentence_and_the_next_is_answered() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        for path in ("/predict", "/explain"):
            reply = await client.ask("POST", path, {"ids": [13]})
            assert reply.status == 500 and "went wrong" in reply.error and "Zero" not in reply.error
        run.about = lambda: {}["x"]  # type: ignore[method-assign]
        assert (await client.ask("GET", "/about")).status == 500
        assert (await client.ask("POST", "/predict", {"ids": [1]})).status == 200
        assert service.metrics.failures == 3 and service.bodies.held == 0

    in_process(work, FakeRun(fails=[13]))


# Sizes and times of bodies


def test_a_body_that_says_to_be_too_large_is_not_read() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        reply = await client.ask("POST", "/predict", b"{}", {"content-length": str(10**9)})
        assert reply.status == 413 and "16,777,216 bytes" in reply.error and reply.headers["connection"] == "close"
        assert (await client.ask("POST", "/predict", b" " * 2000)).status == 422
        assert service.bodies.held == 0

    in_process(work)


def test_a_body_is_cut_off_where_it_passes_the_limit() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        reply = await client.ask(
            "POST", "/predict", b" " * 1001, {"content-length": "", "transfer-encoding": "chunked"}
        )
        assert reply.status == 413 and service.bodies.held == 0

    in_process(work, limits=Limits(body_bytes=1000))


def test_ten_million_neighbours_are_too_many() -> None:
    async def work(client: InProcess, *_: Any) -> None:
        raw = b'{"nodes":[{"neighbours":[' + b"1," * 2_000_000 + b"1]}]}"
        reply = await client.ask("POST", "/predict", raw)
        assert reply.status == 413 and "2,000,001 neighbours" in reply.error
        raw = b'{"nodes":[{"neighbours":[' + b"1," * 10_000_000 + b"1]}]}"
        reply = await client.ask("POST", "/predict", raw)
        assert reply.status == 413 and "bytes" in reply.error

    in_process(work)


def test_a_body_that_does_not_come_is_a_408_and_compressed_ones_are_not_read() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        async def never() -> Any:
            await asyncio.sleep(60)

        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/predict", "headers": [(b"content-length", b"9")],
                 "query_string": b"", "root_path": "", "scheme": "http", "server": ("x", 1)}  # fmt: skip
        await client.gate(scope, never, send)
        assert sent[0]["status"] == 408 and b"within 0.1 seconds" in sent[1]["body"]
        reply = await client.ask("POST", "/predict", b"x", {"content-encoding": "gzip"})
        assert reply.status == 415 and "compressed" in reply.error

    in_process(work, limits=Limits(read_seconds=0.1))


def test_bodies_of_all_requests_together_are_limited() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        run.may_answer.clear()
        body = json.dumps({"ids": [1], "nodes": [{"columns": {"x": "y" * 700}}]}).encode()
        first = asyncio.create_task(client.ask("POST", "/predict", body))
        while not run.batches:
            await asyncio.sleep(0.001)
        assert service.bodies.held == len(body)
        reply = await client.ask("POST", "/predict", body)
        assert reply.status == 503 and "large requests" in reply.error and reply.headers["retry-after"] == "1"
        run.may_answer.set()
        assert (await first).status == 200 and service.bodies.held == 0
        assert (await client.ask("POST", "/predict", body)).status == 200

    in_process(work, limits=Limits(body_bytes=1000, held_bytes=1000))


def test_too_many_waiting_is_a_503_and_a_client_that_leaves_is_forgotten() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        run.may_answer.clear()
        leaves = asyncio.Event()
        tasks = [asyncio.create_task(client.ask("POST", "/predict", {"ids": [1]}))]
        while not run.batches:
            await asyncio.sleep(0.001)
        tasks.append(asyncio.create_task(client.ask("POST", "/predict", {"ids": [2]}, leaves=leaves)))
        await asyncio.sleep(0.1)
        reply = await client.ask("POST", "/predict", {"ids": [3]})
        assert reply.status == 503 and reply.headers["retry-after"] == "1" and "requests wait" in reply.error
        leaves.set()
        assert (await tasks[1]).status == 499
        run.may_answer.set()
        assert (await tasks[0]).status == 200
        assert [question.ids for batch in run.batches for question in batch] == [(1,)]

    in_process(work, limits=Limits(waiting=2))


# Who may ask


def test_a_key_is_asked_for_everywhere_but_where_machines_look_and_people_begin() -> None:
    async def work(client: InProcess, *_: Any) -> None:
        for path in ("/", "/health", "/ready", "/v2/health/live", "/v2/health/ready"):
            assert (await client.ask("GET", path)).status == 200
        for method, path in (("POST", "/predict"), ("POST", "/explain"), ("GET", "/about"), ("GET", "/metrics"),
                             ("GET", "/openapi.json"), ("GET", "/v2"), ("GET", "/v2/models/a run"),
                             ("POST", "/v2/models/a run/infer"), ("GET", "/nothing")):  # fmt: skip
            reply = await client.ask(method, path, b'{"ids": [1]}')
            assert reply.status == 401 and reply.headers["www-authenticate"] == "Bearer" and "needed" in reply.error
        for headers in ({"x-api-key": KEY}, {"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}"},
                        {"x-api-key": "the-older-key"}):  # fmt: skip
            assert (await client.ask("POST", "/predict", {"ids": [1]}, headers)).status == 200
        for headers in ({"x-api-key": KEY + "x"}, {"authorization": f"Basic {KEY}"}, {"authorization": KEY},
                        {"x-api-key": ""}, {"x-api-key": "ä" * 20}, {"authorization": "Bearer"}):  # fmt: skip
            reply = await client.ask("POST", "/predict", {"ids": [1]}, headers)
            assert reply.status == 401 and KEY not in reply.error

    in_process(work, admission=Admission((KEY.encode(), b"the-older-key")))


def test_a_name_that_leads_here_from_elsewhere_is_refused_on_loopback() -> None:
    async def work(client: InProcess, *_: Any) -> None:
        for host in (
            "127.0.0.1:8000",
            "localhost:9999",
            "LOCALHOST",
            "[::1]:8000",
            "a.localhost",
            "127.5.5.5",
            "proxy.in",
        ):
            assert (await client.ask("GET", "/about", b"", {"host": host})).status == 200, host
        for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
                     "10.0.0.1", "[::2]", "localhost@evil.example"):  # fmt: skip
            for path in ("/about", "/health", "/"):
                reply = await client.ask("GET", path, b"", {"host": host})
                assert reply.status == 421 and "not the name of this server" in reply.error, host

    in_process(work, admission=Admission(hosts=frozenset(("proxy.in",))))


def test_a_page_of_another_address_may_not_ask() -> None:
    async def work(client: InProcess, *_: Any) -> None:
        for origin, status in (("http://127.0.0.1:8000", 200), ("http://localhost:3000", 403), ("null", 403),
                               ("https://evil.example", 403), ("http://127.0.0.1:8000.evil.example", 403),
                               ("http://[", 403)):  # fmt: skip
            headers = {"host": "127.0.0.1:8000", "origin": origin}
            reply = await client.ask("POST", "/predict", {"ids": [1]}, headers)
            assert reply.status == status
            assert "access-control-allow-origin" not in reply.headers

    in_process(work)


def test_keys_are_read_from_a_file_or_a_variable(tmp_path: Any) -> None:
    file = tmp_path / "keys"
    file.write_text("first-key-1\n\n  second-key-2  \n")
    assert read_keys(file, {VARIABLE: KEY}) == (b"first-key-1", b"second-key-2")
    assert read_keys(None, {VARIABLE: f" {KEY}\n"}) == (KEY.encode(),)
    assert read_keys(None, {}) == ()
    for content, said in ((b"", "has no key"), (b"short", "at least 8"), (b"with blank inside", "ASCII"),
                          ("schlüssel-schlüssel".encode(), "ASCII"), (b"\xff\xff", "no file of keys"),
                          (b"a" * 70_000, "too large")):  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(GamlpError, match=said):
            read_keys(file)
    for place, said in ((tmp_path / "none", "no such file"), (tmp_path, "no file of keys")):
        with pytest.raises(GamlpError, match=said):
            read_keys(place)


def test_beyond_loopback_a_key_is_needed_unless_somebody_says_not() -> None:
    assert is_loopback("localhost") and not is_loopback("0.0.0.0") and not is_loopback("::")
    assert Admission.of("127.0.0.1", ()).loopback
    with pytest.raises(GamlpError, match=r"'0.0.0.0' can be reached by others, and there is no key; .*--no-api-key"):
        Admission.of("0.0.0.0", ())
    assert not Admission.of("0.0.0.0", (), without_key=True).loopback
    assert Admission.of("0.0.0.0", (b"key",)).keys == (b"key",)
    with pytest.raises(GamlpError, match="leave one of them out"):
        Admission.of("127.0.0.1", (b"key",), without_key=True)


# What others read


def test_metrics_are_what_prometheus_reads_and_do_not_grow_with_what_is_asked() -> None:
    async def work(client: InProcess, service: Service, run: FakeRun) -> None:
        async def lines() -> dict[str, float]:
            reply = await client.ask("GET", "/metrics")
            assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
            shown = [line for line in reply.content.decode().splitlines() if not line.startswith("#")]
            return {name: float(value) for name, _, value in (line.rpartition(" ") for line in shown)}

        for number in range(3):
            await client.ask("POST", "/predict", {"ids": [number, number + 1]})
        await client.ask("POST", "/predict", {"nodes": [{"id": "n"}], "keep": True})
        await lines()
        found = await lines()
        assert found['gamlp_requests_total{route="/predict",status="200"}'] == 4
        assert found['gamlp_request_seconds_count{route="/predict"}'] == 4
        assert found['gamlp_request_seconds_bucket{route="/predict",le="+Inf"}'] == 4
        assert found["gamlp_rows_total"] == 7 and found["gamlp_newcomers"] == 1 and found["gamlp_ready"] == 1
        assert found["gamlp_batch_rows_sum"] == 7 and found["gamlp_batch_questions_count"] == 4
        assert found['gamlp_batch_rows_bucket{le="1"}'] == 1 and found['gamlp_batch_rows_bucket{le="2"}'] == 4
        assert found["process_resident_memory_bytes"] > 2**20 and found["process_open_fds"] > 2
        before = set(found)
        for number in range(200):
            await client.ask("GET", f"/strange-{number}")
            await client.ask("POST", "/predict", {"ids": [f"strange-{number}"]})
            await client.ask("GET", f"/v2/models/strange-{number}")
        new = set(await lines()) - before
        assert {'gamlp_requests_total{route="other",status="404"}'} < new and len(new) < 50
        assert found["gamlp_waiting_requests"] == 0

    in_process(work)


def test_openapi_tells_bodies_and_answers() -> None:
    async def work(client: InProcess, *_: Any) -> None:
        found = (await client.ask("GET", "/openapi.json")).json
        schemas = found["components"]["schemas"]
        for path in ("/predict", "/explain", "/v2/models/{model}/infer"):
            operation = found["paths"][path]["post"]
            for place in (operation["requestBody"], operation["responses"]["200"], operation["responses"]["422"]):
                name = place["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert schemas[name]["properties"]
        assert {"ids", "nodes", "keep", "threshold"} <= set(schemas["PredictBody"]["properties"])
        assert {"columns", "neighbours", "weights"} <= set(schemas["NodeBody"]["properties"])
        text = json.dumps(found)
        refs = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
        assert refs <= set(schemas), "every reference leads somewhere"
        assert "http://" not in text.replace("http://127.0.0.1", "") or "cdn" not in text
        assert found["paths"]["/health"]["get"]["security"] == []
        assert "/" not in found["paths"]

    in_process(work)


# Whatever comes


def junk(draw: random.Random, depth: int = 0) -> Any:
    """A value of JSON, now and then one that is right."""
    kind = draw.randrange(12 if depth < 3 else 9)
    if kind == 0:
        return draw.choice([None, True, False])
    if kind == 1:
        return draw.choice([0, 1, 5, 99, 100, -1, 2**31, 2**63 - 1, 2**63, -(2**70)])
    if kind == 2:
        return draw.choice([0.5, -0.0, 1e308, float("nan"), float("inf"), 1.0])
    if kind in (3, 4):
        return draw.choice(["", "a", "1", "\x00", "é" * 50, "a:b", "x" * 300, "\U0001f600", "relation"])
    if kind in (5, 6):
        return [draw.randrange(100) for _ in range(draw.randrange(5))]
    if kind in (7, 8):
        return draw.randrange(100)
    if kind == 9:
        return [junk(draw, depth + 1) for _ in range(draw.randrange(4))]
    names = ["ids", "nodes", "keep", "id", "type", "columns", "features", "neighbours", "weights", "leads_to", "label",
             "leads_to_weights", "threshold", "positive", "abstain_below", "probabilities", "inputs", "outputs", "name",
             "datatype", "shape", "data", "parameters", "x"]  # fmt: skip
    if kind == 10:
        return {draw.choice(names): junk(draw, depth + 1) for _ in range(draw.randrange(5))}
    return [
        {draw.choice(names): junk(draw, depth + 1) for _ in range(draw.randrange(4))} for _ in range(draw.randrange(3))
    ]


def body_of(draw: random.Random) -> bytes:
    kind = draw.randrange(8)
    if kind == 0:
        return draw.randbytes(draw.randrange(60))
    content: Any = junk(draw)
    if kind in (1, 2, 3):
        content = {
            "ids": junk(draw, 2),
            "nodes": [{"id": junk(draw, 3), "neighbours": junk(draw, 1), "columns": {"x": junk(draw, 2)}}],
        }
        content = {key: content[key] for key in content if draw.random() < 0.7}
        content |= {
            key: junk(draw, 3) for key in ("keep", "threshold", "positive", "abstain_below") if draw.random() < 0.2
        }
    if kind == 4:
        tensor = {
            "name": "ids",
            "datatype": draw.choice(["INT64", "BYTES", "FP32"]),
            "shape": junk(draw, 2),
            "data": junk(draw, 1),
        }
        content = {"inputs": [tensor], "parameters": junk(draw, 2), "outputs": junk(draw, 1)}
        content = {key: content[key] for key in content if draw.random() < 0.8}
    raw = json.dumps(content).encode()
    if kind == 5 and raw:
        place = draw.randrange(len(raw))
        raw = raw[:place] + draw.randbytes(1) + raw[place + 1 :]
    return raw


def test_five_thousand_requests_of_any_kind_give_no_500() -> None:
    draw = random.Random(19)
    run = FakeRun(("no", "yes"), positive="yes")
    paths = (
        ["/predict"] * 6 + ["/explain"] * 2 + ["/v2/models/a run/infer"] * 2 + ["/about", "/metrics", "/", "/v2", "/x"]
    )
    statuses: dict[int, int] = {}

    async def work(client: InProcess, service: Service, _: FakeRun) -> None:
        begun, asked = time.monotonic(), 0
        while asked < 5000 and time.monotonic() - begun < 60:
            some = []
            for _ in range(20):
                headers = {"x-api-key": "y"} if draw.random() < 0.1 else {}
                if draw.random() < 0.1:
                    headers["inference-header-content-length"] = draw.choice(["0", "5", "-1", "x", "99999", "²", ""])
                if draw.random() < 0.05:
                    headers["content-length"] = draw.choice(["-1", "x", "9" * 40, "", "²"])
                method = draw.choice(["POST"] * 8 + ["GET", "PUT"])
                some.append(client.ask(method, draw.choice(paths), body_of(draw), headers))
            for reply in await asyncio.gather(*some):
                statuses[reply.status] = statuses.get(reply.status, 0) + 1
                if reply.status >= 400:
                    assert reply.error
            asked += len(some)
        assert asked == 5000, f"{asked} requests in a minute"
        assert service.metrics.failures == 0 and service.bodies.held == 0

    in_process(work, run)
    assert set(statuses) <= {200, 404, 405, 413, 422} and min(statuses.get(one, 0) for one in (200, 404, 422)) > 50, (
        statuses
    )
