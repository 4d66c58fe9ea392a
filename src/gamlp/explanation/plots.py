"""Heat maps of weights over hops: by degree, by class, and of chosen nodes. Needs matplotlib (gamlp[plots])."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError, MissingExtra
from gamlp.explanation.nodes import NodeExplanation
from gamlp.explanation.subsets import SubsetShares
from gamlp.explanation.weights import SIGNALS, Signal, WeightsByClass, WeightsByDegree
from gamlp.io import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40  # of one heat map: more are not read by anybody
_MOST_WRITTEN = 16  # hops whose weight is written into its cell
_LONGEST = 22  # letters of a name beside a row
_SUBSET = 36  # letters of a relation beside a row
_WORD = 9  # letters of a class inside a cell
_FLAT = "; flat: all hops weigh about the same"


@dataclass(frozen=True)
class Panel:
    """One heat map: a row for each name, a column for each hop from `first` on; `words` stand in the cells."""

    title: str
    axis: str
    names: tuple[str, ...]
    weights: Array
    first: int
    words: tuple[tuple[str, ...], ...] | None = None
    flat: bool = False  # nearly the same weight for every hop: written, not painted

    @property
    def row_height(self) -> float:
        """Inches: room for the names that have most lines."""
        return 0.32 + 0.14 * max(name.count("\n") for name in self.names)


def check_matplotlib() -> None:
    """Refuse in one sentence where it is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "plots")


def weights_figure(
    degree: WeightsByDegree | None,
    classes: WeightsByClass | None = None,
    nodes: Sequence[NodeExplanation] = (),
    subsets: SubsetShares | None = None,
    *,
    title: str = "",
) -> Figure:
    """Features on the left, labels (where they are listened to) on the right, in one colour scale."""
    columns = [found for kind in SIGNALS if (found := panels(kind, degree, classes, nodes, subsets))]
    if not columns:
        raise GamlpError("the model weighs no hops: there is nothing to draw", hint="leave the picture out")
    check_matplotlib()
    from matplotlib.figure import Figure

    heights = [panel.row_height * len(panel.names) + 1.5 for panel in max(columns, key=len)]
    widths = [max(4.2, 0.55 * column[0].weights.shape[1] + 2.6) for column in columns]
    figure = Figure(figsize=(min(30.0, sum(widths) + 1), min(60.0, sum(heights) + 0.6)), layout="constrained")
    grid = figure.subplots(
        len(heights), len(columns), squeeze=False, gridspec_kw={"height_ratios": heights, "width_ratios": widths}
    )
    strongest = max(float(np.nanmax(panel.weights)) for column in columns for panel in column)
    for across, column in enumerate(columns):
        for down, panel in enumerate(column):
            image = _draw(grid[down, across], panel, strongest)
        for empty in grid[len(column) :, across]:
            empty.set_axis_off()
    figure.colorbar(image, ax=grid.ravel().tolist(), label="weight (share of 1)", fraction=0.03, pad=0.02)
    if title:
        figure.suptitle(_short(title, 90), fontsize=12, parse_math=False)
    return figure


