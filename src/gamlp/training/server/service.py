"""A parameter server on the network: Arrow Flight on one address, with a token and, by files, TLS."""

from __future__ import annotations

import hmac
import json
import math
import re
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyarrow import flight

from gamlp.errors import GamlpError
from gamlp.training.checkpoint import Weights
from gamlp.training.ranks.world import LOOPBACK
from gamlp.training.server.client import TOKEN_HEADER
from gamlp.training.server.parameter_server import LATE, NO_TOKEN, OTHER_SHAPE, ParameterServer
from gamlp.training.server.parameters import Layout, Moving
from gamlp.training.server.slice_server import SliceServer
from gamlp.training.server.streams import SCHEMA, Kinds, StreamError, drain, receive_tensors, send_tensors
from gamlp.training.server.weight_slice import Push

Answer = tuple[dict[str, Any], Weights]
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Counting(Protocol):
    """Whoever counts what is refused."""

    def refuse(self, reason: str) -> str: ...


@dataclass(frozen=True)
class Certificate:
    """Files in PEM: the server's certificate, with those that signed it, and its key; one file may hold both.

    Workers trust what `certificate` holds.
    """

    certificate: Path
    key: Path

    def trusted(self) -> str:
        """What workers are told: certificates alone, never the key."""
        parts = _PEM.findall(_read(self.certificate).decode(errors="replace"))
        if not parts:
            raise GamlpError("holds no certificate", file=self.certificate, hint="name a file in PEM: --tls-cert FILE")
        return "\n".join(parts) + "\n"


class TokenService(flight.FlightServerBase):  # type: ignore[misc]
    """Answers on one address; every call must bring the token. `do_exchange` carries tensors, `do_action` small words.

    words: that come with tensors, each a method of the same name after `_`.
    """

    words: tuple[str, ...] = ()

    def __init__(
        self, server: Counting, token: str, host: str = LOOPBACK, port: int = 0, tls: Certificate | None = None
    ) -> None:
        self.host = host
        scheme, secrets = "grpc", {}
        if tls is not None:
            scheme, secrets = "grpc+tls", {"tls_certificates": [(_read(tls.certificate), _read(tls.key))]}
        location = flight.Location(f"{scheme}://{_bracketed(host)}:{port}".encode())
        try:
            super().__init__(location, middleware={"token": _TokenCheck(token, server)}, **secrets)
        except (OSError, flight.FlightError) as error:
            raise GamlpError(
                f"the parameter server cannot listen on {host}:{port}", hint="is the port taken, or the TLS file wrong?"
            ) from error

    @property
    def address(self) -> str:
        """As workers reach it."""
        return f"{_bracketed(self.host)}:{self.port}"

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        asked = _asked(descriptor.command)
        answer, tensors = getattr(self, f"_{_known(asked, *self.words)}")(context, asked, reader)
        drain(reader)
        writer.begin(SCHEMA)
        writer.write_metadata(json.dumps({**answer, "tensors": len(tensors)}).encode())
        send_tensors(writer, tensors)


class ParameterService(TokenService):
    """A parameter server's: begin, push, pull; next, looked, alive, counts, and what its slices ask."""

    words = ("begin", "push", "pull")

    def __init__(self, server: ParameterServer, token: str, *place: Any, **secrets: Any) -> None:
        self.server = server
        super().__init__(server, token, *place, **secrets)

    def _begin(self, context: Any, asked: dict[str, Any], reader: Any) -> Answer:
        kinds, first = _kinds(asked), None
        if not self.server.slices:
            if (first := _all_of(reader, kinds)) is None:
                return {"refused": self.server.refuse(OTHER_SHAPE)}, {}
        elif self.server.addresses is None:
            return {"wait": True}, {}
        worker, batches = int(asked["worker"]), int(asked["batches"])
        refused = self.server.begin(worker, asked["run"], Layout.of(asked), batches, kinds, first)
        where = {"term": self.server.term, "addresses": self.server.addresses} if self.server.slices else {}
        return {"refused": refused, "wait": bool(where) and where["addresses"] is None, **where}, {}

    def _push(self, context: Any, asked: dict[str, Any], reader: Any) -> Answer:
        if trouble := self.server.trouble_with(asked["run"], int(asked["worker"])):
            return trouble, {}
        given = None
        if self.server.slice is not None:
            try:
                _, given = receive_tensors(reader, self.server.slice.parameters.kinds)
            except StreamError:
                return {"refused": self.server.refuse(OTHER_SHAPE)}, {}
        push = _push(asked)
        refused = self.server.push(
            push, [float(value) for value in asked["losses"]], int(asked["rows"]), given,
            finite=bool(asked.get("finite", True)), moving=_moving(asked),
        )  # fmt: skip
        if not asked["more"] or self.server.slices:
            news = self.server.catch_up(push[0], context.is_cancelled, self._since(asked), bool(asked["more"]))
            return {"refused": refused, **news}, {}
        return {"refused": refused}, self.server.pull(push[0], asked.get("averages", ()), context.is_cancelled)

    def _since(self, asked: dict[str, Any]) -> int:
        """The version that a worker knows; of another term it means nothing."""
        return int(asked.get("since", 0)) if asked.get("term") == self.server.term else 0

    def _pull(self, context: Any, asked: dict[str, Any], reader: Any) -> Answer:
        if trouble := self.server.trouble_with(asked["run"], int(asked["worker"])):
            return trouble, {}
        if asked["what"] == "ended":
            return _found(self.server.ended(int(asked["epoch"])))
        return {}, self.server.pull(int(asked["worker"]), asked.get("averages", ()), context.is_cancelled)

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        asked = _asked(action.body.to_pybytes())
        return [json.dumps(self._answer(context, action.type, asked)).encode()]

    def _answer(self, context: Any, word: str, asked: dict[str, Any]) -> dict[str, Any]:
        if word == "counts":
            return self.server.counts(float(asked.get("within", math.inf)))
        if word == "end":
            self.server.end()
            return {}
        if word == "attend":
            told = (asked[name] for name in ("number", "address", "life", "term", "version", "refused"))
            return self.server.attend(*told)
        worker = int(asked["worker"])
        if trouble := self.server.trouble_with(asked["run"], worker):
            return trouble
        if word == "next":
            return self.server.next(worker, context.is_cancelled, self._since(asked))
        if word == "alive":
            self.server.heard(worker)
            return {}
        if word == "looked":
            told = (asked[name] for name in ("epoch", "state", "line", "note"))
            return {"refused": self.server.looked(worker, *told)}
        raise flight.FlightServerError(f"there is no '{word}'")


