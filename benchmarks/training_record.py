"""Results of the training benchmark as a page: every figure beside what was expected, parts that are there alone."""

from __future__ import annotations

import statistics
from typing import Any

PASSES = 2  # M of consistency
PAPERS_ROWS = 1_207_179  # training rows of ogbn-papers100M
DEEPEST_ALONE = "attention alone, forwards and backwards: written out ÷ ours"  # expected at the largest K
LISTS = "hops in lists ÷ ours"
FROM_STORE = "from the store, chunks of 64 shuffled ÷ in memory"
EXPECTED = {  # name of the ratio: (limit, whether more is better)
    DEEPEST_ALONE: (1.8, True),
    "GAMLP(R) ÷ SGC": (1.6, False),
    "GAMLP(JK) ÷ (SGC + products of JK's reference)": (1.15, False),
    "loading ÷ GAMLP(R)": (0.05, False),
    "GAMLP(R) ÷ products of the output MLP": (1.8, False),
    "GAMLP(JK) ÷ products of both MLPs": (1.8, False),
    # A step with M passes over as many rows without labels is at most M + 1 steps without; a teacher is one pass more.
    f"GAMLP(R) + SCR ÷ GAMLP(R), M = {PASSES}": (PASSES + 1, False),
    "GAMLP(R) + SCR-m ÷ GAMLP(R), M = 1": (3, False),
    f"GAMLP(R), {LISTS}": (1.8, True),
    f"GAMLP(JK), {LISTS}": (1.8, True),
    FROM_STORE: (1.1, False),
    "evaluation": (1.1, False),
}
CONTESTANTS = (
    "GAMLP(R)",
    "GAMLP(JK)",
    "SGC",
    "SIGN",
    "GAMLP(R), rows from the store",
    "GAMLP(R) + SCR",
    "GAMLP(R) + SCR-m",
    "GAMLP(R) written out",
    "GAMLP(JK) written out",
    "SGC, plain PyTorch",
    "products of the output MLP",
    "products of JK's reference",
    "loading",
)


def page(results: dict[str, Any], command: str) -> str:
    """Markdown of what was measured so far."""
    size = results["size"]
    lines = [
        "# Speed of training",
        "",
        f"`{command}`, {results['date']}, {results['machine']}, {results['threads']} threads; {results['versions']}.",
        f"Whole epochs, {results['rounds']} of each, all contestants taking turns; {results['clock']} time; "
        "ratios are of the best.",
        *(["- A quick run: it shows that everything works, and its figures mean nothing."] if results["quick"] else []),
        "",
    ]
    lines += _lists(results) + _loading(results) + _evaluation(results) + _wide(results) + _shuffling(results)
    for hops in size["hops"]:
        lines += _hops(results, hops, last=hops == size["hops"][-1])
    return "\n".join(lines).rstrip() + "\n"


def verdict(name: str, value: float, *, last: bool = True) -> tuple[str, str]:
    """What was expected, and whether it is met; nothing where nothing was."""
    if name not in EXPECTED or (name == DEEPEST_ALONE and not last):
        return "", ""
    limit, more = EXPECTED[name]
    met = value >= limit if more else value <= limit
    return f"{'≥' if more else '≤'} {limit:g}", "met" if met else "**missed**"


def _ratios(found: dict[str, float], *, last: bool = True) -> list[str]:
    lines = ["| | expected | measured | |", "|---|---|---|---|"]
    for name, value in found.items():
        expected, met = verdict(name, value, last=last)
        lines.append(f"| {name} | {expected} | {value:.3f} | {met} |")
    return [*lines, ""]


def _seconds(times: dict[str, list[float]]) -> list[str]:
    lines = ["| seconds | best | median |", "|---|---|---|"]
    lines += [f"| {name} | {min(all_):.4f} | {statistics.median(all_):.4f} |" for name, all_ in times.items() if all_]
    return [*lines, ""]


def _lists(results: dict[str, Any]) -> list[str]:
    """Ours beside hops in lists, as public code has them."""
    size, lines = results["size"], []
    told = {
        "labels": "four layers for features, four for labels; no per-hop map, no batch norm.",
        "published": "with what ogbn-products is run with: a map with batch norm for each hop, dropout of 0.2 at the "
        "input, a residual from hop 0, batch norm in all MLPs, the initial residual of 0.5.",
    }
    for part, words in told.items():
        times = {name: found for name, found in results["times"].get(part, {}).items() if found}
        best = {name: min(found) for name, found in times.items()}
        ratios = {
            f"GAMLP({kind}), {LISTS}": best[f"GAMLP({kind}), hops in lists"] / best[f"GAMLP({kind})"]
            for kind in ("R", "JK")
            if f"GAMLP({kind}), hops in lists" in best
        }
        if not ratios:
            continue
        lines += [
            f"## The label branch, hops in lists: {'plain' if part == 'labels' else 'as published'}",
            "",
            f"{min(size['rows'], size['list_rows']):,} rows, K = {size['hops'][0]}, {size['features']} features, "
            f"L = {size['label_hops']}, {size['classes']} classes, hidden {size['hidden']}, batches of "
            f"{size['batch']:,}, float32; {words} *In lists*: the same equations laid out as public code has them, a "
            "tensor for each hop: a loader of row numbers, every hop indexed by itself, [x ‖ reference] concatenated "
            "for every score, the history summed anew for every hop, nn.Linear, nn.ReLU, nn.Dropout, Adam as torch has "
            "it.",
            "",
            *_ratios(ratios),
            *_seconds(times),
        ]
    return lines


