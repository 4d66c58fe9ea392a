"""What a machine gives to a run, and engines by name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.run.engine import Engine

ENGINES = {"local": "gamlp.run.engine:LocalEngine", "spark": "gamlp.spark.engine:SparkEngine"}


@dataclass(frozen=True)
class Resources:
    """What is there to work with: none of it changes a recipe or a result.

    `processes` train together, on shares of the rows. `engine` is the name of an engine and `settings` are its own
    (Spark: master, conf, blocks).
    """

    memory: int | None = None
    threads: int | None = None
    device: str = "auto"
    processes: int = 1
    engine: str = "local"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def open_engine(self) -> Engine:
        """The engine; whoever asked for it closes it."""
        opened: Engine = find_engine(self.engine)(self)
        return opened


LOCAL = Resources()


def find_engine(name: str) -> Any:
    """The class of an engine, by its name."""
    if name in ENGINES:
        module, _, symbol = ENGINES[name].partition(":")
        return getattr(importlib.import_module(module), symbol)
    near = difflib.get_close_matches(name, ENGINES, 1)
    suggestion = f": did you mean '{near[0]}'?" if near else ""
    raise GamlpError(f"there is no engine '{name}'{suggestion}", hint=f"choose from {', '.join(ENGINES)}")
