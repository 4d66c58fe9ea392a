"""Numbers of an earlier page stand where runs are lost, while the recipe is the same; the page says which they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gamlp.bench.earlier import or_earlier, with_earlier
from gamlp.bench.pages import as_markdown, write_pages
from gamlp.bench.results import Key, Reports, Results, records
from gamlp.bench.summary import _kept
from gamlp.errors import GamlpError
from tests.bench import hand

LATER = replace(hand.STAMP, date="2024-06-07")
RECIPES: dict[Key, str] = {("SGC", "cora", None): "s1", ("GAMLP(R)", "cora", None): "g1"}


def written(results: Results, folder: Path) -> None:
    write_pages(replace(results, recipes=RECIPES), folder, hand.STAMP)


def later(folder: Path, results: Results | None = None, /, **recipes: str) -> Results:
    """What is there now (nothing) beside the page in the folder."""
    named: dict[Key, str] = {(name, "cora", None): key for name, key in recipes.items()}
    table = hand.small() if results is None else results.table
    return with_earlier(Results(table, {}, {}, recipes=RECIPES | named), folder)


def ours(results: Results) -> dict[Any, Any]:
    return {
        (row["method"], row["metric"]): (row["ours"], row["deviation"], row["seeds"], row["seconds"])
        for row in records(results)
        if row["ours"] is not None
    }


def test_rows_without_runs_keep_their_numbers_and_are_marked(tmp_path: Path) -> None:
    written(hand.grid_results(), tmp_path)
    kept = later(tmp_path)
    assert ours(kept) == ours(hand.grid_results())
    lines = as_markdown(kept, LATER).splitlines()
    assert "| SGC | 81.00 ± 1.00 † | 81.0 ± 0.2 | +0.0 | 3 |" in lines
    assert lines[2].startswith("Written by `gamlp bench run small` on 2024-06-07;")
    assert lines[3] == ("† Measured earlier by the same recipe, on 2024-05-06; two cores; gamlp 0.1.0, torch 2.4.0.")
    assert "Fewer than 3 seeds: GAMLP(R) on Cora (2)." in lines
    assert _kept(kept) == ["All numbers are kept from an earlier measurement by the same recipes (2024-05-06)."]


def test_rows_stay_with_their_date_however_often_a_page_is_written(tmp_path: Path) -> None:
    written(hand.grid_results(), tmp_path)
    once = later(tmp_path)
    write_pages(once, tmp_path, LATER)
    again = later(tmp_path)
    assert ours(again) == ours(once)
    assert {row["earlier"] for row in records(again) if row["ours"] is not None} == {"2024-05-06"}
    assert "on 2024-05-06; two cores" in as_markdown(again, replace(LATER, date="2024-07-08"))


def test_another_recipe_has_no_numbers(tmp_path: Path) -> None:
    written(hand.grid_results(), tmp_path)
    changed = later(tmp_path, None, **{"GAMLP(R)": "g2"})
    assert changed.measured("GAMLP(R)", "cora", "test.score") is None
    assert changed.measured("SGC", "cora", "test.score") is not None
    assert "| GAMLP(R) | – | 84.0 ± 0.4 | – | – |" in as_markdown(changed, LATER)


def test_more_seeds_are_taken_and_nothing_is_mixed(tmp_path: Path) -> None:
    written(hand.grid_results(), tmp_path)  # SGC of three seeds, GAMLP(R) of two
    runs = [hand.report(seed, 0.5) for seed in range(2)]
    now: dict[Key, Reports] = {("SGC", "cora", None): runs, ("GAMLP(R)", "cora", None): runs}
    both = with_earlier(Results(hand.small(), now, {}, recipes=RECIPES), tmp_path)
    assert both.compared("SGC", "cora", "test.score").earlier == "2024-05-06"
    assert both.measured("SGC", "cora", "test.score") == hand.grid_results().measured("SGC", "cora", "test.score")
    newer = both.compared("GAMLP(R)", "cora", "test.score")
    assert newer.earlier is None and newer.ours is not None and (newer.ours.mean, newer.ours.count) == (50.0, 2)
    assert as_markdown(both, LATER).splitlines()[2].startswith("Measured by")
    assert _kept(both)[0].startswith("1 of 2 numbers")


def test_a_page_without_recipes_gives_nothing_and_a_broken_one_is_told(tmp_path: Path) -> None:
    write_pages(hand.grid_results(), tmp_path, hand.STAMP)
    assert not later(tmp_path).kept
    (tmp_path / "small.json").write_text("[]")
    with pytest.raises(GamlpError, match="no page of a table"):
        later(tmp_path)


def test_ratios_are_kept_as_they_were_while_the_first_methods_recipe_is_the_same(tmp_path: Path) -> None:
    efficiency = hand.efficiency_results()
    written(efficiency, tmp_path)
    kept = later(tmp_path, efficiency)
    assert ours(kept) == ours(efficiency)
    assert ours(kept)["GAMLP(R)", "seconds.training"][0] == pytest.approx(5.0)
    faster: dict[Key, Reports] = {("SGC", "cora", None): [hand.report(seed, 0.8, 0.1) for seed in range(3)]}
    beside = with_earlier(Results(efficiency.table, faster, {}, recipes=RECIPES), tmp_path)
    assert ours(beside)["GAMLP(R)", "seconds.training"][0] == pytest.approx(5.0), "of one time, on one machine"
    first = later(tmp_path, efficiency, SGC="s2")
    assert set(ours(first)) == {("GAMLP(R)", "test.score")}, "what 1.0 was, is gone"
    slow: dict[Key, Reports] = {("GAMLP(R)", "cora", None): [hand.report(seed, 0.8, 9.0) for seed in range(3)]}
    mixed = with_earlier(Results(efficiency.table, slow, {}, recipes=RECIPES), tmp_path)
    assert ours(mixed)["GAMLP(R)", "seconds.training"][0] == pytest.approx(5.0), "its own ratio has no first run"


def test_points_of_a_curve_are_kept_one_by_one(tmp_path: Path) -> None:
    curve = hand.curve_results()
    recipes = {key: f"{key[0]} {key[2]:g}" for key in curve.cells if key[2] is not None}
    write_pages(replace(curve, recipes=recipes), tmp_path, hand.STAMP)
    now = with_earlier(Results(curve.table, {}, {}, recipes=recipes | {("GAMLP(R)", "cora", 8): "new"}), tmp_path)
    assert "| GAMLP(R) | 84.00 ± 1.41 † | – | 2 |" in as_markdown(now, LATER).splitlines()


@pytest.mark.parametrize("make", [hand.heat_results, hand.growth_results])
def test_special_kinds_are_kept_as_a_whole(make: Any, tmp_path: Path) -> None:
    measured = or_earlier(make(), None)
    write_pages(measured, tmp_path, hand.STAMP)
    empty = Results(measured.table, {}, {})
    kept = or_earlier(empty, tmp_path)
    assert (kept.grids, kept.growth, kept.earlier) == (measured.grids, measured.growth, "2024-05-06")
    assert "† Measured earlier by the same recipe, on 2024-05-06" in as_markdown(kept, LATER)
    assert _kept(kept) == ["All numbers are kept from an earlier measurement by the same recipes (2024-05-06)."]
    write_pages(kept, tmp_path, LATER)
    assert or_earlier(empty, tmp_path).earlier == "2024-05-06"
    other = replace(empty, table=empty.table.model_copy(update={"options": {"hops": 9}}))
    assert not or_earlier(other, tmp_path).measured_any, "another recipe"
    assert or_earlier(make(), tmp_path).earlier is None, "measured since"
