"""The paper's first figure: in which share of runs SGC at each depth gets a node right."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.bench.cells import made_of
from gamlp.bench.results import Grid, Results, Shown
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Options, Points, Work, chosen, missing_reason, task_of
from gamlp.errors import GamlpError
from gamlp.graph import ROLES, Labels, Split
from gamlp.models import Shape
from gamlp.peers import Task, Workspace, features_store, labelled, recipe_named
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.training import HopRows, Machine, fit, make_model

STEPS = tuple(range(11))
NODES = 20
_DRAW = 0  # seed of the nodes that are shown
_TRAINING = 13  # stream of random numbers of drawn training rows
# A linear model on one split has one best answer: 50 runs agree but for their start. The paper does not say what
# differs between its runs; `drawn` takes other training rows in each, as many of every class, never test or valid ones.
VARIANTS = {"fixed": "the dataset's training rows", "drawn": "training rows drawn anew in every run"}


def measure(table: PaperTable, work: Work) -> dict[str, Any]:
    """`datasets[name]`: shares of runs for drawn test nodes, and what all test nodes say."""
    points = Points(work, "sgc-steps")
    name = chosen("method", table.methods, work.methods)[0]
    entry = table.methods[name]
    steps = sorted({int(step) for step in table.options.get("steps", STEPS)})
    runs = work.seeds or table.seeds
    result: dict[str, Any] = {
        "steps": steps, "runs": runs, "complete": True, "datasets": {}, "missing": {}, "points": 0, "lacks": [],
    }  # fmt: skip
    for dataset in chosen("dataset", table.datasets, work.datasets):
        if (reason := missing_reason(dataset, work.data_dir, table.options)) is not None:
            result["missing"][dataset] = reason
            continue
        recipe = recipe_named(entry.recipe or "sgc", dataset).changed(dict(entry.changes))
        if recipe.model.name != "sgc":
            raise GamlpError(f"'{name}' is '{recipe.model.name}', and this figure is about SGC")
        made = made_of(dataset, recipe, table.options)
        for variant in table.options.get("variants", VARIANTS):
            shared = _Shared(dataset, recipe, steps, work, table.options, variant)
            kept, one = [], f"{dataset}, {VARIANTS[variant]}"
            for seed in range(runs):
                work.progress("runs", seed, runs, "runs", f"{name} on {dataset}, {VARIANTS[variant]}")
                settings = [dataset, variant, seed, steps, recipe.model_dump(mode="json", exclude={"about"})]
                if (found := points.found(settings, partial(shared.run, seed), one, made)) is not None:
                    kept.append(found)
            work.progress("runs", len(kept), runs, "runs", "")
            result["complete"] &= len(kept) == runs
            result["points"] += len(kept)
            result["lacks"] += [one] * (runs - len(kept))
            if kept:
                summed = summary(kept, steps, int(table.options.get("nodes", NODES)))
                result["datasets"].setdefault(dataset, {})[variant] = summed
    return result


@dataclass(frozen=True)
class LastHop(HopRows):
    """Rows of which only hop `hops` is given, `[len(rows), d]`: SGC reads no other."""

    last: Array = field(default_factory=lambda: np.zeros((0, 0), np.float32), repr=False)

    def gather(self, positions: Array, views: Sequence[int] | None = None) -> tuple[Array, Array | None]:
        return self.last[positions][:, None, None], None


class _Shared:
    """Hops of a dataset's labelled rows, read once for all runs that share a split."""

    def __init__(
        self, dataset: str, recipe: Recipe, steps: list[int], work: Work, options: Options, variant: str
    ) -> None:
        self.dataset, self.recipe, self.steps, self.work = dataset, recipe, steps, work
        self.options, self.variant = options, variant
        self._split = b""
        self._read: dict[str, tuple[Array, Array]] = {}

    def run(self, seed: int) -> dict[str, Any]:
        """One run at every depth: which test rows are predicted right."""
        task = task_of(self.dataset, seed, self.work.data_dir, options=self.options)
        split, labels = task.graph.nodes.split, task.graph.nodes.labels
        assert split is not None and labels is not None
        if self.variant == "drawn":
            split = drawn_split(labels, split, seed)
            task = Task(task.graph.with_targets(split=split))
        deepest = self.recipe.changed({"propagation.hops": self.steps[-1]})
        store, _ = features_store(task.graph, deepest, Workspace(self.work.hops, self.work.resources))
        if self._split != split.roles.tobytes():
            self._read, self._split = _rows_of(task, store, self.steps[-1]), split.roles.tobytes()
        true_labels = labels.values[self._read["test"][0]]
        right = [
            predictions(store, self._read, self.recipe, step, seed, len(labels.classes)) == true_labels
            for step in self.steps
        ]
        return packed(self._read["test"][0], np.array(right))


