"""Rounds of kills: start a verb, end it at a moment drawn by chance, run it again, and look at what is there.

    python -m tests.kills.rounds --rounds 200

goes on with the rounds that were done before (build/kills), and writes docs/results/kills.md when all are done.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.forked import Done, Started
from tests.kills.verbs import VERBS, Verb, lay_out, make_inputs

ROOT = Path(__file__).parents[2]
_SIGNALS = (signal.SIGKILL, signal.SIGTERM)
_LONGEST = 300.0  # seconds
_GONE_ON_WITH = ("store", "run", "study", ".hops-")  # a thread may be writing in them while the process ends


@dataclass
class Round:
    """What became of one kill. `ended`: by the signal, after answering it, or by itself before."""

    verb: str
    number: int
    signal: str
    at: float
    ended: str = ""
    problems: list[str] = field(default_factory=list)


class Kills:
    """Rounds in a folder of their own; undisturbed runs are made once for each verb."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        self.folder, self.data, self.inputs = folder, data, folder / "inputs"
        self._usual: dict[str, tuple[float, Any]] = {}
        shutil.rmtree(self.inputs, ignore_errors=True)
        self.inputs.mkdir(parents=True)
        make_inputs(self.inputs)

    def verbs(self) -> list[Verb]:
        """Those whose inputs are here."""
        return [verb for verb in VERBS if "{data}" not in verb.command or self.data is not None]

    def round(self, verb: Verb, number: int) -> Round:
        usual, expected = self.usual(verb)
        draw = random.Random(f"{verb.name} {number}")
        what = _SIGNALS[number % len(_SIGNALS)]
        told = Round(verb.name, number, what.name, round(draw.uniform(0, usual), 3))
        with self._laid_out(verb) as folder:
            with self._started(verb.command, folder) as started:
                if not started.ends_within(told.at):
                    started.send(what)
                first = started.wait(_LONGEST)
            told.ended = _how(first, what)
            told.problems += [f"killed: {problem}" for problem in _first_problems(first, told.ended)]
            if told.ended == "answered":
                told.problems += [f"after SIGTERM: {name} is left" for name in leftovers(folder, kept=True)]
            again = self._run(verb.again or verb.command, folder)
            done = verb.refuses_what_is_there and "graph: already exists" in again.stderr
            told.problems += [] if done else _second_problems(again)
            if again.returncode == 0 or done:
                told.problems += _compare(verb, folder, expected)
                told.problems += [f"{name} is left" for name in leftovers(folder)]
        return told

    def usual(self, verb: Verb) -> tuple[float, Any]:
        """Seconds and result of an undisturbed run; the second of two, when all modules are in memory."""
        if verb.name not in self._usual:
            for _ in range(2):
                with self._laid_out(verb) as folder:
                    begun = time.monotonic()
                    done = self._run(verb.command, folder)
                    seconds = time.monotonic() - begun
                    assert done.returncode == 0, f"{verb.name}: {done.stderr}"
                    assert leftovers(folder) == [], f"{verb.name}: {leftovers(folder)}"
                    self._usual[verb.name] = seconds, verb.result(folder)
        return self._usual[verb.name]

    @contextmanager
    def _laid_out(self, verb: Verb) -> Iterator[Path]:
        """The same place for every round: results may name it."""
        folder = self.folder / "place"
        shutil.rmtree(folder, ignore_errors=True)
        lay_out(verb, self.inputs, folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def _run(self, command: str, folder: Path) -> Done:
        with self._started(command, folder) as started:
            return started.wait(_LONGEST)

    def _started(self, command: str, folder: Path) -> Started:
        words = command.format(inputs=self.inputs, data=self.data).split()
        return Started(
            *words, folder=folder, TMPDIR=str(folder / "tmp"), GAMLP_CACHE=str(folder / "cache"), GAMLP_OFFLINE="1"
        )


def leftovers(folder: Path, *, kept: bool = False) -> list[str]:
    """Hidden files, and whatever is among temporary files; `kept`: unfinished work that is gone on with is none."""
    found = [*folder.rglob(".*"), *(folder / "tmp").iterdir()]
    if kept:
        found = [path for path in found if not path.relative_to(folder).parts[0].startswith(_GONE_ON_WITH)]
    return sorted({path.relative_to(folder).as_posix() for path in found})


def _how(done: Done, what: signal.Signals) -> str:
    if done.returncode == -what:
        return "by the signal"
    return "answered" if done.returncode == 128 + what else "by itself"


def _first_problems(done: Done, ended: str) -> Iterator[str]:
    if "Traceback" in done.stderr:
        yield f"a traceback: {_last(done.stderr)}"
    if ended == "by itself" and done.returncode != 0:
        yield f"code {done.returncode}: {_last(done.stderr)}"
    if ended == "answered" and "gamlp: terminated; run the same command again" not in done.stderr:
        yield f"no sentence: {_last(done.stderr)}"


def _second_problems(done: Done) -> Iterator[str]:
    if "Traceback" in done.stderr:
        yield f"again: a traceback: {_last(done.stderr)}"
    elif done.returncode != 0:
        yield f"again: code {done.returncode}: {_last(done.stderr)}"


def _compare(verb: Verb, folder: Path, expected: Any) -> Iterator[str]:
    try:
        found = verb.result(folder)
    except (OSError, ValueError, AssertionError) as error:
        yield f"the result cannot be read: {type(error).__name__}: {error}"
        return
    if found != expected:
        yield "the result differs from that of an undisturbed run"


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1]


