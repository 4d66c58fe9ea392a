"""A whole run before it is run: every step's memory, disk and time, and whether this machine has them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.io import available_memory, format_size, usable_cores
from gamlp.propagation import Plan
from gamlp.recipe import Recipe
from gamlp.sizing.cluster import Cluster, ClusterSizes
from gamlp.sizing.fitting import FitSizes
from gamlp.sizing.graph_shape import GraphShape
from gamlp.sizing.hops import HopSizes
from gamlp.sizing.rates import Rates

_SURE, _UNSURE = (0.7, 1.5), (0.4, 2.5)  # of an estimate: by rates of this machine, by recorded ones
_SPARE = 0.9  # of free memory that a budget may ask for
_BUCKET_ENTRY, _WEIGHTED_BUCKET_ENTRY = 8, 12  # bytes of an entry while tables are ingested
_GENERATED, _GENERATED_NODE = 300 << 20, 9  # bytes that a generated graph takes, and each of its nodes


@dataclass(frozen=True)
class ThisMachine:
    """Free memory, free disk where results go, cores."""

    memory: int
    disk: int
    cores: int
    folder: Path

    @classmethod
    def here(cls, out: Path, cores: int | None = None) -> ThisMachine:
        """This one, now; `out` need not be there yet."""
        folder = next(place for place in (out.absolute(), *out.absolute().parents) if place.is_dir())
        return cls(available_memory(), shutil.disk_usage(folder).free, cores or usable_cores(), folder)


@dataclass(frozen=True)
class Step:
    """`meanwhile` is disk that a step uses and frees; `left` stays. `seconds` are low and high; None: not foretold."""

    name: str
    memory: int
    meanwhile: int
    left: int
    seconds: tuple[float, float] | None
    words: str


@dataclass(frozen=True)
class Outlook:
    """What `gamlp plan` tells."""

    shape: GraphShape
    recipe: Recipe
    machine: ThisMachine
    rates: Rates
    hops: HopSizes
    fit: FitSizes
    there: bool  # whether the graph is on disk already
    cluster: ClusterSizes

    @classmethod
    def of(
        cls,
        shape: GraphShape,
        recipe: Recipe,
        plan: Plan,
        machine: ThisMachine,
        rates: Rates,
        cluster: Cluster,
        *,
        budget: int | None = None,
        there: bool = False,
        measure: bool = True,
    ) -> Outlook:
        """Sizes of every step. A budget that is given and too small ends in a sentence that names one that is not.

        Where the usual one, half of what is free, is too small, sizes are those in the least that is not.
        """
        usual = machine.memory // 2
        hops = HopSizes.of_least(shape, plan, usual) if budget is None else HopSizes.of(shape, plan, budget)
        fit = FitSizes.of(recipe, shape, rates, measure=measure)
        return cls(shape, recipe, machine, rates, hops, fit, there, ClusterSizes(shape, plan, cluster, rates))

    @property
    def steps(self) -> list[Step]:
        """In order."""
        made = [] if self.there else [self._ingest(), self._generate()]
        return [*made, self._propagate(), *self._fitted()]

    @property
    def disk(self) -> int:
        """At its most: what was left before a step, and what it takes."""
        peak, left = 0, 0
        for step in self._one_way():
            peak = max(peak, left + step.meanwhile + step.left)
            left += step.left
        return peak

    @property
    def memory(self) -> int:
        """Anonymous memory at its most."""
        return max(step.memory for step in self._one_way())

    @property
    def seconds(self) -> tuple[float, float]:
        """Of all steps whose time is foretold, without making the graph."""
        known = [step.seconds for step in self.steps if step.seconds and step.name not in ("ingest", "generate")]
        return sum(low for low, _ in known), sum(high for _, high in known)

    @property
    def fits(self) -> bool:
        return self.memory <= self.machine.memory and self.disk <= self.machine.disk

    def verdict(self) -> Iterator[str]:
        """Sentences: whether it fits this machine, and what would help where it does not, or would be faster."""
        here = f"{format_size(self.machine.memory)} of memory and {format_size(self.machine.disk)} of disk are free"
        short = self.disk - self.machine.disk
        if self.fits:
            yield f"fits: {format_size(self.memory)} of memory and {format_size(self.disk)} of disk at most; {here}"
        if short > 0:
            yield f"disk is short by {format_size(short)}: {format_size(self.disk)} are needed, {here}"
            yield from self._less_disk()
        if self.memory > self.machine.memory:
            yield f"memory is short by {format_size(self.memory - self.machine.memory)}: {here}"
            if (less := self._smaller_budget()) is not None:
                yield f"it fits with --memory {_as_option(less)}"
            elif self.hops.memory > self.machine.memory:
                yield "no budget is small enough: go to a larger machine, or to Spark"
        elif self.hops.budget > self.machine.memory // 2:
            yield f"it takes --memory {_as_option(self.hops.budget)}: the usual half of what is free may be too little"
        yield from self._fewer_passes()
        if not self._cached:
            yield (
                f"neighbours ({format_size(self.shape.neighbour_bytes)}) do not stay in memory beside the state: they "
                f"are read from disk {self.hops.readings} times"
            )

    @property
    def _cached(self) -> bool:
        return self.machine.memory >= self.hops.memory + self.hops.fits_in_cache

    def _one_way(self) -> list[Step]:
        """Steps of a run: a graph is ingested or generated, whichever takes more."""
        first, *others = self.steps
        if self.there:
            return [first, *others]
        second, *rest = others
        return [max(first, second, key=lambda step: step.meanwhile + step.left), *rest]

    def _less_disk(self) -> Iterator[str]:
        changes: dict[str, dict[str, object]] = {
            "--dtype float16": {"propagation.dtype": "float16"},
            "--rows labelled": {"propagation.rows": "labelled"},
            "--rows labelled --dtype float16": {"propagation.rows": "labelled", "propagation.dtype": "float16"},
        }
        for words, values in changes.items():
            other = self.recipe.changed(values)
            if other.propagation == self.recipe.propagation:
                continue
            sizes = HopSizes.of(self.shape, _alike(self.hops.plan, other), self.hops.budget)
            fixed = 0 if self.there else self.shape.folder_bytes
            need = fixed + sizes.store + sizes.slabs(self.rates) + sizes.views
            if need < self.disk:
                enough = ", which is free" if need <= self.machine.disk else ""
                yield f"with {words} it needs {format_size(need)}{enough}"

    def _smaller_budget(self) -> int | None:
        """A budget in which all fits, if there is one."""
        most = int(_SPARE * self.machine.memory)
        for budget in (most, most // 2, most // 4, most // 8):
            try:
                if HopSizes.of(self.shape, self.hops.plan, budget).memory <= self.machine.memory:
                    return budget
            except GamlpError:
                break
        return None

    def _fewer_passes(self) -> Iterator[str]:
        """The least budget that needs no column blocks, or as few as this machine can."""
        now = len(self.hops.passes)
        if now == len(self.hops.groups):
            return
        most = int(_SPARE * self.machine.memory)
        if most <= self.hops.budget:
            return
        try:
            fewest = len(HopSizes.of(self.shape, self.hops.plan, most).passes)
        except GamlpError:
            return
        if fewest >= now:
            return
        low, high = self.hops.budget, most
        while high - low > 64 << 20:
            middle = (low + high) // 2
            if len(HopSizes.of(self.shape, self.hops.plan, middle).passes) > fewest:
                low = middle
            else:
                high = middle
        yield f"with --memory {_as_option(high)} it takes {fewest} passes and not {now}"

    def _about(self, seconds: float | None) -> tuple[float, float] | None:
        low, high = _SURE if self.rates.measured else _UNSURE
        return None if seconds is None else (low * seconds, high * seconds)

    def _ingest(self) -> Step:
        shape, rates = self.shape, self.rates
        item = _WEIGHTED_BUCKET_ENTRY if shape.weighted else _BUCKET_ENTRY
        seconds = shape.entries / 2 / rates.ingest + shape.nodes * shape.features / rates.ingest_cells
        low, high = _UNSURE
        words = "from tables; memory as --memory says"
        return Step(
            "ingest",
            min(self.hops.budget, self.machine.memory // 2),
            shape.entries * item,
            shape.folder_bytes,
            (low * seconds, high * seconds),
            words,
        )

    def _generate(self) -> Step:
        shape, rates = self.shape, self.rates
        seconds = shape.entries / 2 / rates.generate + shape.nodes * shape.features / rates.generate_cells
        low, high = _UNSURE
        words = "instead: gamlp generate communities"
        memory = _GENERATED + _GENERATED_NODE * shape.nodes
        return Step("generate", memory, 0, shape.folder_bytes, (low * seconds, high * seconds), words)

    def _propagate(self) -> Step:
        hops, shape = self.hops, self.shape
        widths = ", ".join(_passes_words([(spec.width, spec.depth) for spec in hops.passes]))
        number = f"{len(hops.passes)} passes" if len(hops.passes) > 1 else "1 pass"
        words = (
            f"{number} ({widths}), state {format_size(hops.state)}, "
            f"neighbours ({format_size(shape.neighbour_bytes)}) read {hops.readings} times"
        )
        meanwhile = hops.slabs(self.rates) + hops.views
        seconds = self._about(hops.seconds(self.rates, self.machine.memory))
        return Step("propagate", hops.memory, meanwhile, hops.store, seconds, words)

    def _fitted(self) -> list[Step]:
        fit, rates, budget = self.fit, self.rates, self.machine.memory // 2
        if not self.shape.classes:
            return []
        settings = self.recipe.training
        rows = self.shape.kept(self.hops.plan) or self.shape.nodes
        where = "held in memory" if fit.resident(budget) else "read from the store a batch at a time"
        seeds = f", {len(settings.seeds)} seeds" if len(settings.seeds) > 1 else ""
        words = (
            f"{self.shape.rows.get('train', 0):,} rows, batches of {fit.batch:,}, hidden {self.recipe.model.hidden}, "
            f"at most {settings.epochs} epochs{seeds}; {where}"
        )
        seconds = self._about(fit.train_seconds(rates, budget))
        if seconds is not None and settings.patience:  # it often stops long before the last epoch
            seconds = (seconds[0] * min(1.0, 2 * settings.patience / settings.epochs), seconds[1])
        train = Step("train", fit.memory(budget), 0, fit.run_folder, seconds, words)
        predicting = self._about(fit.predict_seconds(rows, rates))
        predict = Step("predict", fit.predict_memory(rows), 0, fit.predictions(rows), predicting, f"{rows:,} rows")
        return [train, predict]


def about(seconds: tuple[float, float] | None) -> str:
    """A span of time in words.

    >>> about((1400, 2800)), about((0.2, 0.4)), about((40, 44)), about(None)
    ('23 to 47 min', 'under a second', '40 to 44 s', 'not foretold')
    """
    if seconds is None:
        return "not foretold"
    low, high = seconds
    if high < 1:
        return "under a second"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (float("inf"), 3600, "h")):
        if high < limit:
            first, last = _two_digits(low / size), _two_digits(high / size)
            return f"{first} {unit}" if first == last else f"{first} to {last} {unit}"
    raise AssertionError


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")


def _passes_words(passes: list[tuple[int, int]]) -> list[str]:
    """`3 × 48 columns, 12 hops` of passes that are alike."""
    counted: dict[tuple[int, int], int] = {}
    for one in passes:
        counted[one] = counted.get(one, 0) + 1
    return [f"{number} × {width} columns through {hops} hops" for (width, hops), number in counted.items()]


def _as_option(size: int) -> str:
    """Rounded up to what a person would type."""
    return f"{-(-size // 2**20)}MiB" if size < 4 << 30 else f"{-(-size * 10 // 2**30) / 10:g}GiB"


def _alike(plan: Plan, recipe: Recipe) -> Plan:
    """The plan of another recipe, with labels or without as this one."""
    return Plan.of(recipe, labels=plan.labels is not None)