def packed(test: Array, right: Array) -> dict[str, Any]:
    """Of test rows, ascending, and `[steps, rows]` of which are right: some hundred bytes of a run, and not 16,000.

    Rows are stretches [first, count]; neighbouring depths agree on most rows, so that each is told by what changed.
    """
    starts = np.flatnonzero(np.diff(test, prepend=test[:1] - 2) != 1)
    counts = np.diff(np.append(starts, len(test)))
    changed = np.diff(right.astype(np.int8), axis=0, prepend=0) != 0
    bits = zlib.compress(np.packbits(changed).tobytes(), 9)
    rows = [[int(test[start]), int(count)] for start, count in zip(starts, counts)]
    return {"rows": rows, "right": base64.b64encode(bits).decode()}


def unpacked(found: dict[str, Any], steps: list[int]) -> tuple[Array, Array]:
    """(test rows, which are right `[rows, steps]`); points of before they were packed have them in full."""
    if "rows" not in found:
        return np.array(found["test"]), np.array(
            [[one == "1" for one in found["right"][str(step)]] for step in steps]
        ).T
    test = np.concatenate([np.arange(first, first + count) for first, count in found["rows"]])
    bits = np.frombuffer(zlib.decompress(base64.b64decode(found["right"])), np.uint8)
    changed = np.unpackbits(bits, count=len(steps) * len(test)).reshape(len(steps), len(test))
    return test, (changed.cumsum(0) % 2 == 1).T


def drawn_split(labels: Labels, split: Split, seed: int) -> Split:
    """Of every class as many training rows as before, from all labelled rows that neither validate nor test."""
    roles = np.array(split.roles)
    roles[split.train] = 0
    free = np.random.default_rng([seed, _TRAINING]).permutation(np.flatnonzero(labels.known() & (roles == 0)))
    for number in range(len(labels.classes)):
        count = int((labels.values[split.train] == number).sum())
        roles[free[labels.values[free] == number][:count]] = ROLES.index("train")
    return Split(roles)


def _rows_of(task: Task, store: HopStore, hops: int) -> dict[str, tuple[Array, Array]]:
    """Row numbers and hops `[rows, hops + 1, d]` of each part."""
    rows = {part: labelled(task.graph, part) for part in ("train", "valid", "test")}
    return {part: (own, store.signals["features"].gather(own, hops)) for part, own in rows.items()}


def predictions(
    store: HopStore, read: dict[str, tuple[Array, Array]], recipe: Recipe, step: int, seed: int, classes: int
) -> Array:
    """Classes of the test rows by SGC on X^(step), trained by the one loop as run_on_hops trains it."""
    parts = {
        name: LastHop(store, rows, step, last=np.ascontiguousarray(hops[:, step]))
        for name, (rows, hops) in read.items()
    }
    recipe = recipe.changed({"propagation.hops": step})
    shape = Shape(parts["train"].last.shape[1], classes, step)
    # Where the last epoch is kept, as in SGC's paper, validation rows decide nothing and need no look.
    chooses = recipe.training.keep == "best" or recipe.training.patience > 0
    valid = parts["valid"] if len(parts["valid"]) and chooses else None
    fitted = fit(
        lambda: make_model(recipe, shape), parts["train"], valid, recipe.training, seed=seed, machine=Machine()
    )
    with torch.no_grad():
        x = torch.from_numpy(parts["test"].last).to(torch.float32)[:, None, None]
        found: Array = fitted.model(x).argmax(1).numpy()
    return found


def summary(kept: list[dict[str, Any]], steps: list[int], nodes: int) -> dict[str, Any]:
    """Shares of runs by depth, of test nodes: for `nodes` drawn ones, and what all of them say together.

    Where the split differs between runs, a node counts in the runs that tested it.
    """
    runs = [unpacked(run, steps) for run in kept]
    rows = np.unique(np.concatenate([test for test, _ in runs]))
    right, tested = np.zeros((len(rows), len(steps))), np.zeros(len(rows))
    accuracy = np.zeros((len(kept), len(steps)))
    for index, (test, bits) in enumerate(runs):
        at = np.searchsorted(rows, test)
        right[at] += bits
        tested[at] += 1
        accuracy[index] = bits.mean(0)
    shares = right / tested[:, None]
    drawn = np.sort(np.random.default_rng(_DRAW).choice(len(rows), min(nodes, len(rows)), replace=False))
    gain = _held_out_gain(runs)
    most = shares.max(1)
    best = shares.argmax(1)  # the smallest depth of those that are equally good
    once = most > 0
    return {
        "runs": len(kept),
        "nodes": rows[drawn].tolist(),
        "shares": shares[drawn].tolist(),
        "accuracy": accuracy.mean(0).tolist(),
        "deviation": accuracy.std(0, ddof=1).tolist() if len(kept) > 1 else [0.0] * len(steps),
        "test_nodes": len(rows),
        "best_depth": [float(np.mean(once & (best == index))) for index in range(len(steps))],
        "right_at_no_depth": int((~once).sum()),
        "right_at_every_depth": int((shares.min(1) == 1).sum()),
        "changing": float(np.mean((shares.max(1) > 0.5) & (shares.min(1) < 0.5))),
        "best_of_each_node": float(most.mean()),
        "gain": gain,
    }


