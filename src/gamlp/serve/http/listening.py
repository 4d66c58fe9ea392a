"""Where a server listens: its socket, its address for people, its certificate."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gamlp.errors import GamlpError


@dataclass(frozen=True)
class Tls:
    """Files of a certificate with those that signed it, and of its key. (default: in the same file)"""

    certificate: Path
    key: Path | None = None

    def check(self) -> None:
        """A sentence instead of what a library says."""
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise GamlpError("there is no such file", file=path, hint="name it with --tls-cert and --tls-key")

        def no_password() -> str:
            raise GamlpError("the key needs a password", file=self.key or self.certificate, hint="give one without")

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, no_password)
        except (ssl.SSLError, OSError) as error:
            raise GamlpError(
                "is no certificate with its key", file=self.certificate, hint="give PEM files: --tls-cert, --tls-key"
            ) from error


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


@contextmanager
def listening_at(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at the address; of a name with several the first of IPv4."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        raise GamlpError(f"there is no address '{host}' to listen at", hint="give one with --host") from error
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    with socket.socket(family, kind, protocol) as made:
        if sys.platform != "win32":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(address)
            made.listen(2048)  # a port that is taken is told before the run is opened
        except OSError as error:
            raise GamlpError(
                f"port {port} of {host} cannot be listened at ({error.strerror})",
                hint="choose another with --port; 0 is any that is free",
            ) from error
        made.setblocking(False)
        yield made
