"""Pages say what was measured, what was published, how far they are apart, and what is missing."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gamlp.bench.pages import Stamp, as_csv, as_markdown, as_table, write_pages
from gamlp.bench.record import RunOrigin
from gamlp.bench.results import FORMULA, Results
from gamlp.bench.tables import NAMES, table_of
from tests.bench import hand


def page(results: Results) -> list[str]:
    return as_markdown(results, hand.STAMP).splitlines()


def test_a_grid_shows_ours_published_difference_and_seeds() -> None:
    lines = page(hand.grid_results())
    assert "| method | test %, ours | test %, published | difference | seeds |" in lines
    assert "| SGC | 81.00 ± 1.00 | 81.0 ± 0.2 | +0.0 | 3 |" in lines
    assert "| GAMLP(R) | 84.50 ± 0.71 | 84.0 ± 0.4 | +0.6 | 2 |" in lines
    assert not any("FastGCN" in line for line in lines)  # neither run nor published


def test_a_dataset_that_cannot_be_had_says_so_beside_its_published_values() -> None:
    lines = page(hand.grid_results())
    assert "The dataset cannot be had here (its files are not there): published values alone." in lines
    assert "| SGC | not at hand | 65.70 ± 0.01 | – |" in lines


def test_the_heading_has_command_date_machine_versions_source_and_formula() -> None:
    text = as_markdown(hand.grid_results(), hand.STAMP, ["small.png"])
    assert text.startswith("# A small table\n\nMeasured by `gamlp bench run small` on 2024-05-06; two cores;")
    assert "gamlp 0.1.0, torch 2.4.0." in text
    assert "Someone, 2022, `tab:small`" in text
    assert FORMULA in text
    assert "![A small table](small.png)" in text


def test_the_heading_tells_days_and_machines_of_recorded_runs_apart_from_the_pages_own() -> None:
    origin = RunOrigin("another machine", "0.0.9", "2024-01-01", "2024-02-01", 5)
    text = as_markdown(replace(hand.grid_results(), origins=(origin,)), hand.STAMP)
    assert "Written by `gamlp bench run small` on 2024-05-06; two cores;" in text
    assert "Measured: 5 on another machine, gamlp 0.0.9, 2024-01-01 to 2024-02-01." in text


def test_rows_are_told_apart_from_the_reference_seed_by_seed() -> None:
    """84 and 85 % beside 80 and 81 of the same seeds: 4 ± 0."""
    lines = page(replace(hand.grid_results(), table=hand.small(reference="SGC", published={})))
    assert "| method | test %, ours | less SGC, points | seeds |" in lines
    assert "| SGC | 81.00 ± 1.00 | – | 3 |" in lines and "| GAMLP(R) | 84.50 ± 0.71 | +4.00 ± 0.00 | 2 |" in lines
    assert any(line.startswith("Less SGC: the difference of means ± its standard error") for line in lines)


def test_an_epoch_is_training_by_its_epochs() -> None:
    """SGC: 1 s in 5 epochs; GAMLP(R): 5 s in the mean, of 5 epochs."""
    table = hand.small(kind="efficiency", metrics=["seconds.training", "seconds.epoch"], published={})
    lines = page(replace(hand.grid_results(), table=table))
    assert "| method | training time, ours | time an epoch, ours | seeds |" in lines
    assert "1.0 is SGC: 1 s of training time, 0.2 s of time an epoch." in lines
    assert "| GAMLP(R) | 5.00 ± 1.41 | 5.00 ± 1.41 | 2 |" in lines


def test_cells_with_fewer_seeds_are_named_with_the_time_of_a_run() -> None:
    # Runs of 2 + 4 + 0.1 s and 2 + 6 + 0.1 s.
    assert "Fewer than 3 seeds: GAMLP(R) on Cora (2; a run takes 7 s)." in page(hand.grid_results())


def test_footnotes_are_printed() -> None:
    assert page(hand.grid_results())[-1] == "- The published protocol leaks."


def test_a_curve_shows_points_as_columns_and_whether_a_published_bound_holds() -> None:
    lines = page(hand.curve_results(0.79))
    assert "| test %; depth, hops: | 2 | 8 | seeds |" in lines
    assert "| GAMLP(R) | 84.00 ± 1.41 | 79.00 ± 0.00 | 2–3 |" in lines
    assert "| SGC | 81.00 | – | 1 |" in lines
    assert "GAMLP(R) at 8: published > 80.0, does not hold." in lines
    assert "GAMLP(R) at 8: published > 80.0, holds." in page(hand.curve_results(0.81))


def test_efficiency_shows_ratios_what_one_is_and_no_difference_with_a_stand_in() -> None:
    lines = page(hand.efficiency_results())
    assert "1.0 is SGC: 1 s of training time, 2 s of preparation time." in lines
    assert "Stands for another. Published: `tab:other`." in lines
    assert "| GAMLP(R) | 5.00 ± 1.41 | 6.1 | 1.00 ± 0.00 | 84.50 ± 0.71 | 47.8 ± 0.4 | 2 |" in lines
    assert not any("difference" in line.lower() for line in lines)


def test_a_table_of_cost_says_what_one_is_in_seconds_and_memory() -> None:
    table = hand.small(kind="cost", metrics=["seconds.training", "relative.peak_memory", "test.score"])
    lines = page(Results(table, hand.grid_results().cells))
    assert "1.0 is SGC: 1 s of training time, 3 MiB of peak memory." in lines
    assert "| GAMLP(R) | 5.00 ± 1.41 | 1.00 ± 0.00 | 84.50 ± 0.71 | 84.0 ± 0.4 | +0.6 | 2 |" in lines


def test_growth_shows_formulas_and_exponents() -> None:
    lines = page(hand.growth_results())
    assert r"| SGC | – | $\mathcal{O}(nf^2)$ | $f^2$ |" in lines
    assert "## Measured growth of training time, exponents" in lines
    assert "| SGC | 2.00 |" in lines
    assert "| SGC | 0.00 |" in lines


def test_heat_maps_are_tables_too() -> None:
    lines = page(hand.heat_results())
    assert "| degree \\ hop | 0 | 1 | 2 |" in lines
    assert "| 5-8 | 0.10 | 0.90 | 0.30 |" in lines
    assert "PPI: The dataset cannot be had here (its files are not there)." in lines


def test_bars_in_names_do_not_break_a_table() -> None:
    assert as_table(["a", "b"], [["x|y", "1"]]) == "| a | b |\n|---|---:|\n| x\\|y | 1 |"


def test_csv_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(hand.grid_results()))))
    assert [(row["method"], row["dataset"]) for row in rows] == [("SGC", "cora"), ("GAMLP(R)", "cora"), ("SGC", "ppi")]
    assert float(rows[0]["ours"]) == pytest.approx(81.0) and rows[2]["ours"] == ""


def test_three_files_are_written_and_json_has_everything(tmp_path: Path) -> None:
    paths = write_pages(hand.grid_results(), tmp_path / "results", hand.STAMP)
    assert [path.name for path in paths] == ["small.md", "small.csv", "small.json"]
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["small.csv", "small.json", "small.md"]
    content = json.loads(paths[2].read_text())
    assert content["rows"][0]["published_deviation"] == 0.2
    assert content["missing"] == {"ppi": "its files are not there"}
    assert (content["command"], content["date"]) == ("gamlp bench run small", "2024-05-06")
    grown = json.loads(write_pages(hand.growth_results(), tmp_path, hand.STAMP)[2].read_text())
    assert grown["growth"][0]["slope"] == pytest.approx(2.0)


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_table_has_a_page_before_anything_was_measured(name: str) -> None:
    table = table_of(name)
    text = as_markdown(Results(table, {}, dict.fromkeys(table.datasets, "no files")), hand.STAMP)
    assert table.title in text and all(note in text for note in table.footnotes)
    numbers = {float(found) for found in re.findall(r"\d+\.\d+", text)}
    for method, cells in table.published.items():
        assert table.axis is not None or f"| {method} |" in text
        assert {value.mean for values in cells.values() for value in values.values()} <= numbers


def test_a_stamp_names_command_versions_and_cores() -> None:
    stamp = Stamp.now("gamlp bench run citation")
    assert stamp.command == "gamlp bench run citation" and "torch" in stamp.versions
    assert "cores" in stamp.machine


def test_a_column_of_several_graphs_has_scores_of_each() -> None:
    tests = [{"es": {"score": 0.7}, "fr": {"score": 0.5}}, {"es": {"score": 0.72}, "fr": {"score": 0.5}}]
    runs = [hand.report(seed, 0.6, tests=found) for seed, found in enumerate(tests)]
    page = as_markdown(Results(hand.small(), {("SGC", "cora", None): runs}), hand.STAMP)
    assert "| test %, each graph | es | fr |\n|---|---:|---:|\n| SGC | 71.00 ± 1.41 | 50.00 ± 0.00 |" in page
