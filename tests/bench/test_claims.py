"""What the paper says, held against numbers written by hand: each kind can hold and can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from gamlp.bench.claims import MARGINS, Claim, ClaimOutcome, Kind, Verdict, claims, judge
from gamlp.bench.results import Grid, Growth, Results
from gamlp.bench.tables import NAMES, table_of
from tests.bench.hand import curve_results, report, small


def results(**means: float) -> Results:
    names = {"sgc": "SGC", "gamlp": "GAMLP(R)"}
    cells = {(names[name], "cora", None): [report(0, mean), report(1, mean)] for name, mean in means.items()}
    return Results(small(), cells, {"ppi": "not at hand"})


def claim(kind: str, *methods: str, **parts: Any) -> Claim:
    return Claim.model_validate({"table": "small", "says": "so", "kind": kind, "methods": methods, **parts})


def texts(verdict: Verdict) -> list[str]:
    return [one.text for one in verdict.outcomes]


@pytest.mark.parametrize(("mean", "word"), [(0.8195, "holds"), (0.8005, "holds"), (0.8205, "does not hold")])
def test_within_one_point_or_two_deviations(mean: float, word: str) -> None:
    verdict = judge(claim("within", "SGC"), results(sgc=mean))  # published 81.0 ± 0.2: one point is larger
    assert (verdict.word, verdict.asked) == (word, 1)


def test_within_is_asked_only_of_what_was_measured() -> None:
    assert judge(claim("within", "GAMLP(R)"), results(sgc=0.8)).word == "not known"


def test_best_and_order() -> None:
    ahead, behind = results(sgc=0.80, gamlp=0.84), results(sgc=0.85, gamlp=0.84)
    assert judge(claim("best", "GAMLP(R)"), ahead).word == "holds"
    verdict = judge(claim("best", "GAMLP(R)"), behind)
    assert verdict.word == "does not hold" and texts(verdict) == ["Cora: GAMLP(R) 84.0 ± 0.0, SGC 85.0 ± 0.0"]
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
    assert verdict.word == "does not hold" and texts(verdict) == ["Cora: GAMLP(R) 84.0 ± 0.0, SGC 85.0 ± 0.0"]
    assert judge(claim("reaches", "GAMLP(R)", "SGC"), results(sgc=0.85)).word == "not known"


def test_that_which_validates_best_passes_the_highest_published_value() -> None:
    """84.0, GAMLP(R)'s: which of ours is held against it, test rows do not say."""
    cells = {
        ("SGC", "cora", None): [report(seed, 0.83, valid={"score": 0.9}) for seed in range(2)],
        ("GAMLP(R)", "cora", None): [report(seed, 0.85, valid={"score": 0.8}) for seed in range(2)],
    }
    rows = Results(small(), cells, {"ppi": "not at hand"})
    verdict = judge(claim("passes", "SGC", "GAMLP(R)"), rows)
    assert verdict.word == "does not hold" and texts(verdict) == ["Cora: SGC 83.0 ± 0.0, GAMLP(R) published 84 (-1.0)"]
    assert judge(claim("passes", "GAMLP(R)"), rows).word == "holds"
    assert judge(claim("passes", "FastGCN"), rows).word == "not known"


def both(sgc: tuple[float, ...], gamlp: tuple[float, ...], first: int = 0) -> Results:
    cells = {
        ("SGC", "cora", None): [report(seed, score) for seed, score in enumerate(sgc)],
        ("GAMLP(R)", "cora", None): [report(seed, score) for seed, score in enumerate(gamlp, first)],
    }
    return Results(small(), cells, {"ppi": "not at hand"})


def test_means_that_are_less_apart_than_their_error_decide_nothing() -> None:
    """Other seeds: 0.1 above, deviation √2 each, error √(2/2 + 2/2)."""
    verdict = judge(claim("order", "GAMLP(R)", "SGC"), both((0.80, 0.82), (0.801, 0.821), first=5))
    (one,) = verdict.outcomes
    assert verdict.word == "not known" and (one.margin, one.error) == (pytest.approx(0.1), pytest.approx(2**0.5))


