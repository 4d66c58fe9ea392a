"""Pictures of a table's results as PNG and SVG: the same bytes for the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gamlp.bench.claims import SURE, Verdict
from gamlp.bench.pages import TITLES
from gamlp.bench.results import Grid, Growth, Results, in_percent
from gamlp.errors import MissingExtra
from gamlp.io import atomic_file

# Okabe and Ito's colours, which colour-blind people tell apart; markers and dashes tell apart the rest.
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#7A7A7A",
    "#B8A200",
    "#8C510A",
    "#5E3C99",
    "#1B7837",
)
_OURS = {"GAMLP(JK)": "#D55E00", "GAMLP(R)": "#000000", "GAMLP": "#D55E00"}
_MARKERS = "osD^vPX<>p*h"
_DASHES = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_STYLE: Any = {
    "svg.hashsalt": "gamlp",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
# Marker, colour and whether it is filled, of a comparison that comes out as claimed, is not known, or does not.
_OF_VERDICT: dict[bool | None, tuple[str, str, bool]] = {
    True: ("o", "#0072B2", True),
    None: ("s", "#7A7A7A", False),
    False: ("D", "#D55E00", True),
}
_UNITS = {
    "seconds.preparation": "preparation, s",
    "seconds.training": "training, s",
    "seconds.inference": "inference, s",
    "peak_memory": "peak memory, MiB",
}


def write_figures(results: Results, folder: Path) -> list[Path]:
    """`<name>.png` and `<name>.svg` in the folder; none where nothing was measured."""
    draw: dict[str, Callable[[Results], Any]] = {
        "grid": dots,
        "curve": curves,
        "efficiency": bars,
        "cost": dots,
        "complexity": lambda results: growth(_asked(results)),
        "hop-weights": lambda results: heat_maps(tuple(results.grids.values())),
        "sgc-steps": lambda results: heat_maps(tuple(results.grids.values())),
    }
    if not results.measured_any:
        return []
    with _style():
        figure = draw[results.table.kind](results)
        return save(figure, folder, results.table.name)


def write_margins(verdict: Verdict, folder: Path, name: str) -> list[Path]:
    """`<name>.png`: every comparison of a claim; none where there is none."""
    if not verdict.outcomes:
        return []
    with _style():
        return save(margins(verdict), folder, name, ("png",))


def save(figure: Any, folder: Path, name: str, endings: Sequence[str] = ("png", "svg")) -> list[Path]:
    """In each format, without a date."""
    metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    paths = [folder / f"{name}.{ending}" for ending in endings]
    for path, ending in zip(paths, endings):
        with atomic_file(path) as new, _style():
            figure.savefig(new, dpi=150, bbox_inches="tight", metadata=metadata[ending])
    return paths


def curves(results: Results) -> Any:
    """Mean over the axis with a band of one deviation, a panel for each dataset; a published bound as a dashed line."""
    table = results.table
    assert table.axis is not None
    figure, axes = _panels(len(table.datasets), 1, (7.2, 4.6))
    metric = table.metrics[0]
    for panel, (dataset, column) in zip(axes, table.datasets.items()):
        for number, method in enumerate(table.methods):
            cells = [(at, results.measured(method, dataset, metric, at)) for at in table.axis.values]
            known = [(at, cell.mean, cell.deviation or 0.0) for at, cell in cells if cell is not None]
            if not known:
                continue
            x, mean, deviation = zip(*known)
            look = _look(method, number)
            panel.plot(x, mean, label=method, **look)
            low, high = ([m + sign * d for m, d in zip(mean, deviation)] for sign in (-1, 1))
            panel.fill_between(x, low, high, color=look["color"], alpha=0.12, linewidth=0)
            value = table.published.get(method, {}).get(dataset, {}).get(metric)
            if value is not None and value.bound == "above":
                text = f"published: {method}\nabove {value.mean:.1f}" + (f" at {value.at:g}" if value.at else "")
                panel.axhline(value.mean, color=look["color"], linestyle=":", linewidth=1.4, label=text)
        panel.set(title=column.title, xlabel=table.axis.title, ylabel=_with_unit(metric), xticks=table.axis.values)
        panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def dots(results: Results) -> Any:
    """Ours filled and published hollow, with deviations; methods downwards, a panel for each dataset at hand."""
    table = results.table
    measured = {dataset for _, dataset, _ in results.places}
    shown = [name for name in table.datasets if name in measured]
    figure, axes = _wrapped(len(shown), 4, (2.7, 0.9 + 0.25 * len(table.methods)), sharey=True)
    beside = False  # whether a published value is shown at all
    for panel, dataset in zip(axes, shown):
        metric = table.metrics_of(dataset)[-1]
        for row, method in enumerate(table.methods):
            ours, published = results.measured(method, dataset, metric), table.published_at(method, dataset, metric)
            if published is not None:
                _dot(panel, published.mean, published.deviation, row + 0.16, "#666666", "white")
                beside = True
            if ours is not None:
                _dot(panel, ours.mean, ours.deviation, row - 0.16 * (published is not None), "#D55E00", "#D55E00")
        panel.set(title=table.datasets[dataset].title, xlabel=_with_unit(metric), ylim=(len(table.methods) - 0.5, -0.5))
        panel.set_yticks(range(len(table.methods)), list(table.methods))
    _dot(axes[0], float("nan"), None, 0, "#D55E00", "#D55E00", "ours")
    if beside:
        _dot(axes[0], float("nan"), None, 0, "#666666", "white", "published")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def margins(verdict: Verdict) -> Any:
    """By how much each comparison comes out as claimed ± twice its error: right of the line it does."""
    shown = [part for one in verdict.outcomes for part in (*one.parts, one)]
    figure, (panel,) = _panels(1, 1, (7.2, 1.0 + 0.26 * len(shown)))
    for row, one in enumerate(shown):
        marker, colour, fill = _OF_VERDICT[one.holds]
        panel.errorbar(
            [one.margin], [row], xerr=[SURE * (one.error or 0.0)], fmt=marker, color=colour,
            mfc=colour if fill else "white", markersize=6, elinewidth=1.4,
        )  # fmt: skip
    panel.axvline(0, color="#000000", linewidth=1.0)
    panel.set(
        xlabel=f"margin ± twice its error, {verdict.claim.unit}; above 0 is as claimed", ylim=(len(shown) - 0.5, -0.5)
    )
    panel.set_yticks(range(len(shown)), [one.place for one in shown])
    found = {one.holds for one in shown}
    for word, label in ((True, "as claimed"), (None, "not known"), (False, "not as claimed")):
        if word in found:
            marker, colour, fill = _OF_VERDICT[word]
            panel.plot([], [], marker, color=colour, mfc=colour if fill else "white", label=label)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def bars(results: Results) -> Any:
    """Training time relative to the first method, on a log axis, ours beside published, and beside it ours scored.

    A row of panels for each dataset.
    """
    table, metric = results.table, "seconds.training"
    measured = {dataset for _, dataset, _ in results.places}
    shown = [name for name in table.datasets if name in measured]
    height = 1.1 + 0.36 * max(len(table.runs_of(name)) for name in shown)
    across = 2 if "test.score" in table.metrics else 1
    figure, axes = _panels(across, len(shown), (5.4, height))
    for number, dataset in enumerate(shown):
        panel = axes[number * across]
        pairs = {
            method: (ours, table.published_at(method, dataset, metric))
            for method in table.runs_of(dataset)
            if (ours := results.measured(method, dataset, metric)) is not None
        }
        # Bars begin below the shortest, so that it is seen as one too.
        left = min([0.1, *(ours.mean / 2 for ours, _ in pairs.values())])
        for row, pair in enumerate(pairs.values()):
            for value, place, colour in zip(pair, (-0.19, 0.19), ("#D55E00", "#AAAAAA")):
                if value is not None:
                    panel.barh(row + place, value.mean - left, 0.36, left=left, color=colour)
                    if value.deviation is not None:  # on a log axis nothing reaches 0
                        low = min(value.deviation, 0.9 * value.mean)
                        spread = [[low], [value.deviation]]
                        panel.errorbar([value.mean], [row + place], xerr=spread, color="#000000", elinewidth=0.8)
                    text = f"{value.mean:.2g}" if value.mean < 1 else f"{value.mean:.{1 if value.mean < 100 else 0}f}"
                    spot = {
                        "xy": (value.mean + (value.deviation or 0.0), row + place),
                        "xytext": (3, 0),
                        "textcoords": "offset points",
                    }
                    panel.annotate(text, **spot, va="center", fontsize=7)
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set(title=table.datasets[dataset].title, xlabel=f"training time, {results.first(dataset)} = 1.0")
        panel.set(xlim=(left, panel.get_xlim()[1] * 2), ylim=(len(pairs) - 0.5, -0.5))
        panel.set_yticks(range(len(pairs)), list(pairs))
        panel.grid(axis="y", visible=False)
        if across == 2:
            _scores(axes[number * across + 1], results, dataset, list(pairs))
    for colour, label in (("#D55E00", "ours"), ("#AAAAAA", "published, on the paper's graph and machine")):
        axes[0].barh([float("nan")], [1], color=colour, label=label)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _scores(panel: Any, results: Results, dataset: str, methods: Sequence[str]) -> None:
    """Test accuracy with its deviation, the rows of the panel beside it."""
    for row, method in enumerate(methods):
        if (ours := results.measured(method, dataset, "test.score")) is not None:
            _dot(panel, ours.mean, ours.deviation, row, "#D55E00", "#D55E00")
    panel.set(title=results.table.datasets[dataset].title, xlabel=_with_unit("test.score"))
    panel.set(ylim=(len(methods) - 0.5, -0.5))
    panel.set_yticks(range(len(methods)), [""] * len(methods))


def _asked(results: Results) -> tuple[Growth, ...]:
    """Growth of what the table asks for: of inference, which is measured too, the paper says nothing."""
    asked = tuple(one for one in results.growth if one.metric in results.table.metrics)
    return asked or results.growth


def growth(measured: Sequence[Growth]) -> Any:
    """Log over log: a row of panels for each quantity, a column for each metric; the exponent in the legend."""
    from matplotlib.ticker import LogLocator

    metrics, quantities = (
        list(dict.fromkeys(names)) for names in zip(*((one.metric, one.quantity) for one in measured))
    )
    methods = list(dict.fromkeys(one.method for one in measured))
    figure, axes = _panels(len(metrics), len(quantities), (4.6, 2.9))
    for place, panel in enumerate(axes):
        quantity, metric = quantities[place // len(metrics)], metrics[place % len(metrics)]
        for one in (one for one in measured if (one.metric, one.quantity) == (metric, quantity)):
            scale = 2**-20 if metric == "peak_memory" else 1.0
            slope = "" if one.slope is None else f" {one.slope:.1f}"
            look = _look(one.method, methods.index(one.method))
            panel.plot(one.sizes, [value * scale for value in one.values], label=f"{one.method}{slope}", **look)
        panel.set(xscale="log", yscale="log", xlabel=quantity, ylabel=_UNITS.get(metric, metric))
        sizes = sorted({size for one in measured if one.quantity == quantity for size in one.sizes})
        panel.set_xticks(sizes, [_short(size) for size in sizes])
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.minorticks_off()
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, title="exponent", title_fontsize=8)
    return figure


def heat_maps(grids: Sequence[Grid]) -> Any:
    """A heat map for each grid, from white to blue, with values written into the cells where they fit."""
    widest, tallest = max(len(grid.columns) for grid in grids), max(len(grid.rows) for grid in grids)
    size = (1.6 + 0.5 * widest, max(3.0, 1.4 + 0.3 * tallest))
    figure, axes = _wrapped(len(grids), 2 if widest <= 10 else 1, size)
    for panel, grid in zip(axes, grids):
        top = max(1.0, max(max(row) for row in grid.values))
        image = panel.imshow(grid.values, cmap="Blues", vmin=0, vmax=top, aspect="auto")
        panel.set(title=grid.title, xlabel=grid.column_title, ylabel=grid.row_title)
        slanted = max(map(len, grid.columns)) > 2
        panel.set_xticks(range(len(grid.columns)), grid.columns, rotation=90 if slanted else 0)
        panel.set_yticks(range(len(grid.rows)), grid.rows)
        panel.grid(visible=False)
        for row, values in enumerate(grid.values):
            for column, value in enumerate(values):
                colour = "white" if value > 0.6 * top else "black"
                panel.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
        figure.colorbar(image, ax=panel, label=grid.value_title)
    return figure


@contextmanager
def _style() -> Iterator[None]:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "plots") from error
    with matplotlib.rc_context(_STYLE):
        yield


def _panels(columns: int, rows: int, size: tuple[float, float], sharey: bool = False) -> tuple[Any, list[Any]]:
    """A figure without a window and its panels, row by row; `size` is one panel's in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat)


