"""Growth of time and memory: exact slopes, published exponents, real points that resume and stop in time."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

from gamlp.bench import complexity
from gamlp.bench.complexity import PowerLaw, exponent
from gamlp.bench.figures import write_figures
from gamlp.bench.results import Growth
from gamlp.bench.tables import PaperTable, read_table, table_of
from gamlp.bench.work import Work
from gamlp.errors import GamlpError
from gamlp.models import labels_used

pytestmark = pytest.mark.slow

FORMULAS = {
    "SGC": {"preparation": r"\mathcal{O}(Kmf)", "training": r"\mathcal{O}(nf^2)", "memory": r"\mathcal{O}(bf+ f^2)"}
}


def table(**methods: Any) -> PaperTable:
    growth = {"nodes": [100, 200], "edges": [400, 800], "features": [4, 8], "hops": [1, 2], "layers": [1, 2]}
    return read_table({
        "name": "complexity", "title": "growth", "kind": "complexity", "source": {"paper": "a", "label": "b"},
        "datasets": {"communities": {"title": "Communities"}},
        "methods": methods or {"SGC": {"recipe": "sgc"}, "FastGCN": {"note": "published alone"}},
        "options": {
            "formulas": FORMULAS, "base": {"nodes": 200, "edges": 400, "features": 8, "hops": 2, "layers": 2},
            "growth": growth, "epochs": 2, "repeats": 1, "classes": 3, "train": 0.4,
        },
    })  # fmt: skip


def made_up(recipe: Any, graph: Path) -> dict[str, Any]:
    """Costs that follow O(Kmf) and O(nf²) exactly; sizes are read from what was really asked for."""
    nodes, edges, features = (int(one) for one in graph.name.split("-")[1:])
    assert recipe.model.hidden == features
    hops = recipe.propagation.hops
    return {
        "seconds.preparation": 1e-9 * hops * edges * features, "seconds.training": 1e-9 * nodes * features**2,
        "seconds.inference": 1e-9 * nodes * features, "peak_memory": 8 * nodes * features * (hops + 1),
    }  # fmt: skip


@given(st.floats(-2, 3), st.floats(1e-6, 1e6))
def test_the_slope_of_a_power_law_is_its_exponent(power: float, factor: float) -> None:
    sizes = (10.0, 20.0, 40.0, 80.0, 160.0)
    growth = Growth("a", "nodes", "seconds.training", sizes, tuple(factor * size**power for size in sizes))
    assert growth.slope == pytest.approx(power, abs=1e-9)


def test_a_power_laws_error_and_r2_are_those_of_the_regression() -> None:
    """Against scipy's, of values that stray from the line; two sizes have no error, equal values no variance."""
    random = np.random.default_rng(0)
    sizes = 100.0 * 2 ** np.arange(6)
    values = 3e-6 * sizes**1.3 * np.exp(0.2 * random.standard_normal(6))
    law, oracle = PowerLaw.of(sizes, values), linregress(np.log(sizes), np.log(values))
    assert law is not None
    assert law.slope == pytest.approx(oracle.slope) and law.error == pytest.approx(oracle.stderr)
    assert law.r2 == pytest.approx(oracle.rvalue**2) and law.r2 < 1
    exact, flat = PowerLaw.of(sizes[:2], sizes[:2] ** 2), PowerLaw.of(sizes, np.ones(6))
    assert exact is not None and (exact.slope, exact.error) == (pytest.approx(2), None)
    assert flat is not None and (flat.slope, flat.r2) == (pytest.approx(0, abs=1e-12), None)
    assert PowerLaw.of([5.0, 5.0], [1.0, 2.0]) is None and PowerLaw.of([1.0, 2.0], [0.0, 1.0]) is None