def test_rows_of_the_same_seeds_are_compared_seed_by_seed() -> None:
    """0.1 above with every seed: the error is of the differences, and not of the seeds' own spread."""
    (one,) = judge(claim("order", "GAMLP(R)", "SGC"), both((0.80, 0.82), (0.801, 0.821))).outcomes
    assert one.holds is True and one.error == pytest.approx(0, abs=1e-9)
    (one,) = judge(claim("order", "GAMLP(R)", "SGC"), both((0.80, 0.82), (0.831, 0.811))).outcomes
    assert one.holds is None and (one.margin, one.error) == (pytest.approx(1.1), pytest.approx(2.0)), "3.1 and -0.9"


def test_one_that_fails_refutes_a_claim_and_its_weakest_comparison_decides() -> None:
    both_fail = Verdict(claim("order"), (ClaimOutcome("a", "a", 3.0, 1.0), ClaimOutcome("b", "b", -2.1, 1.0)))
    assert (both_fail.word, both_fail.held, both_fail.failed) == ("does not hold", 1, 1)
    assert both_fail.weakest is both_fail.outcomes[1]
    unsure = Verdict(claim("order"), (ClaimOutcome("a", "a", 3.0, 1.0), ClaimOutcome("b", "b", -1.9, 1.0)))
    assert unsure.word == "not known"
    assert (
        ClaimOutcome("a", "a", 0.0, 0.0).holds is True and ClaimOutcome("a", "a", 0.0, 0.0, strict=True).holds is None
    )


def test_a_single_run_has_the_deviation_of_its_column_or_decides_nothing() -> None:
    single = both((0.80,), (0.85,))
    assert judge(claim("order", "GAMLP(R)", "SGC"), single).word == "not known"
    beside = both((0.80, 0.82), (0.85,))  # SGC's deviation √2: error √(2/2 + 2)
    (one,) = judge(claim("order", "GAMLP(R)", "SGC"), beside).outcomes
    assert one.holds is True and (one.margin, one.error) == (pytest.approx(4.0), pytest.approx(3**0.5))


def test_a_curve_stays_or_falls() -> None:
    kept, near, lost = (curve_results(last) for last in (0.845, 0.83, 0.79))  # from 84 ± 1 at depth 2
    assert judge(claim("stays", "GAMLP(R)"), kept).word == "holds"
    assert judge(claim("stays", "GAMLP(R)"), near).word == "not known", "1.5 are allowed, 1.0 ± 1.0 are lost"
    assert judge(claim("stays", "GAMLP(R)"), lost).word == "does not hold"
    assert judge(claim("falls", "GAMLP(R)"), lost).word == "holds"
    assert judge(claim("falls", "SGC"), lost).word == "not known", "SGC was not run at the last depth"


def test_points_of_a_curve() -> None:
    verdict = judge(claim("points", "GAMLP(R)"), curve_results())
    assert verdict.word == "holds" and texts(verdict) == ["Cora: highest at 1 of 1 points"]
    assert judge(claim("points", "SGC"), curve_results()).word == "does not hold"


def test_a_published_bound_is_exceeded_at_its_point() -> None:
    assert judge(claim("exceeds", "GAMLP(R)"), curve_results(0.81)).word == "holds"
    verdict = judge(claim("exceeds", "GAMLP(R)"), curve_results(0.79))
    assert verdict.word == "does not hold"
    assert texts(verdict) == ["GAMLP(R), Cora at 8: 79.0 ± 0.0, published above 80"]
    assert judge(claim("exceeds", "SGC"), curve_results()).word == "not known", "nothing is published of it"


def test_a_curve_falls_from_its_first_point_and_not_from_its_best() -> None:
    """78 at depth 2, 83 at 4, 80 at 8: it lost 3 from the best, and nothing from the first."""
    table = curve_results().table
    axis = table.axis
    assert axis is not None
    wider = table.model_copy(update={"axis": axis.model_copy(update={"values": (2, 4, 8)})})
    cells = {
        ("SGC", "cora", at): [report(0, score), report(1, score)] for at, score in ((2, 0.78), (4, 0.83), (8, 0.8))
    }
    assert judge(claim("falls", "SGC"), Results(wider, cells)).word == "does not hold"
    assert judge(claim("stays", "SGC"), Results(wider, cells)).word == "does not hold"


