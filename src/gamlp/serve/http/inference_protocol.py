"""The Open Inference Protocol, version 2, over HTTP: metadata, health, and probabilities of known ids as tensors.

https://github.com/kserve/open-inference-protocol; tensors may follow the JSON as bytes, as Triton's clients send them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gamlp.arrays import Array
from gamlp.run import LIKELIEST, Decision
from gamlp.serve.http.bodies import header
from gamlp.serve.http.encoding import AnswerWriter, as_json
from gamlp.serve.http.openapi import described
from gamlp.serve.http.requests import PredictBody, check_each_once, refused
from gamlp.serve.questions import Answered, Id, Question, Refusal

if TYPE_CHECKING:
    from gamlp.serve.http.app import Service
    from gamlp.serve.served import ServedRun

_JSON_LENGTH = "Inference-Header-Content-Length"  # bytes of JSON; tensors follow
_OUTPUTS = ("probabilities", "label")
_DECIDING = ("threshold", "positive", "abstain_below")
_OWN_PARAMETERS = {*_DECIDING, "binary_data_output"}
_JSON = "application/json"
Parameters = dict[str, bool | int | float | str]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    parameters: Parameters = {}


class _Input(_Strict):
    name: str
    datatype: Literal["INT64", "BYTES"]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**40)]], Field(max_length=2)]
    data: list[Any] | None = None


class _Output(_Strict):
    name: str


class _Request(_Strict):
    id: Annotated[str, Field(max_length=10_000)] | None = None
    inputs: list[_Input]
    outputs: list[_Output] = []

    def keys(self) -> int:
        """Of all its objects."""
        parts: list[_Strict] = [self, *self.inputs, *self.outputs]
        return sum(len(part.model_fields_set) + len(part.parameters) for part in parts)


class InferenceProtocol:
    """Routes under /v2. The model is the run by its name, its version the generation."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        tags: Any = ["open inference protocol"]
        get: Any = {"methods": ["GET"], "tags": tags}
        app.add_api_route("/v2", self.server, **get)
        app.add_api_route("/v2/health/live", self._service.health, **get, operation_id="v2_live")
        app.add_api_route("/v2/health/ready", self._service.whether_ready, **get, operation_id="v2_ready")
        for place, path in enumerate(("/v2/models/{model}", "/v2/models/{model}/versions/{version}")):
            shown: dict[str, Any] = {"include_in_schema": place == 0}  # the same with a version is not told twice
            model, infer = described("model"), described("infer")
            app.add_api_route(path, self.metadata, **get, **shown, **{**model, "operation_id": f"v2_model_{place}"})
            app.add_api_route(
                f"{path}/ready",
                self.model_ready,
                **get,
                **shown,
                **{**model, "operation_id": f"v2_model_ready_{place}"},
            )
            app.add_api_route(
                f"{path}/infer", self.infer, methods=["POST"], tags=tags, **shown,
                **{**infer, "operation_id": f"v2_infer_{place}"},
            )  # fmt: skip

    async def server(self) -> Response:
        """What speaks here."""
        about = {"name": "gamlp", "version": version("gamlp"), "extensions": ["binary_tensor_data"]}
        return Response(as_json(about), media_type=_JSON)

    async def metadata(self, request: Request) -> Response:
        """Tensors that the model takes and gives."""
        served = self._named(request)
        classes = len(served.bundle.classes)
        about = {
            "name": served.name,
            "versions": [str(served.generation)],
            "platform": "gamlp",
            "inputs": [{"name": "ids", "datatype": _id_type(served), "shape": [-1]}],
            "outputs": [
                {"name": "probabilities", "datatype": "FP32", "shape": [-1, classes]},
                {"name": "label", "datatype": "BYTES", "shape": [-1]},
            ],
        }
        return Response(as_json(about), media_type=_JSON)

    async def model_ready(self, request: Request) -> Response:
        """The run is opened."""
        self._named(request)
        return await self._service.whether_ready()

    async def infer(self, request: Request) -> Response:
        """Probabilities and labels of known ids."""
        service = self._service
        async with service.bodies.read(request.scope, request.receive) as raw:
            bundle = self._named(request).bundle
            asked, rest = _parsed(raw, header(request.scope, _JSON_LENGTH.lower().encode()))
            wanted, ids = _wanted(asked), _ids(asked, rest)
            if len(ids) > service.limits.rows:
                raise Refusal(
                    413,
                    f"{len(ids):,} nodes in one request",
                    hint=f"at most {service.limits.rows:,} are answered at once",
                )
            deciding = {name: asked.parameters[name] for name in _DECIDING if name in asked.parameters}
            body = _deciding(deciding)
            body.decision(bundle)
            served, answers = await service.batcher.ask(Question(ids), request.receive) if ids else _nothing(service)
            return _answer(asked, wanted, service.writer(served), answers, body.decision(served.bundle))

    def _named(self, request: Request) -> ServedRun:
        """The run as it is now, where the path names it."""
        served = self._service.batcher.served
        model, asked = request.path_params["model"], request.path_params.get("version")
        if model != served.name:
            raise Refusal(404, f"there is no model '{model}'", hint=f"there is '{served.name}'")
        if asked is not None and asked != str(served.generation):
            raise Refusal(404, f"there is no version '{asked}'", hint=f"there is '{served.generation}'")
        return served


