"""What training costs: counted, so that the same graph and seed give the same choice on a fast machine and a slow one.

Seconds are those of one core of an ordinary machine; how they compare is what matters. The time that really goes by is
looked at too, by `Clock`, which ends what takes much longer than was counted.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gamlp.io import write_json
from gamlp.training import Prepared

_STEP = 0.004  # seconds that a step of training takes however small it is
_SPEED = 6e10  # multiplications and additions a second
_NUMBER = 50  # a number of the hops is read, dropped, weighed and added, from memory: as long as so many of these
_TRAINING = 0.85  # of a limit
_PASSES = 3  # forward, backward, update, against one to look at validation rows


def epoch_seconds(prepared: Prepared, weights: int) -> float:
    """Of one epoch, counted: every weight is multiplied once a row, every number of its hops brought in."""
    shape, settings = prepared.shape, prepared.recipe.training
    numbers = shape.channels * (shape.hops + 1) * shape.features + (shape.label_hops + 1) * shape.classes
    rows, valid = len(prepared.train), 0 if prepared.valid is None else len(prepared.valid)
    steps = math.ceil(rows / settings.batch_size) + math.ceil(valid / settings.batch_size) / _PASSES
    return steps * _STEP + (_PASSES * rows + valid) * (2 * weights + _NUMBER * numbers) / _SPEED


class Clock:
    """Seconds that a portfolio has taken, over all its sittings: kept in a file, so that a limit holds for all of them.

    `spent` is time that went by, `worked` is what processors did of it: others who share the machine do not count.
    `limit`: of all that is spent; None: none is given. Training ends before it, since what follows takes time too.
    """

    def __init__(
        self,
        path: Path,
        limit: float | None = None,
        now: Callable[[], float] = time.monotonic,
        work: Callable[[], float] = time.process_time,
    ) -> None:
        self._path, self._now, self._work = path, now, work
        self._before, self._begun, self._begun_work = _kept(path), now(), work()
        self.limit = math.inf if limit is None else limit
        self._most_work = math.inf
        self.allow()

    @property
    def spent(self) -> float:
        return self._before["spent"] + self._now() - self._begun

    @property
    def worked(self) -> float:
        return self._before["worked"] + self._work() - self._begun_work

    @property
    def over(self) -> bool:
        """Whether nothing more shall be trained."""
        return self.spent >= self._until or self.worked >= self._most_work

    def allow(self, share: float = 1.0, work: float = math.inf) -> None:
        """Training may go on until this share of the limit, or until so much was worked."""
        self._until, self._most_work = min(share, _TRAINING) * self.limit, work

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Add what is worked inside to what is `noted` under a name."""
        begun = self.worked
        try:
            yield
        finally:
            self._before[name] = self.noted(name) + self.worked - begun
            self.keep()

    def noted(self, name: str) -> float:
        return self._before.get(name, 0.0)

    def keep(self) -> None:
        """Write down what was spent: asked for after every step."""
        write_json(self._path, {**self._before, "spent": self.spent, "worked": self.worked})


def _kept(path: Path) -> dict[str, float]:
    """Of earlier sittings; a file that somebody spoilt counts as none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        found = {}
    known = found.items() if isinstance(found, dict) else ()
    numbers = {name: float(value) for name, value in known if isinstance(value, int | float) and 0 <= value < 1e9}
    return {"spent": 0.0, "worked": 0.0} | numbers
