"""Counts over ranges of rows that add up: taken here in one go, or by tasks that leave their part as a file."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io.parallel import Tasks
from gamlp.io.place import Place
from gamlp.progress import Progress, silent

MOST_TASKS = 1024  # answers that are merged one after the other

State = dict[str, Array]  # what was counted, by name
Ranges = Sequence[tuple[int, int]]
RangeWork = Callable[[Ranges], State]  # may be sent to another process, and run twice


class TakeTally(Protocol):
    """Has ranges counted, here or elsewhere: the answers in the order of the ranges, which whoever asked adds up."""

    def __call__(
        self, work: RangeWork, ranges: Ranges, stage: str = "", progress: Progress = silent
    ) -> Iterator[State]: ...


def tally_here(work: RangeWork, ranges: Ranges, stage: str = "", progress: Progress = silent) -> Iterator[State]:
    """All ranges at once in this process: one answer, none where there is no range."""
    if len(ranges):
        yield work(ranges)


def tally_by_tasks(
    tasks: Tasks,
    folder: Place,
    work: RangeWork,
    ranges: Ranges,
    stage: str = "",
    progress: Progress = silent,
    *,
    most_tasks: int = MOST_TASKS,
) -> Iterator[State]:
    """Some ranges a task; each answer is a file in `folder`, read when its turn comes: never are all of them held."""
    if not len(ranges):
        return
    count = min(len(ranges), most_tasks)
    cuts = (number * len(ranges) // count for number in range(count + 1))
    groups = [tuple(ranges[begin:end]) for begin, end in pairwise(cuts)]
    own = folder / f".tally-{uuid.uuid4().hex[:12]}"
    own.make()
    try:
        tasks(partial(_leave, work, groups, own), range(len(groups)), stage, progress)
        for number in range(len(groups)):
            yield _taken(own / f"{number}.npz", folder)
    finally:
        own.remove()


def _leave(work: RangeWork, groups: Sequence[Ranges], folder: Place, number: int) -> dict[str, Any]:
    data = io.BytesIO()
    np.savez(data, **work(groups[number]))  # type: ignore[arg-type]
    (folder / f"{number}.npz").put(data.getbuffer())
    return {"bytes": data.getbuffer().nbytes}


def _taken(place: Place, folder: Place) -> State:
    try:
        data = place.read()
    except FileNotFoundError as error:
        raise GamlpError(
            "what the tasks counted is not here", file=folder, hint="give a folder that all machines share"
        ) from error
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def named_under(prefix: object, state: Mapping[str, Array]) -> State:
    """The same, every name below a prefix.

    >>> named_under("seed", {"rows": np.array(3)})
    {'seed/rows': array(3)}
    """
    return {f"{prefix}/{name}": values for name, values in state.items()}


def part_under(state: Mapping[str, Array], prefix: object) -> State:
    """What `named_under` put below a prefix."""
    begin = f"{prefix}/"
    return {name[len(begin) :]: values for name, values in state.items() if name.startswith(begin)}


def row_ranges(count: int, size: int) -> list[tuple[int, int]]:
    """Rows 0..count in ranges of `size`.

    >>> row_ranges(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(begin, min(begin + size, count)) for begin in range(0, count, size)]
