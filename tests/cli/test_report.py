"""`gamlp run` and `gamlp evaluate` write report.html and say where."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.people import Call


def test_run_and_evaluate_say_where_the_report_is(call: Call, tmp_path: Path) -> None:
    ran = call("run karate --set training.epochs=3 --out mine")
    page = tmp_path / "mine" / "report.html"
    assert ran.code == 0 and "mine/report.html:" in ran.out
    assert "<title>karate" in page.read_text()
    page.unlink()
    assert "mine/report.html:" in call("evaluate mine").out and page.exists()
    assert json.loads(call("evaluate mine --json").out)["report"] == "mine/report.html"
    assert json.loads(call("run karate --set training.epochs=3 --out mine --json").out)["report"] == "mine/report.html"
