"""Folders that fits and transforms work in: each new, gone when it is released or when this process ends."""

from __future__ import annotations

import atexit
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.spark.params import GAMLPParams
from gamlp.spark.sessions import is_here

_passing: dict[str, Place] = {}  # by URL: what goes when this process ends
_temporary: set[str] = set()  # of these, what goes in any case


def work_place(spark: Any, params: GAMLPParams) -> Place:
    """A new folder in workDir; without one, a temporary folder, where driver and executors see the same disk."""
    given = params.getWorkDir()
    if given is not None:
        place = Place.of(given).resolved() / f"gamlp-{uuid.uuid4().hex[:12]}"
    elif is_here(_conf(spark, "spark.master")):
        local = Path(_conf(spark, "spark.local.dir").partition(",")[0])
        inside = local if local.is_absolute() and local.is_dir() else None
        place = Place.of(tempfile.mkdtemp(prefix="gamlp-", dir=inside)).resolved()
        _temporary.add(place.url)
    else:
        raise GamlpError(
            "graphs and hops need a folder that driver and executors see",
            hint="name one, or a URL: GAMLPClassifier(workDir=…)",
        )
    _passing[place.url] = place
    return place


def kept_after_exit(place: Place) -> None:
    """In workDir: a saved model names the folder of its fit, and finds its hops there later."""
    if (url := place.resolved().url) not in _temporary:
        _passing.pop(url, None)


@atexit.register
def remove_passing() -> None:
    """Remove what nobody released."""
    while _passing:
        _, place = _passing.popitem()
        with suppress(Exception):  # a store that does not answer any more is no reason to fail at the end
            place.remove()


def _conf(spark: Any, key: str) -> str:
    try:
        return str(spark.conf.get(key, ""))
    except Exception:  # Connect keeps some settings to itself
        return ""
