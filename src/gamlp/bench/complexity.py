"""The complexity table, measured: how time and memory grow with nodes, edges, features and hops, one at a time."""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.bench.cells import made_of
from gamlp.bench.one_point import measure_in_process
from gamlp.bench.results import Growth, Results, Shown
from gamlp.bench.tables import PaperTable, TableMethod
from gamlp.bench.work import Points, Work, chosen
from gamlp.errors import GamlpError
from gamlp.graph.datasets import communities
from gamlp.models import labels_used
from gamlp.peers import recipe_named
from gamlp.recipe import Recipe

Term = dict[str, float]  # symbol → power; infinite where the symbol stands in an exponent
_TOKENS = re.compile(r"\\[a-zA-Z]+|[a-zA-Z]|\d+|[{}^+()]")
LAYERS = "model.layers"  # what hops are for a method that passes messages
PARTS = {  # metric → what the paper's table calls it; it says nothing of inference
    "seconds.preparation": "preparation",
    "seconds.training": "training",
    "seconds.inference": "",
    "peak_memory": "memory",
}
SYMBOLS = {"nodes": {"n"}, "edges": {"m"}, "features": {"f"}, "hops": {"K", "L"}}
BASE = {"nodes": 100_000, "edges": 1_000_000, "features": 64, "hops": 4, "layers": 2}
GROWTH: dict[str, list[int]] = {
    "nodes": [100_000, 200_000, 400_000, 800_000],
    "edges": [1_000_000, 2_000_000, 4_000_000, 8_000_000],
    "features": [64, 128, 256, 512],
    "hops": [4, 8, 16, 32],
    "layers": [1, 2, 3, 4],
}
TITLES = {
    "seconds.preparation": "preparation time",
    "seconds.training": "training time an epoch",
    "seconds.inference": "inference time",
    "peak_memory": "peak memory",
}
SETTINGS = {"epochs": 4, "repeats": 3, "batch": 2000, "neighbours": 5, "classes": 10, "train": 0.1}


def exponent(formula: str, symbols: Collection[str]) -> float:
    """The highest power of the symbols in any term: what decides in the end. Infinite: exponential; logarithms are 0.

    >>> exponent(r"\\mathcal{O}(Knf + K\\frac{\\sqrt{m\\lg{n}}}{\\varepsilon})", {"m"})
    0.5
    >>> exponent(r"\\mathcal{O}(k^{K}nf^2)", {"f"}), exponent(r"\\mathcal{O}(k^{K}nf^2)", {"K"})
    (2.0, inf)
    """
    if formula.strip() == "-":
        return 0.0
    tokens = _TOKENS.findall(formula.replace(r"\mathcal{O}", ""))
    found, rest = _sum(tokens[1:])  # after the O's opening bracket
    if rest != [")"]:
        raise ValueError(f"cannot read the formula {formula!r}")
    return max(sum(term.get(symbol, 0.0) for symbol in symbols) for term in found)


def _sum(tokens: list[str]) -> tuple[list[Term], list[str]]:
    """Terms up to a closing bracket, and the tokens from there."""
    terms: list[Term] = [{}]
    while tokens and tokens[0] not in "})":
        if tokens[0] == "+":
            terms, tokens = [*terms, {}], tokens[1:]
            continue
        factor, tokens = _factor(tokens)
        for symbol, power in factor.items():
            terms[-1][symbol] = terms[-1].get(symbol, 0.0) + power
    return terms, tokens


def _factor(tokens: list[str]) -> tuple[Term, list[str]]:
    head, tokens = tokens[0], tokens[1:]
    if head == r"\sqrt":
        (inner,), tokens = _braced(tokens)
        return {symbol: power / 2 for symbol, power in inner.items()}, tokens
    if head in (r"\lg", r"\log"):
        _, tokens = _braced(tokens)
        return {}, tokens
    if head == r"\frac":
        (above,), tokens = _braced(tokens)
        (below,), tokens = _braced(tokens)
        return {name: above.get(name, 0.0) - below.get(name, 0.0) for name in {*above, *below}}, tokens
    own: Term = {} if head.isdigit() else {head: 1.0}
    if tokens[:1] != ["^"]:
        return own, tokens
    if tokens[1] == "{":
        (power,), tokens = _braced(tokens[1:])
        # k^K: exponential in K; k itself is raised to what K happens to be.
        return {**own, **dict.fromkeys(power, math.inf)}, tokens
    return {symbol: float(tokens[1]) for symbol in own}, tokens[2:]


def _braced(tokens: list[str]) -> tuple[list[Term], list[str]]:
    terms, rest = _sum(tokens[1:])
    return terms, rest[1:]


