"""What a page of results says of its making."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_VERSIONED = ("gamlp", "torch", "numpy", "torch-geometric")


@dataclass(frozen=True)
class Stamp:
    """Of a page: the command that makes it, when and on what it was measured."""

    command: str
    date: str
    machine: str
    versions: dict[str, str]

    @classmethod
    def now(cls, command: str) -> Stamp:
        """Here and today."""
        versions = {"Python": platform.python_version()}
        for name in _VERSIONED:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:  # an extra that is not installed
                continue
        machine = f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"
        return cls(command, time.strftime("%Y-%m-%d"), machine, versions)


def _processor() -> str:
    """Its model where the system tells, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
