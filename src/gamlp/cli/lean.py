"""Imports that a command does not need, put off: they take longer than a list of verbs or the labels of a few rows.

torch registers how each of its operators treats tensors without data (0.4 s), for its compiler alone; the import of
the compiler brings that back. Arrow looks for pandas at its first array (0.3 s), to know frames when it sees them; what
reads or writes frames asks for it again by itself. typer imports rich's Markdown and tracebacks to show any help, and
shows neither (0.1 s).
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_REGISTRATIONS = "torch._meta_registrations"
_COMPILER = ("torch._dynamo", "torch._inductor")


class _Empty(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        pass


class _PutOff(MetaPathFinder):
    """Finds nothing in the place of torch's registrations, until its compiler is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name == _REGISTRATIONS:
            return ModuleSpec(name, _Empty())
        if name in _COMPILER and self in sys.meta_path:
            sys.meta_path.remove(self)
            if sys.modules.pop(_REGISTRATIONS, None) is not None:
                importlib.import_module("torch._meta_registrations")
        return None


class _Absent(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


@contextmanager
def lean_imports() -> Iterator[None]:
    """Around the imports of torch and Arrow; what is there already stays as it is."""
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, _PutOff())
    if "pandas" not in sys.modules:
        _look_for_no_pandas()
    gc.disable()  # modules are no garbage: looking for it among them takes a tenth of their import
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def lean_help() -> Iterator[None]:
    """Around the import of what shows help; whoever asks for the real modules later gets them."""
    put_off = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
    stubs = {name: ModuleType(name) for name in put_off if name not in sys.modules}
    for name, stub in stubs.items():
        setattr(stub, put_off[name], object)
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name, stub in stubs.items():
            if sys.modules.get(name) is stub:
                del sys.modules[name]


def _look_for_no_pandas() -> None:
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        import pyarrow as pa

        pa.array([0])  # it looks once
    finally:
        sys.meta_path.remove(absent)
