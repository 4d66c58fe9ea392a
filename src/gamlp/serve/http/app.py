"""Routes of a served run: predict, explain, what it is, whether it lives, counts, and its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gamlp.errors import GamlpError
from gamlp.serve.http.batching import Batcher
from gamlp.serve.http.bodies import BodyReader
from gamlp.serve.http.encoding import AnswerWriter, as_json
from gamlp.serve.http.gate import FAILED, Gate, error_response
from gamlp.serve.http.inference_protocol import InferenceProtocol
from gamlp.serve.http.keys import Admission
from gamlp.serve.http.limits import Limits
from gamlp.serve.http.metrics import CONTENT_TYPE, Metrics
from gamlp.serve.http.openapi import described, documented
from gamlp.serve.http.page import page
from gamlp.serve.http.requests import ExplainBody, PredictBody, parsed, settled
from gamlp.serve.questions import Question, Refusal

if TYPE_CHECKING:
    from gamlp.serve.served import ServedRun

_JSON = "application/json"


class Service:
    """What routes share. There is no batcher until the run is opened; `stopping`: what waits is answered, no more."""

    def __init__(self, limits: Limits | None = None, admission: Admission | None = None) -> None:
        self.limits = limits or Limits()
        self.admission = admission or Admission()
        self.metrics = Metrics()
        self.bodies = BodyReader(self.limits)
        self.stopping = False
        self._batcher: Batcher | None = None
        self._writer: AnswerWriter | None = None
        self._newcomers = 0

    def begin(self, served: ServedRun) -> Batcher:
        """Answer from now on; in the event loop."""
        self._batcher = Batcher(served, self.limits, self.metrics)
        return self._batcher

    @property
    def ready(self) -> bool:
        return self._batcher is not None and not self.stopping

    @property
    def batcher(self) -> Batcher:
        if self._batcher is None:
            raise Refusal(503, "the run is being opened", hint="ask again in a second")
        return self._batcher

    def give_up(self, why: str) -> None:
        """Refuse what waits."""
        if self._batcher is not None:
            self._batcher.give_up(why)

    def writer(self, served: ServedRun) -> AnswerWriter:
        """Of the generation that gave an answer."""
        if self._writer is None or self._writer.served is not served:
            self._writer = AnswerWriter(served)
        return self._writer

    async def predict(self, request: Request) -> Response:
        """Labels and probabilities of known nodes and of new ones."""
        batcher, receive = self.batcher, request.receive
        async with self.bodies.read(request.scope, receive) as raw:
            body = parsed(PredictBody, raw)
            question = body.question(self.limits, rows=self.limits.rows)
            bundle = batcher.served.bundle
            decision = body.decision(bundle)  # refused before anything is kept
            served, answers = await batcher.ask(question, receive)
            if served.bundle is not bundle:
                decision = settled(decision, served.bundle)
            writer = self.writer(served)
            content = await writer.predictions(answers, decision, each_class=body.probabilities)
        return Response(content, media_type=_JSON)

    async def explain(self, request: Request) -> Response:
        """Why nodes get their answers: weights of hops, what each hop alone says, labels around."""
        batcher, receive = self.batcher, request.receive
        async with self.bodies.read(request.scope, receive) as raw:
            question = parsed(ExplainBody, raw).question(self.limits, rows=self.limits.explained)
            served, found = await batcher.call(_explaining(question), receive)
        return Response(self.writer(served).explanations(found), media_type=_JSON)

    async def about(self, request: Request) -> Response:
        """What is served, and what a new node must bring."""
        _, found = await self.batcher.call(lambda served: served.about(), request.receive)
        return Response(as_json(found), media_type=_JSON)

    async def health(self) -> Response:
        """The process lives."""
        return Response(b'{"alive":true}', media_type=_JSON)

    async def whether_ready(self) -> Response:
        """The run is opened, and the server is not stopping."""
        if self.stopping:
            raise Refusal(503, "the server is stopping")
        if self._batcher is None:
            raise Refusal(503, "the run is being opened", hint="ask again in a second")
        return Response(b'{"ready":true}', media_type=_JSON)

    async def counts(self) -> Response:
        """Counts and times, as Prometheus reads them."""
        batcher = self._batcher
        waiting, generation = 0, 0
        if batcher is not None:
            waiting, generation = batcher.waiting, batcher.served.generation
            self._newcomers = batcher.served.newcomers
        gauges: dict[str, tuple[str, float]] = {
            "gamlp_ready": ("1: the run is opened.", float(self.ready)),
            "gamlp_waiting_requests": ("Requests that are not answered yet.", waiting),
            "gamlp_held_bytes": ("Bytes of their bodies.", self.bodies.held),
            "gamlp_generation": ("Generation of the run.", generation),
            "gamlp_newcomers": ("Newcomers kept since the last refresh.", self._newcomers),
        }
        return Response(self.metrics.text(gauges), headers={"Content-Type": CONTENT_TYPE})

    async def page(self) -> Response:
        """A page for people."""
        try:
            content, headers = page()
        except OSError as error:
            raise Refusal(404, "this gamlp was installed without its page", hint="see /openapi.json") from error
        return Response(content, headers=headers)


def _explaining(question: Question) -> Any:
    return lambda served: served.explain(question)


def application(service: Service) -> Gate:
    """All routes behind one gate."""
    app = FastAPI(
        title="gamlp", docs_url=None, redoc_url=None, redirect_slashes=False,
        description="Classes of a graph's nodes, known and new ones.",
    )  # fmt: skip
    add = app.add_api_route
    add("/predict", service.predict, methods=["POST"], tags=["questions"], **described("predict"))
    add("/explain", service.explain, methods=["POST"], tags=["questions"], **described("explain"))
    add("/about", service.about, methods=["GET"], tags=["questions"], **described("about"))
    add("/health", service.health, methods=["GET"], tags=["operation"], **described("health"))
    add("/ready", service.whether_ready, methods=["GET"], tags=["operation"], **described("ready"))
    add("/metrics", service.counts, methods=["GET"], tags=["operation"], **described("metrics"))
    add("/", service.page, methods=["GET"], include_in_schema=False)
    for path, route in (("/", service.page), ("/health", service.health), ("/ready", service.whether_ready)):
        add(path, route, methods=["HEAD"], include_in_schema=False)
    InferenceProtocol(service).add_to(app)
    app.add_exception_handler(GamlpError, _told)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(Exception, _failed)
    documented(app)
    return Gate(app, service.admission, service.limits, service.metrics)


async def _told(_: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return error_response(error)
    return error_response(Refusal(422, str(error)))


async def _failed(_: Request, error: Exception) -> Response:
    """The gate writes it down."""
    return error_response(FAILED)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, allowed = request.url.path, (error.headers or {}).get("Allow")
    if error.status_code == 405:
        answer = error_response(Refusal(405, f"{path} is not asked with {request.method}", hint=f"use {allowed}"))
        answer.headers["Allow"] = str(allowed)
        return answer
    return error_response(Refusal(error.status_code, f"there is nothing at {path}", hint="see /openapi.json"))
