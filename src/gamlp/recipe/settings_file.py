"""Settings as people write them: YAML of plain values, in a file or after an equals sign."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from gamlp.errors import GamlpError

_LARGEST_FILE = 1 << 20
# Dates and numbers that are none are a ValueError of YAML's constructors, brackets without end a RecursionError.
_NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)


def load_yaml(text: str) -> Any:
    """Plain values of a text; never objects."""
    return yaml.load(text, _Loader)


def read_yaml(
    path: Path, what: str = "recipe", largest: int = _LARGEST_FILE, hint: str = "gamlp recipes lists the shipped ones"
) -> Any:
    """A YAML file as plain values; never objects. `hint`: where such a file comes from."""
    try:
        if path.stat().st_size > largest:
            raise GamlpError(f"is too large for a {what}", file=path)
        return load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GamlpError(f"there is no such {what}", file=path, hint=hint) from error
    except OSError as error:
        raise GamlpError(f"cannot be read ({error.strerror})", file=path) from error
    except _NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it is not text, or no such value"
        raise GamlpError(f"not YAML: {problem}", file=path, row=mark.line + 1 if mark else None) from error


def parse_value(text: str) -> Any:
    """A value as it would stand in YAML: `0.01`, `true`, `[0, 1]`."""
    try:
        return load_yaml(text)
    except _NOT_YAML as error:
        raise GamlpError(f"'{text}' is not a YAML value") from error


def parse_changes(pairs: list[str]) -> dict[str, Any]:
    """`["training.epochs=50"]` as changes of a recipe."""
    changes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise GamlpError(f"'{pair}' sets nothing", hint="write --set KEY=VALUE, such as training.epochs=100")
        changes[key.strip()] = parse_value(value)
    return changes


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML in which 1e-3 is a number, and without aliases, which can make a small file huge."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", mark)
        return super().compose_node(parent, index)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)
