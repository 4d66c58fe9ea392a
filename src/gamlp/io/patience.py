"""Calls to a store elsewhere, made again where they fail: a network loses one now and then."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from gamlp.errors import GamlpError

R = TypeVar("R")
_LOG = logging.getLogger("gamlp.io")
WAITS = (0.2, 1.0, 4.0)  # seconds before a call is made again; after the last one it has failed
# Answers, and mistakes of ours: to ask again would not change them.
_FINAL = (FileNotFoundError, NotADirectoryError, FileExistsError, PermissionError, IsADirectoryError,
          GamlpError, NotImplementedError, MemoryError, TypeError, ValueError, AttributeError)  # fmt: skip


def patiently(call: Callable[[], R], about: str) -> R:
    """What a call gives; one that fails is made again after a while, a bounded number of times, and told in the log."""
    for wait in WAITS:
        try:
            return call()
        except _FINAL:
            raise
        except Exception as error:  # libraries of stores have errors of their own kinds
            pause = wait * random.uniform(0.5, 1.0)  # tasks that failed together do not come again together
            _LOG.warning("%s: %s; asked again in %.1f s", about, shortly(error), pause)
            time.sleep(pause)
    return call()


def shortly(error: BaseException) -> str:
    """An error's message in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
