"""The recipes inside the package: what each name holds, and which one a dataset has for itself.

shipped/<dataset>/<recipe>.yaml is `<dataset>-<recipe>`, or `<recipe>` in the folder of general ones. names.yaml gives
some of them further names; additions.yaml puts the same few settings on top of several; defaults.yaml names those that
are taken without being asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from gamlp.recipe.settings_file import load_yaml

_GENERAL = "general"  # the folder of recipes that are of no dataset


def shipped_names() -> list[str]:
    """Names of the recipes inside the package: `<dataset>-<recipe>`, or `<recipe>` of a general one."""
    return sorted(_places())


def shipped_content(name: str) -> dict[str, Any] | None:
    """What the shipped recipe of this name says; None where there is none."""
    if (place := _places().get(name)) is None:
        return None
    path, addition = place
    content: dict[str, Any] = _load(f"{path}.yaml")
    return content if addition is None else _on_top(path, content, _additions()[path][addition])


def published_recipe(dataset: str) -> str | None:
    """The recipe that a dataset is run with where nobody asks for another: its settings are published."""
    recipe = _load("defaults.yaml").get(dataset)
    return None if recipe is None else f"{dataset}-{recipe}"


@cache
def _places() -> dict[str, tuple[str, str | None]]:
    """Each name's path below shipped/, without .yaml, and the addition on top of it."""
    found: dict[str, tuple[str, str | None]] = {}
    for dataset in (entry for entry in _folder().iterdir() if entry.is_dir()):
        for file in dataset.iterdir():
            path = f"{dataset.name}/{file.name.removesuffix('.yaml')}"
            found[_name(path)] = path, None
    for path, names in _load("names.yaml").items():
        found.update(dict.fromkeys(names, (path, None)))
    for path, additions in _additions().items():
        found.update({f"{_name(path)}-{addition}": (path, addition) for addition in additions})
    return found


@cache
def _additions() -> dict[str, dict[str, dict[str, Any]]]:
    """What is put on top of a recipe, by its path and the addition's name."""
    return {
        path: {name: content for name, content in group.items() if name != "onto"}
        for group in _load("additions.yaml")
        for path in group["onto"]
    }


def _on_top(path: str, content: dict[str, Any], addition: dict[str, Any]) -> dict[str, Any]:
    """Setting by setting; the addition's own `about`, after the name of what it is put on."""
    sections = {name: {**content.get(name, {}), **own} for name, own in addition.items() if name != "about"}
    return {**content, **sections, "about": f"As {_name(path)} (its sources are there). {addition['about']}"}


def _name(path: str) -> str:
    return path.removeprefix(f"{_GENERAL}/").replace("/", "-")


def _load(path: str) -> Any:
    return load_yaml((_folder() / path).read_text(encoding="utf-8"))


def _folder() -> Traversable:
    return resources.files("gamlp.recipe") / "shipped"
