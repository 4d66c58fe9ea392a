"""The paper's heat map: how much a trained GAMLP(JK) listens to each hop, by the degree of a node."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from gamlp.arrays import Array
from gamlp.bench.cells import made_of
from gamlp.bench.results import Grid, Results, Shown
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Options, Points, Work, chosen, missing_reason, task_of
from gamlp.errors import GamlpError
from gamlp.models import HopWeights
from gamlp.peers import Workspace, prepare_task, recipe_named
from gamlp.recipe import Recipe
from gamlp.training import Machine, Prepared, choose_device, fit_prepared, read_batches

HOPS, NODES = 6, 20
RANGES = ((1, 4), (5, 8), (9, 12))
NEAR = (1, 2)  # the paper's steps "of great importance": those that a GNN of two layers reads
FAR = 3  # its "larger steps": beyond them
_DRAW = 0  # seed of the nodes that are drawn: the same ones for every model


def measure(table: PaperTable, work: Work) -> dict[str, Any]:
    """`datasets[name][method]`: mean weights of hops for every range of degrees, over seeds."""
    points = Points(work, "hop-weights")
    ranges = [(int(low), int(high)) for low, high in table.options.get("degrees", RANGES)]
    hops, nodes = int(table.options.get("hops", HOPS)), int(table.options.get("nodes", NODES))
    seeds = work.seeds or table.seeds
    methods = [name for name in chosen("method", table.methods, work.methods) if table.methods[name].recipe]
    result: dict[str, Any] = {
        "hops": list(range(hops + 1)), "ranges": ranges, "seeds": seeds, "complete": True,
        "datasets": {}, "missing": {}, "refused": {}, "points": 0, "lacks": [],
    }  # fmt: skip
    for dataset in chosen("dataset", table.datasets, work.datasets):
        if (reason := missing_reason(dataset, work.data_dir, table.options)) is not None:
            result["missing"][dataset] = reason
            continue
        for method in methods:
            entry = table.methods[method]
            kept = []
            try:
                recipe = recipe_named(str(entry.recipe), dataset)
                recipe = recipe.changed({**entry.changes, "propagation.hops": hops})
                name, made = f"{method} on {dataset}", made_of(dataset, recipe, table.options)
                for seed in range(seeds):
                    work.progress("runs", seed, seeds, "runs", name)
                    settings = [dataset, seed, ranges, nodes, recipe.model_dump(mode="json", exclude={"about"})]
                    make = partial(_run, dataset, seed, ranges, nodes, recipe, work, table.options)
                    if (found := points.found(settings, make, name, made)) is not None:
                        kept.append(found)
            except GamlpError as error:
                result["refused"][f"{method} on {dataset}"] = str(error)
                continue
            work.progress("runs", len(kept), seeds, "runs", "")
            result["complete"] &= len(kept) == seeds
            result["points"] += len(kept)
            result["lacks"] += [name] * (seeds - len(kept))
            if kept:
                result["datasets"].setdefault(dataset, {})[method] = _summary(kept)
    return result


def _run(
    dataset: str, seed: int, ranges: list[tuple[int, int]], nodes: int, recipe: Recipe, work: Work, options: Options
) -> dict[str, Any]:
    """Train one seed, then read its weights."""
    task = task_of(dataset, seed, work.data_dir, options=options)
    prepared, _ = prepare_task(task, recipe, Workspace(work.hops, work.resources))
    device = choose_device(work.resources.device)
    fitted = fit_prepared(prepared, seed, Machine(device, work.resources.memory))
    degrees = task.graph.degrees()
    return {
        "valid": fitted.valid.get("score"),
        "ranges": [_range(fitted.model, prepared, degrees, bounds, nodes, device) for bounds in ranges],
    }


def _range(
    model: nn.Module, prepared: Prepared, degrees: Array, bounds: tuple[int, int], nodes: int, device: torch.device
) -> dict[str, Any]:
    """Mean weights of all nodes with `low <= degree <= high`, and of some that are drawn."""
    rows = np.flatnonzero((degrees >= bounds[0]) & (degrees <= bounds[1]))
    if not len(rows):
        return {"rows": 0, "drawn": [], "all": None, "some": None}
    drawn = np.sort(np.random.default_rng([_DRAW, *bounds]).choice(rows, min(nodes, len(rows)), replace=False))
    return {
        "rows": len(rows),
        "drawn": drawn.tolist(),
        "all": mean_weights(model, prepared, rows, device).tolist(),
        "some": mean_weights(model, prepared, drawn, device).tolist(),
    }


def mean_weights(model: nn.Module, prepared: Prepared, rows: Array, device: torch.device) -> Array:
    """Mean over rows of the weights of feature hops, `[hops + 1]`.

    They depend on features alone. Hops of labels, which are kept for the rows of the split only, may be zeros here.
    """
    weigh: Any = model.hop_weights
    shape, features = prepared.shape, replace(prepared.train, label_hops=None)
    total: Array = np.zeros(shape.hops + 1)
    for _, x, _ in read_batches(features, rows, device=device):
        y = x.new_zeros(len(x), 1, shape.label_hops + 1, shape.classes)
        weights: HopWeights = weigh(x, y)
        if weights.features is None:
            raise GamlpError(f"'{prepared.recipe.model.name}' weighs no hops", hint="choose GAMLP or SAGN")
        total += weights.features.double().sum(0).cpu().numpy()
    return total / len(rows)


def _summary(kept: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; `relative` is to the greatest weight of the range, `far` the sum from hop FAR on."""
    ranges = []
    for index, first in enumerate(kept[0]["ranges"]):
        found: dict[str, Any] = {"rows": first["rows"], "drawn": first["drawn"]}
        for name in ("all", "some"):
            if first[name] is None:
                found[name] = None
                continue
            weights = np.array([one["ranges"][index][name] for one in kept])
            mean = weights.mean(0)
            far = weights[:, FAR:].sum(1)
            found[name] = {
                "weights": mean.tolist(),
                "relative": (mean / mean.max()).tolist(),
                "far": float(far.mean()),
                "far_deviation": float(far.std(ddof=1)) if len(kept) > 1 else 0.0,
            }
        ranges.append(found)
    scores = [one["valid"] for one in kept if one["valid"] is not None]
    return {
        "seeds": len(kept),
        "valid": float(np.mean(scores)) if scores else None,
        "ranges": ranges,
        "margins": {name: _margins(kept, name) for name in ("all", "some")},
    }


