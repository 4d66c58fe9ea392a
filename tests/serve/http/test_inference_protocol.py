"""The Open Inference Protocol, with Triton's own client and by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gamlp.serve.http.app import Service
from tests.serve.http.fakes import AtAddress, FakeRun, InProcess, in_process, listening

triton = pytest.importorskip("tritonclient.http", reason="the client comes with gamlp[dev]")
NAME = "a run"
INFER = f"/v2/models/{NAME}/infer"


@pytest.fixture(scope="module")
def server() -> Iterator[AtAddress]:
    with listening(FakeRun(name="run", generation=7)) as found:
        yield found


@pytest.fixture
def client(server: AtAddress) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{server.address.port}") as made:
        yield made


def ids_of(values: Any, *, binary: bool, column: bool = False) -> Any:
    array = np.asarray(values)
    array = array.reshape(-1, 1) if column else array
    kind = "INT64" if array.dtype == np.int64 else "BYTES"
    found = triton.InferInput("ids", array.shape, kind)
    found.set_data_from_numpy(array, binary_data=binary)
    return found


def test_a_client_finds_the_server_alive_and_the_model_ready(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("run") and client.is_model_ready("run", "7")
    assert not client.is_model_ready("walk") and not client.is_model_ready("run", "6")
    assert client.get_server_metadata()["name"] == "gamlp"
    found = client.get_model_metadata("run")
    assert found["versions"] == ["7"] and found == client.get_model_metadata("run", "7")
    assert found["inputs"] == [{"name": "ids", "datatype": "INT64", "shape": [-1]}]
    assert [(one["name"], one["datatype"], one["shape"]) for one in found["outputs"]] == [
        ("probabilities", "FP32", [-1, 3]), ("label", "BYTES", [-1]),
    ]  # fmt: skip
    with pytest.raises(Exception, match=r"there is no model 'walk'; there is 'run'"):
        client.get_model_metadata("walk")


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("wanted", [False, True, None])
def test_tensors_as_json_and_as_bytes_say_the_same(client: Any, given: bool, wanted: bool | None, column: bool) -> None:
    run = FakeRun()
    outputs = None
    if wanted is not None:
        outputs = [triton.InferRequestedOutput(name, binary_data=wanted) for name in ("probabilities", "label")]
    found = client.infer(
        "run", [ids_of([5, 2, 99], binary=given, column=column)], outputs=outputs, request_id="q1", model_version="7"
    )
    assert found.get_response()["id"] == "q1" and found.get_response()["model_version"] == "7"
    expected = run.probabilities([5, 2, 99])
    assert found.as_numpy("probabilities").dtype == np.float32
    assert np.array_equal(found.as_numpy("probabilities"), expected)
    labels = [one.decode() if isinstance(one, bytes) else one for one in found.as_numpy("label")]
    assert labels == [run.bundle.classes[place] for place in expected.argmax(1)]


def test_texts_are_ids_and_one_output_may_be_asked_for(client: Any, server: AtAddress) -> None:
    assert server.ask("POST", "/predict", {"nodes": [{"id": "näm"}], "keep": True}).status == 200
    for binary in (False, True):
        wanted = [triton.InferRequestedOutput("label", binary_data=binary)]
        found = client.infer("run", [ids_of(np.array(["näm"], object), binary=binary)], outputs=wanted)
        assert found.as_numpy("probabilities") is None and found.as_numpy("label").shape == (1,)


def test_what_is_refused_reaches_the_client_as_a_sentence(client: Any) -> None:
    for ids, options, said in (
        (np.array(["nobody"], object), {}, "there is no node 'nobody'"),
        ([1], {"parameters": {"strange": 1}}, "parameters.strange is not understood"),
        ([1], {"outputs": [triton.InferRequestedOutput("label", class_count=2)]}, "no parameter 'classification'"),
        ([1], {"outputs": [triton.InferRequestedOutput("logits")]}, "there is no output 'logits'"),
        ([1], {"parameters": {"threshold": 0.5}}, "a threshold is for two classes"),
        ([1], {"model_version": "8"}, "there is no version '8'"),
    ):
        with pytest.raises(triton.InferenceServerException, match=said):
            client.infer("run", [ids_of(ids, binary=True)], **options)


def test_parameters_decide_and_none_is_an_empty_text() -> None:
    run = FakeRun(("no", "yes"), positive="yes")
    of_yes = run.probabilities(range(20))[:, 1]

    async def work(client: InProcess, *_: Any) -> None:
        async def labels(**parameters: Any) -> list[str]:
            tensor = {"name": "ids", "datatype": "INT64", "shape": [20, 1], "data": [[number] for number in range(20)]}
            body = {"inputs": [tensor], "parameters": parameters, "outputs": [{"name": "label"}]}
            found: list[str] = (await client.ask("POST", INFER, body)).json["outputs"][0]["data"]
            return found

        assert await labels(threshold=0.3) == ["yes" if one >= 0.3 else "no" for one in of_yes]
        assert [one == "" for one in await labels(abstain_below=0.7)] == [max(one, 1 - one) < 0.7 for one in of_yes]

    in_process(work, run)


def test_many_labels_are_joined_as_in_a_table() -> None:
    run = FakeRun(multi_label=True)

    async def work(client: InProcess, *_: Any) -> None:
        tensor = {"name": "ids", "datatype": "INT64", "shape": [9], "data": list(range(9))}
        found = (await client.ask("POST", INFER, {"inputs": [tensor], "outputs": [{"name": "label"}]})).json
        for text, row in zip(found["outputs"][0]["data"], run.probabilities(range(9))):
            assert text == "|".join(name for name, one in zip(run.bundle.classes, row) if one > 0.5)

    in_process(work, run)


def test_no_ids_are_no_rows() -> None:
    async def work(client: InProcess, *_: Any) -> None:
        tensor = {"name": "ids", "datatype": "INT64", "shape": [0], "data": []}
        found = (await client.ask("POST", INFER, {"inputs": [tensor]})).json["outputs"]
        assert [(one["shape"], one["data"]) for one in found] == [([0, 3], []), ([0], [])]

    in_process(work)


def request(ids: Any = (1,), kind: str = "INT64", shape: Any = None, **more: Any) -> dict[str, Any]:
    tensor = {"name": "ids", "datatype": kind, "shape": [len(ids)] if shape is None else shape, "data": list(ids)}
    return {"inputs": [{**tensor, **more}]}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 422, "no JSON"),
        ({}, 422, "inputs is missing"),
        ({"inputs": []}, 422, "one tensor is read"),
        ({"inputs": [request()["inputs"][0]] * 2}, 422, "one tensor is read"),
        (request(name="x"), 422, "it is called 'ids'"),
        (request(kind="FP32"), 422, "inputs[0].datatype"),
        (request(shape=[2]), 422, "1 ids in a tensor of shape [2]"),
        (request([1, 2], shape=[1, 2]), 422, "give [n] or [n, 1]"),
        (request(shape=[]), 422, "give [n] or [n, 1]"),
        (request(shape=[-1]), 422, "shape[0]"),
        (request(shape=[2**50]), 422, "shape[0]"),
        (request(["1"]), 422, "ids of INT64 are integers alone"),
        (request([1.0]), 422, "integers alone"),
        (request([True]), 422, "integers alone"),
        (request([2**63]), 422, "64 bits"),
        (request([1], "BYTES"), 422, "ids of BYTES are texts alone"),
        (request([[[1]]]), 422, "integers alone"),
        (request(data=None), 422, "no data"),
        (request(parameters={"x": 1}), 422, "input 'ids' has no parameter 'x'"),
        (request(parameters={"binary_data_size": 8}), 422, "as JSON and as bytes"),
        (request(parameters={"binary_data_size": 8}, data=None), 422, "ids of 8 bytes, and 0 bytes follow"),
        ({**request(), "outputs": [{"name": "label"}] * 2}, 422, "asked for twice"),
        ({**request(), "strange": 1}, 422, "strange is nothing that can be asked"),
        ({**request(), "parameters": {"threshold": "x"}}, 422, "threshold"),
        (request(range(10_001)), 413, "10,001 nodes"),
        (b'{"inputs": [{"name": "ids", "datatype": "INT64", "shape": [1], "shape": [1], "data": [1]}]}', 422, "twice"),
    ],
)
def test_what_is_no_request_is_refused(body: Any, status: int, said: str) -> None:
    async def work(client: InProcess, *_: Any) -> None:
        reply = await client.ask("POST", INFER, body)
        assert reply.status == status and said in reply.error

    in_process(work)


@pytest.mark.parametrize(
    ("kind", "raw", "length", "said"),
    [
        ("INT64", b"1234567", None, "are no integers of 64 bits"),
        ("BYTES", b"\x05\x00\x00\x00ab", None, "cut off"),
        ("BYTES", b"\x05\x00", None, "cut off"),
        ("BYTES", b"\x02\x00\x00\x00\xff\xff", None, "no UTF-8"),
        ("BYTES", b"\xff\xff\xff\xffab", None, "cut off"),
        ("INT64", b"12345678", "1000000", "of a body of"),
        ("INT64", b"12345678", "-1", "of a body of"),
        ("INT64", b"12345678", "²", "of a body of"),
        ("INT64", b"12345678", "0", "of a body of"),
        ("INT64", b"12345678", "3", "no JSON"),
    ],
)
def test_bytes_that_are_no_tensor_are_refused(kind: str, raw: bytes, length: str | None, said: str) -> None:
    tensor = {"name": "ids", "datatype": kind, "shape": [1], "parameters": {"binary_data_size": len(raw)}}
    head = json.dumps({"inputs": [tensor]}).encode()

    async def work(client: InProcess, _: Service, __: FakeRun) -> None:
        headers = {"inference-header-content-length": str(len(head)) if length is None else length}
        reply = await client.ask("POST", INFER, head + raw, headers)
        assert reply.status == 422 and said in reply.error
        extra = json.dumps(request()).encode()
        reply = await client.ask("POST", INFER, extra + raw, {"inference-header-content-length": str(len(extra))})
        assert reply.status == 422 and "no tensor says that they are its own" in reply.error

    in_process(work)
