"""A run → its report.html."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gamlp.explain import WeightsByDegree
from gamlp.pipeline import HERE, Resources, best_seed
from gamlp.propagation import HopStore
from gamlp.report.content import content_of_run
from gamlp.report.observing import Observed, listening
from gamlp.report.page import write_page
from gamlp.training.bundle import Bundle
from gamlp.training.run_folder import RunFolder


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
    resources: Resources = HERE,
) -> Path:
    """Write the page into the run; that of another graph, named `elsewhere`, has its own file beside.

    `weights` over hops are looked for where they are not given.
    """
    if weights is None:
        best = best_seed(bundles, run.recipe().training.monitor)
        weights = listening(bundles[best], observed.graph, store, resources)
    content = content_of_run(
        run, bundles, store, observed, evaluation,
        part=part, weights=weights, own=elsewhere is None, resources=resources,
    )  # fmt: skip
    return write_page(content, run.report_path if elsewhere is None else report_elsewhere(run, elsewhere))


def report_elsewhere(run: RunFolder, graph: str) -> Path:
    """`report-<graph>.html`, with the letters of the name that every file system knows."""
    plain = re.sub(r"[^\w.-]+", "-", graph).strip(".-")[:60]
    return run.report_path.with_name(f"report-{plain or 'graph'}.html")
