"""What a person trusts by name: code that a file names, and addresses that a file would have us ask."""

from __future__ import annotations

from collections.abc import Collection

from gamlp.errors import GamlpError

Trust = str | Collection[str] | None  # names as they stand in files: package.module:Class, or a URL


class Untrusted(GamlpError):
    """A file names code or an address (`name`) that nobody has named beside it."""

    def __init__(self, name: str, problem: str, file: object = None) -> None:
        super().__init__(problem, file=file, hint=f"if you know it, say --trust {name}")
        self.name = name


def names_of(trust: Trust) -> tuple[str, ...]:
    """Every name that was given."""
    if trust is None:
        return ()
    return (trust,) if isinstance(trust, str) else tuple(trust)


def check_trusted(name: str, trust: Trust, problem: str, file: object = None) -> None:
    """Refuse what a file names unless a person named it too, letter for letter."""
    if name not in names_of(trust):
        raise Untrusted(name, problem, file)
