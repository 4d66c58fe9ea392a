"""One case: a command on files made for it, what it may leave, and how its end is judged."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.forked import Done, gamlp

LIMIT = 120.0  # seconds a case may take on a busy machine; nearly all take less than one
REFUSED, RIGHT, WRONG, TRACEBACK, CRASH, HANG, LEFTOVER, UNKIND = VERDICTS = (
    "refused in a sentence",
    "accepted and right",
    "accepted and wrong",
    "traceback",
    "crash",
    "hang",
    "leftover",
    "refused without a sentence, or though it is right",
)
GOOD = (REFUSED, RIGHT)
_HALF_WRITTEN = re.compile(r"partial|\.tmp|\.new$|buckets")
_LONGEST = 1500  # characters that a refusal may have, usage included

# What is wrong with an accepted case; None where it is right.
Check = Callable[[Done], str | None]


@dataclass(frozen=True)
class Case:
    """`out` is what the command writes and may be there only if it ends well; `valid` must be accepted."""

    arguments: list[str]
    check: Check
    out: tuple[Path, ...] = ()
    valid: bool = False
    resumable: bool = False  # a refusal may leave `out`, to go on from


class Family(Protocol):
    """Cases of one sort: the same draw makes the same case."""

    def __call__(self, draw: random.Random, folder: Path) -> Case: ...


@dataclass(frozen=True)
class Verdict:
    """What became of a case; `why` where it is no good one."""

    name: str
    verdict: str
    why: str = ""
    arguments: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.verdict in GOOD


def run(name: str, family: Family, seed: int, folder: Path) -> Verdict:
    """Make the case in an empty folder, run it, judge it."""
    case = family(random.Random(f"{seed}:{name}"), folder)
    before = _names(folder)
    try:
        done = gamlp(*case.arguments, folder=folder, timeout=LIMIT, OMP_NUM_THREADS="1")
    except TimeoutError as error:
        return Verdict(name, HANG, str(error), case.arguments)
    verdict, why = _judge(case, done, sorted(_names(folder) - before), folder)
    return Verdict(name, verdict, why, case.arguments)


def _judge(case: Case, done: Done, new: list[str], folder: Path) -> tuple[str, str]:
    said = done.stderr.strip()
    if done.returncode < 0 or done.returncode > 128:
        return CRASH, f"ended by signal {done.returncode}: {said[-500:]}"
    if "Traceback (most recent call last)" in done.stderr + done.stdout or done.returncode not in (0, 2):
        return TRACEBACK, f"code {done.returncode}: {said[-1500:]}"
    half = [name for name in new if _HALF_WRITTEN.search(name)]
    if half:
        return LEFTOVER, f"code {done.returncode}, left {half[:5]}: {said[-300:]}"
    if done.returncode == 0:
        wrong = case.check(done)
        return (RIGHT, "") if wrong is None else (WRONG, wrong)
    left = [str(path.relative_to(folder)) for path in case.out if path.exists() or path.is_symlink()]
    if left and not case.resumable:
        return LEFTOVER, f"refused, and left {left}: {said[-300:]}"
    if case.valid:
        return UNKIND, f"valid, and refused: {said[-500:]}"
    if not said or len(said) > _LONGEST or not re.search(r"^gamlp: |Error", said, re.MULTILINE):
        return UNKIND, said[:_LONGEST]
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", said):
        return UNKIND, f"control characters: {said[-300:]!r}"
    return REFUSED, said


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
