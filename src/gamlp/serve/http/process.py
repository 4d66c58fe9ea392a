"""What a process sets for a server: its event loop, turns of its threads, open files, lines on stderr, garbage."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_SWITCH = 0.0005  # seconds that one thread may keep Python's lock from the other: 5 ms would be seen by clients
_FILES = 65_536


@contextmanager
def told_on_stderr(access: bool) -> Iterator[None]:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("gamlp: %(asctime)s: %(message)s", "%Y-%m-%d %H:%M:%S"))
    loggers = {"gamlp.serve": logging.INFO, "uvicorn.error": logging.ERROR}
    if access:
        loggers["uvicorn.access"] = logging.INFO
    before = {}
    for name, level in loggers.items():
        logger = logging.getLogger(name)
        before[logger] = logger.level, logger.propagate
        logger.setLevel(level)
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, (level, propagate) in before.items():
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


@contextmanager
def short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def keep_as_it_is() -> None:
    """What is here now stays: looking for garbage among it, a tenth of a second, would hold up answers ever again."""
    gc.collect()
    gc.freeze()


def allow_files() -> None:
    """A connection is an open file: as many as the system lets this process have."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