def _loading(results: dict[str, Any]) -> list[str]:
    found: dict[str, Any] = {}
    for name, one in results.get("loading", {}).items():
        kind = name.rpartition(": ")[0]
        if kind not in found or one["seconds"] < found[kind]["seconds"]:
            found[kind] = one
    size = results["size"]
    if not found:
        return []
    lines = [
        "## Loading from a store that is larger than memory",
        "",
        "Hops of ogbn-papers100M's shape (K = 12 of 128 features, L = 10 of 172 classes, float16, 7.1 KB a row) of "
        f"{size['large_rows']:,} rows; hidden {size['widths'][0]}, batches of {size['large_batch']:,}, the first steps "
        "of an epoch; every run in a process of its own, the best of the runs counts. *From the store*: the "
        "page cache held none of it, and where a limit is told the process and its page cache together had no more.",
        "",
        "| | rows | rows a second | peak anonymous memory, MB | limit, MB |",
        "|---|---|---|---|---|",
    ]
    for name, one in found.items():
        limit = f"{one['limit'] / 1e6:.0f}" if one["limit"] else ""
        lines.append(
            f"| {name} | {one['rows']:,} | {one['rows'] / one['seconds']:.0f} | {one['memory'] / 1e6:.0f} | {limit} |"
        )
    lines.append("")
    for kind in dict.fromkeys(name.split(": ")[0] for name in found):
        own = {
            name.split(": ")[1]: one["seconds"] / one["rows"] for name, one in found.items() if name.startswith(kind)
        }
        ratios = {f"{how} ÷ in memory": value / own["in memory"] for how, value in own.items() if how != "in memory"}
        lines += [f"{kind}:", "", *_ratios(ratios)] if ratios else []
    return lines


def _evaluation(results: dict[str, Any]) -> list[str]:
    found = list(results.get("evaluation", {}).values())
    if not found:
        return []
    lines = [
        "## Evaluation from the store",
        "",
        "GAMLP(R) with the label branch on the same hops, each number of rows in a process of its own.",
        "",
        "| rows | seconds | peak anonymous memory, MB |",
        "|---|---|---|",
        *(f"| {one['rows']:,} | {one['seconds']:.2f} | {one['memory'] / 1e6:.0f} |" for one in found),
    ]
    growth = found[-1]["memory"] / found[0]["memory"]
    expected, met = verdict("evaluation", growth)
    times = found[-1]["rows"] / found[0]["rows"]
    return [*lines, "", f"{times:g} times the rows take {growth:.2f} times the memory; expected {expected}: {met}.", ""]


def _wide(results: dict[str, Any]) -> list[str]:
    found, size = results.get("wide", {}).get("JK"), results["size"]
    if not found:
        return []
    tenth, bound = PAPERS_ROWS / 10, found["flops_row"] / found["gflops"] / 1e9
    second = found["rows"] / found["seconds"]
    where = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found["where"].items())
    return [
        "## The published width on ogbn-papers100M's shape",
        "",
        f"JK as published, hidden {size['widths'][1]}, batches of {size['large_batch']:,}, rows from the store by "
        f"chunks of 64; {found['rows']:,} rows were trained on.",
        "",
        "| | |",
        "|---|---|",
        f"| rows a second | {second:.0f} |",
        f"| a tenth of an epoch ({tenth:,.0f} rows) | {tenth / second / 60:.1f} minutes |",
        f"| floating-point operations a row, forwards and backwards | {found['flops_row'] / 1e6:.0f} million |",
        f"| matrix products of this machine, {size['large_batch']:,} × {size['widths'][1]} × {size['widths'][1]} | "
        f"{found['gflops']:.0f} GFLOP/s |",
        f"| time ÷ (operations ÷ GFLOP/s) | {1 / second / bound:.2f} |",
        f"| where a step's time goes | {where} |",
        f"| peak anonymous memory | {found['memory'] / 1e6:,.0f} MB |",
        "",
    ]


