"""What a machine gives to a run, and engines by name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gamlp.errors import GamlpError
from gamlp.io import find_plugins, load_plugin

if TYPE_CHECKING:
    from gamlp.run.engine import Engine

# Named and not imported: Spark stands above this room, and is an extra.
ENGINES = {"local": "gamlp.run.engine:LocalEngine", "spark": "gamlp.spark.engine:SparkEngine"}


_GROUP = "gamlp.engines"  # of entry points


@dataclass(frozen=True)
class Resources:
    """What is there to work with: none of it changes a recipe or a result.

    `processes` train together, on shares of the rows. `engine` is the name of an engine and `settings` are its own
    (Spark: master, conf, blocks). `tls` are the certificate and the key of a parameter server, PEM.
    """

    memory: int | None = None
    threads: int | None = None
    device: str = "auto"
    processes: int = 1
    engine: str = "local"
    settings: Mapping[str, Any] = field(default_factory=dict)
    tls: tuple[Path, Path] | None = None

    def open_engine(self) -> Engine:
        """The engine; whoever asked for it closes it."""
        opened: Engine = find_engine(self.engine)(self)
        return opened


LOCAL = Resources()


def engine_names() -> list[str]:
    """Engines of gamlp and of plug-ins."""
    return [*ENGINES, *find_plugins(_GROUP, ENGINES)]


def find_engine(name: str) -> Any:
    """What makes an engine from `Resources`, by its name."""
    if name in ENGINES:
        module, _, symbol = ENGINES[name].partition(":")
        return getattr(importlib.import_module(module), symbol)
    brought = find_plugins(_GROUP, ENGINES)
    if name in brought:
        return load_plugin(brought[name])
    near = difflib.get_close_matches(name, engine_names(), 1)
    suggestion = f": did you mean '{near[0]}'?" if near else ""
    raise GamlpError(f"there is no engine '{name}'{suggestion}", hint=f"choose from {', '.join(engine_names())}")