def test_sizes_of_the_shipped_table_double_from_where_they_are_large() -> None:
    options = table_of("complexity").options
    for quantity, sizes in options["growth"].items():
        steps = np.diff(sizes) if quantity == "layers" else np.divide(sizes[1:], sizes[:-1])
        assert len(sizes) >= 4 and set(np.asarray(steps).tolist()) == {1 if quantity == "layers" else 2}
        assert options["base"][quantity] in sizes
    assert min(options["growth"]["nodes"]) >= 100_000 and min(options["growth"]["edges"]) >= 1_000_000


@pytest.mark.parametrize(
    ("formula", "n", "m", "f", "hops"),
    [
        (r"\mathcal{O}(Kmf)", 0, 1, 1, 1),
        (r"\mathcal{O}(Kmf+Lmc)", 0, 1, 1, 1),
        (r"\mathcal{O}(Pmf+Pnf^2)", 1, 1, 2, 0),
        (r"\mathcal{O}(Knf + K\frac{\sqrt{m\lg{n}}}{\varepsilon})", 1, 0.5, 1, 1),
        (r"\mathcal{O}(k^{K}nf^2)", 1, 0, 2, math.inf),
        (r"\mathcal{O}(bk^{K}f + Kf^2)", 0, 0, 2, math.inf),
        (r"\mathcal{O}(bf+ Pf^2+ Qc^2)", 0, 0, 2, 0),
        (r"\mathcal{O}(m)", 0, 1, 0, 0),
        ("-", 0, 0, 0, 0),
    ],
)
def test_exponents_of_formulas(formula: str, n: float, m: float, f: float, hops: float) -> None:
    found = [exponent(formula, symbols) for symbols in complexity.SYMBOLS.values()]
    assert found == [n, m, f, hops]


def test_a_formula_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot read"):
        exponent(r"\mathcal{O}(nf", {"n"})


def test_every_formula_of_the_shipped_table_is_read() -> None:
    shipped = table_of("complexity")
    for formulas in shipped.options["formulas"].values():
        for formula in formulas.values():
            for symbols in complexity.SYMBOLS.values():
                assert exponent(formula, symbols) >= 0


def test_slopes_of_costs_that_follow_the_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        complexity, "measure_in_process", lambda graph, recipe, repeats, scratch: made_up(recipe, graph)
    )
    result = complexity.measure(table(), Work(tmp_path))
    assert result["complete"] and not result["refused"]
    slopes = {(line["metric"], line["quantity"]): line for line in result["growth"]}
    for metric in ("seconds.preparation", "seconds.training"):
        for quantity in complexity.SYMBOLS:
            line = slopes[metric, quantity]
            assert line["slope"] == pytest.approx(line["published"], abs=1e-9)
            assert line["last"] == pytest.approx(line["published"], abs=1e-9)
    assert slopes["peak_memory", "features"]["slope"] == pytest.approx(1)
    assert slopes["peak_memory", "features"]["published"] == 2
    assert slopes["peak_memory", "hops"]["slope"] == pytest.approx(math.log2(3 / 2))
    assert slopes["seconds.inference", "nodes"]["published"] is None
    assert not list((tmp_path / "graphs").iterdir())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Really measured, in processes of their own."""
    folder = tmp_path_factory.mktemp("work")
    return folder, complexity.measure(table(), Work(folder))


@pytest.mark.slow
def test_real_points(measured: tuple[Path, dict[str, Any]]) -> None:
    folder, result = measured
    assert result["complete"] and result["refused"] == {}
    assert result["points"] == 5  # each quantity's other size, and the base that they share
    assert len(result["growth"]) == len(complexity.PARTS) * len(complexity.SYMBOLS)
    for line in result["growth"]:
        assert len(line["values"]) == 2 and all(math.isfinite(value) and value >= 0 for value in line["values"])
        if line["metric"] != "peak_memory":
            assert min(line["values"]) > 0
    assert not list((folder / "scratch").iterdir())


def test_a_second_call_runs_nothing_and_the_deadline_is_kept(
    measured: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("measured again")

    monkeypatch.setattr(complexity, "measure_in_process", never)
    folder, before = measured
    assert complexity.measure(table(), Work(folder)) == before
    late = complexity.measure(table(), Work(tmp_path, deadline=time.monotonic() - 1))
    assert not late["complete"] and late["points"] == 0 and late["growth"] == []
    with pytest.raises(AssertionError, match="measured again"):
        complexity.measure(table(), Work(tmp_path))


def test_part_of_the_points_is_kept_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is made to strike after three points; the next call measures the others alone."""
    asked: list[str] = []

    def count(graph: Path, recipe: Any, repeats: int, scratch: Path) -> dict[str, Any]:
        asked.append(graph.name)
        return made_up(recipe, graph)

    monkeypatch.setattr(complexity, "measure_in_process", count)
    monkeypatch.setattr(Work, "over", property(lambda work: work.deadline is not None and len(asked) >= 3))
    first = complexity.measure(table(), Work(tmp_path, deadline=1.0))
    assert not first["complete"] and first["points"] == len(asked) == 3
    assert complexity.measure(table(), Work(tmp_path))["complete"] and len(asked) == 5


