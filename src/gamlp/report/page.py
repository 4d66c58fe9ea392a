"""A content → one HTML file that loads nothing: its style, its scripts and its numbers are inside it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from pathlib import Path
from typing import Any

from gamlp.files import write_text

_SCRIPTS = ("elements.js", "charts.js", "heat.js", "nodes.js", "sections.js", "page.js")


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
    scores = content["scores"].get(content["part"]) or {}
    if "score" not in scores:
        return "This page draws its charts with JavaScript."
    score = scores["score"]
    spread = f" ± {100 * score['deviation']:.2f}" if len(content["seeds"]) > 1 else ""
    return (
        f"{content['part']} {content['score_name']} {100 * score['mean']:.2f}{spread} %. "
        "This page draws its charts with JavaScript."
    )


def _read(name: str) -> str:
    return (resources.files("gamlp.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
