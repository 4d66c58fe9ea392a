"""A portfolio that is tried in a moment: the simple answers, and the reference for a few epochs."""

from __future__ import annotations

import pytest

from gamlp.tune import candidates, choosing


def few_candidates(patch: pytest.MonkeyPatch) -> None:
    """Let `choose` try these alone."""
    kept = [one for one in candidates.load_candidates() if one.role != "other"]
    short = {"training.epochs": 5, "model.hidden": 8}
    made = tuple(one.changed(short) if one.role == "reference" else one for one in kept)
    patch.setattr(choosing, "load_candidates", lambda: made)
