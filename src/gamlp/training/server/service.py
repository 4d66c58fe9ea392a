"""A parameter server on the network: Arrow Flight on one address, with a token and, by files, TLS."""

from __future__ import annotations

import hmac
import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import flight

from gamlp.errors import GamlpError
from gamlp.training.ranks.world import LOOPBACK
from gamlp.training.server.parameter_server import NO_TOKEN, OTHER_RUN, OTHER_SHAPE, ParameterServer
from gamlp.training.server.streams import SCHEMA, StreamError, drain, receive_tensors, send_tensors

TOKEN_HEADER = "authorization"
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


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


class ParameterService(flight.FlightServerBase):  # type: ignore[misc]
    """Answers workers; every call must bring the token.

    `do_exchange` carries tensors (begin, push, pull), `do_action` small words (next, looked, alive, counts).
    """

    def __init__(
        self, server: ParameterServer, token: str, host: str = LOOPBACK, port: int = 0, tls: Certificate | None = None
    ) -> None:
        self.server, self.host = server, host
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
        answer, tensors = getattr(self, f"_{_known(asked, 'begin', 'push', 'pull')}")(context, asked, reader)
        drain(reader)
        writer.begin(SCHEMA)
        writer.write_metadata(json.dumps({**answer, "tensors": len(tensors)}).encode())
        send_tensors(writer, tensors)

    def _begin(self, context: Any, asked: dict[str, Any], reader: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        kinds = {name: (str(kind), list(shape)) for name, (kind, shape) in asked["kinds"].items()}
        try:
            _, first = receive_tensors(reader, kinds)
            if first.keys() != kinds.keys():
                raise StreamError("tensors are missing")
        except StreamError:
            return {"refused": self.server.refuse(OTHER_SHAPE)}, {}
        groups = [(float(decay), float(rate), list(names)) for decay, rate, names in asked["groups"]]
        moving = {name: float(momentum) for name, momentum in asked.get("moving", {}).items() if name in kinds}
        worker, batches = int(asked["worker"]), int(asked["batches"])
        begun = self.server.begin(worker, asked["run"], groups, batches, kinds, first, moving)
        return {} if begun else {"refused": OTHER_RUN}, {}

    def _push(self, context: Any, asked: dict[str, Any], reader: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if trouble := self.server.trouble_with(asked["run"], int(asked["worker"])):
            return trouble, {}
        try:
            _, given = receive_tensors(reader, self.server.parameters.kinds)
        except StreamError:
            return {"refused": self.server.refuse(OTHER_SHAPE)}, {}
        worker = int(asked["worker"])
        losses = [float(value) for value in asked["losses"]]
        refused = self.server.push(worker, int(asked["epoch"]), int(asked["batch"]), given, losses, int(asked["rows"]))
        return {"refused": refused}, self.server.pull(worker, context.is_cancelled) if asked["more"] else {}

    def _pull(self, context: Any, asked: dict[str, Any], reader: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if trouble := self.server.trouble_with(asked["run"], int(asked["worker"])):
            return trouble, {}
        if asked["what"] == "best":
            return {}, self.server.best()
        if asked["what"] == "ended":
            found = self.server.ended(int(asked["epoch"]))
            return {"refused": "" if found is not None else "too late"}, found or {}
        return {}, self.server.pull(int(asked["worker"]), context.is_cancelled)

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        asked = _asked(action.body.to_pybytes())
        if action.type == "counts":
            return [json.dumps(self.server.counts()).encode()]
        worker = int(asked["worker"])
        answer = self.server.trouble_with(asked["run"], worker)
        if answer:
            pass
        elif action.type == "next":
            answer = self.server.next(worker, context.is_cancelled)
        elif action.type == "alive":
            self.server.heard(worker)
        elif action.type == "looked":
            told = (asked[name] for name in ("epoch", "state", "line", "note"))
            answer = {"refused": self.server.looked(worker, *told)}
        else:
            raise flight.FlightServerError(f"there is no '{action.type}'")
        return [json.dumps(answer).encode()]


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: str, server: ParameterServer) -> None:
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
            server.save()

    thread = threading.Thread(target=save, daemon=True)
    thread.start()
    return thread


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