def panels(
    kind: Signal,
    degree: WeightsByDegree | None,
    classes: WeightsByClass | None,
    nodes: Sequence[NodeExplanation],
    subsets: SubsetShares | None = None,
) -> list[Panel]:
    """The heat maps of `features` or of `labels`, from top to bottom."""
    found = []
    shares = {} if subsets is None else subsets.by_subset(kind)
    if shares:
        strongest = sorted(shares, key=lambda name: -sum(shares[name]))[:MOST_ROWS]
        names = tuple("\n+ ".join(_short(link, _SUBSET) for link in name.split("+")) for name in strongest)
        some = f", {len(strongest)} of {len(shares)}" if len(strongest) < len(shares) else ""
        what = "directions" if subsets is not None and subsets.directions else "subsets"
        title = f"Hops of {kind}, share of {what}{some}"
        found.append(Panel(title, "relations", names, np.array([shares[name] for name in strongest]), 0))
    if degree is not None and getattr(degree.ranges[0], kind) is not None:
        first = degree.first_label_hop if kind == "labels" else 0
        names = tuple(f"{part.text} ({part.rows:,})" for part in degree.ranges)
        weights = np.array([getattr(part, kind) for part in degree.ranges])
        flat = degree.flat(kind) is not None
        title = f"Hops of {kind}, by degree (mean{_FLAT if flat else ''})"
        found.append(Panel(title, "neighbours (nodes)", names, weights, first, flat=flat))
    if classes is not None and classes.classes and getattr(classes.classes[0], kind) is not None:
        first = classes.first_label_hop if kind == "labels" else 0
        shown = classes.largest(MOST_ROWS)
        names = tuple(f"{_short(part.name)} ({part.rows:,})" for part in shown)
        weights = np.array([getattr(part, kind) for part in shown])
        some = f", {len(shown)} largest of {len(classes.classes)}" if len(shown) < len(classes.classes) else ""
        flat = classes.flat(kind) is not None
        title = f"Hops of {kind}, by {classes.by} class (mean{some}{_FLAT if flat else ''})"
        found.append(Panel(title, f"{classes.by} class (nodes)", names, weights, first, flat=flat))
    chosen = [node for node in nodes if _weights(node, kind) is not None][:MOST_ROWS]
    if chosen:
        words = None
        if kind == "features" and all(part.alone is not None for node in chosen for part in node.hops):
            words = tuple(tuple(part.alone.text if part.alone else "" for part in node.hops) for node in chosen)
        some = f", first {len(chosen)} of {len(nodes)}" if len(chosen) < len(nodes) else ""
        alone = " and what each alone says" if words else ""
        found.append(
            Panel(
                f"Hops of {kind}, chosen nodes{alone}{some}",
                "node: predicted (true)",
                tuple(_name(node) for node in chosen),
                np.array([_weights(node, kind) for node in chosen]),
                chosen[0].first_label_hop if kind == "labels" else 0,
                words,
            )
        )
    return found


def save_figure(figure: Figure, path: Path) -> None:
    """Write .png or .svg, whole or not at all."""
    with atomic_file(path) as new, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a letter that the font has not is a box
        figure.savefig(new, dpi=150)


def _draw(axes: Axes, panel: Panel, strongest: float) -> Any:
    count, hops = panel.weights.shape
    shades = np.zeros_like(panel.weights) if panel.flat else panel.weights
    image = axes.imshow(shades, aspect="auto", cmap="Blues", vmin=0.0, vmax=strongest)
    axes.set_title(panel.title, fontsize=10, loc="left")
    axes.set_xlabel("hop (steps away)")
    axes.set_ylabel(panel.axis)
    step = max(1, -(-hops // 20))
    axes.set_xticks(range(0, hops, step), [str(panel.first + hop) for hop in range(0, hops, step)])
    several = any("\n" in name for name in panel.names)
    axes.set_yticks(range(count), panel.names, parse_math=False, fontsize=8 if several else None)
    if hops <= _MOST_WRITTEN:
        for row in range(count):
            for hop in range(hops):
                weight = panel.weights[row, hop]
                text = (
                    f"{weight:.2f}" if panel.words is None else f"{weight:.2f}\n{_short(panel.words[row][hop], _WORD)}"
                )
                colour = "white" if shades[row, hop] > 0.6 * strongest else "black"
                size = 8 if panel.words is None else 7
                axes.text(hop, row, text, ha="center", va="center", color=colour, fontsize=size, parse_math=False)
    return image


def _name(node: NodeExplanation) -> str:
    true = "?" if node.true is None else _short(" | ".join(node.true), 12)
    return f"{_short(str(node.id), 12)}: {_short(node.predicted.text, 12)} ({true})"


def _weights(node: NodeExplanation, kind: str) -> tuple[float, ...] | None:
    return node.feature_weights if kind == "features" else node.label_weights


def _short(name: str, most: int = _LONGEST) -> str:
    """One line of printable letters."""
    plain = "".join(letter if letter.isprintable() else " " for letter in " ".join(name.split()))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
