"""leaderboard.json of a run folder, as a page and its words read it: whatever is not of its form is left out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gamlp.io import unsealed
from gamlp.training import metric_words

LEADERBOARD = "leaderboard.json"
_NUMBERS = ("valid", "error", "test", "seconds", "parameters", "bytes")
_TEXTS = ("name", "title", "state", "why")


def read_leaderboard(folder: Path) -> dict[str, Any] | None:
    """{metric, title (of the metric), chosen, sentence, rows}; None where there is none that can be read."""
    try:
        found = unsealed((folder / LEADERBOARD).read_bytes())
        title = metric_words(found["metric"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not isinstance(found.get("rows"), list):
        return None
    rows = [_row(one) for one in found["rows"] if isinstance(one, dict) and isinstance(one.get("name"), str)]
    if not rows:
        return None
    return {name: str(found.get(name) or "") for name in ("metric", "chosen", "sentence")} | {
        "title": title,
        "rows": rows,
    }


def _row(given: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: _number(given.get(name)) for name in _NUMBERS}
    texts = {name: str(given.get(name) or "") for name in _TEXTS}
    return {**texts, "title": texts["title"] or texts["name"], **numbers, "simple": given.get("simple") is True}


def _number(value: Any) -> float | None:
    return value if type(value) in (int, float) and math.isfinite(value) else None
