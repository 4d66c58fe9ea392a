"""Who may ask: an API key, names under which the server is asked, and pages of which a browser may ask."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gamlp.errors import GamlpError
from gamlp.serve.http.bodies import Scope, header
from gamlp.serve.questions import Refusal

VARIABLE = "GAMLP_API_KEY"
_SHORTEST = 8  # letters of a key
_MOST_BYTES = 1 << 16  # of a file of keys


def read_keys(file: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[bytes, ...]:
    """Keys of a file, one a line so that an old one may stay for a while; or that of the variable; or none."""
    if file is None:
        given = environment.get(VARIABLE, "").strip()
        return (_checked(given, VARIABLE),) if given else ()
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1).decode()
    except FileNotFoundError as error:
        raise GamlpError("there is no such file of keys", file=file, hint="name it with --api-key-file") from error
    except (IsADirectoryError, UnicodeDecodeError) as error:
        raise GamlpError("is no file of keys", file=file, hint="write one key a line") from error
    if len(text) > _MOST_BYTES:
        raise GamlpError("is too large for a file of keys", file=file, hint="write one key a line")
    lines = [line.strip() for line in text.splitlines()]
    found = tuple(_checked(line, file) for line in lines if line)
    if not found:
        raise GamlpError("has no key", file=file, hint="write one key a line")
    return found


def _checked(key: str, where: object) -> bytes:
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise GamlpError("a key has letters, digits and signs of ASCII only", file=where)
    if len(key) < _SHORTEST:
        raise GamlpError(f"a key has at least {_SHORTEST} letters", file=where)
    return key.encode()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; a name is looked up.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        pass
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


@dataclass(frozen=True)
class Admission:
    """What a request must bring.

    keys: one of them, as `Authorization: Bearer KEY` or `X-API-Key: KEY`; none: anybody may ask.
    loopback: the server listens on loopback alone, so that its own names are known: a page elsewhere whose name leads
    to this machine (DNS rebinding) is refused.
    hosts: further names, such as that of a proxy in front.
    """

    keys: tuple[bytes, ...] = ()
    loopback: bool = True
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, host: str, keys: tuple[bytes, ...], *, without_key: bool = False, hosts: Iterable[str] = ()
    ) -> Admission:
        """For a server that listens at `host`; beyond loopback it needs a key, or a word that it does not."""
        loopback = is_loopback(host)
        if not loopback and not keys and not without_key:
            raise GamlpError(
                f"'{host}' can be reached by others, and there is no key",
                hint=f"give one with --api-key-file or {VARIABLE}, or say --no-api-key",
            )
        if without_key and keys:
            raise GamlpError("--no-api-key is said, and a key is given", hint="leave one of them out")
        return cls(keys, loopback, frozenset(name.lower().strip("[]") for name in hosts))

    def check(self, scope: Scope, *, open_to_all: bool) -> None:
        """Refuse a request whose headers do not fit. `open_to_all`: what it asks for needs no key."""
        host = header(scope, b"host")
        if self.loopback and host and not self._is_own(host):
            raise Refusal(421, f"'{host}' is not the name of this server", hint="ask for localhost")
        self._check_origin(scope, host)
        if self.keys and not open_to_all:
            self._check_key(scope)

    def _is_own(self, host: str) -> bool:
        name = _name(host)
        if name in self.hosts or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _check_origin(self, scope: Scope, host: str | None) -> None:
        """A browser says of which page a script is: others than the server's own have no business here."""
        origin = header(scope, b"origin")
        if origin is None:
            return
        try:
            asked = urlsplit(origin).netloc.lower()
        except ValueError:
            asked = ""
        if not asked or asked != (host or "").lower():
            raise Refusal(403, "a page of another address asks", hint="only the server's own page may")

    def _check_key(self, scope: Scope) -> None:
        given = header(scope, b"x-api-key")
        if given is None:
            scheme, _, rest = (header(scope, b"authorization") or "").partition(" ")
            given = rest if scheme.lower() == "bearer" else ""
        sent = given.strip().encode("latin-1", "replace")
        fits = [hmac.compare_digest(sent, key) for key in self.keys]  # all of them: time tells nothing
        if not any(fits):
            what = "the API key is not the right one" if sent else "an API key is needed"
            raise Refusal(401, what, hint="send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'")


def _name(host: str) -> str:
    """Of a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")