@dataclass(frozen=True)
class PowerLaw:
    """value ≈ factor · size^slope by least squares of logarithms. `error` is the slope's standard error.

    `r2` is the share of the variance of log value that the line explains; both are None where nothing says so: two
    sizes have no error, and values that are all the same have no variance.
    """

    slope: float
    error: float | None
    r2: float | None

    @classmethod
    def of(cls, sizes: Sequence[float], values: Sequence[float]) -> PowerLaw | None:
        """None where there are not two sizes with values above zero."""
        points = np.array([(size, value) for size, value in zip(sizes, values) if value > 0], np.float64).reshape(-1, 2)
        if len(np.unique(points[:, 0])) < 2:
            return None
        x, y = (np.log(points) - np.log(points).mean(0)).T
        slope = float(x @ y / (x @ x))
        left, all_of_it, spare = float(((y - slope * x) ** 2).sum()), float(y @ y), len(points) - 2
        error = math.sqrt(left / spare / float(x @ x)) if spare else None
        return cls(slope, error, 1 - left / all_of_it if all_of_it > 1e-12 else None)


@dataclass(frozen=True)
class Sizes:
    """Of a graph and of how far a method looks."""

    nodes: int
    edges: int
    features: int
    hops: int

    @property
    def graph(self) -> tuple[int, int, int]:
        return self.nodes, self.edges, self.features


@dataclass(frozen=True)
class GrowthPlan:
    """What a table asks for: its options over the defaults."""

    methods: dict[str, TableMethod]
    base: dict[str, int]
    growth: dict[str, list[int]]
    settings: dict[str, Any]

    @classmethod
    def of(cls, table: PaperTable, work: Work) -> GrowthPlan:
        options = table.options
        also = {name: TableMethod.model_validate(entry) for name, entry in options.get("also", {}).items()}
        known = {name: entry for name, entry in {**table.methods, **also}.items() if entry.recipe is not None}
        methods = {name: known[name] for name in chosen("method", known, work.methods)}
        settings = {name: options.get(name, value) for name, value in SETTINGS.items()}
        if work.seeds is not None:
            settings["repeats"] = work.seeds
        return cls(methods, BASE | options.get("base", {}), GROWTH | options.get("growth", {}), settings)

    def sizes(self, method: str, quantity: str) -> list[int]:
        return sorted(self.growth[self._looks(method) if quantity == "hops" else quantity])

    def at(self, method: str, quantity: str, size: int) -> Sizes:
        """The base with one quantity changed; hops are layers for a method that passes messages."""
        base = {name: self.base[name] for name in ("nodes", "edges", "features")}
        return Sizes(**(base | {"hops": self.base[self._looks(method)]} | {quantity: size}))

    def _looks(self, method: str) -> str:
        return "layers" if self.methods[method].axis == LAYERS else "hops"

    def recipe(self, method: str, sizes: Sizes) -> Recipe:
        """The row's recipe with what all rows share: hidden width f as in the formulas, no early stopping."""
        entry = self.methods[method]
        recipe = recipe_named(str(entry.recipe)).changed(dict(entry.changes))
        changes: dict[str, Any] = {
            "propagation.scaling": "none", "model.hidden": sizes.features, "training.epochs": self.settings["epochs"],
            "training.patience": 0, "training.keep": "last", "training.batch_size": self.settings["batch"],
            "training.learning_rate": 0.01, entry.axis or "propagation.hops": sizes.hops,
        }  # fmt: skip
        if labels_used(recipe):
            changes["propagation.label_hops"] = sizes.hops
        if "fanouts" in recipe.model.options:
            changes["model.options.fanouts"] = [self.settings["neighbours"]] * sizes.hops
        if "samples" in recipe.model.options:  # k of the formulas is a row of the batch's
            changes["model.options.samples"] = self.settings["neighbours"] * self.settings["batch"]
        return recipe.changed(changes)


def measure(table: PaperTable, work: Work) -> dict[str, Any]:
    """`growth`: every metric of every method over every quantity, with its slope and the published exponent."""
    plan, points = GrowthPlan.of(table, work), Points(work, "complexity")
    wanted = [
        (plan.at(method, quantity, size), method)
        for quantity in SYMBOLS
        for method in plan.methods
        for size in plan.sizes(method, quantity)
    ]
    wanted = sorted(set(wanted), key=lambda one: (one[0].graph, list(plan.methods).index(one[1]), one[0].hops))
    found, refused = _measured(wanted, plan, points)
    work.progress("points", len(found), len(wanted), "points", "")
    lines = [
        line
        for metric in PARTS
        for method in plan.methods
        for quantity in SYMBOLS
        if (line := _line(table, plan, found, method, quantity, metric)) is not None
    ]
    lacks = [method for sizes, method in wanted if (sizes, method) not in found and method not in refused]
    return {
        "base": plan.base, "settings": plan.settings, "complete": len(found) == len(wanted), "points": len(found),
        "growth": lines, "refused": refused, "lacks": lacks,
    }  # fmt: skip


