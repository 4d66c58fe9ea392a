"""Words and tensors to a parameter server, and back; one that does not answer is asked again for a while."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from pyarrow import flight

from gamlp.errors import GamlpError
from gamlp.training.checkpoint import Weights
from gamlp.training.server.streams import SCHEMA, receive_tensors, send_tensors

TOKEN_HEADER = "authorization"
AGAIN = 0.2  # seconds between two attempts to reach it
Given = TypeVar("Given")
Streamed = tuple[dict[str, Any], Weights]


class SilentServer(GamlpError):
    """A server that does not answer."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the parameter server at {address} does not answer",
            hint="run it again to go on (gamlp train: with --resume)",
        )


class Reached(Protocol):
    """How a server is reached: its address, the run's token, certificates that are trusted, seconds of patience."""

    @property
    def address(self) -> str: ...
    @property
    def token(self) -> str: ...
    @property
    def root(self) -> str | None: ...
    @property
    def patience(self) -> float: ...


class Client:
    """Speaks with a server; `again` is called when it was not there for a while, and may raise."""

    def __init__(self, server: Reached, again: Callable[[], None] = lambda: None) -> None:
        self._server, self._again = server, again
        self._options = flight.FlightCallOptions(headers=[(TOKEN_HEADER.encode(), f"Bearer {server.token}".encode())])
        self._client = self._connect()

    def _connect(self) -> Any:
        secrets = {} if self._server.root is None else {"tls_root_certs": self._server.root}
        scheme = "grpc" if self._server.root is None else "grpc+tls"
        # A proxy of the environment is for the world outside.
        options = [("grpc.enable_http_proxy", 0)]
        return flight.FlightClient(f"{scheme}://{self._server.address}", generic_options=options, **secrets)

    def say(self, word: str, **asked: Any) -> dict[str, Any]:
        """A small question, and its answer."""
        action = flight.Action(word, json.dumps(asked).encode())

        def ask() -> dict[str, Any]:
            found = next(iter(self._client.do_action(action, self._options)))
            answer: dict[str, Any] = json.loads(found.body.to_pybytes())
            return answer

        return self._answered(ask)

    def stream(self, word: str, tensors: Weights, *, first: bool = False, **asked: Any) -> Streamed:
        """Tensors there, and others back."""
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"word": word, **asked}).encode())

        def send() -> Streamed:
            writer, reader = self._client.do_exchange(descriptor, self._options)
            try:
                with suppress(flight.FlightError, OSError):  # refused before all was sent: reading says why
                    writer.begin(SCHEMA)
                    send_tensors(writer, tensors)
                    writer.done_writing()
                answer, found = receive_tensors(reader)
                if answer.get("tensors") != len(found):
                    raise flight.FlightUnavailableError("the answer was cut off")
                return answer, found
            finally:
                with suppress(flight.FlightError, OSError):
                    writer.close()

        return self._answered(send, first=first)

    def _answered(self, act: Callable[[], Given], *, first: bool = False) -> Given:
        until = time.monotonic() + self._server.patience
        while True:
            try:
                return act()
            except flight.FlightUnauthenticatedError as error:
                raise GamlpError("the parameter server does not know the token", hint="start the run again") from error
            except (flight.FlightUnavailableError, flight.FlightCancelledError, flight.FlightInternalError) as error:
                if time.monotonic() > until:
                    raise SilentServer(self._server.address) from error
            time.sleep(AGAIN)
            self._client.close()
            self._client = self._connect()
            if not first:
                self._again()

    def close(self) -> None:
        self._client.close()