def _wrapped(count: int, most: int, size: tuple[float, float], sharey: bool = False) -> tuple[Any, list[Any]]:
    """So many panels, at most `most` side by side: a figure that is wider cannot be read on a page."""
    across = min(count, most)
    figure, axes = _panels(across, -(-count // across), size, sharey)
    for panel in axes[count:]:
        panel.remove()
    return figure, axes[:count]


def _look(method: str, number: int) -> dict[str, Any]:
    """Of a method's line: GAMLP thick and dark, peers thin."""
    ours = method in _OURS
    return {
        "color": _OURS.get(method, _COLOURS[number % len(_COLOURS)]),
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 5,
        "linestyle": "solid" if ours else _DASHES[number % len(_DASHES)],
        "linewidth": 2.4 if ours else 1.2,
        "zorder": 3 if ours else 2,
    }


def _dot(
    panel: Any, mean: float, deviation: float | None, row: float, edge: str, fill: str, label: str | None = None
) -> None:
    panel.errorbar(
        [mean], [row], xerr=[deviation or 0.0], fmt="o", color=edge, mfc=fill, markersize=5, elinewidth=1.2, label=label
    )


def _with_unit(metric: str) -> str:
    return (
        TITLES[metric].replace(" %", ", %").replace("test,", "test accuracy,") if in_percent(metric) else TITLES[metric]
    )


def _short(size: float) -> str:
    """`50k`, `2M`."""
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if size >= factor:
            return f"{size / factor:g}{unit}"
    return f"{size:g}"
