"""Results as a page: every figure beside what was expected, nothing typed by hand."""

from __future__ import annotations

from typing import Any

import subsets

EXPECTED = {  # name of the ratio: (limit, whether more is better, what it is)
    "torch CSR / ours": (3.5, True, "a hop, torch CSR ÷ ours, float32"),
    "scipy / ours": (6.5, True, "a hop, scipy ÷ ours, float32"),
    "ours / bound": (1.7, False, "a hop, ours ÷ bound"),
    "torch CSR / ours float16": (5.5, True, "a hop, torch CSR in float32 ÷ ours in float16"),
    "SIGN / ours": (2.5, True, "COO to 5 hops, PyG's SIGN ÷ ours, float32"),
    "SIGN / ours float16": (4.0, True, "COO to 5 hops, PyG's SIGN ÷ ours, float16"),
    "job / (kernel + write)": (1.5, False, "whole job, verified ÷ (kernel + writing as many bytes)"),
    "peak / limit": (1.0, False, "peak anonymous memory ÷ (graph + three feature matrices + 350 MB)"),
    "quarter / whole memory": (2.5, False, "the job in a quarter of that memory ÷ the job"),
    "quarter: peak / (budget + 300 MB)": (1.0, False, "its peak anonymous memory ÷ (budget + 300 MB)"),
}


def page(results: dict[str, Any], command: str) -> str:
    """Markdown of a run."""
    shapes = results["shapes"]
    lines = [
        "# Speed and memory of propagation",
        "",
        f"`{command}`, {results['date']}, {results['machine']}; {results['versions']}.",
        "Kernels: the best of several rounds in which all contestants take turns; whole jobs: medians.",
        "",
    ]
    for name, found in shapes.items():
        size = f"{found['nodes']:,} nodes, {found['entries']:,} entries, {found['features']} features"
        lines += [f"## {name}: {size}", "", *_ratios(found), "", *_seconds(found), ""]
    if growth := results.get("growth"):
        lines += _growth(growth)
    if found := results.get("subsets"):
        lines += subsets.section(found)
    return "\n".join(lines).rstrip() + "\n"


def _ratios(found: dict[str, Any]) -> list[str]:
    lines = ["| | expected | measured | |", "|---|---|---|---|"]
    for part in ("hop", "coo", "job"):
        for name, value in found.get(part, {}).get("ratios", {}).items():
            limit, more, text = EXPECTED[name]
            met = value >= limit if more else value <= limit
            lines.append(
                f"| {text} | {'≥' if more else '≤'} {limit:g} | {value:.2f} | {'met' if met else '**missed**'} |"
            )
    return lines


def _seconds(found: dict[str, Any]) -> list[str]:
    lines = ["| | seconds |", "|---|---|"]
    for part, title in (("hop", "a hop"), ("coo", "COO to 5 hops"), ("job", "whole")):
        for name, value in found.get(part, {}).get("seconds", {}).items():
            lines.append(f"| {title}: {name} | {value:.3f} |")
    if job := found.get("job"):
        lines += ["", "| anonymous memory | MB |", "|---|---|"]
        lines += [f"| {name} | {value / 1e6:.0f} |" for name, value in job["memory"].items()]
    for name, value in found.get("sharing", {}).items():
        lines += ["", f"A hop of {name}: {value:.2f}."]
    if hop := found.get("hop"):
        lines += ["", f"Read bandwidth {hop['bandwidth'] / 1e9:.1f} GB/s; {hop['bytes'] / 1e9:.2f} GB to move a hop."]
    return lines


def _growth(growth: dict[str, Any]) -> list[str]:
    lines = ["## Growth", "", "| edges | seconds | MB | ns an edge | bytes an edge |", "|---|---|---|---|---|"]
    for times, values in growth["sizes"].items():
        row = f"{values['seconds']:.2f} | {values['memory'] / 1e6:.0f} | {values['ns an edge']:.0f}"
        lines.append(f"| × {times} | {row} | {values['bytes an edge']:.0f} |")
    time, memory = growth["spread"]["ns an edge"], growth["spread"]["bytes an edge"]
    verdict = "met" if max(time, memory) <= 0.25 else "**missed**"
    return [*lines, "", f"Spread from least to most: time {time:.0%}, memory {memory:.0%}; expected ≤ 25 %: {verdict}."]
