"""Which models were tried, how good each is, and which was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.tune import Leaderboard, LeaderboardRow


def show_leaderboard(board: Leaderboard) -> None:
    """A table with a row for every model, best first, and the sentence that says what the choice is worth."""
    measure = _title(board.metric)
    columns = ("", "model", f"validation {measure}", f"test {measure}", "seconds", "parameters", "")
    display.table(*columns, rows=[_row(row, board) for row in board.rows])
    display.say(f"\n{board.sentence}")


def _row(row: LeaderboardRow, board: Leaderboard) -> tuple[str, ...]:
    ended = "" if row.state == "finished" else row.state
    return (
        "→" if row.name == board.chosen else "",
        row.title,
        _number(board.metric, row.valid, row.error),
        _number(board.metric, row.test),
        f"{row.seconds:.1f}",
        f"{row.parameters:,}",
        f"{ended}: {row.why}" if ended and row.why else ended,
    )


def _title(metric: str) -> str:
    from gamlp.training import metric_words

    return metric_words(metric) if metric == "log_loss" else f"{metric_words(metric)}, %"


def _number(metric: str, value: float | None, error: float | None = None) -> str:
    """In per cent, but for a loss; `± error` where it is known."""
    if value is None:
        return ""
    factor, digits = (1, 4) if metric == "log_loss" else (100, 2)
    spread = "" if error is None else f" ± {factor * error:.{digits}f}"
    return f"{factor * value:.{digits}f}{spread}"
