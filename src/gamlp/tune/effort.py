"""What training costs: counted, so that the same graph and seed give the same choice on a fast machine and a slow one.

Seconds are those of one core of an ordinary machine; how they compare is what matters. The time that really goes by is
looked at too, by `Clock`, which ends what takes much longer than was counted.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

from gamlp.io import write_json
from gamlp.training import Prepared

_STEP = 0.004  # seconds that a step of training takes however small it is
_SPEED = 2e10  # multiplications a second
_PASSES = 3  # forward, backward, update, against one to look at validation rows


def epoch_seconds(prepared: Prepared, weights: int) -> float:
    """Of one epoch, counted: every weight is multiplied once a row, every number of the hops read a few times."""
    shape, settings = prepared.shape, prepared.recipe.training
    numbers = shape.channels * (shape.hops + 1) * shape.features + (shape.label_hops + 1) * shape.classes
    rows, valid = len(prepared.train), 0 if prepared.valid is None else len(prepared.valid)
    steps = math.ceil(rows / settings.batch_size) + math.ceil(valid / settings.batch_size) / _PASSES
    return steps * _STEP + (_PASSES * rows + valid) * (2 * weights + 4 * numbers) / _SPEED


class Clock:
    """Seconds that a portfolio has taken, over all its sittings: kept in a file, so that a limit holds for all of them.

    `limit`: of all work; None: none is given.
    """

    def __init__(self, path: Path, limit: float | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._path, self._now = path, now
        self._before, self._begun = _spent(path), now()
        self.deadline = math.inf if limit is None else limit

    @property
    def spent(self) -> float:
        return self._before + self._now() - self._begun

    @property
    def left(self) -> float:
        return self.deadline - self.spent

    @property
    def over(self) -> bool:
        return self.left <= 0

    def allow(self, until: float) -> None:
        """Nothing shall go on after so many seconds spent, nor after the limit."""
        self.deadline = min(self.deadline, until)

    def keep(self) -> None:
        """Write down what was spent: asked for after every step."""
        write_json(self._path, {"spent": self.spent})


def _spent(path: Path) -> float:
    """Of earlier sittings; a file that somebody spoilt counts as none."""
    try:
        found = json.loads(path.read_bytes())["spent"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0.0
    return float(found) if isinstance(found, int | float) and 0 <= found < 1e9 else 0.0