def write_report(rounds: list[Round], out: Path) -> None:
    """Counts as a table, and every round as JSON beside it."""
    about = f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores, commit {_commit()}"
    lines = [
        "# Kills",
        "",
        f"{len(rounds)} times a verb was ended at a moment drawn by chance, with SIGKILL and SIGTERM in turns, and run",
        "again. A round is good where the second run succeeds, its result is that of an undisturbed run byte by byte",
        "(of training and searches: but for times), nothing is left of the first (unfinished files, temporary files,",
        "locks), and nobody sees a traceback. SIGTERM is answered once a verb has begun, and kills before. `make kills",
        "ROUNDS=200` makes this page.",
        "",
        f"Measured on {about}.",
        "",
        "| verb | rounds | killed | answered SIGTERM | ended before | good | problems |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    names = [verb.name for verb in VERBS if any(one.verb == verb.name for one in rounds)]
    for name in [*names, ""]:
        some = [one for one in rounds if name in ("", one.verb)]
        ways = Counter(one.ended for one in some)
        bad = sum(bool(one.problems) for one in some)
        counts = [len(some), ways["by the signal"], ways["answered"], ways["by itself"], len(some) - bad, bad]
        lines.append(f"| {f'`{name}`' if name else '**all**'} | {' | '.join(map(str, counts))} |")
    for one in rounds:
        lines += [f"\n- `{one.verb}` {one.number}, {one.signal} at {one.at} s: {problem}" for problem in one.problems]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out.with_suffix(".json").write_text(json.dumps([asdict(one) for one in rounds], indent=1) + "\n", encoding="utf-8")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--verb", help="of this verb alone")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "kills")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "kills.md")
    given = parser.parse_args()
    known = given.work / "rounds.jsonl"
    given.work.mkdir(parents=True, exist_ok=True)
    done = [Round(**json.loads(line)) for line in known.read_text().splitlines()] if known.exists() else []
    data = Path(os.environ.get("GAMLP_DATA", ROOT.parent / "shared" / "data"))
    kills = Kills(given.work, data if data.is_dir() else None)
    verbs = [verb for verb in kills.verbs() if given.verb in (None, verb.name)]
    for index in range(given.rounds):
        verb, number = verbs[index % len(verbs)], index // len(verbs)
        if any((one.verb, one.number) == (verb.name, number) for one in done):
            continue
        one = kills.round(verb, number)
        done.append(one)
        with known.open("a") as file:
            file.write(json.dumps(asdict(one)) + "\n")
        print(f"{index + 1}/{given.rounds} {one.verb} {one.signal} {one.at} s: {one.ended} {one.problems}", flush=True)
    write_report(done, given.out)
    sys.exit(any(one.problems for one in done))


if __name__ == "__main__":
    main()
