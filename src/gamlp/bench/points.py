"""Points of a measurement that is no grid: each is kept as a small file, so that the next call resumes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gamlp.bench.work import Work
from gamlp.errors import GamlpError
from gamlp.graph.manifest import digest
from gamlp.io import write_json

_FORMAT = 1  # raised when the same settings would give another result


@dataclass(frozen=True)
class Points:
    """Points of one kind; settings are all that decides a point's result."""

    work: Work
    kind: str

    def path(self, settings: Any) -> Path:
        return self.work.folder / "points" / self.kind / f"{digest([_FORMAT, settings])}.json"

    def known(self, settings: Any) -> Any:
        """What was found before, or None."""
        path = self.path(settings)
        return json.loads(path.read_text())["found"] if path.exists() else None

    def keep(self, settings: Any, found: Any) -> None:
        path = self.path(settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        versions = {name: version(name) for name in ("gamlp", "torch", "numpy")}
        content = {"settings": settings, "found": found, "date": time.strftime("%Y-%m-%d %H:%M"), "versions": versions}
        write_json(path, content)

    def found(self, settings: Any, make: Callable[[], Any]) -> Any:
        """What was found before, else what `make` finds now; None when the time is over."""
        known = self.known(settings)
        if known is None and not self.work.over:
            known = make()
            self.keep(settings, known)
        return known


def chosen(kind: str, names: Iterable[str], wanted: tuple[str, ...] | None) -> list[str]:
    """Those names of a table that are wanted, in its order; another one is refused."""
    known = list(names)
    for name in wanted or ():
        if name not in known:
            raise GamlpError(f"the table has no {kind} '{name}'", hint=f"it has {', '.join(known)}")
    return [name for name in known if wanted is None or name in wanted]