def _id_type(served: ServedRun) -> str:
    """Integers where the graph's own ids are; BYTES are read everywhere."""
    nodes = served.graph.nodes
    return "INT64" if nodes.ids.values is None or isinstance(nodes.ids.values, np.ndarray) else "BYTES"


def _parsed(raw: bytes, length: str | None) -> tuple[_Request, memoryview]:
    """The JSON, and the bytes that follow it."""
    size = len(raw)
    if length is not None:
        size = int(length[:20]) if length.isascii() and length.isdigit() else -1
        if not 0 < size <= len(raw):
            raise Refusal(422, f"{_JSON_LENGTH} is '{length}' of a body of {len(raw):,} bytes")
    try:
        asked = _Request.model_validate_json(raw[:size] if size < len(raw) else raw)
    except ValidationError as error:
        raise refused(error) from None
    check_each_once(raw[:size], asked.keys())
    return asked, memoryview(raw)[size:]


def _wanted(asked: _Request) -> dict[str, bool]:
    """Names of outputs, and whether each is given as bytes."""
    unknown = [name for name in asked.parameters if name not in _OWN_PARAMETERS]
    if unknown:
        raise Refusal(422, f"parameters.{unknown[0]} is not understood", hint=f"there are {', '.join(_DECIDING)}")
    usual = asked.parameters.get("binary_data_output", False) is True
    if not asked.outputs:
        return dict.fromkeys(_OUTPUTS, usual)
    found: dict[str, bool] = {}
    for output in asked.outputs:
        if output.name not in _OUTPUTS:
            raise Refusal(422, f"there is no output '{output.name}'", hint=f"there are {' and '.join(_OUTPUTS)}")
        if output.name in found:
            raise Refusal(422, f"output '{output.name}' is asked for twice")
        strange = [name for name in output.parameters if name != "binary_data"]
        if strange:
            raise Refusal(422, f"output '{output.name}' has no parameter '{strange[0]}'")
        found[output.name] = output.parameters.get("binary_data", usual) is True
    return found


def _ids(asked: _Request, rest: memoryview) -> tuple[Id, ...]:
    if len(asked.inputs) != 1 or asked.inputs[0].name != "ids":
        raise Refusal(422, "one tensor is read, and it is called 'ids'", hint="new nodes are asked for with /predict")
    given = asked.inputs[0]
    count, shape = math.prod(given.shape), given.shape
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[1] != 1):
        raise Refusal(422, f"ids of shape {shape}", hint="give [n] or [n, 1]")
    strange = [name for name in given.parameters if name != "binary_data_size"]
    if strange:
        raise Refusal(422, f"input 'ids' has no parameter '{strange[0]}'")
    size = given.parameters.get("binary_data_size")
    if size is None:
        if len(rest):
            raise Refusal(422, f"{len(rest):,} bytes follow, and no tensor says that they are its own")
        found = _of_json(given)
    else:
        if given.data is not None:
            raise Refusal(422, "ids are given as JSON and as bytes", hint="give one of them")
        if size != len(rest) or isinstance(size, bool):
            raise Refusal(422, f"ids of {size} bytes, and {len(rest):,} bytes follow")
        found = _integers(rest) if given.datatype == "INT64" else _texts(rest)
    if len(found) != count:
        raise Refusal(422, f"{len(found):,} ids in a tensor of shape {shape}")
    return found


