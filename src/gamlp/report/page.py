"""A run → its report.html."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from gamlp.explanation import WeightsByDegree
from gamlp.io import TakeTally, tally_here, write_text
from gamlp.propagation import HopStore
from gamlp.report.content import content_of_run
from gamlp.report.observed import Observed, listening
from gamlp.training import Bundle, RunFolder, best_seed

_SCRIPTS = ("elements.js", "charts.js", "heat.js", "nodes.js", "trust.js", "sections.js", "page.js")


@dataclass(frozen=True)
class WrittenReport:
    """A page, and its first paragraph: sentences that say whether to trust the run."""

    path: Path
    words: list[str]


def write_page(content: dict[str, Any], path: Path) -> Path:
    """Render and write beside, then rename."""
    write_text(path, render(content))
    return path


def render(content: dict[str, Any]) -> str:
    """The page. Its policy lets only its own scripts and style run, whatever a class or an id is called."""
    style = "\n".join(_read(name) for name in ("style.css",))
    script = "\n".join(_read(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(f"{content['title']} · {content['model']} · gamlp"),
        "summary": html.escape(_summary(content)),
        "style": style,
        "data": embedded(content),
        "script": script,
    }
    # One pass over the template: what is filled in is never looked at again.
    pieces = _read("template.html").split("@@")
    page = "".join(piece if index % 2 == 0 else parts[piece] for index, piece in enumerate(pieces))
    return page.encode("utf-8", "replace").decode()  # half a surrogate pair is no UTF-8


def embedded(content: Any) -> str:
    """JSON that may stand inside a script element: no `<`, so no end tag and no comment; no line separators.

    >>> embedded("</script>")
    '"\\\\u003c/script>"'
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in ("<", "\u2028", "\u2029"):
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _summary(content: dict[str, Any]) -> str:
    """For readers without scripts."""
    words = [*content["words"]["said"], *content["words"]["doubts"]]
    return " ".join([*words, "This page draws its charts with JavaScript."])


def _read(name: str) -> str:
    return (resources.files("gamlp.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def write_report(
    run: RunFolder,
    bundles: dict[int, Bundle],
    store: HopStore,
    observed: Observed,
    evaluation: Mapping[str, Any] | None,
    *,
    part: str = "test",
    weights: WeightsByDegree | None = None,
    elsewhere: str | None = None,
    device: torch.device | None = None,
    take: TakeTally = tally_here,
) -> WrittenReport:
    """Write the page into the run; that of another graph, named `elsewhere`, has its own file beside.

    `weights` over hops are looked for where they are not given. What the page says in words is kept in the run.
    """
    if weights is None:
        best = best_seed(bundles)
        weights = listening(bundles[best], observed.graph, store, device, take)
    content = content_of_run(
        run, bundles, store, observed, evaluation,
        part=part, weights=weights, own=elsewhere is None, device=device, take=take,
    )  # fmt: skip
    words = [*content["words"]["said"], *content["words"]["doubts"]]
    if elsewhere is None:
        run.note_words(words)
    path = write_page(content, run.report_path if elsewhere is None else report_elsewhere(run, elsewhere))
    return WrittenReport(path, words)


def report_elsewhere(run: RunFolder, graph: str) -> Path:
    """`report-<graph>.html`, with the letters of the name that every file system knows."""
    plain = re.sub(r"[^\w.-]+", "-", graph).strip(".-")[:60]
    return run.report_path.with_name(f"report-{plain or 'graph'}.html")
