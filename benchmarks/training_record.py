"""Results of the training benchmark as tables and a page: every figure beside what was expected."""

from __future__ import annotations

from typing import Any

PASSES = 2  # M of consistency

EXPECTED = {  # name of the ratio: (limit, whether more is better)
    "attention alone, forwards and backwards: written out ÷ ours": (1.8, True),
    "GAMLP(R) ÷ SGC": (1.6, False),
    "GAMLP(JK) ÷ (SGC + products of JK's reference)": (1.15, False),
    "loading ÷ GAMLP(R)": (0.05, False),
    "GAMLP(R) ÷ products of the output MLP": (1.8, False),
    "GAMLP(JK) ÷ products of both MLPs": (1.8, False),
    # A step with M passes over as many rows without labels is at most M + 1 steps without; a teacher is one pass more.
    f"GAMLP(R) + SCR ÷ GAMLP(R), M = {PASSES}": (PASSES + 1, False),
    "GAMLP(R) + SCR-m ÷ GAMLP(R), M = 1": (3, False),
}
FLAT = 1.1
DEEPEST_ALONE = "attention alone, forwards and backwards: written out ÷ ours"  # expected at the largest K


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Of the best rounds."""
    alone = {name: times[0] for name, times in found["attention"].items()}
    epoch = {name: times[0] for name, times in found["epochs"].items()}
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


def verdict(name: str, value: float, *, last: bool = True) -> tuple[str, str]:
    """What was expected, and whether it is met; nothing where nothing was."""
    if name not in EXPECTED or (name == DEEPEST_ALONE and not last):
        return "", ""
    limit, more = EXPECTED[name]
    met = value >= limit if more else value <= limit
    return f"{'≥' if more else '≤'} {limit:g}", "met" if met else "**missed**"


def show(found: dict[str, Any], *, last: bool) -> None:
    """Tables on the screen."""
    for part, title in (("attention", "recursive attention alone, one batch"), ("epochs", "an epoch")):
        print(f"-- {title}: best and median seconds")
        for name, (least, middle) in found[part].items():
            print(f"   {name:<34}{least:9.4f}{middle:9.4f}")
    for name, value in found["ratios"].items():
        print(f"   {name:<62}{value:7.3f}  {' '.join(verdict(name, value, last=last)).replace('*', '')}")


def page(results: dict[str, Any], command: str) -> str:
    """Markdown of a run."""
    size = results["size"]
    lines = [
        "# Speed of training",
        "",
        f"`{command}`, {results['date']}, {results['machine']}, {results['threads']} threads; {results['versions']}.",
        f"{size['rows']:,} rows, {size['features']} features, {size['classes']} classes, hidden {size['hidden']}, "
        f"{size['layers']} layers, dropout {size['dropout']}, batches of {size['batch']:,}; float32; no label branch, "
        "no per-hop MLP.",
        f"Whole epochs, {results['rounds']} of each, all contestants taking turns; {results['clock']} time; "
        "ratios are of the best.",
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
        *(["- A quick run: it shows that everything works, and its figures mean nothing."] if results["quick"] else []),
        "",
    ]
    deepest = list(results["hops"])[-1]
    for hops, found in results["hops"].items():
        lines += [f"## K = {hops}", "", "| | expected | measured | |", "|---|---|---|---|"]
        for name, value in found["ratios"].items():
            expected, met = verdict(name, value, last=hops == deepest)
            lines.append(f"| {name} | {expected} | {value:.3f} | {met} |")
        lines += ["", "| seconds | best | median |", "|---|---|---|"]
        for part, prefix in (("attention", "attention alone, "), ("epochs", "")):
            lines += [f"| {prefix}{name} | {a:.4f} | {b:.4f} |" for name, (a, b) in found[part].items()]
        lines.append("")
    return "\n".join([*lines, *_evaluation(results["evaluation"])]) + "\n"


def _evaluation(found: dict[str, Any]) -> list[str]:
    lines = ["## Evaluation from the store", "", "| rows | seconds | peak anonymous memory, MB |", "|---|---|---|"]
    lines += [f"| {run['rows']:,} | {run['seconds']:.2f} | {run['memory'] / 1e6:.0f} |" for run in found["runs"]]
    met = "met" if found["growth"] <= FLAT else "**missed**"
    return [*lines, "", f"Four times the rows take {found['growth']:.2f} times the memory; expected ≤ {FLAT}: {met}."]
