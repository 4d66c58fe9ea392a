"""What a run of a peer without a bundle shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from gamlp.cli.show import display
from gamlp.cli.show.columns import show_columns
from gamlp.cli.show.scores import show_scores, show_words

if TYPE_CHECKING:
    from gamlp.graph.ingest import ColumnUse
    from gamlp.peers import Single


def show_single(single: Single, name: str, seconds: float, as_json: bool, columns: Sequence[ColumnUse] = ()) -> None:
    """Scores by part, times of the best seed, and where the predictions are; of tables also the use of columns."""
    parts = {"validation": single.scores("valid"), "test": single.scores("test")}
    best = single.reports[single.best]
    if as_json:
        display.print_json(
            {
                "run": str(single.path),
                "method": single.method,
                "recipe": name,
                "valid": parts["validation"],
                "test": parts["test"],
                "words": single.words,
                "seeds": {seed: report.as_json() for seed, report in single.reports.items()},
                "predictions": str(single.predictions.path),
                "report": str(single.path / "report.html"),
                "columns": [asdict(use) for use in columns],
                "seconds": round(seconds, 3),
            }
        )
        return
    if columns:
        show_columns(columns)
    show_scores(parts, single.multi_label, len(single.reports))
    spent = best.seconds
    rows = [
        (
            f"{spent.preparation:.2f}", f"{spent.training:.2f}", f"{spent.inference:.2f}",
            f"{best.peak_memory / 2**20:,.0f}", best.parameters,
        )
    ]  # fmt: skip
    display.say(f"\nof seed {single.best}, the best by validation:")
    display.table("preparation, s", "training, s", "inference, s", "peak memory, MiB", "parameters", rows=rows)
    show_words(single.words)
    display.say(f"\n{single.path}: report.html, recipe.yaml, evaluation.json, seeds/ (recipe: {name}; {seconds:.1f} s)")
    display.say(f"{single.predictions.path}: labels and probabilities of {single.predictions.rows:,} nodes")
