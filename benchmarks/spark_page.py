"""Results of Spark as a page: every figure beside what was expected, nothing typed by hand."""

from __future__ import annotations

from typing import Any

FLAT = 0.25  # how far apart figures may be that are called flat


def page(results: dict[str, Any]) -> str:
    """Markdown of a run."""
    lines = [
        "# Propagation on Spark",
        "",
        f"`{results['command']}`, {results['date']}, {results['machine']}; {results['versions']}.",
        "Two executors of one core in a `local-cluster`, float32. CPU seconds count Java and Python of driver and",
        "executors together; a hop is the median over hops after the first two (while Java still compiles) and before",
        "the last. Memory is anonymous memory at its most, over the whole application. Ours and the shuffles have Java",
        "compile lightly, as the engine asks for; naive joins, whose work is Java's, have it as Spark starts it.",
        "",
    ]
    if results["quick"]:
        lines += ["**A quick run on small graphs: its figures mean nothing.**", ""]
    lines += [*_expected(results), ""]
    if contest := results.get("contest"):
        lines += [f"## The contestants: {_shape(results['shapes']['main'])}, 8 blocks", "", *_table(contest), ""]
        lines += _stages(contest["ours"])
    if naive := results.get("naive"):
        lines += [f"## Beside naive joins: {_shape(results['shapes']['small'])}, 8 blocks", "", *_table(naive), ""]
    if growth := results.get("growth"):
        shape = _shape(results["shapes"]["growth"])
        lines += [f"## Growth: ours, {shape}, times 1, 2, 4", "", *_table(growth, "× "), ""]
    if blocks := results.get("blocks"):
        lines += [f"## Blocks: {_shape(results['shapes']['large'])}", "", *_table(_beside(blocks)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _expected(results: dict[str, Any]) -> list[str]:
    """What the issue expects, and what was measured."""
    lines = ["| CPU of a hop | expected | measured | |", "|---|---|---|---|"]
    if contest := results.get("contest"):
        ours = contest["ours"]["cpu"]
        for kind in ("shuffle of rows", "shuffle of packed rows"):
            lines.append(_verdict(f"{kind} ÷ ours", contest[kind]["cpu"] / ours, 3.0, more=True))
        if local := contest["local"]["cpu"]:  # on a small graph the clock is too coarse for it
            lines.append(_verdict("ours ÷ local engine", ours / local, 2.5))
            workers = contest["ours"]["by role"]["Python workers"]
            lines.append(_plain("of it, ours without Java ÷ local engine", workers / local))
            if naive := results.get("naive"):
                alone = naive["ours"]["cpu"] / local
                lines.append(
                    _plain("of it, a hop of the small graph, which is nearly all Spark's own ÷ local engine", alone)
                )
            if writing := results.get("writing"):
                text = "of it, the bytes of a hop written to new files ÷ local engine, which writes past the page cache"
                lines.append(_plain(text, writing / local))
    for blocks, found in results.get("blocks", {}).items():
        if local := found["local"]["cpu"]:
            entries = f"{2 * results['shapes']['large']['edges']:,} entries in {blocks} blocks"
            lines.append(_verdict(f"ours ÷ local engine, {entries}", found["ours"]["cpu"] / local, 2.5))
    if naive := results.get("naive"):
        lines.append(_plain("naive joins ÷ ours, small graph", naive["naive"]["cpu"] / naive["ours"]["cpu"]))
    if growth := results.get("growth"):
        driver = [found["memory"]["driver"] for found in growth.values()]
        java = [found["memory"]["driver's Java"] for found in growth.values()]
        lines.append(_verdict("driver's memory, largest ÷ smallest of the growth", max(driver) / min(driver), 1 + FLAT))
        lines.append(_verdict("memory of the driver's Java, the same", max(java) / min(java), 1 + FLAT))
    return lines


def _beside(blocks: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Every contestant of every number of blocks as one row."""
    return {f"{kind}, {count} blocks": one for count, found in blocks.items() for kind, one in found.items()}


def _verdict(text: str, value: float, limit: float, *, more: bool = False) -> str:
    met = value >= limit if more else value <= limit
    return f"| {text} | {'≥' if more else '≤'} {limit:g} | {value:.2f} | {'met' if met else '**missed**'} |"


def _plain(text: str, value: float) -> str:
    return f"| {text} | | {value:.2f} | |"


def _table(found: dict[str, dict[str, Any]], before: str = "", after: str = "") -> list[str]:
    lines = [
        "| | CPU s a hop (least) | by driver / its Java / executors' Java / Python workers | wall s | MB pulled, put"
        " | MB by system calls, in, out | first hop CPU s | driver, its Java, all executors MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, each in found.items():
        roles = " / ".join(f"{value:.2f}" for value in each["by role"].values())
        moved = f"{each['read'] / 1e6:.0f}, {each['written'] / 1e6:.0f}" if each.get("read") else "–"
        called = f"{each['called read'] / 1e6:.0f}, {each['called written'] / 1e6:.0f}"
        memory = each["memory"]
        executors = memory["executors' Java"] + memory["Python workers"]
        held = f"{memory['driver'] / 1e6:.0f}, {memory[_JAVA] / 1e6:.0f}, {executors / 1e6:.0f}"
        cpu = f"{each['cpu']:.2f} ({each['least cpu']:.2f})"
        lines.append(
            f"| {before}{name}{after} | {cpu} | {roles} | {each['wall']:.2f} | {moved} | {called} | {each['first']:.2f}"
            f" | {held} |"
        )
    return lines


_JAVA = "driver's Java"


def _stages(ours: dict[str, Any]) -> list[str]:
    """What ours does beside the hops."""
    text = "; ".join(f"{name} {cpu:.1f}" for name, cpu in ours["other"].items())
    return [f"Ours beside the hops, CPU seconds (the first includes the executors' start): {text}.", ""]


def _shape(shape: dict[str, int]) -> str:
    return f"{shape['nodes']:,} nodes, {2 * shape['edges']:,} entries, {shape['features']} features"
