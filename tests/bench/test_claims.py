"""What the paper says, held against numbers written by hand: each kind can hold and can fail."""

from __future__ import annotations

from typing import Any

import pytest

from gamlp.bench.claims import Claim, claims, judge
from gamlp.bench.results import Grid, Results
from gamlp.bench.summary import _beside, as_summary
from gamlp.bench.tables import table_of
from gamlp.bench.work import Work
from tests.bench.hand import curve_results, report, small


def results(**means: float) -> Results:
    names = {"sgc": "SGC", "gamlp": "GAMLP(R)"}
    cells = {(names[name], "cora", None): [report(0, mean), report(1, mean)] for name, mean in means.items()}
    return Results(small(), cells, {"ppi": "not at hand"})


def claim(kind: str, *methods: str, **parts: Any) -> Claim:
    return Claim.model_validate({"table": "small", "says": "so", "kind": kind, "methods": methods, **parts})


@pytest.mark.parametrize(("mean", "word"), [(0.8195, "holds"), (0.8005, "holds"), (0.8205, "does not hold")])
def test_within_one_point_or_two_deviations(mean: float, word: str) -> None:
    verdict = judge(claim("within", "SGC"), results(sgc=mean))  # published 81.0 ± 0.2: one point is larger
    assert (verdict.word, verdict.asked) == (word, 1)


def test_within_is_asked_only_of_what_was_measured() -> None:
    assert judge(claim("within", "GAMLP(R)"), results(sgc=0.8)).word == "not measured"


def test_best_and_order() -> None:
    ahead, behind = results(sgc=0.80, gamlp=0.84), results(sgc=0.85, gamlp=0.84)
    assert judge(claim("best", "GAMLP(R)"), ahead).word == "holds"
    verdict = judge(claim("best", "GAMLP(R)"), behind)
    assert verdict.word == "does not hold" and verdict.examples == ("Cora: SGC 85.0 ± 0.0, GAMLP(R) 84.0 ± 0.0",)
    assert judge(claim("order", "GAMLP(R)", "SGC"), ahead).word == "holds"
    assert judge(claim("order", "GAMLP(R)", "SGC"), behind).word == "does not hold"
    assert judge(claim("order", "GAMLP(R)", "SGC", falling=False), behind).word == "holds"


def test_order_by_so_many_points() -> None:
    ahead = results(sgc=0.80, gamlp=0.84)
    assert judge(claim("order", "GAMLP(R)", "SGC", least=3.9), ahead).word == "holds"
    assert judge(claim("order", "GAMLP(R)", "SGC", least=4.1), ahead).word == "does not hold"


def test_the_first_reaches_the_others() -> None:
    assert judge(claim("reaches", "GAMLP(R)", "SGC"), results(sgc=0.84, gamlp=0.84)).word == "holds"
    verdict = judge(claim("reaches", "GAMLP(R)", "SGC"), results(sgc=0.85, gamlp=0.84))
    assert verdict.word == "does not hold" and verdict.examples == ("Cora: GAMLP(R) 84.0 ± 0.0, SGC 85.0 ± 0.0",)
    assert judge(claim("reaches", "GAMLP(R)", "SGC"), results(sgc=0.85)).word == "not measured"


def test_that_which_validates_best_passes_the_highest_published_value() -> None:
    """84.0, GAMLP(R)'s: which of ours is held against it, test rows do not say."""
    cells = {
        ("SGC", "cora", None): [report(0, 0.83, valid={"score": 0.9})],
        ("GAMLP(R)", "cora", None): [report(0, 0.85, valid={"score": 0.8})],
    }
    both = Results(small(), cells, {"ppi": "not at hand"})
    verdict = judge(claim("passes", "SGC", "GAMLP(R)"), both)
    assert verdict.word == "does not hold" and verdict.examples == ("Cora: SGC 83.0, GAMLP(R) published 84 (-1.0)",)
    assert judge(claim("passes", "GAMLP(R)"), both).word == "holds"
    assert judge(claim("passes", "FastGCN"), both).word == "not measured"


def test_means_that_are_less_apart_than_their_error_decide_nothing() -> None:
    cells = {
        ("SGC", "cora", None): [report(0, 0.80), report(1, 0.82)],
        ("GAMLP(R)", "cora", None): [report(0, 0.801), report(1, 0.821)],  # 0.1 above, error √(1 + 1) = 1.4
    }
    verdict = judge(claim("order", "GAMLP(R)", "SGC"), Results(small(), cells, {"ppi": "not at hand"}))
    assert verdict.word == "does not hold" and "undecided" in verdict.examples[0]


def test_a_curve_stays_or_falls() -> None:
    kept, lost = curve_results(0.83), curve_results(0.79)  # from 84 at depth 2
    assert judge(claim("stays", "GAMLP(R)"), kept).word == "holds"
    assert judge(claim("stays", "GAMLP(R)"), lost).word == "does not hold"
    assert judge(claim("falls", "GAMLP(R)"), lost).word == "holds"
    assert judge(claim("falls", "SGC"), lost).word == "not measured", "SGC was not run at the last depth"


def test_points_of_a_curve() -> None:
    verdict = judge(claim("points", "GAMLP(R)"), curve_results())
    assert verdict.word == "holds" and verdict.examples == ("Cora: highest at 1 of 1 points",)
    assert judge(claim("points", "SGC"), curve_results()).word == "does not hold"


@pytest.mark.parametrize(("last", "word"), [(0.2, "holds"), (0.9, "does not hold")])
def test_far_hops_of_a_heat_map(last: float, word: str) -> None:
    rows = ((1.0, 1.0, 1.0, 0.5), (1.0, 1.0, 1.0, last))
    grid = Grid("Cora", "degree", "hop", "weight", ("1–4", "5–8"), ("0", "1", "2", "3"), rows)
    assert judge(claim("nearer"), Results(small(), {}, {}, {"cora-all": grid})).word == word


@pytest.mark.parametrize(("deep", "word"), [(0.1, "holds"), (0.9, "does not hold")])
def test_depths_of_a_heat_map(deep: float, word: str) -> None:
    grid = Grid("Cora", "steps", "node", "share", ("1", "2"), ("7", "9"), ((0.8, 0.9), (deep, 0.9)))
    assert judge(claim("differs"), Results(small(), {}, {}, {"cora-fixed": grid})).word == word


def test_shipped_claims_name_rows_and_columns_of_their_tables() -> None:
    for one in claims():
        table = table_of(one.table)
        assert set(one.methods) <= set(table.methods), one.says
        assert set(one.datasets or ()) <= set(table.datasets), one.says
        assert (table.kind == "curve") is (one.kind in ("stays", "falls", "points")), one.says


def test_cells_stand_beside_published_ones_in_points() -> None:
    (shown,) = _beside(results(sgc=0.80, gamlp=0.8449))
    assert shown.splitlines() == [
        "| test %: ours, published, points apart | Cora |",
        "|---|---:|",
        "| SGC | 80.0, 81.0, -1.0 |",
        "| GAMLP(R) | 84.5, 84.0, +0.5 |",
    ]
    assert _beside(Results(small(), {})) == []


def test_the_summary_says_what_was_not_measured(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAMLP_DATA", raising=False)
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    page = as_summary(Work(tmp_path / "work"))
    assert (
        "## [Transductive performance on citation networks](citation.md)\n\nNot measured: cora is not at hand" in page
    )
    assert "**Holds**" not in page and str(tmp_path) not in page