def _shuffling(results: dict[str, Any]) -> list[str]:
    found = results.get("shuffling", {})
    if not found:
        return []
    seeds = len(next(iter(next(iter(found.values())).values())))
    lines = [
        "## What shuffling chunks of rows costs",
        "",
        f"Test accuracy, mean and deviation of {seeds} seeds; validation rows choose the epoch. An epoch has 20 "
        "windows of 3 batches, a window 16 chunks: fewer and larger for the rows there are than at scale.",
        "",
    ]
    orders = list(next(iter(found.values())))
    lines += ["| | " + " | ".join(orders) + " |", "|---|" + "---|" * len(orders)]
    for name, by_order in found.items():
        cells = [
            f"{100 * statistics.fmean(all_):.2f} ± {100 * (statistics.stdev(all_) if len(all_) > 1 else 0):.2f}"
            for all_ in by_order.values()
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _hops(results: dict[str, Any], hops: int, *, last: bool) -> list[str]:
    size, times = results["size"], results["times"]
    alone, epoch = (
        {name: found for name, found in times.get(part, {}).items() if found}
        for part in (f"attention, K = {hops}", f"K = {hops}")
    )
    if len(epoch) < len(CONTESTANTS):
        return []
    lines = [f"## K = {hops}, no label branch", ""]
    if hops == size["hops"][0]:
        lines += _contest_words(size)
    ratios = ratios_of({name: min(found) for name, found in alone.items()}, {n: min(f) for n, f in epoch.items()})
    return [
        *lines,
        *_ratios(ratios, last=last),
        *_seconds({f"attention alone, {name}": found for name, found in alone.items()} | epoch),
    ]


def _contest_words(size: dict[str, Any]) -> list[str]:
    return [
        f"{size['rows']:,} rows, {size['features']} features, {size['classes']} classes, hidden {size['hidden']}, "
        f"{size['layers']} layers, dropout {size['dropout']}, batches of {size['batch']:,}; float32; no per-hop MLP.",
        "",
        "- GAMLP, SGC and SIGN run through the package's own loop on a store's rows held in memory; all have the same "
        "output MLP.",
        "- *Written out*: the equations with concatenated vectors and, for the recursive form, the history summed anew "
        "for every hop, in a plain PyTorch loop (nn.Linear, nn.ReLU, nn.Dropout, rows picked by index).",
        "- *Products*: the MLP's matrix products alone, forwards and backwards, without bias, activation, loss or "
        "optimiser, and without the gradient of the rows themselves.",
        "- JK's reference is counted with the products of both its maps, as written out. Ours never makes the last map "
        "(only its product with a vector is needed), so that ours can be below these products.",
        "- Our loop keeps freed memory for the next step; plain loops have the allocator as it is.",
        "- *SCR*: every step also reads as many rows without labels as labelled ones, M times with dropout, forwards "
        "and backwards; *SCR-m*: once, and once forwards through averaged weights.",
        "- *Loading*: all batches of an epoch are gathered and nothing is done with them.",
        "",
    ]


def ratios_of(alone: dict[str, float], epoch: dict[str, float]) -> dict[str, float]:
    """Of the best rounds."""
    output, reference = epoch["products of the output MLP"], epoch["products of JK's reference"]
    return {
        DEEPEST_ALONE: alone["written out"] / alone["ours"],
        "the same, memory kept for both": alone["written out, memory kept"] / alone["ours"],
        "GAMLP(R) ÷ SGC": epoch["GAMLP(R)"] / epoch["SGC"],
        "GAMLP(JK) ÷ SGC": epoch["GAMLP(JK)"] / epoch["SGC"],
        "SIGN ÷ SGC": epoch["SIGN"] / epoch["SGC"],
        "GAMLP(JK) ÷ (SGC + products of JK's reference)": epoch["GAMLP(JK)"] / (epoch["SGC"] + reference),
        "GAMLP(JK) ÷ (GAMLP(R) + products of JK's reference)": epoch["GAMLP(JK)"] / (epoch["GAMLP(R)"] + reference),
        "loading ÷ GAMLP(R)": epoch["loading"] / epoch["GAMLP(R)"],
        "GAMLP(R), rows from the store ÷ in memory": epoch["GAMLP(R), rows from the store"] / epoch["GAMLP(R)"],
        "GAMLP(R) ÷ products of the output MLP": epoch["GAMLP(R)"] / output,
        "GAMLP(JK) ÷ products of both MLPs": epoch["GAMLP(JK)"] / (output + reference),
        "SGC ÷ products of the output MLP": epoch["SGC"] / output,
        "SGC, plain PyTorch ÷ products of the output MLP": epoch["SGC, plain PyTorch"] / output,
        f"GAMLP(R) + SCR ÷ GAMLP(R), M = {PASSES}": epoch["GAMLP(R) + SCR"] / epoch["GAMLP(R)"],
        "GAMLP(R) + SCR-m ÷ GAMLP(R), M = 1": epoch["GAMLP(R) + SCR-m"] / epoch["GAMLP(R)"],
        "GAMLP(R) written out ÷ ours": epoch["GAMLP(R) written out"] / epoch["GAMLP(R)"],
        "GAMLP(JK) written out ÷ ours": epoch["GAMLP(JK) written out"] / epoch["GAMLP(JK)"],
    }