def test_a_method_that_cannot_run_is_told_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(graph: Path, recipe: Any, *_: Any) -> dict[str, Any]:
        if recipe.model.name == "sign":
            raise GamlpError("'sign' needs what is not installed")
        return made_up(recipe, graph)

    monkeypatch.setattr(complexity, "measure_in_process", refuse)
    both = table(SGC={"recipe": "sgc"}, SIGN={"recipe": "sign"}, Nothing={"recipe": "no-such-recipe"})
    result = complexity.measure(both, Work(tmp_path))
    assert set(result["refused"]) == {"SIGN", "Nothing"} and not result["complete"]
    assert {line["method"] for line in result["growth"]} == {"SGC"}


def test_recipes_of_the_shipped_table_are_grown_as_asked(tmp_path: Path) -> None:
    """Hops for methods on hops, layers with as many neighbours each for those that pass messages; width f."""
    plan = complexity.GrowthPlan.of(table_of("complexity"), Work(tmp_path))
    assert set(plan.methods) == {*table_of("complexity").options["formulas"], "GAMLP(JK)", "GCN"}
    for method in plan.methods:
        for quantity in complexity.SYMBOLS:
            for size in plan.sizes(method, quantity):
                recipe = plan.recipe(method, plan.at(method, quantity, size))
                looks = recipe.model.layers if plan.methods[method].axis else recipe.propagation.hops
                assert looks == (size if quantity == "hops" else plan.at(method, quantity, size).hops)
                assert recipe.model.hidden == (size if quantity == "features" else plan.base["features"])
                assert len(recipe.model.options.get("fanouts", range(looks))) == looks
                assert labels_used(recipe) is (recipe.model.name == "gamlp")
    only = complexity.GrowthPlan.of(table_of("complexity"), Work(tmp_path, methods=("SGC",), seeds=7))
    assert list(only.methods) == ["SGC"] and only.settings["repeats"] == 7
    with pytest.raises(GamlpError, match="no method 'XGC'"):
        complexity.GrowthPlan.of(table_of("complexity"), Work(tmp_path, methods=("XGC",)))


@pytest.mark.slow
def test_pages_and_figure(measured: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    pages = complexity.render(table(), measured[1])
    assert [len(rows) for _, _, rows in pages] == [1, 1, 1, 1]
    assert all(len(row) == len(header) == 5 for _, header, rows in pages for row in rows)
    assert pages[1][2][0][3].endswith("; 2")  # training: features squared
    results = complexity.as_results(table(), measured[1])
    assert [one.slope for one in results.growth] == pytest.approx([line["slope"] for line in measured[1]["growth"]])
    assert [path.suffix for path in write_figures(results, tmp_path)] == [".png", ".svg"]
