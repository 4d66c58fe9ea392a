"""The leaderboard of a run folder, as the page reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gamlp.io import sealed
from gamlp.report.leaderboard import read_leaderboard

ROW = {
    "name": "gamlp", "title": "GAMLP", "valid": 0.8, "error": 0.01, "test": 0.79, "seconds": 3.5, "parameters": 10,
    "bytes": 400, "state": "finished", "simple": False, "why": "",
}  # fmt: skip
BOARD = {"metric": "accuracy", "chosen": "gamlp", "sentence": "It is better.", "rows": [ROW]}


def test_rows_are_read_with_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "leaderboard.json").write_text(json.dumps(sealed({**BOARD, "splits": 3})))
    assert read_leaderboard(tmp_path) == {**BOARD, "title": "accuracy"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"metric": "accuracy", "rows": 3}',
        '{"metric": "luck", "rows": [{"name": "x"}]}',
        '{"rows": [1, {"name": 2}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_leaderboard_is_left_out(tmp_path: Path, text: str) -> None:
    assert read_leaderboard(tmp_path) is None
    (tmp_path / "leaderboard.json").write_text(text)
    assert read_leaderboard(tmp_path) is None


def test_cells_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    row = {"name": "x", "valid": "0.8", "test": True, "seconds": float("nan"), "simple": 1}
    (tmp_path / "leaderboard.json").write_text(json.dumps({**BOARD, "rows": [row]}))
    found = read_leaderboard(tmp_path)
    assert found is not None
    (read,) = found["rows"]
    assert read["title"] == "x" and read["valid"] is read["test"] is read["seconds"] is None and not read["simple"]


def test_one_that_was_changed_by_hand_is_left_out(tmp_path: Path) -> None:
    changed = {**sealed(BOARD), "chosen": "another"}
    (tmp_path / "leaderboard.json").write_text(json.dumps(changed))
    assert read_leaderboard(tmp_path) is None