def test_one_takes_so_many_times_as_long_as_the_other() -> None:
    """4 ± 0 s beside 1 ± 0.1 s: four times, ± 4 · 0.1 / √2."""
    cells = {
        ("SGC", "cora", None): [report(0, 0.8, 0.9), report(1, 0.8, 1.1)],
        ("GAMLP(R)", "cora", None): [report(0, 0.8, 4.0), report(1, 0.8, 4.0)],
    }
    found = Results(small(metrics=["seconds.training"], published={}), cells)
    for least, word in ((3.0, "holds"), (4.1, "not known"), (5.0, "does not hold")):
        verdict = judge(claim("times", "SGC", "GAMLP(R)", metric="seconds.training", least=least), found)
        assert verdict.word == word and texts(verdict) == ["Cora: GAMLP(R) / SGC is 4.0"]
        (one,) = verdict.outcomes
        assert (one.margin, one.error) == (pytest.approx(4 - least), pytest.approx(4 * 0.1))
    assert verdict.claim.unit == "times"


def test_the_best_of_a_table_without_published_values_is_of_all_rows() -> None:
    cells = {
        ("SGC", "cora", None): [report(0, 0.85), report(1, 0.85)],
        ("GAMLP(R)", "cora", None): [report(0, 0.84), report(1, 0.84)],
    }
    assert judge(claim("best", "GAMLP(R)"), Results(small(published={}), cells)).word == "does not hold"
    assert judge(claim("best", "SGC", least=0.9), Results(small(published={}), cells)).word == "holds"
    assert judge(claim("best", "SGC", least=1.1), Results(small(published={}), cells)).word == "does not hold"


@pytest.mark.parametrize("kind", ["nearer", "close", "differs"])
@pytest.mark.parametrize(
    ("margin", "word"),
    [((2.0, 0.9), "holds"), ((1.0, 0.9), "not known"), ((-2.0, 0.9), "does not hold"), ((5.0, None), "not known")],
)
def test_a_heat_map_has_a_margin_and_its_error(kind: str, margin: tuple[float, float | None], word: str) -> None:
    grid = Grid("Cora", "degree", "hop", "weight", ("1–4", "5–8"), ("0", "1"), ((1.0, 0.5), (1.0, 0.2)), {kind: margin})
    assert judge(claim(kind), Results(small(), {}, {}, {"cora-all": grid})).word == word
    assert judge(claim(kind), Results(small(), {}, {}, {"cora-all": replace(grid, margins={})})).word == "not known"


@pytest.mark.parametrize(("power", "word"), [(1.0, "holds"), (2.0, "does not hold")])
def test_exponents_beside_those_of_the_formulas(power: float, word: str) -> None:
    """`nf^2` says 1 with nodes; the size to the second power is more. What stands in an exponent bounds nothing."""
    options = {"formulas": {"SGC": {"preparation": "-", "training": r"\mathcal{O}(k^{K}nf^2)", "memory": "f^2"}}}
    sizes = (10.0, 20.0, 40.0)
    growth = tuple(
        Growth("SGC", quantity, "seconds.training", sizes, tuple(size**power for size in sizes))
        for quantity in ("nodes", "hops")
    )
    table = small(kind="complexity", published={}, options=options, datasets={"cora": {"title": "Any"}})
    found = Results(table, {}, growth=growth)
    verdict = judge(claim("grows", "SGC", metric="seconds.training", most=0.1), found)
    assert verdict.word == word and texts(verdict) == [f"SGC with nodes: {power:.2f}, the formula's 1"]


def test_every_kind_says_what_its_margin_is() -> None:
    assert set(MARGINS) == set(get_args(Kind))
    for one in claims():
        assert one.margin_is and "{" not in one.margin_is


def test_shipped_claims_name_rows_and_columns_of_their_tables() -> None:
    for one in claims():
        table = table_of(one.table)
        assert set(one.methods) <= set(table.methods), one.says
        assert set(one.datasets or ()) <= set(table.datasets), one.says
        assert (table.kind == "curve") is (one.kind in ("stays", "falls", "points", "exceeds")), one.says
        assert (table.kind == "complexity") is (one.kind == "grows"), one.says


def test_every_table_of_the_paper_has_a_claim() -> None:
    """`efficiency-epochs` is the same table of the paper as `efficiency`."""
    judged = {one.table for one in claims()}
    assert set(NAMES) - judged == {"efficiency-epochs"}
