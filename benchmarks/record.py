"""Results as a page: every figure beside what was expected, nothing typed by hand."""

from __future__ import annotations

from typing import Any

import subsets

EXPECTED = {  # name of the ratio: (limit, whether more is better, what it is)
    "torch CSR / ours": (4.0, True, "a hop, torch CSR ÷ ours, float32"),
    "scipy / ours": (6.5, True, "a hop, scipy ÷ ours, float32"),
    "torch CSR / ours float16": (6.5, True, "a hop, torch CSR in float32 ÷ ours in float16"),
    "ours / bound": (1.7, False, "a hop, ours ÷ bound, float32"),
    "ours / bound float16": (1.7, False, "a hop, ours ÷ bound, float16"),
    "SIGN / ours": (3.0, True, "COO to 5 hops, PyG's SIGN ÷ ours, float32"),
    "SIGN / ours float16": (4.5, True, "COO to 5 hops, PyG's SIGN ÷ ours, float16"),
    "written / (kernel + write)": (1.5, False, "whole job ÷ (kernel + writing as many bytes)"),
    "job / (kernel + write)": (1.5, False, "whole job and all its bytes read again ÷ the same"),
    "job / (kernel + write + read)": (1.5, False, "the same ÷ (kernel + writing and reading as many bytes)"),
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
        *_bandwidth(results),
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
            verdict = "met" if (value >= limit if more else value <= limit) else "**missed**"
            if "bound" in name and value < 1:
                verdict += "; under 1: the caches kept rows that the one counted here, of the nominal size, lets go"
            lines.append(f"| {text} | {'≥' if more else '≤'} {limit:g} | {value:.2f} | {verdict} |")
    return lines


def _bandwidth(results: dict[str, Any]) -> list[str]:
    if not results.get("bandwidth"):
        return []
    return [
        "Bound: the bytes that a hop must bring from memory, read at "
        f"{results['bandwidth'] / 1e9:.1f} GB/s, the fastest of all readings of 1 GiB by all cores beside contests.",
        "Counted are every neighbour's id (4 bytes) and every row's offset (8) once, every sum written once, and each",
        "neighbour's row in whole lines of 64 bytes where it is not among those read last that fill the largest cache",
        "(16 ways, in the order of the graph). Rows at random places are never read as fast as from front to back: the",
        "bound is one, and is not reached.",
        "",
    ]


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
    if moved := found.get("hop", {}).get("moved"):
        lines += ["", "| GB a hop | rows gathered | of them missed by the cache | distinct rows | to move in all |"]
        lines += ["|---|---|---|---|---|"]
        for dtype, sizes in moved.items():
            values = " | ".join(f"{sizes[key] / 1e9:.2f}" for key in ("gathered", "missed", "distinct", "bytes"))
            lines.append(f"| {dtype} | {values} |")
    return lines


def _growth(growth: dict[str, Any]) -> list[str]:
    parts = ("kernel", "write", "read", "rest")
    lines = [
        "## Growth",
        "",
        "| edges | seconds | MB | bytes an edge | ns an edge | kernel, 5 hops | writing the store and what is spilled |"
        " reading what is spilled | the rest |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for times, values in growth["sizes"].items():
        row = f"{values['seconds']:.2f} | {values['memory'] / 1e6:.0f} | {values['bytes an edge']:.0f}"
        shares = " | ".join(f"{values[f'{part}, ns an edge']:.0f}" for part in parts)
        lines.append(f"| × {times} | {row} | {values['ns an edge']:.0f} | {shares} |")
    time, memory = growth["spread"]["ns an edge"], growth["spread"]["bytes an edge"]
    verdict = "met" if max(time, memory) <= 0.25 else "**missed**"
    lines += ["", f"Spread from least to most: time {time:.0%}, memory {memory:.0%}; expected ≤ 25 %: {verdict}."]
    first, last = (growth["sizes"][times] for times in ("1", "8"))
    gained = {part: last[f"{part}, ns an edge"] - first[f"{part}, ns an edge"] for part in parts}
    names = {"kernel": "the kernel", "write": "writing", "read": "reading", "rest": "the rest"}
    told = ", ".join(f"{names[part]} {gained[part]:+.0f} ns" for part in parts)
    return [*lines, f"From × 1 to × 8, an edge: {told}."]
