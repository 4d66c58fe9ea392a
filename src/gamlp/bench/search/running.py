"""The search: one run after another, each where it is worth most, on validation rows alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from gamlp.arrays import Array
from gamlp.bench.search.allocation import Act, next_cells
from gamlp.bench.search.plan import SearchCell
from gamlp.bench.search.trials import Journal, Line, Trial, Trials
from gamlp.errors import GamlpError
from gamlp.io import locked
from gamlp.peers import Task, Workspace, features_key, peer_of, prepare_task, run
from gamlp.recipe import Recipe
from gamlp.run import LOCAL, Resources
from gamlp.training import judged
from gamlp.tune import BY_CHANCE, draw

Validate = Callable[[SearchCell, Recipe, int], Line]
Tell = Callable[[str], None]


@dataclass
class Validation:
    """Runs of peers that look at training and validation rows alone; hops are shared in `folder`."""

    folder: Path
    data_dir: Path | None = None
    resources: Resources = LOCAL
    _tasks: dict[tuple[str, int], Task] = field(default_factory=dict)
    _kept: dict[str, Array | None] = field(default_factory=dict)

    def __call__(self, cell: SearchCell, recipe: Recipe, replicate: int) -> Line:
        """The score and loss, means over `training.window` epochs, and the processor's seconds without making hops."""
        task = self._task(cell, replicate)
        workspace = self._workspace(cell, recipe, score_test=False)
        if peer_of(recipe).leaves_bundle:
            prepare_task(task, recipe, workspace)
        begun = time.process_time()
        report = run(task, recipe, replicate, workspace)
        seconds = time.process_time() - begun
        valid = report.valid_mean or report.valid  # a blend of several has no epochs of its own
        score, loss = judged(valid, recipe.training), valid["loss"]
        if not (math.isfinite(score) and math.isfinite(loss)):
            raise GamlpError("the validation score or loss is not a number")
        return {"score": score, "loss": loss, "seconds": round(seconds, 3), "epoch": report.epoch}

    def test(self, cell: SearchCell, recipe: Recipe, replicate: int) -> float:
        """A test score. For what is read once, after recipes are shipped: see `gamlp.bench.search.ranking`."""
        task = cell.load(replicate if cell.draws_split else 0, self.data_dir, tests=True)
        report = run(task, recipe, replicate, self._workspace(cell, recipe, score_test=True))
        metric = recipe.training.metric
        return report.test[metric if metric in report.test else "score"]

    def _workspace(self, cell: SearchCell, recipe: Recipe, *, score_test: bool) -> Workspace:
        # Rows without labels teach where these are on; test rows are among them, their labels are not read.
        every = score_test or recipe.consistency is not None or recipe.training.stages > 1
        kept = None if every else self._rows(cell)
        deepest = max(cell.deepest, recipe.propagation.hops)
        depths = {features_key(recipe): deepest} if peer_of(recipe).leaves_bundle else {}
        return Workspace(self.folder, self.resources, depths=depths, kept=kept, score_test=score_test)

    def _task(self, cell: SearchCell, replicate: int) -> Task:
        key = cell.dataset, replicate if cell.draws_split else 0
        if key not in self._tasks:
            if len(self._tasks) > 2 * cell.replicates:
                self._tasks.clear()
            self._tasks[key] = self._on_one_graph(cell, cell.load(key[1], self.data_dir))
        return self._tasks[key]

    def _on_one_graph(self, cell: SearchCell, task: Task) -> Task:
        """The task of another split on the graph of the first: ten copies of wide features would be gigabytes."""
        known = next((one for (name, _), one in self._tasks.items() if name == cell.dataset), None)
        if known is None or not cell.draws_split:
            return task
        given = task.graph
        return replace(task, graph=replace(known.graph.with_targets(split=given.nodes.split), source=given.source))

    def _rows(self, cell: SearchCell) -> Array | None:
        """Training and validation rows of all replicates; None where graphs stand apart."""
        if cell.task is not None:
            return None
        if cell.dataset not in self._kept:
            found = []
            for number in range(cell.replicates if cell.draws_split else 1):
                split = self._task(cell, number).graph.nodes.split
                assert split is not None
                found.append(split.rows("train", "valid"))
            self._kept[cell.dataset] = np.unique(np.concatenate(found))
        return self._kept[cell.dataset]


