"""What becomes of executors meanwhile: lost ones and waits, told on the terminal and in the log."""

from __future__ import annotations

import logging
import time
import warnings
from contextlib import suppress
from typing import Any

from gamlp.errors import GamlpError

FOR_EXECUTORS = 300.0  # seconds in which executors may start
SAID_AFTER = 3.0  # seconds of waiting after which it is told
_EVERY = 1.0  # seconds between two looks at the executors
_LOG = logging.getLogger("gamlp.spark")
_LOG.addHandler(logging.NullHandler())  # whoever wants the log says where: the terminal hears of it anyway


def tell(sentence: str) -> None:
    """A line on the terminal, and one in the log `gamlp.spark`."""
    _LOG.warning(sentence)
    warnings.warn(sentence, UserWarning, stacklevel=2)


class ExecutorWatch:
    """Knows the executors of one application, and tells when one is gone."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._seen: dict[str, str] = {}
        self._looked = 0.0

    def look(self) -> None:
        """Tell of executors that were there at the last look and are not now; at most once a second."""
        now = time.monotonic()
        if now - self._looked < _EVERY:
            return
        self._looked = now
        with suppress(Exception):  # a context that ends meanwhile tells nothing more
            found = self.executors()
            for gone in sorted(self._seen.keys() - found):
                where = f"executor {gone} at {self._seen[gone]}"
                tell(f"{where} is lost, {len(found)} are left; what it was doing is done again")
            self._seen = found

    def executors(self) -> dict[str, str]:
        """Their addresses by id; Spark counts the driver among them."""
        found = self._context._jsc.sc().statusStore().executorList(True)
        each = (found.apply(number) for number in range(found.size()))
        return {str(one.id()): str(one.hostPort()) for one in each if one.id() != "driver"}


_watched: dict[str, ExecutorWatch] = {}


def watch_of(context: Any) -> ExecutorWatch:
    """One for each application: what is lost between two stages is noticed too."""
    application = str(context.applicationId)
    if application not in _watched:
        _watched.clear()  # there is one application at a time
        _watched[application] = ExecutorWatch(context)
    return _watched[application]


def wait_for_first(context: Any, seconds: float) -> None:
    """Until an executor is there; those that Spark starts only for a task (dynamic allocation) are not waited for."""
    if context.master.startswith("local") or context.getConf().get("spark.dynamicAllocation.enabled") == "true":
        return
    watch, begun, said = watch_of(context), time.monotonic(), False
    while not watch.executors():
        waited = time.monotonic() - begun
        if waited >= seconds:
            raise GamlpError(
                f"no executor has started within {seconds:g} s",
                hint="see --master and --spark-conf spark.executor.…; --executor-wait waits longer",
            )
        if not said and waited > SAID_AFTER:
            said = True
            tell(f"no executor has started yet: waiting up to {seconds:g} s")
        time.sleep(min(0.2, seconds))
