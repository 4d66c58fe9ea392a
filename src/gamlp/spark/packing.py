"""An archive for `spark.archives`: gamlp and what it needs, for executors that have a bare Python."""

from __future__ import annotations

import difflib
import gzip
import importlib.metadata
import importlib.util
import io
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gamlp.errors import GamlpError
from gamlp.progress import Progress, silent

ENDINGS = (".tar.gz", ".tgz")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LIBRARIES = "lib"  # in the archive
_ON_EXECUTORS = {"pyspark", "py4j"}  # Spark brings its own, of its own version
# What is for building and for testing is never imported by a task.
_LEFT_ASIDE = ("torch/include/", "torch/share/", "torch/test/", "pyarrow/include/", "pyarrow/tests/", "pandas/tests/")
_LAUNCHER = """#!/bin/sh
# Python with the libraries beside: Spark calls it by spark.pyspark.python
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
PYTHONPATH="$here/{libraries}${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec {python} "$@"
"""


@dataclass(frozen=True)
class Packed:
    """What was written, and how Spark is told of it."""

    path: Path
    bytes: int
    files: int
    distributions: tuple[str, ...]

    @property
    def conf(self) -> dict[str, str]:
        """Options of Spark."""
        return {"spark.archives": f"{self.path}#gamlp", "spark.pyspark.python": "./gamlp/bin/python"}


def pack(
    out: str | Path,
    *,
    also: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    python: str | None = None,
    progress: Progress = silent,
) -> Packed:
    """Write an archive of gamlp, of all it requires, and of a `bin/python` that finds them.

    out: ends with .tar.gz or .tgz; must not exist.
    also: other distributions that are installed here, with what they require: s3fs.
    leave_out: distributions that executors have already: torch.
    python: the executors' Python, a name or a path there. (default: python of this version, such as python3.11)

    Spark's own pyspark is left out. Executors need the same system and the same version of Python as this machine.
    """
    path = Path(out)
    if not path.name.endswith(ENDINGS):
        raise GamlpError("is no archive that Spark unpacks", file=path, hint=f"end it with {' or '.join(ENDINGS)}")
    if path.exists():
        raise GamlpError("already exists", file=path, hint="choose another --out")
    if not path.absolute().parent.is_dir():
        raise GamlpError("there is no such folder", file=path.parent, hint="make it first")
    interpreter = python or f"python{sys.version_info.major}.{sys.version_info.minor}"
    if re.search(r"[^\w./+-]", interpreter):
        raise GamlpError(f"'{interpreter}' is no Python", hint="give --python a name or a path without spaces")
    wanted, must = ["gamlp", "pandas", *also], {"gamlp", *also}
    names = required(wanted, {*_ON_EXECUTORS, *map(_plain, leave_out)}, must)
    every = {*_ON_EXECUTORS, *required(wanted, _ON_EXECUTORS, must)} if leave_out else set()
    if unknown := [name for name in leave_out if _plain(name) not in every]:
        near = difflib.get_close_matches(_plain(unknown[0]), every, 1)
        hint = f"did you mean '{near[0]}'?" if near else "give --leave-out the name that pip knows"
        raise GamlpError(f"'{unknown[0]}' would not be in the archive", hint=hint)
    found = sorted({name: source for one in names for name, source in _files(one)}.items())
    beside = path.with_name(f".{path.name}.part")
    try:
        with gzip.GzipFile(beside, "wb", compresslevel=1, mtime=0) as packed, tarfile.open(
            fileobj=packed, mode="w", format=tarfile.PAX_FORMAT
        ) as archive:  # fmt: skip
            launcher = _LAUNCHER.format(libraries=_LIBRARIES, python=interpreter).encode()
            _add(archive, "bin/python", io.BytesIO(launcher), len(launcher), 0o755)
            for number, (name, source) in enumerate(found):
                with source.open("rb") as content:
                    _add(archive, f"{_LIBRARIES}/{name}", content, source.stat().st_size, 0o755)
                progress("pack", number + 1, len(found), "files")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return Packed(path.absolute(), path.stat().st_size, len(found) + 1, tuple(names))


def required(names: Sequence[str], without: set[str], must: set[str]) -> list[str]:
    """These distributions and all that they require here, by name; those that `must` be there are missed."""
    found: dict[str, None] = {}
    waiting = [_plain(name) for name in names]
    needed = {_plain(name) for name in must}
    while waiting:
        name = waiting.pop(0)
        if name in found or name in without:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError as error:
            if name in needed:
                raise GamlpError(f"'{name}' is not installed here", hint=f"run: pip install {name}") from error
            continue  # of another system or another Python: whoever installed the others knew
        found[name] = None
        for line in requires:
            requirement, _, marker = line.partition(";")
            if "extra ==" not in marker and (match := _NAME.match(requirement)):
                waiting.append(_plain(match[0]))
    return sorted(found)


def _plain(name: str) -> str:
    """One spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """Files of a distribution by their place among libraries; of one that is installed in place, its folder."""
    distribution = importlib.metadata.distribution(name)
    for one in distribution.files or []:
        place, source = PurePosixPath(one.as_posix()), Path(str(distribution.locate_file(one)))
        if place.is_absolute() or ".." in place.parts or not _is_wanted(place) or not source.is_file():
            continue
        if name == "gamlp" and not place.parts[0].endswith(".dist-info"):
            continue
        yield str(place), source
    if name == "gamlp":
        spec = importlib.util.find_spec("gamlp")
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        for source in folder.rglob("*"):
            place = PurePosixPath("gamlp", *source.relative_to(folder).parts)
            if source.is_file() and _is_wanted(place):
                yield str(place), source
        # Of an install in place the compiled kernel lies among libraries, not beside its sources.
        native = importlib.util.find_spec("gamlp.kernel._native")
        if native is not None and native.origin is not None and not Path(native.origin).is_relative_to(folder):
            yield f"gamlp/kernel/{Path(native.origin).name}", Path(native.origin)


def _is_wanted(place: PurePosixPath) -> bool:
    text = str(place)
    return (
        "__pycache__" not in place.parts and not text.startswith(_LEFT_ASIDE) and place.suffix not in (".pyc", ".pth")
    )


def _add(archive: tarfile.TarFile, name: str, content: io.IOBase, size: int, mode: int) -> None:
    """The same bytes whoever packs them, and when."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    archive.addfile(entry, content)