def _of_json(given: _Input) -> tuple[Id, ...]:
    if given.data is None:
        raise Refusal(422, "the tensor 'ids' has no data")
    flat: list[Any] = []
    for one in given.data:
        flat += one if isinstance(one, list) else [one]
    kind = int if given.datatype == "INT64" else str
    wrong = [one for one in flat if type(one) is not kind]
    if wrong:
        raise Refusal(422, f"ids of {given.datatype} are {'integers' if kind is int else 'texts'} alone")
    if kind is int and flat and not (min(flat) >= -(2**63) and max(flat) < 2**63):
        raise Refusal(422, "an id is no integer of 64 bits")
    return tuple(flat)


def _integers(raw: memoryview) -> tuple[Id, ...]:
    if len(raw) % 8:
        raise Refusal(422, f"{len(raw):,} bytes are no integers of 64 bits")
    return tuple(np.frombuffer(raw, "<i8").tolist())


def _texts(raw: memoryview) -> tuple[Id, ...]:
    """Each with its length before it, 4 bytes, the lowest first."""
    found: list[Id] = []
    at = 0
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "little")
        text = raw[at + 4 : at + 4 + size]
        if at + 4 > len(raw) or len(text) != size:
            raise Refusal(422, "bytes of a text are cut off")
        try:
            found.append(str(text, "utf-8"))
        except UnicodeDecodeError:
            raise Refusal(422, "an id is no UTF-8") from None
        at += 4 + size
    return tuple(found)


def _deciding(given: Mapping[str, Any]) -> PredictBody:
    try:
        return PredictBody.model_validate(dict(given))
    except ValidationError as error:
        raise refused(error) from None


def _nothing(service: Service) -> tuple[ServedRun, Answered]:
    served = service.batcher.served
    return served, Answered((), np.zeros((0, len(served.bundle.classes)), np.float32))


def _answer(
    asked: _Request, wanted: Mapping[str, bool], writer: AnswerWriter, answers: Answered, decision: Decision = LIKELIEST
) -> Response:
    probabilities = np.ascontiguousarray(answers.probabilities, "<f4")
    head: dict[str, Any] = {"model_name": writer.served.name, "model_version": str(writer.served.generation)}
    if asked.id is not None:
        head["id"] = asked.id
    if answers.notes:
        head["parameters"] = {"notes": " ".join(answers.notes)}
    outputs, tensors = [], []
    for name, binary in wanted.items():
        about: dict[str, Any]
        if name == "probabilities":
            about = {"name": name, "datatype": "FP32", "shape": list(probabilities.shape)}
            values: Any = probabilities.reshape(-1)
            raw = probabilities.tobytes() if binary else b""
        else:
            values = _labels(writer, decision.chosen(writer.bundle, probabilities))
            about = {"name": name, "datatype": "BYTES", "shape": [len(values)]}
            raw = _framed(values) if binary else b""
        if binary:
            tensors.append(raw)
            outputs.append({**about, "parameters": {"binary_data_size": len(raw)}})
        else:
            outputs.append({**about, "data": values})
    content = as_json({**head, "outputs": outputs})
    if not tensors:
        return Response(content, media_type=_JSON)
    headers = {_JSON_LENGTH: str(len(content))}
    return Response(b"".join([content, *tensors]), headers=headers, media_type="application/octet-stream")


def _labels(writer: AnswerWriter, chosen: Array) -> list[str]:
    """Names of classes; many labels joined as in a CSV of predictions, and none as an empty text."""
    if writer.bundle.multi_label:
        return ["|".join(writer.names[place] for place in np.flatnonzero(row)) for row in chosen]
    return ["" if place < 0 else writer.names[place] for place in chosen.tolist()]


def _framed(texts: Sequence[str]) -> bytes:
    coded = [text.encode() for text in texts]
    return b"".join(len(one).to_bytes(4, "little") + one for one in coded)
