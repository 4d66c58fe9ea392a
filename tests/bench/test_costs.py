"""What a run will take: of the same cell, of similar ones by row and column, or not known."""

from __future__ import annotations

from typing import Any

import pytest

from gamlp.bench.cells import Cell
from gamlp.bench.costs import Costs
from gamlp.recipe import Recipe


def line(method: str, dataset: str, seconds: float, recipe: str = "r", made: str = "m") -> dict[str, Any]:
    took = {"preparation": 0.25 * seconds, "training": 0.75 * seconds}
    return {"method": method, "dataset": dataset, "recipe": recipe, "made": made, "seconds": took}


def cell(method: str, dataset: str) -> Cell:
    return Cell(method, dataset, None, 0, Recipe(), made="m")


def test_the_same_cell_says_it_and_its_longest_run_is_set_aside() -> None:
    one = cell("GCN", "cora")
    lines = [line("GCN", "cora", seconds, one.recipe_key) for seconds in (10.0, 14.0)]
    found = Costs([*lines, line("GCN", "cora", 900.0, "another recipe")]).of(one)
    assert (found.seconds, found.most, found.source) == (12.0, 14.0, "measured")


def test_another_recipe_of_the_same_row_and_column_is_similar() -> None:
    found = Costs([line("GCN", "cora", 10.0), line("GCN", "cora", 30.0)]).of(cell("GCN", "cora"))
    assert (found.seconds, found.most, found.source) == (20.0, 40.0, "similar"), "twice of it is set aside"


def test_rows_and_columns_multiply() -> None:
    """GCN takes 3 times as long as SGC, and PubMed 5 times as long as Cora: 2 s → 2 · 3 · 5."""
    known = [line("SGC", "cora", 2.0), line("SGC", "pubmed", 10.0), line("GCN", "cora", 6.0)]
    found = Costs(known).of(cell("GCN", "pubmed"))
    assert found.seconds == pytest.approx(30) and found.source == "similar"


def test_a_method_that_ran_on_large_graphs_alone_is_not_slow_on_small_ones() -> None:
    """AP-GCN is known on Physics, 100 times as slow as Cora for everybody: on Cora it takes a hundredth."""
    known = [
        line(name, graph, base * times)
        for name, base in (("SGC", 1.0), ("GCN", 4.0), ("MLP", 2.0))
        for graph, times in (("cora", 1.0), ("pubmed", 7.0), ("physics", 100.0))
    ]
    found = Costs([*known, line("AP-GCN", "physics", 900.0)]).of(cell("AP-GCN", "cora"))
    assert found.seconds == pytest.approx(9.0)


def test_without_its_row_or_its_column_nothing_is_known() -> None:
    costs = Costs([line("SGC", "cora", 2.0)])
    assert costs.of(cell("GCN", "cora")).seconds is None and costs.of(cell("SGC", "pubmed")).source == "unknown"
    assert Costs([]).of(cell("SGC", "cora")).most == 0


def test_work_beside_a_run_does_not_make_it_dearer_nor_do_several_threads() -> None:
    """By the clock 100 s. Alone on one thread it takes the 40 s of the processor; on four threads the clock's."""
    one = cell("GCN", "cora")
    for processor, expected in ((40.0, 40.0), (320.0, 100.0)):
        told = line("GCN", "cora", 100.0, one.recipe_key) | {"processor": processor}
        assert Costs([told]).of(one).seconds == expected


def test_over_five_minutes_is_long() -> None:
    assert Costs([line("GCN", "cora", 301.0)]).of(cell("GCN", "cora")).long
    assert not Costs([line("GCN", "cora", 299.0)]).of(cell("GCN", "cora")).long
