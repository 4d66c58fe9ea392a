"""What a person asks of the choice of a model: a preset, a time limit, a metric."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from gamlp.errors import GamlpError
from gamlp.recipe import Metric
from gamlp.tune.choosing import PRESETS, Preset
from gamlp.tune.study import load_optuna

_UNITS = {"s": 1, "m": 60, "h": 3600}
_TIME = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([smh])\s*")


@dataclass(frozen=True)
class AskedChoice:
    """Checked. `time_limit` is in seconds; the metric `auto` is one that the labels decide."""

    preset: Preset = "default"
    time_limit: float | None = None
    metric: str = "auto"

    @classmethod
    def of(
        cls, preset: str | None = None, time_limit: str | float | None = None, metric: str | None = None
    ) -> AskedChoice:
        """What was given, before any work is done; what cannot be meant is refused in a sentence.

        >>> AskedChoice.of("best", "30m", "roc_auc")
        AskedChoice(preset='best', time_limit=1800.0, metric='roc_auc')
        """
        _one_of("preset", preset or "default", PRESETS)
        _one_of("metric", metric or "auto", get_args(Metric))
        limit = None if time_limit is None else seconds_of(time_limit)
        asked = cls(next(one for one in PRESETS if one == (preset or "default")), limit, metric or "auto")
        if asked.preset == "fast" and asked.time_limit is not None:
            raise GamlpError("a time limit is for the presets default and best", hint="fast trains one model")
        if asked.preset == "best":
            load_optuna()  # who has no search is told now, and not after half of the time
        return asked

    def left(self, spent: float) -> float | None:
        """Of the time limit, when so many seconds are spent; a second at least, since something must be trained."""
        return None if self.time_limit is None else max(1.0, self.time_limit - spent)


def seconds_of(limit: str | float) -> float:
    """A time as people write it, or seconds.

    >>> seconds_of("90s"), seconds_of("1.5h"), seconds_of(20)
    (90.0, 5400.0, 20.0)
    """
    if isinstance(limit, str):
        match = _TIME.fullmatch(limit)
        seconds = math.nan if match is None else float(match[1]) * _UNITS[match[2]]
    else:
        seconds = math.nan if isinstance(limit, bool) or not isinstance(limit, int | float) else float(limit)
    if not 0 < seconds < math.inf:  # nor NaN
        raise GamlpError(f"'{limit}' is not a time", hint="write a number with a unit, such as 90s, 30m or 2h")
    return seconds


def _one_of(what: str, given: str, known: Collection[str]) -> None:
    if given not in known:
        near = difflib.get_close_matches(given, list(known), 1)
        did = f": did you mean '{near[0]}'?" if near else ""
        raise GamlpError(f"there is no {what} '{given}'{did}", hint=f"choose from {', '.join(known)}")