def _margins(kept: list[dict[str, Any]], name: str) -> dict[str, tuple[float, float | None]]:
    """What the paper observes, in points of weight with the error over seeds.

    `nearer`: by how much the share of far hops is smaller in the last range of degrees than in the first; `close`: by
    how much hops 1 and 2 weigh more than 1 / (hops + 1) each, in the range where they weigh least.
    """
    known = [index for index, one in enumerate(kept[0]["ranges"]) if one[name] is not None]
    if len(known) < 2:
        return {}
    weights = np.array([[run["ranges"][index][name] for index in known] for run in kept])  # [seeds, ranges, hops + 1]
    far = weights[:, :, FAR:].sum(2)
    near = weights[:, :, NEAR].mean(2) - 1 / weights.shape[2]
    return {
        "nearer": _with_error(100 * (far[:, 0] - far[:, -1])),
        "close": _with_error(100 * near[:, near.mean(0).argmin()]),
    }


def _with_error(values: Array) -> tuple[float, float | None]:
    """Mean over seeds, and its standard error."""
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    return float(values.mean()), error


def as_results(table: PaperTable, result: dict[str, Any]) -> Results:
    """Heat maps for pages and figures, of all nodes and of drawn ones; ranges without nodes are left out."""
    grids = {}
    for dataset, methods in result["datasets"].items():
        for method, found in methods.items():
            for which, title in (("all", "all nodes"), ("some", "drawn nodes")):
                pairs = zip(result["ranges"], found["ranges"])
                rows = [
                    (f"{low}–{high}", one[which]["relative"]) for (low, high), one in pairs if one[which] is not None
                ]
                grids[f"{dataset}-{method}-{which}"] = Grid(
                    f"{table.datasets[dataset].title}, {title}", "degree", "hop", "weight, greatest of the range = 1",
                    tuple(label for label, _ in rows), tuple(str(hop) for hop in result["hops"]),
                    tuple(tuple(values) for _, values in rows), found["margins"][which],
                )  # fmt: skip
    drawn = {name: grid for name, grid in grids.items() if grid.rows}
    return Results(table, {}, result["missing"], drawn, tables=tuple(render(table, result)))


def render(table: PaperTable, result: dict[str, Any]) -> list[Shown]:
    """For every dataset and method: weights relative to the greatest of the range, of all nodes and of drawn ones."""
    pages: list[Shown] = []
    header = ["degree", "nodes", *(f"hop {hop}" for hop in result["hops"]), f"sum from hop {FAR}"]
    for dataset, methods in result["datasets"].items():
        for method, found in methods.items():
            rows = []
            for (low, high), one in zip(result["ranges"], found["ranges"]):
                for which, count in (("all", one["rows"]), ("some", len(one["drawn"]))):
                    values = one[which]
                    if values is None:
                        rows.append([f"{low}–{high}", "none", *("–" for _ in header[2:])])
                        break
                    shown = [f"{share:.2f}" for share in values["relative"]]
                    far = f"{values['far']:.3f} ± {values['far_deviation']:.3f}"
                    rows.append(
                        [f"{low}–{high}", f"{count:,} drawn" if which == "some" else f"all {count:,}", *shown, far]
                    )
            title = f"{method} on {table.datasets[dataset].title}, mean of {found['seeds']} seeds"
            pages.append((f"{title}: weights, greatest of a row = 1", header, rows))
    return pages
