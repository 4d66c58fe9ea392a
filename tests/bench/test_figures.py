"""Pictures open, are not blank, show what they should, and are the same bytes every time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from gamlp.bench.results import Results
from gamlp.errors import GamlpError
from tests.bench import hand

pytest.importorskip("matplotlib", reason="matplotlib is not installed: gamlp[plots]")

from matplotlib.image import imread

from gamlp.bench import figures

ALL = [hand.grid_results, hand.curve_results, hand.efficiency_results, hand.heat_results, hand.growth_results]


@pytest.mark.parametrize("made", ALL)
def test_png_and_svg_open_and_are_not_blank(made: Callable[[], Results], tmp_path: Path) -> None:
    png, svg = figures.write_figures(made(), tmp_path)
    assert (png.name, svg.name) == ("small.png", "small.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.png", "small.svg"]
    pixels = imread(png)
    inked = (pixels[..., :3].min(axis=2) < 0.9).mean()
    assert min(pixels.shape[:2]) > 250 and 0.005 < inked < 0.9
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


@pytest.mark.parametrize("made", ALL)
def test_the_same_results_give_the_same_bytes_without_a_date(made: Callable[[], Results], tmp_path: Path) -> None:
    first = [path.read_bytes() for path in figures.write_figures(made(), tmp_path / "a")]
    second = [path.read_bytes() for path in figures.write_figures(made(), tmp_path / "b")]
    assert first == second
    assert b"<dc:date>" not in first[1]


def test_nothing_measured_gives_no_picture(tmp_path: Path) -> None:
    assert figures.write_figures(Results(hand.small(), {("SGC", "cora", None): []}), tmp_path) == []


def test_a_curve_has_means_bands_and_the_published_bound() -> None:
    (panel,) = figures.curves(hand.curve_results(0.79)).axes
    lines = {line.get_label(): line for line in panel.lines}
    assert list(lines["GAMLP(R)"].get_xdata()) == [2, 8]
    assert list(lines["GAMLP(R)"].get_ydata()) == pytest.approx([84.0, 79.0])
    assert list(lines["published: GAMLP(R)\nabove 80.0 at 8"].get_ydata()) == [80.0, 80.0]
    band = panel.collections[-1].get_paths()[0].vertices  # 84 ± √2 at 2
    assert band[:, 1].max() == pytest.approx(84 + np.sqrt(2))
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("depth, hops", "test accuracy, %")


def test_dots_show_ours_and_published_of_datasets_at_hand() -> None:
    figure = figures.dots(hand.grid_results())
    (panel,) = figure.axes
    shown = sorted(line.get_xdata()[0] for line in panel.lines if np.isfinite(line.get_xdata()[0]))
    assert panel.get_title() == "Cora"
    assert shown == pytest.approx([81.0, 81.0, 84.0, 84.5])  # published and ours of both methods
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours", "published"]


def test_bars_are_as_long_as_the_ratios() -> None:
    panel, scores = figures.bars(hand.efficiency_results()).axes
    assert sorted(line.get_xdata()[0] for line in scores.lines) == pytest.approx([81.0, 84.5])
    assert scores.get_xlabel() == "test accuracy, %"
    ends = sorted(bar.get_x() + bar.get_width() for bar in panel.patches if np.isfinite(bar.get_y()))
    assert ends == pytest.approx([1.0, 5.0, 6.1])
    assert panel.get_xlabel() == "training time, SGC = 1.0" and panel.get_xscale() == "log"


def test_growth_is_log_over_log_with_units_and_exponents() -> None:
    time, memory = figures.growth(hand.growth_results().growth).axes
    assert (time.get_xscale(), time.get_yscale()) == ("log", "log")
    assert (time.get_ylabel(), memory.get_ylabel()) == ("training, s", "peak memory, MiB")
    assert list(memory.lines[0].get_ydata()) == [1.0, 1.0, 1.0]
    assert time.lines[0].get_label() == "SGC 2.0"


def test_many_columns_stand_in_rows_of_four() -> None:
    names = [f"set {number}" for number in range(6)]
    table = hand.small(datasets={name: {"title": name} for name in names}, published={})
    cells = {("SGC", name, None): [hand.report(0, 0.8)] for name in names}
    figure = figures.dots(Results(table, cells))
    assert [panel.get_title() for panel in figure.axes] == names
    tops = [round(panel.get_position().y1, 3) for panel in figure.axes]
    assert len(set(tops[:4])) == 1 and len(set(tops[4:])) == 1 and tops[0] > tops[4]


def test_a_heat_map_has_its_values_in_place() -> None:
    panel = figures.heat_maps(tuple(hand.heat_results().grids.values())).axes[0]
    assert panel.images[0].get_array().tolist() == [[0.2, 1.0, 0.5], [0.1, 0.9, 0.3]]
    assert [text.get_text() for text in panel.get_yticklabels()] == ["1-4", "5-8"]


def test_without_matplotlib_one_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(GamlpError, match=r"gamlp\[plots\]"):
        figures.write_figures(hand.grid_results(), tmp_path)
