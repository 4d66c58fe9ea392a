"""Means, deviations, ratios and differences against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from gamlp.bench.results import Growth, Measured, Results, difference, records
from gamlp.bench.tables import Value
from tests.bench import hand


def test_scores_are_means_in_per_cent_with_the_samples_deviation() -> None:
    results = hand.grid_results()
    sgc = results.measured("SGC", "cora", "test.score")  # 80, 81, 82: deviations -1, 0, 1; √(2 / 2) = 1
    assert sgc is not None
    assert (sgc.mean, sgc.deviation, sgc.count) == (pytest.approx(81.0), pytest.approx(1.0), 3)
    gamlp = results.measured("GAMLP(R)", "cora", "valid.score")  # 84, 85: √(2 · 0.25 / 1)
    assert gamlp is not None
    assert (gamlp.mean, gamlp.deviation, gamlp.count) == (pytest.approx(84.5), pytest.approx(math.sqrt(0.5)), 2)


def test_losses_are_no_percentages_and_unknown_metrics_are_none() -> None:
    results = hand.grid_results()
    loss = results.measured("SGC", "cora", "test.loss")
    assert loss is not None and loss.mean == pytest.approx(0.6)
    assert results.measured("SGC", "cora", "test.unheard_of") is None
    assert results.measured("SGC", "ppi", "test.score") is None


def test_micro_f1_is_the_score() -> None:
    """Accuracy where a node has one label, micro-F1 where it has many."""
    results = hand.grid_results()
    assert results.measured("SGC", "cora", "test.micro_f1") == results.measured("SGC", "cora", "test.score")


def test_a_single_run_has_no_deviation() -> None:
    results = Results(hand.small(), {("SGC", "cora", None): [hand.report(0, 0.8)]})
    assert results.measured("SGC", "cora", "test.score") == Measured(pytest.approx(80.0), None, 1)


def test_what_is_not_a_number_is_left_out() -> None:
    broken = hand.report(1, 0.9, test={"score": math.nan})
    results = Results(hand.small(), {("SGC", "cora", None): [hand.report(0, 0.8), broken]})
    assert results.measured("SGC", "cora", "test.score") == Measured(pytest.approx(80.0), None, 1)


def test_seconds_are_ratios_to_the_first_methods_mean() -> None:
    results = hand.grid_results()  # SGC takes 1 s; GAMLP(R) 4 and 6 s: mean 5, deviation √2
    gamlp = results.measured("GAMLP(R)", "cora", "seconds.training")
    assert gamlp == Measured(pytest.approx(5.0), pytest.approx(math.sqrt(2)), 2)
    slow = {
        key: [one | {"seconds": {"training": 2.0}} for one in of]
        for key, of in results.cells.items()
        if key[0] == "SGC"
    }
    relative = Results(results.table, results.cells | slow).measured("GAMLP(R)", "cora", "seconds.training")
    assert relative == Measured(pytest.approx(2.5), pytest.approx(math.sqrt(2) / 2), 2)
    assert results.raw("GAMLP(R)", "cora", "seconds.training") == gamlp  # seconds, since 1.0 is one second here


def test_memory_is_a_ratio_where_the_table_asks_for_one() -> None:
    cells = hand.grid_results().cells
    cells["GAMLP(R)", "cora", None] = [hand.report(0, 0.84, peak_memory=6 * 2**20)]  # SGC has 3 MiB
    results = Results(hand.small(metrics=["relative.peak_memory", "test.score"]), cells)
    assert results.measured("GAMLP(R)", "cora", "relative.peak_memory") == Measured(pytest.approx(2.0), None, 1)
    assert results.measured("GAMLP(R)", "cora", "peak_memory") == Measured(6 * 2**20, None, 1)
    row = next(one for one in records(results) if one["method"] == "GAMLP(R)")
    assert (row["unit"], row["ours"], row["bytes"], row["seconds"]) == ("ratio", pytest.approx(2.0), 6 * 2**20, None)


def test_without_the_first_method_there_is_no_ratio() -> None:
    cells = {key: of for key, of in hand.grid_results().cells.items() if key[0] != "SGC"}
    assert Results(hand.small(), cells).measured("GAMLP(R)", "cora", "seconds.training") is None


def test_the_first_method_is_the_first_that_runs_on_the_dataset() -> None:
    assert hand.grid_results().first("cora") == "SGC"
    table = hand.small(datasets={"cora": {"title": "Cora", "methods": ["GAMLP(R)"]}}, published={})
    assert Results(table, {}).first("cora") == "GAMLP(R)"


@pytest.mark.parametrize(
    ("ours", "published", "expected"),
    [
        (Measured(84.0, 0.3, 10), Value(mean=82.0, deviation=0.4), 4.0),  # 2 / √(0.09 + 0.16)
        (Measured(80.0, 0.6, 10), Value(mean=81.0, deviation=0.8), -1.0),
        (Measured(80.0, None, 1), Value(mean=81.0, deviation=0.5), -2.0),
        (Measured(80.0, 0.5, 10), Value(mean=81.0), -2.0),
        (Measured(80.0, None, 1), Value(mean=81.0), None),
        (Measured(80.0, 0.0, 3), Value(mean=81.0, deviation=0.0), None),
    ],
)
def test_difference_in_units_of_deviation(ours: Measured, published: Value, expected: float | None) -> None:
    assert difference(ours, published) == (None if expected is None else pytest.approx(expected))


def test_a_bound_holds_or_not_and_only_at_its_point() -> None:
    assert hand.curve_results(0.79).compared("GAMLP(R)", "cora", "test.score", 8).holds is False
    assert hand.curve_results(0.81).compared("GAMLP(R)", "cora", "test.score", 8).holds is True
    assert hand.curve_results().compared("GAMLP(R)", "cora", "test.score", 2).published is None


def test_a_stand_in_is_not_compared() -> None:
    cell = hand.efficiency_results().compared("GAMLP(R)", "cora", "test.score")
    assert cell.ours is not None and cell.published is not None and cell.difference is None


def test_slopes_of_growth() -> None:
    square, constant = hand.growth_results().growth
    assert square.slope == pytest.approx(2.0)
    assert constant.slope == pytest.approx(0.0)
    assert Growth("SGC", "nodes", "seconds.training", (10, 20), (0.0, 3.0)).slope is None
    assert Growth("SGC", "nodes", "seconds.training", (10, 10), (1.0, 3.0)).slope is None


def test_records_hold_every_measured_or_published_cell_once() -> None:
    rows = records(hand.grid_results())
    assert [(row["dataset"], row["method"]) for row in rows] == [("cora", "SGC"), ("cora", "GAMLP(R)"), ("ppi", "SGC")]
    sgc, gamlp, absent = rows
    assert (sgc["ours"], sgc["published"], sgc["seeds"]) == (pytest.approx(81.0), 81.0, 3)
    assert gamlp["difference"] == pytest.approx(0.5 / math.sqrt(0.5 + 0.16))
    assert (absent["ours"], absent["published"], absent["seeds"]) == (None, 65.7, 0)
    assert absent["missing"] == "its files are not there"


def test_records_of_times_hold_the_seconds_too() -> None:
    rows = {(row["method"], row["metric"]): row for row in records(hand.efficiency_results())}
    assert rows["GAMLP(R)", "seconds.training"]["ours"] == pytest.approx(5.0)
    assert rows["GAMLP(R)", "seconds.preparation"]["seconds"] == pytest.approx(2.0)
    assert rows["SGC", "test.score"]["seconds"] is None
