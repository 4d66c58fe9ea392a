"""Which models were tried, how good each is, and which was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.tune import Leaderboard, LeaderboardRow


def show_leaderboard(board: Leaderboard) -> None:
    """A row for every model that came to its end, best first; the others below; and what the choice is worth."""
    from gamlp.training import metric_words

    unit = "" if board.metric == "log_loss" else ", %"
    display.say(f"\nWhat was tried, by {metric_words(board.metric)}{unit} of validation rows; → is kept")
    rows = [_row(row, board) for row in board.rows if row.state == "finished"]
    display.table("", "model", "validation", "test", "seconds", "size", rows=rows)
    dropped = [row for row in board.rows if row.state == "dropped"]
    if early := [f"{row.title} ({_number(board.metric, row.valid)})" for row in dropped if row.valid is not None]:
        display.say(f"not taken to the end, and the best until then: {'; '.join(early)}")
    if never := [row.title for row in dropped if row.valid is None]:
        display.say(f"not trained, the time was over: {'; '.join(never)}")
    for row in board.rows:
        if row.state not in ("finished", "dropped"):
            display.say(f"{row.state}: {row.title}: {row.why}")
    display.say(f"\n{board.sentence}")


def _row(row: LeaderboardRow, board: Leaderboard) -> tuple[str, ...]:
    from gamlp.io import format_size

    return (
        "→" if row.name == board.chosen else "",
        row.title,
        _number(board.metric, row.valid, row.error),
        _number(board.metric, row.test),
        f"{row.seconds:.1f}",
        format_size(row.bytes),
    )


def _number(metric: str, value: float | None, error: float | None = None) -> str:
    """In per cent, but for a loss; `± error` where it is known."""
    if value is None:
        return ""
    factor, digits = (1, 4) if metric == "log_loss" else (100, 2)
    spread = "" if error is None else f" ± {factor * error:.{digits}f}"
    return f"{factor * value:.{digits}f}{spread}"