@dataclass
class CellSearch:
    """The search over some cells, with its files in `work`; several processes may run one over the same files.

    Trials, which are worth keeping, lie in `kept` (`work`/cells where it is not given).
    """

    cells: Sequence[SearchCell]
    work: Path
    validate: Validate
    tell: Tell = print
    seed: int = 0
    kept: Path | None = None
    _read: dict[str, tuple[tuple[int, int], Trials]] = field(default_factory=dict)

    def run(self, seconds: float, most_runs: int | None = None) -> int:
        """Runs until the time or the number is over; gives how many. Cells whose test scores were read are left out."""
        if all(self._tested(cell) for cell in self.cells):
            raise GamlpError(
                f"test scores of '{self.cells[0].name}' have been read: its search is over",
                hint="choose other --names, or another --work to begin anew and say so",
            )
        ends, done = time.monotonic() + seconds, 0
        while time.monotonic() < ends and (most_runs is None or done < most_runs):
            with ExitStack() as stack:
                with self._alone():
                    chosen = self._choose(stack)
                if chosen is None:
                    break
                self._run(*chosen)
            done += 1
        return done

    def complete(self, cell: SearchCell, trial: Trial, replicates: int) -> None:
        """Run the replicates that a trial lacks, up to so many."""
        for number in range(replicates):
            if number not in self.trials(cell.name).trials[trial.number].runs:
                with locked(self._running(cell, trial.number, number)):
                    if number not in self.trials(cell.name).trials[trial.number].runs:
                        self._run(cell, trial.number, number, reserve=False)

    def trials(self, name: str) -> Trials:
        """What is known of a cell now."""
        journal = self.journal(name)
        about = journal.path.stat() if journal.path.exists() else None
        key = (0, 0) if about is None else (about.st_mtime_ns, about.st_size)
        if name not in self._read or self._read[name][0] != key:
            self._read[name] = key, journal.read()
        return self._read[name][1]

    def journal(self, name: str) -> Journal:
        """Its file; of a cell that is searched or that one of these comes after."""
        splits = next(cell.draws_split for cell in self.cells if name in (cell.name, cell.after))
        return Journal(self.of_cell(name, "jsonl"), splits)

    def of_cell(self, name: str, ending: str) -> Path:
        """A file of a cell that is kept."""
        return (self.kept or self.work / "cells") / f"{name}.{ending}"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with locked(self.work / "search"):
            yield

    def _choose(self, stack: ExitStack) -> tuple[SearchCell, int, int, bool] | None:
        """(cell, trial, replicate, of the reserve), its lock held by the stack; None where nothing is left to do."""
        ready = {cell.name: cell for cell in self.cells if self._ready(cell)}
        known = {name: self.trials(name) for name in ready}
        acts = {name: known[name].standing.acts(ready[name].replicates) for name in ready}
        values = {name: acts[name][0].value if known[name].standing.tried else 0.0 for name in ready}
        purses = {name: known[name].spent for name in ready}
        for name, reserve in next_cells(purses, values):
            if (taken := self._taken(ready[name], known[name], acts[name], stack)) is not None:
                return ready[name], *taken, reserve
        return None

    def _taken(self, cell: SearchCell, known: Trials, acts: Sequence[Act], stack: ExitStack) -> tuple[int, int] | None:
        """The trial and replicate of a cell that are worth most and that nobody runs, taken."""
        for waiting in known.waiting:
            if self._take(cell, waiting.number, 0, stack):
                return waiting.number, 0
        first = self._untried(cell)
        for act in acts:
            if act.trial is None or first:
                number = self._propose(cell, known, first)
                if number is not None and self._take(cell, number, 0, stack):
                    return number, 0
            else:
                trial, replicate = _anchored(known, act.trial)
                if replicate < cell.replicates and self._take(cell, trial, replicate, stack):
                    return trial, replicate
        return None

    def _ready(self, cell: SearchCell) -> bool:
        if self._tested(cell):
            return False
        if cell.after is None:
            return True
        leader = self.trials(cell.after).leader()
        return bool(self.trials(cell.name).trials) or leader is not None

    def _tested(self, cell: SearchCell) -> bool:
        return self.of_cell(cell.name, "tested").exists()

    def _untried(self, cell: SearchCell) -> list[tuple[str, Recipe]]:
        """Recipes to try first that were not: those of the plan, of which some may be new to it."""
        own = self.trials(cell.name).trials
        found = None
        if cell.after is not None:
            leader = own[0] if own else self.trials(cell.after).leader()  # as it was when the variant began
            found = None if leader is None else leader.recipe
        tried = [one.recipe for one in own]
        return [one for one in cell.beginning(found) if one[1] not in tried]

    def _propose(self, cell: SearchCell, known: Trials, first: list[tuple[str, Recipe]]) -> int | None:
        """A new trial's number: of a recipe to try first, or of one that is drawn; None where the space has no more."""
        number = len(known.trials)
        recipe: Recipe | None
        if first:
            source, recipe = first[0]
        else:
            base = cell.base if cell.after is None else known.trials[0].recipe
            means = known.standing.means
            told = [(one.recipe, means[one.number]) for one in known.trials if one.number in means]
            source = "chance" if len(told) < BY_CHANCE else "TPE"
            recipe = draw(cell.space, base, told, (self.seed, crc32(cell.name.encode()), number))
        if recipe is None:
            return None
        self.journal(cell.name).append({"trial": number, "source": source, "recipe": recipe.explicit()})
        return number

    def _running(self, cell: SearchCell, trial: int, replicate: int) -> Path:
        return self.work / "running" / f"{cell.name}-{trial}-{replicate}"

    def _take(self, cell: SearchCell, trial: int, replicate: int, stack: ExitStack) -> bool:
        return stack.enter_context(locked(self._running(cell, trial, replicate), wait=False))

    def _run(self, cell: SearchCell, trial: int, replicate: int, reserve: bool) -> None:
        recipe = self.trials(cell.name).trials[trial].recipe
        line: dict[str, Any] = {"trial": trial, "replicate": replicate}
        begun = time.process_time()
        try:
            line |= self.validate(cell, recipe, replicate)
        except GamlpError as error:
            line |= {"failed": str(error), "seconds": round(time.process_time() - begun, 3)}
        line |= {"reserve": True} if reserve else {}
        with self._alone():
            self.journal(cell.name).append(line)
        self.tell(self._told(cell, line))

    def _told(self, cell: SearchCell, line: Line) -> str:
        trials = self.trials(cell.name)
        leader = trials.leader()
        said = f"{cell.name} trial {line['trial']} ({trials.trials[line['trial']].source}), run {line['replicate']}: "
        said += f"failed ({line['failed']})" if "failed" in line else f"{100 * line['score']:.2f} %"
        if leader is not None:
            mean = trials.standing.means[leader.number]
            said += (
                f" in {line['seconds']:.1f} s; best {100 * mean:.2f} % (trial {leader.number}, {len(leader.runs)} runs)"
            )
        return said


def _anchored(known: Trials, trial: int) -> tuple[int, int]:
    """The trial and its next replicate; a split that the first recipe has not seen, that recipe sees first.

    How easy a split is shows in a recipe that has seen all of them; and the first one is the present recipe, with
    which the leader will be compared.
    """
    replicate, first = known.trials[trial].next_replicate(), known.trials[0]
    if known.splits and first.runs and not first.failed and replicate not in first.runs:
        return 0, first.next_replicate()
    return trial, replicate