class SliceService(TokenService):
    """A slice's: begin, wait (gradients, until the journal takes them), pull."""

    words = ("begin", "wait", "pull")

    def __init__(self, server: SliceServer, token: str, *place: Any, **secrets: Any) -> None:
        self.server = server
        super().__init__(server, token, *place, **secrets)

    def _begin(self, context: Any, asked: dict[str, Any], reader: Any) -> Answer:
        kinds = _kinds(asked)
        if (first := _all_of(reader, kinds)) is None:
            return {"refused": self.server.refuse(OTHER_SHAPE)}, {}
        return self.server.begin(asked["run"], asked["term"], Layout.of(asked), int(asked["batches"]), kinds, first), {}

    def _wait(self, context: Any, asked: dict[str, Any], reader: Any) -> Answer:
        held = self.server.slice
        if (trouble := self.server.trouble_with(asked["run"], asked["term"])) or held is None:
            return trouble or {"again": True}, {}
        try:
            _, given = receive_tensors(reader, held.parameters.kinds)
        except StreamError:
            return {"refused": self.server.refuse(OTHER_SHAPE)}, {}
        return {"refused": self.server.wait(_push(asked), given, _moving(asked))}, {}

    def _pull(self, context: Any, asked: dict[str, Any], reader: Any) -> Answer:
        if trouble := self.server.trouble_with(asked["run"], asked["term"]):
            return trouble, {}
        if not self.server.follow(asked["journal"]):
            return {"again": True}, {}
        if asked["what"] == "ended":
            return _found(self.server.ended(int(asked["epoch"])))
        return {}, self.server.pull(asked.get("averages", ()))


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: str, server: Counting) -> None:
        self._expected, self._server = f"Bearer {token}".encode(), server

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> None:
        given = next((values for name, values in headers.items() if name.lower() == TOKEN_HEADER), [])
        found = [one.encode() if isinstance(one, str) else one for one in given]
        if not any(hmac.compare_digest(one, self._expected) for one in found):
            self._server.refuse(NO_TOKEN)
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")


def saving(server: ParameterServer, seconds: float, ended: threading.Event) -> threading.Thread:
    """A thread that writes the server's checkpoint every so many seconds."""

    def save() -> None:
        while not ended.wait(max(0.05, seconds)):
            try:
                server.save()
            except Exception as error:  # the storage may be back the next time
                sys.stderr.write(f"no checkpoint was written: {error}\n")

    thread = threading.Thread(target=save, daemon=True)
    thread.start()
    return thread


def _kinds(asked: dict[str, Any]) -> Kinds:
    return {str(name): (str(kind), [int(size) for size in shape]) for name, (kind, shape) in asked["kinds"].items()}


def _all_of(reader: Any, kinds: Kinds) -> Weights | None:
    """Tensors of just these kinds; None where some are of others, or missing."""
    try:
        _, found = receive_tensors(reader, kinds)
    except StreamError:
        return None
    return found if found.keys() == kinds.keys() else None


def _push(asked: dict[str, Any]) -> Push:
    return int(asked["worker"]), int(asked["epoch"]), int(asked["batch"])


def _moving(asked: dict[str, Any]) -> Moving:
    return {str(name): float(value) for name, value in asked.get("moving", {}).items()}


def _found(weights: Weights | None) -> Answer:
    return {"refused": LATE if weights is None else ""}, weights or {}


def _asked(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise flight.FlightServerError("what is asked is no JSON") from error
    if not isinstance(found, dict):
        raise flight.FlightServerError("what is asked is no object")
    return found


def _known(asked: dict[str, Any], *words: str) -> str:
    if (word := asked.get("word")) not in words:
        raise flight.FlightServerError(f"there is no '{word}'")
    return str(word)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise GamlpError("cannot be read", file=path, hint="name files in PEM: a certificate and its key") from error
