"""docs/results/papers100m.md, from what the parts of the job wrote; nothing is typed by hand."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from gamlp.io import write_text
from gamlp.propagation import FeatureSignal, LabelSignal, Operator, Plan
from gamlp.sizing.graph_shape import GraphShape
from gamlp.sizing.hops import HopSizes

GB = 1e9
LINE = 64
_PARTS = ("papers100m_tables", "papers100m_peers")  # further sections, where they were measured


def write(folder: Path) -> None:
    """The page, beside the folder of records."""
    steps = folder / "papers100m" / "steps.json"
    results = json.loads(steps.read_text()) if steps.exists() else {}
    write_text(folder / "papers100m.md", page(results, folder))


def page(results: dict[str, Any], folder: Path) -> str:
    """Markdown of all scales that were run, and of the other parts."""
    lines = [
        "# papers100M's shape on one machine",
        "",
        "A generated graph of ogbn-papers100M's shape (`gamlp generate communities`: shuffled ids, degrees and",
        "clustering of a citation graph), from nothing to predictions: 12 hops of 128 features and 10 of 172 classes",
        "in float16 for the rows of the split, GAMLP(JK) and (R) by the published settings at hidden 256. Written by",
        "`python benchmarks/papers100m.py`. Scores are those of a generated graph after a few epochs: they show that",
        "the job is whole, not how good the method is.",
        "",
    ]
    for scale in sorted(results, key=float, reverse=True):
        lines += _run(results[scale])
    lines += _growth(results)
    for part in _PARTS:
        record = folder / "papers100m" / f"{part.removeprefix('papers100m_')}.json"
        if record.exists():
            lines += ["", importlib.import_module(part).section(json.loads(record.read_text())).strip(), ""]
    return "\n".join(lines).rstrip() + "\n"


def _run(run: dict[str, Any]) -> list[str]:
    found = run.get("facts", {})
    lines = [
        f"## Scale {run['scale']:g}: {found.get('nodes', 0):,} nodes, {found.get('entries', 0):,} entries",
        "",
        f"{run['date']}, {run['machine']}; {run['versions']}. Budget of propagation {_gib(run['memory'])}.",
        "",
        "| step | seconds | processor | from disk, GB | to disk, GB | anonymous, GiB | resident, GiB | group, GiB "
        "| goes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, step in run["steps"].items():
        lines.append(f"| {name} | {' | '.join(_taken(step))} |")
    total = sum(_sum(step, "seconds") for step in run["steps"].values())
    lines += [
        f"| all | {total:.0f} | | | | | | | |",
        "",
        "*Group*: the step's control group, its page cache with it; its limit was 24 GiB.",
        "",
        *_expected(run, total),
        "",
        *_bounds(run),
        "",
        *_scores(run),
        "",
    ]
    return lines


def _taken(step: dict[str, Any]) -> list[str]:
    killed = sum(go["killed"] for go in step["goes"])
    goes = f"{len(step['goes'])}, killed {killed} time{'s' if killed > 1 else ''}" if killed else "1"
    return [
        f"{_sum(step, 'seconds'):.0f}",
        f"{_sum(step, 'processor'):.0f}",
        f"{_sum(step, 'read') / GB:.1f}",
        f"{_sum(step, 'written') / GB:.1f}",
        f"{max(go['anonymous'] for go in step['goes']) / 2**30:.2f}",
        f"{max(go['resident'] for go in step['goes']) / 2**30:.2f}",
        _group(step),
        goes,
    ]


def _group(step: dict[str, Any]) -> str:
    held = [go["group"] for go in step["goes"] if go["group"] is not None]
    return f"{max(held) / 2**30:.2f}" if held else "no group"


def _expected(run: dict[str, Any], total: float) -> list[str]:
    """The limits of the whole shape, times the scale."""
    scale, steps = run["scale"], run["steps"]
    lines = ["| | expected | measured | |", "|---|---|---|---|"]
    minutes, propagating = total / 60, _sum(steps["propagate"], "seconds") / 60 if "propagate" in steps else None
    rows: list[tuple[str, float, float | None, str]] = [
        ("all steps, minutes", 90 * scale, minutes, ""),
        ("propagation, minutes", 60 * scale, propagating, ""),
    ]
    if "propagate" in steps:
        peak = max(go["anonymous"] for go in steps["propagate"]["goes"])
        rows.append(("peak anonymous memory ÷ (budget + 300 MB)", 1, peak / (run["memory"] + 300e6), ""))
    resident = max(go["resident"] for step in steps.values() for go in step["goes"])
    rows.append(("peak resident memory, GiB", 24, resident / 2**30, ""))
    rows.append(("disk at its fullest, GB", 60 * scale, run["disk"] / GB if "disk" in run else None, ""))
    for text, limit, value, _ in rows:
        if value is not None:
            lines.append(f"| {text} | ≤ {limit:g} | {value:.2f} | {'met' if value <= limit else '**missed**'} |")
    return lines


def _bounds(run: dict[str, Any]) -> list[str]:
    rates = run.get("rates")
    if not rates:
        return []
    lines = [
        "| step | bytes moved, GB | bound, seconds | measured ÷ bound | what is counted |",
        "|---|---|---|---|---|",
    ]
    for name, moved, bound, counted in _moved(run, rates):
        step = run["steps"].get(name)
        if step:
            ratio = _sum(step, "seconds") / bound
            lines.append(f"| {name} | {moved / GB:.1f} | {bound:.0f} | {ratio:.2f} | {counted} |")
    lines += [
        "",
        f"Rates, measured beside: {rates['lines'] / 1e6:.0f} million lines a second at random in "
        f"{_gib(rates['memory'])}{_in_a_window(rates)}, "
        f"disk {rates['write'] / GB:.2f} GB/s written and {rates['read'] / GB:.2f} GB/s read"
        f"{_products(rates)}.",
        "Work that a kill undid and what it took to start again are in the seconds.",
    ]
    return lines


def _products(rates: dict[str, float]) -> str:
    if "products" not in rates:
        return ""
    return f", products of matrices {rates['products'] / 1e9:.0f} billion operations a second"


def _in_a_window(rates: dict[str, float]) -> str:
    if rates.get("window", rates["memory"]) >= rates["memory"]:
        return ""
    rate = f"{rates['window lines'] / 1e6:.0f} million in a window of {_gib(rates['window'])}"
    return f" and {rate} (a state may be read in windows, so the faster of both is the bound)"


def _moved(run: dict[str, Any], rates: dict[str, float]) -> list[tuple[str, float, float, str]]:
    sizes, lines = run["sizes"], _lines(run)
    made = [("generate", sizes["graph"], sizes["graph"] / rates["write"], "the graph's files, written once")]
    made.append(
        (
            "propagate",
            lines * LINE + sizes["hops"],
            lines / max(rates["lines"], rates.get("window lines", 0)) + sizes["hops"] / rates["write"],
            "the lines of every neighbour's row for every hop and block of columns, as if no cache ever held one; "
            "hops written once",
        )
    )
    for key, short in (("jk", "JK"), ("recursive", "R")):
        made += _by_products(key, short, run, rates)
    return made


def _by_products(
    key: str, short: str, run: dict[str, Any], rates: dict[str, float]
) -> list[tuple[str, float, float, str]]:
    """Steps of a model: hops of its rows are read, and every row is multiplied with every weight."""
    found, source = run["facts"].get(key, {}), run["facts"]["source"]
    if "weights" not in found or "products" not in rates:
        return []
    labelled = source["nodes"] * source["labelled"]
    forwards = 2 * found["weights"] / rates["products"]  # seconds a row
    # A product for the gradient of a weight; those of inputs are left out, as the first layer has none.
    steps = (
        ("train", labelled * source["train"], 2 * forwards * run["epochs"], "forwards and of their gradients"),
        ("evaluate", found["rows"], forwards, "forwards"),
        ("predict", labelled, forwards, "forwards"),
    )
    made = []
    for step, rows, seconds, which in steps:
        moved = run["sizes"]["hops"] * rows / labelled
        bound = moved / rates["read"] + rows * seconds
        made.append((f"{step} {short}", moved, bound, f"hops of its rows, read once; products of matrices {which}"))
    return made


def _lines(run: dict[str, Any]) -> float:
    """Lines of neighbours' rows that all hops of all blocks of columns ask for; the last hop is of kept rows alone."""
    found, source = run["facts"], run["facts"]["source"]
    labelled = round(source["nodes"] * source["labelled"])
    shape = GraphShape.of_counts(
        found["nodes"], found["entries"], source["features"], source["classes"], labelled=labelled, directed=True
    )
    plan = Plan(
        features=FeatureSignal(hops=12, dtype="float16"),
        labels=LabelSignal(hops=10, dtype="float16", operator=Operator(r=0.0)),
        rows="split",
    )
    lines = 0.0
    for spec in HopSizes.of(shape, plan, run["memory"]).passes:
        for hop in range(1, spec.depth + 1):
            pieces = spec.with_hop(hop)
            width = 2 * (pieces[-1].at + pieces[-1].padded)
            share = labelled / found["nodes"] if hop == spec.depth else 1.0
            lines += share * found["entries"] * -(-width // LINE)
    return lines


def _scores(run: dict[str, Any]) -> list[str]:
    lines = []
    for key, short in (("jk", "GAMLP(JK)"), ("recursive", "GAMLP(R)")):
        scores = run.get("facts", {}).get(key)
        if scores:
            epochs = f"{run['epochs']} epoch{'s' if run['epochs'] != 1 else ''}"
            told = f"test accuracy {scores['score']:.2%} of {scores['rows']:,} rows"
            lines.append(f"- {short}, {epochs}: {told}; one answer for all {scores['base']:.2%}.")
    return lines


def _growth(results: dict[str, Any]) -> list[str]:
    """Time an entry at the largest scale beside that at a tenth of it."""
    found = {
        scale: _sum(run["steps"]["propagate"], "seconds") / run["facts"]["entries"]
        for scale, run in results.items()
        if "propagate" in run["steps"]
    }
    if len(found) < 2:
        return []
    largest, tenth = (
        max(found, key=float),
        min(found, key=lambda scale: abs(float(scale) - max(map(float, found)) / 10)),
    )
    ratio = found[largest] / found[tenth]
    verdict = "met" if ratio <= 1.5 else "**missed**"
    words = f"Propagation's time an entry at scale {largest} ÷ that at scale {tenth}: {ratio:.2f}"
    return ["## Growth", "", f"{words}; expected ≤ 1.5: {verdict}."]


def _sum(step: dict[str, Any], name: str) -> float:
    return float(sum(go[name] for go in step["goes"]))


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
