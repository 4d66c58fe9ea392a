"""The plan of docs/design.md, held by tests: what lies where, what is named how, who imports from where."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import gamlp

SOURCE = Path(gamlp.__file__).parent
TESTS = Path(__file__).parent
AT_THE_ROOT = {"__init__.py", "arrays.py", "errors.py", "markup.py", "progress.py"}
# Folders of tests that stand for no room: suites that engines, models and peers must pass; inputs and kills by chance.
OF_NO_ROOM = {"conformance", "fuzz", "kills"}
# Folders without a door: they belong to the room around them.
PARTS_OF_A_ROOM = {"gamlp.cli.options", "gamlp.cli.show", "gamlp.graph.datasets.synthetic", "gamlp.training.ranks"}
LONGEST = 450  # lines


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    """`gamlp.graph.ingest` of gamlp/graph/ingest/__init__.py."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


ROOMS = {name_of(path) for path in files() if path.name == "__init__.py"} - {"gamlp"} - PARTS_OF_A_ROOM


def room_of(module: str) -> str:
    """The innermost room that a module lies in."""
    while module not in ROOMS and module != "gamlp":
        module = module.rpartition(".")[0]
    return module


def test_the_root_has_only_what_all_rooms_share() -> None:
    assert {path.name for path in SOURCE.glob("*.py")} == AT_THE_ROOT
    assert (SOURCE / "py.typed").exists()


def test_every_folder_of_modules_is_a_room_with_a_door() -> None:
    for path in files():
        assert (path.parent / "__init__.py").exists(), f"{path.parent} has no door"


def test_no_file_is_too_long() -> None:
    found = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files()}
    assert {name: lines for name, lines in found.items() if lines > LONGEST} == {}


def test_no_three_files_of_a_folder_share_a_prefix() -> None:
    """What they share is the name of a folder that was not made."""
    shared: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for path in files():
        if not path.name.startswith("_"):
            shared[path.parent, path.stem.partition("_")[0]].append(path.name)
    assert [names for names in shared.values() if len(names) > 2] == []


def test_no_class_is_defined_twice() -> None:
    defined: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(name_of(path))
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_name_of_a_door_hides_a_module(room: str) -> None:
    folder = SOURCE.parent.joinpath(*room.split("."))
    modules = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if path.is_dir()}
    door = importlib.import_module(room)
    for name in modules & set(getattr(door, "__all__", ())):
        assert inspect.ismodule(getattr(door, name)), f"{room}.{name} is a module and something else"


def imported(path: Path) -> set[str]:
    """Modules of gamlp that a file imports, or imports names from."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "gamlp"}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "gamlp":
            assert node.level == 0
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in names if is_module(name)}
            found |= modules | ({node.module} if names > modules else set())
    return found


@cache
def offered(room: str) -> set[str]:
    """Full names of what a door offers, modules among them."""
    if room not in ROOMS:
        return set()
    return {f"{room}.{name}" for name in getattr(importlib.import_module(room), "__all__", ())}


def is_module(name: str) -> bool:
    place = SOURCE.parent.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def may_import(importer: str, module: str) -> bool:
    """From a door, or from a file of the same room: the doors of rooms inside a room are for the others."""
    if module in ROOMS or module == "gamlp" or module in PARTS_OF_A_ROOM:
        return True
    room = room_of(module)
    same = importer.split(".")[:2] == module.split(".")[:2]
    return room == "gamlp" or same or module in offered(room)


def test_other_rooms_are_entered_by_their_doors() -> None:
    wrong = {
        (name_of(path), module)
        for path in files()
        for module in imported(path)
        if not may_import(name_of(path), module)
    }
    assert sorted(f"{importer} imports {module}" for importer, module in wrong) == []


def test_no_file_enters_its_own_room_by_the_door() -> None:
    """The door imports the file: a circle."""
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in files()
        for module in imported(path)
        if module in ROOMS and f"{name_of(path)}.".startswith(f"{module}.") and path.name != "__init__.py"
    ]
    assert wrong == []


def test_tests_lie_as_what_they_test() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}
    rooms = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py")}
    assert {folder for folder in folders if folder.parts[0] not in OF_NO_ROOM} - rooms == set()