def _held_out_gain(runs: list[tuple[Array, Array]]) -> tuple[float, float] | None:
    """By how many points a node at its own best depth is right more often than at the depth that is best for all.

    Depths are found in one half of the runs and counted in the other, then the other way round: a node's best of many
    depths in the same runs would be partly luck. With the error over nodes; None of a single run, or where the halves
    do not share two nodes.
    """
    if len(runs) < 2:
        return None
    halves = [_shares(runs[start::2]) for start in (0, 1)]
    both = sorted(set(halves[0]) & set(halves[1]))
    if len(both) < 2:
        return None
    one, other = (np.array([half[node] for node in both]) for half in halves)
    gains = []
    for seen, held in ((one, other), (other, one)):
        common = seen.mean(0)
        own = (seen + common / (10 * len(runs))).argmax(1)  # of depths that are equally good the one better for all
        gains.append(held[np.arange(len(held)), own] - held[:, common.argmax()])
    found = 100 * np.mean(gains, axis=0)
    return float(found.mean()), float(found.std(ddof=1) / len(found) ** 0.5)


def _shares(runs: list[tuple[Array, Array]]) -> dict[int, Array]:
    """Node → the share of these runs in which it is right, by depth."""
    right: dict[int, list[Array]] = {}
    for test, bits in runs:
        for node, one in zip(test.tolist(), bits):
            right.setdefault(node, []).append(one)
    return {node: np.mean(found, axis=0) for node, found in right.items()}


def as_results(table: PaperTable, result: dict[str, Any]) -> Results:
    """Heat maps for pages and figures: nodes across and steps along the other axis, as in the paper."""
    grids = {}
    for dataset, variants in result["datasets"].items():
        for variant, one in variants.items():
            grids[f"{dataset}-{variant}"] = Grid(
                f"{table.datasets[dataset].title}, {VARIANTS[variant]}", "propagation steps", "node",
                f"share of {one['runs']} runs that are right",
                tuple(str(step) for step in result["steps"]), tuple(str(node) for node in one["nodes"]),
                tuple(zip(*one["shares"])), {"differs": one["gain"]} if one["gain"] else {},
            )  # fmt: skip
    return Results(table, {}, result["missing"], grids, tables=tuple(render(table, result)))


def render(table: PaperTable, result: dict[str, Any]) -> list[Shown]:
    """What all test nodes say, by depth."""
    steps = result["steps"]
    found: list[Shown] = []
    for dataset, variants in result["datasets"].items():
        for variant, one in variants.items():
            accuracy = [f"{100 * mean:.1f} ± {100 * by:.1f}" for mean, by in zip(one["accuracy"], one["deviation"])]
            best = [f"{100 * share:.1f} %" for share in one["best_depth"]]
            title = f"{table.datasets[dataset].title}, {VARIANTS[variant]}"
            rows = [["test accuracy, %", *accuracy], ["nodes whose (first) best depth it is", *best]]
            heads = ["steps", *(str(step) for step in steps)]
            found.append((f"{title}: SGC by depth, {one['runs']} runs", heads, rows))
            counted = {
                "are right at no depth": one["right_at_no_depth"],
                "are right at every depth in every run": one["right_at_every_depth"],
                "are mostly right at one depth and mostly wrong at another": round(one["changing"] * one["test_nodes"]),
            }
            counts = [[f"test nodes that {name}", f"{count} of {one['test_nodes']}"] for name, count in counted.items()]
            counts.append(["accuracy, each node at its own best depth", f"{100 * one['best_of_each_node']:.1f} %"])
            counts.append(["accuracy, all nodes at the best depth", f"{100 * max(one['accuracy']):.1f} %"])
            if one["gain"]:
                mean, error = one["gain"]
                told = "gain of a node's own best depth, found in half of the runs and counted in the other half"
                counts.append([told, f"{mean:+.1f} ± {error:.1f} points"])
            found.append((f"{title}: what all test nodes say", ["", "nodes"], counts))
    return found
