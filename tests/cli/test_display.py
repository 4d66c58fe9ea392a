"""Progress as it is shown: notes beside bars and in JSON Lines."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from rich.console import Console

from gamlp.cli.show import display
from gamlp.progress import overall, silent

NOTE = "loss 0.51, valid 0.71 [best]"


def test_a_note_is_in_the_json_line_only_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with display.progress(as_json=True) as progress:
        progress("read", 1, 1, "rows")
        progress("train", 2, 2, "epochs", NOTE)
        progress("train", 2, 2, "epochs", note="")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    train: dict[str, Any] = {"stage": "train", "done": 2, "total": 2, "unit": "epochs"}
    assert lines == [{"stage": "read", "done": 1, "total": 1, "unit": "rows"}, {**train, "note": NOTE}, train]


@pytest.mark.parametrize("width", [80, 120])
def test_a_note_is_drawn_as_it_is_and_leaves_room_for_the_bar(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    terminal = Console(file=drawn, force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr(display, "stderr", terminal)
    with display.progress() as progress:
        progress("train", 1, 4, "epochs")
        progress("train", 2, 4, "epochs", NOTE)
    last = [line for line in drawn.getvalue().splitlines() if "train" in line][-1]
    assert NOTE in last and "50 %" in last and "━" in last and ":" in last.split(NOTE)[1]


def test_notes_are_passed_on_and_may_be_left_out() -> None:
    told: list[tuple[Any, ...]] = []

    def progress(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        told.append((stage, done, total, unit, note))

    tell = overall(progress, 10)
    tell("hop 1", 5, 5, "entries")
    tell("train", 1, 3, "epochs", NOTE)
    assert told == [("hop 1", 5, 5, "entries", ""), ("all hops", 5, 10, "entries", ""), ("train", 1, 3, "epochs", NOTE)]
    silent("train", 1, note=NOTE)


def test_what_a_table_of_a_stranger_holds_is_no_command_of_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    display.table("na\x1bme[/]", "[red]", rows=[("[/b]\x1b[2J", 1), ("[bold]a\nb", 2)])
    display.say("first\nse\x1bcond [/b]")
    display.warn("th\x07ird\nline")
    shown = capsys.readouterr()
    for text in ("na\\x1bme[/]", "[red]", "[/b]\\x1b[2J", "[bold]a\\nb", "first\nse\\x1bcond [/b]\n"):
        assert text in shown.out
    assert "th\\x07ird" in shown.err and "\x07" not in shown.err and "\x1b" not in shown.out + shown.err


def told(capsys: pytest.CaptureFixture[str], *, as_json: bool = False, seconds: float = 0.3) -> list[str]:
    """What a verb of so many seconds tells, that says once how far it is."""
    with display.telling(as_json), display.progress(as_json) as progress:
        time.sleep(seconds / 2)
        progress("train", 1200, 4000, "epochs", NOTE)
        time.sleep(seconds / 2)
    return capsys.readouterr().err.splitlines()


def test_without_a_terminal_there_is_a_line_soon_and_then_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert display._FIRST < 2 and display._EVERY == 10
    monkeypatch.setattr(display, "_FIRST", 0.02)
    monkeypatch.setattr(display, "_EVERY", 0.1)
    assert told(capsys) == [], "GAMLP_PROGRESS=off, as all tests have it"
    monkeypatch.delenv("GAMLP_PROGRESS")
    lines = told(capsys)
    assert lines[0] == "gamlp: 0 s: starting" and 2 <= len(lines) <= 4
    assert lines[-1] == f"gamlp: 0 s: train, 1,200 of 4,000 epochs ({NOTE})"
    found = [json.loads(line)["stage"] for line in told(capsys, as_json=True)]
    assert found[0] == "starting" and "train" in found[1:]


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAMLP_PROGRESS")
    assert told(capsys, seconds=0.01) == []
