"""What other installed packages bring, by name: models, datasets and engines, each group through entry points."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gamlp.errors import GamlpError


def find_plugins(group: str, built_in: Iterable[str] = ()) -> dict[str, EntryPoint]:
    """Entry points of a group by name, none of them imported yet; a built-in name is never replaced.

    A package names what it brings in its own pyproject.toml:

        [project.entry-points."gamlp.models"]
        my-model = "my_package.models:MyModel"
    """
    taken = set(built_in)
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name not in taken:
            found.setdefault(entry.name, entry)
    return found


def load_plugin(entry: EntryPoint) -> Any:
    """What an entry point names, imported now; one that cannot be imported is said in one sentence."""
    try:
        return entry.load()
    except Exception as error:  # a package of somebody else: anything may go wrong in it
        package = entry.dist.name if entry.dist is not None else entry.value
        raise GamlpError(
            f"the plug-in '{entry.name}' of {package} cannot be imported ({type(error).__name__}: {error})",
            hint=f"mend or remove {package}",
        ) from error
