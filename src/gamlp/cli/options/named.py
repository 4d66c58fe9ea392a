"""Options that may be given for each of several tables: `--nodes paper=papers.csv`, `--features paper=x,y`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gamlp.errors import GamlpError


def tables(option: str, texts: list[str]) -> str | dict[str, str]:
    """One table, or several by name; a single `a=b` is a name with its table unless it is a path that exists."""
    if len(texts) == 1 and not _has_name(texts[0]):
        return texts[0]
    found: dict[str, str] = {}
    for text in texts:
        name, _, place = text.partition("=")
        if not (name and place):
            raise GamlpError(f"{option} {text}: several tables need names", hint=f"write {option} NAME=PATH for each")
        if name in found:
            raise GamlpError(
                f"{option} gives '{name}' twice", hint="a table in several files is a folder, --help tells more"
            )
        found[name] = place
    return found


def _has_name(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and "/" not in name and not Path(text).exists()


@dataclass(frozen=True)
class Values:
    """What an option says for all tables, and for some of them by name."""

    plain: str | None
    named: dict[str, str]

    def of(self, name: str) -> str | None:
        return self.named.get(name, self.plain)


def values(option: str, texts: list[str] | None, names: Collection[str]) -> Values:
    """`value`, or `NAME=value` where tables have these names."""
    plain: list[str] = []
    named: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not names or not equals:
            plain.append(text)
            continue
        if name not in names:
            raise GamlpError(f"{option} {text}: nothing is called '{name}'", hint=f"there are: {', '.join(names)}")
        if name in named:
            raise GamlpError(f"{option} is given twice for '{name}'")
        named[name] = value
    if len(plain) > 1:
        raise GamlpError(f"{option} is given twice: '{plain[0]}' and '{plain[1]}'")
    return Values(plain[0] if plain else None, named)


def relation_ends(texts: list[str] | None) -> dict[str, tuple[str, str]]:
    """`NAME=SOURCE:TARGET` of every relation."""
    found: dict[str, tuple[str, str]] = {}
    for text in texts or []:
        name, _, ends = text.partition("=")
        source, _, target = ends.partition(":")
        if not (name and source and target):
            raise GamlpError(f"--join {text} is not NAME=SOURCE:TARGET", hint="for example --join writes=author:paper")
        if name in found:
            raise GamlpError(f"--join gives relation '{name}' twice")
        found[name] = source, target
    return found