def _measured(
    wanted: list[tuple[Sizes, str]], plan: GrowthPlan, points: Points
) -> tuple[dict[tuple[Sizes, str], dict[str, Any]], dict[str, str]]:
    """Points that are known or measured now, and methods that cannot be, with the reason."""
    work, found, refused = points.work, {}, {}
    with _Graphs(work.folder / "graphs", plan.settings) as graphs:
        for done, (sizes, method) in enumerate(wanted):
            work.progress("points", done, len(wanted), "points", f"{method} at {sizes}")
            try:
                recipe = plan.recipe(method, sizes)
                settings = [asdict(sizes), plan.settings, recipe.model_dump(mode="json", exclude={"about"})]
                made = made_of("communities", recipe, {})
                known = points.known(settings, method, made)
                if known is None and not work.over and method not in refused:
                    begun, folder = time.monotonic(), graphs.of(sizes)
                    now = measure_in_process(folder, recipe, plan.settings["repeats"], work.folder / "scratch")
                    known = points.keep(settings, now, method, made, time.monotonic() - begun)
            except GamlpError as error:
                refused[method] = str(error)
                continue
            if known is not None:
                found[sizes, method] = known
    return found, refused


class _Graphs:
    """Generated graphs, the last one kept: points come sorted by graph."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        self._made: Path | None = None

    def __enter__(self) -> _Graphs:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()

    def of(self, sizes: Sizes) -> Path:
        nodes, edges, features = sizes.graph
        own = self._folder / str(os.getpid()) / f"complexity-{nodes}-{edges}-{features}"
        if own != self._made:
            self._forget()
            communities(
                own, nodes=nodes, edges=edges, features=features, classes=self._settings["classes"],
                train=self._settings["train"], valid=0.0, threads=1,
            )  # fmt: skip
            self._made = own
        return own

    def _forget(self) -> None:
        """Only what is ours: another process may measure beside us."""
        if self._made is not None:
            shutil.rmtree(self._made.parent)
            self._made = None


def _line(
    table: PaperTable, plan: GrowthPlan, found: dict[Any, dict[str, Any]], method: str, quantity: str, metric: str
) -> dict[str, Any] | None:
    """One curve with its slope; `last` is that of the two greatest sizes, where constant costs weigh least."""
    places = {size: (plan.at(method, quantity, size), method) for size in plan.sizes(method, quantity)}
    points = [(size, found[place][metric]) for size, place in places.items() if place in found]
    if not points:
        return None
    sizes, values = zip(*points)
    law, last = PowerLaw.of(sizes, values), PowerLaw.of(sizes[-2:], values[-2:])
    return {
        "method": method, "quantity": quantity, "metric": metric, "sizes": list(sizes), "values": list(values),
        "slope": law and law.slope, "error": law and law.error, "r2": law and law.r2, "last": last and last.slope,
        "published": _published(table, method, quantity, metric),
    }  # fmt: skip


def _published(table: PaperTable, method: str, quantity: str, metric: str) -> float | str | None:
    """The formula's exponent, 'exponential', or None where the paper has no formula."""
    power = published_exponent(table, method, quantity, metric)
    return "exponential" if power is not None and math.isinf(power) else power


def published_exponent(table: PaperTable, method: str, quantity: str, metric: str) -> float | None:
    """Of a metric's formula, infinite where the quantity stands in an exponent; None where the paper has none."""
    formulas = table.options.get("formulas", {})
    formula = formulas.get(method, formulas.get(method.partition("(")[0], {})).get(PARTS[metric])
    if formula is None:
        return None
    symbols = SYMBOLS[quantity]
    entry = table.methods.get(method)
    if quantity == "hops" and entry is not None and entry.axis == LAYERS:
        symbols = symbols | {"P"}  # its layers are at once its hops and its classifier
    return exponent(formula, symbols)


def as_results(table: PaperTable, result: dict[str, Any]) -> Results:
    """For pages and figures."""
    growth = tuple(
        Growth(line["method"], line["quantity"], line["metric"], tuple(line["sizes"]), tuple(line["values"]))
        for line in result["growth"]
    )
    return Results(table, {}, growth=growth, tables=tuple(render(table, result)))


def render(table: PaperTable, result: dict[str, Any]) -> list[Shown]:
    """For every metric: slope, its error, R², that of the two greatest sizes and the published exponent."""
    pages: list[Shown] = []
    for metric in PARTS:
        lines = [line for line in result["growth"] if line["metric"] == metric]
        rows = []
        for method in dict.fromkeys(line["method"] for line in lines):
            own = {line["quantity"]: line for line in lines if line["method"] == method}
            rows.append([method, *(_told(own.get(quantity)) for quantity in SYMBOLS)])
        if not rows:
            continue
        title = f"Growth of {TITLES[metric]}: exponent ± its error (R², of the two greatest sizes alone); the formula's"
        pages.append((title, ["method", *(f"with {quantity}" for quantity in SYMBOLS)], rows))
    return pages


def _told(line: dict[str, Any] | None) -> str:
    if line is None or line["slope"] is None:
        return "–"
    published = line["published"]
    tail = "" if published is None else f"; {published if isinstance(published, str) else format(published, 'g')}"
    error = "" if line.get("error") is None else f" ± {line['error']:.2f}"
    fits = "" if line.get("r2") is None else f"R² {line['r2']:.3f}, "
    return f"{line['slope']:.2f}{error} ({fits}{line['last']:.2f}){tail}"
