"""What /openapi.json says: bodies and answers as schemas. Nothing here is run while a request is answered."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field

from gamlp.serve.http.requests import ClassValue, ExplainBody, PredictBody

_PLACE = "#/components/schemas/{model}"
_NO_KEY = ("/health", "/ready", "/v2/health/live", "/v2/health/ready")


class ErrorContent(BaseModel):
    """What went wrong, in one sentence."""

    error: str


class PredictionContent(BaseModel):
    """Of one node."""

    id: int | str | None
    label: Any = Field(
        description="A class; null where it is less likely than abstain_below; a list where a node may have many.",
        json_schema_extra={"anyOf": [*ClassValue["anyOf"], {"type": "array", "items": ClassValue}, {"type": "null"}]},
    )
    probability: float = Field(description="Of the label; where there is none, or there are many, of the likeliest.")
    probabilities: dict[str, float] | None = Field(default=None, description="Of each class by its name.")


class PredictContent(BaseModel):
    """Of all nodes of a question, known ones first; `notes` are sentences that a person should read."""

    predictions: list[PredictionContent]
    notes: list[str]
    run: str
    generation: int


class ExplainContent(BaseModel):
    """Of each node: its hops, known labels around it, its likeliest classes and what they are made of."""

    explanations: list[dict[str, Any]]
    run: str
    generation: int


class AboutContent(BaseModel):
    """What is served. `types`: by node type, the columns that a new node must bring."""

    run: str
    model: str
    graph: str
    nodes: int
    newcomers: int
    generation: int
    classes: list[str]
    multi_label: bool
    hops: int
    dtype: str
    target: str
    types: dict[str, Any]
    relations: list[dict[str, Any]]
    notes: list[str]


class TensorContent(BaseModel):
    """A tensor of the Open Inference Protocol."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class InferContent(BaseModel):
    """Tensors `probabilities` (FP32) and `label` (BYTES)."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, Any] | None = None
    outputs: list[TensorContent]


class InferBody(BaseModel):
    """One tensor `ids`, INT64 or BYTES; further tensors may follow the JSON as bytes."""

    id: str | None = None
    parameters: dict[str, Any] | None = None
    inputs: list[TensorContent]
    outputs: list[dict[str, Any]] | None = None


_BODIES: dict[str, type[BaseModel]] = {"predict": PredictBody, "explain": ExplainBody, "infer": InferBody}
_CONTENTS: dict[str, type[BaseModel]] = {
    "predict": PredictContent, "explain": ExplainContent, "about": AboutContent, "infer": InferContent,
}  # fmt: skip
_ERRORS = {
    "predict": (401, 404, 408, 409, 413, 415, 422, 500, 503, 507),
    "explain": (401, 404, 408, 413, 415, 422, 500, 503),
    "infer": (401, 404, 408, 413, 415, 422, 500, 503),
    "about": (401, 500, 503),
    "metrics": (401,),
    "ready": (503,),
    "model": (401, 404, 503),
}


def described(name: str) -> dict[str, Any]:
    """Arguments of a route, by the name of what it does."""
    found: dict[str, Any] = {
        "operation_id": name,
        "responses": {status: {"model": ErrorContent} for status in _ERRORS.get(name, ())},
    }
    if name in _CONTENTS:
        found["responses"][200] = {"model": _CONTENTS[name]}
    if name == "metrics":
        found["responses"][200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    if name in _BODIES:
        schema = {"$ref": _PLACE.format(model=_BODIES[name].__name__)}
        found["openapi_extra"] = {
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}
        }
    return found


def documented(app: FastAPI) -> None:
    """Give an application its schema; bodies are read by hand, so that FastAPI does not know theirs."""

    def schema() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _made(app)
        return app.openapi_schema

    app.openapi = schema  # type: ignore[method-assign]


def _made(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=version("gamlp"), description=app.description, routes=app.routes)
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for body in _BODIES.values():
        own = body.model_json_schema(ref_template=_PLACE)
        schemas.update(own.pop("$defs", {}))
        schemas[body.__name__] = own
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    found["security"] = [{}, {"bearer": []}, {"key": []}]  # {}: a server without a key asks for none
    for path in _NO_KEY:
        for operation in found["paths"].get(path, {}).values():
            operation["security"] = []
    return found
