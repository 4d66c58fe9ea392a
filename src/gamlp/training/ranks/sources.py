"""The code of a model of one's own, sent along as text to processes that never saw it."""

from __future__ import annotations

import ast
import importlib.util
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from gamlp.errors import GamlpError
from gamlp.recipe import is_own

MOST_BYTES = 16 << 20
Sources = dict[str, str]  # path below a folder of Python's search path → text


def sources_of(model: str) -> Sources:
    """The module that a model's name leads to, or all of its package, and what these import from the same folder.

    What is installed (in Python's own folders) is not sent: it must be installed on the other side too.
    """
    found: Sources = {}
    if not is_own(model):
        return found
    wanted, home = [model.partition(":")[0].partition(".")[0]], None
    while wanted:
        name = wanted.pop()
        files = _files_of(name)
        if not files or name == "gamlp" or _installed(files[0][1]):
            continue
        folder = files[0][1].parents[len(files[0][0].parts) - 1]
        if home not in (None, folder) or files[0][0].as_posix() in found:
            continue
        home = folder
        for relative, path in files:
            found[relative.as_posix()] = text = path.read_text(encoding="utf-8")
            wanted += _imports(text)
        if sum(map(len, found.values())) > MOST_BYTES:
            raise GamlpError(f"the package of model '{model}' is too large to be sent", hint="install it everywhere")
    return found


def _files_of(name: str) -> list[tuple[PurePosixPath, Path]]:
    """Every .py file of a top module or package, with its path from the folder that is searched."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        path = Path(spec.origin or "")
        return [(PurePosixPath(path.name), path)] if path.suffix == ".py" else []
    folders = [Path(place) for place in spec.submodule_search_locations]
    return [
        (PurePosixPath(name, *path.relative_to(folder).parts), path)
        for folder in folders[:1]
        for path in sorted(folder.rglob("*.py"))
    ]


def _installed(path: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(place is not None and path.resolve().is_relative_to(Path(place).resolve()) for place in places)


def _imports(text: str) -> list[str]:
    """Top names of what a module imports."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module.partition(".")[0])
    return names


@contextmanager
def unpacked(sources: Sources) -> Iterator[None]:
    """Importable while the block runs, from a folder that only this process knows.

    What it knows under the same names is forgotten before and after: a worker of Spark serves one job after another.
    """
    if not sources:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="gamlp-code-") as folder:
        for name, text in sources.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise GamlpError(f"'{name}' is no path of a module")
            place = Path(folder, *path.parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)  # before an older copy of the same module
        importlib.invalidate_caches()
        tops = {PurePosixPath(name).parts[0].removesuffix(".py") for name in sources}
        _forget(tops)
        try:
            yield
        finally:
            _forget(tops)
            sys.path.remove(folder)


def _forget(tops: set[str]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]
