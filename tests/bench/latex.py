"""Reads the tables of a LaTeX file: enough for the paper's own, strict about what it does not know."""

from __future__ import annotations

import re
from pathlib import Path

Number = tuple[float, float | None]  # mean, deviation
_WRAPPERS = re.compile(r"\\(?:textbf|underline|makecell|multirow\{[^}]*\}\{[^}]*\})\s*\{([^{}]*)\}")
_RULES = re.compile(r"\\(?:toprule|midrule|bottomrule|hline)\b")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?:±(\d+(?:\.\d+)?))?")


def without_comments(text: str) -> str:
    """Of LaTeX: from a % that is not escaped to the end of its line."""
    return re.sub(r"(?<!\\)%.*", "", text)


def environment(text: str, label: str) -> str:
    """The table or figure that holds a label."""
    for found in re.finditer(r"\\begin\{(table\*?|figure\*?)\}(.*?)\\end\{\1\}", without_comments(text), re.S):
        if f"\\label{{{label}}}" in found[2]:
            return found[2]
    raise LookupError(f"no table or figure is labelled {label}")


def rows_of(text: str, label: str) -> list[list[str]]:
    """The cells of a table's rows, as plain text; the first row is the heading."""
    body = re.search(r"\\begin\{tabular\}\{[^}]*\}(.*?)\\end\{tabular\}", environment(text, label), re.S)
    if body is None:
        raise LookupError(f"{label} holds no tabular")
    rows = _split(_RULES.sub("", body[1]), "\\\\")
    return [[plain(cell) for cell in _split(row, "&")] for row in rows if row.strip()]


def plain(cell: str) -> str:
    """A cell without its markup: bold, underlined and stacked words, ±, the powers and names the paper uses."""
    replaced = [("$\\pm$", "±"), ("$^2$", "²"), ("\\_", "_"), ("\\sys", "GAMLP"), ("\\\\", " ")]
    for old, new in replaced:
        cell = cell.replace(old, new)
    while (shorter := re.sub(r"^\s*\{([^{}]*)\}\s*$", r"\1", _WRAPPERS.sub(r"\1", cell))) != cell:
        cell = shorter
    return " ".join(cell.split())


def number(cell: str) -> Number:
    """`84.3±0.8` or `364`."""
    found = _NUMBER.fullmatch(cell)
    if found is None:
        raise ValueError(f"'{cell}' is no number")
    return float(found[1]), None if found[2] is None else float(found[2])


def numbers(text: str, label: str) -> list[float]:
    """Every number of a table, in order, found without regard to rows and cells."""
    body = re.search(r"\\begin\{tabular\}\{[^}]*\}(.*?)\\end\{tabular\}", environment(text, label), re.S)
    assert body is not None
    return [float(found) for found in re.findall(r"(?<![\w.^+-])\d+(?:\.\d+)?(?![\w.])", body[1])]


def cells_of(text: str, label: str) -> dict[tuple[str, str], Number]:
    """(row's name, column's name) → number."""
    heading, *rows = rows_of(text, label)
    found = {}
    for name, *cells in rows:
        for column, cell in zip(heading[1:], cells, strict=True):
            found[name, column] = number(cell)
    return found


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _split(text: str, at: str) -> list[str]:
    """At separators outside braces."""
    parts, depth, begin, index = [], 0, 0, 0
    while index < len(text):
        if depth == 0 and text.startswith(at, index):
            parts.append(text[begin:index])
            index += len(at)
            begin = index
            continue
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        index += 1
    return [*parts, text[begin:]]
