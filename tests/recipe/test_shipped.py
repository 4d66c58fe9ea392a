"""The shipped recipes: each comes from a search that is written down, and does on real data what its page says."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from gamlp.bench.tables import table_of
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.loading import load
from gamlp.recipe import Recipe, shipped_names
from gamlp.run.evaluation import evaluate_rows
from gamlp.run.preparation import prepare
from gamlp.training.loop import Machine
from gamlp.training.seeds import bundle_of, fit_prepared

ROOT = Path(__file__).parents[2]
TABLES = [table_of(name) for name in ("citation", "co-purchase")]
TABLE = [f"{name}-{attention}" for table in TABLES for name in table.datasets for attention in ("jk", "recursive")]
SEARCHED = [*TABLE, "twitch-mlp", "twitch-jk", "twitch-recursive"]


@pytest.mark.parametrize("name", shipped_names())
def test_a_recipe_says_where_it_comes_from(name: str) -> None:
    recipe = Recipe.of(name)
    assert len(recipe.about) > 40, "a recipe without a source"
    assert "test rows" not in recipe.about or "not read" in recipe.about or "never" in recipe.about


SHIPPED = ROOT / "src" / "gamlp" / "recipe" / "shipped"
OTHERS = yaml.safe_load((SHIPPED / "names.yaml").read_text())
ADDED = yaml.safe_load((SHIPPED / "additions.yaml").read_text())


def test_a_content_exists_once_and_every_name_has_one_file() -> None:
    files = list(SHIPPED.glob("*/*.yaml"))
    made = sum(len(group["onto"]) * (len(group) - 1) for group in ADDED)
    paths = [*OTHERS, *(path for group in ADDED for path in group["onto"])]
    assert all((SHIPPED / f"{path}.yaml") in files for path in paths)
    assert len(shipped_names()) == len(files) + made + sum(map(len, OTHERS.values())), "a name that is given twice"
    further = {name for names in OTHERS.values() for name in names}
    contents = [Recipe.of(name).changed({"about": ""}) for name in shipped_names() if name not in further]
    assert all(one not in contents[:at] for at, one in enumerate(contents)), "two recipes with the same settings"


def test_an_addition_replaces_what_it_says_and_leaves_the_rest() -> None:
    base, made = Recipe.of("ogbn-mag-jk"), Recipe.of("ogbn-mag-jk-rlu-scr")
    (group,) = [one for one in ADDED if "ogbn-mag/jk" in one["onto"]]
    said = group["rlu-scr"]
    changes = {
        f"{section}.{key}": value for section in ("training", "consistency") for key, value in said[section].items()
    }
    assert made == base.changed({**changes, "about": f"As ogbn-mag-jk (its sources are there). {said['about']}"})
    assert base.consistency is None and base.training.stages == 1


def test_a_recipe_of_one_view_has_one() -> None:
    for name in shipped_names():
        if name.endswith("one-view"):
            subsets = Recipe.of(name).relations.subsets
            assert subsets == "one" or len(subsets) == 1


def test_every_dataset_of_the_table_has_a_recipe_for_both_attentions() -> None:
    assert len(TABLE) == 14 and set(SEARCHED) <= set(shipped_names())
    assert {name for table in TABLES for name in table.datasets} <= set(DATASETS)


def _found_by_search(name: str) -> bool:
    return "benchmarks/search.py" in Recipe.of(name).about


@pytest.mark.parametrize("name", [name for name in shipped_names() if name in SEARCHED or _found_by_search(name)])
def test_a_recipe_says_how_it_was_found_and_its_search_holds_it(name: str) -> None:
    recipe = Recipe.of(name)
    assert "test rows were not read" in recipe.about
    assert "gamlp tune" in recipe.about or _found_by_search(name)
    lines = (ROOT / "docs" / "results" / "search" / f"{name}.csv").read_text().splitlines()
    assert any(row["state"] == "complete" and _same(row, recipe) for row in csv.DictReader(lines))


def test_recipes_of_the_search_are_judged_alike() -> None:
    plan = yaml.safe_load((ROOT / "benchmarks" / "search.yaml").read_text())
    found = [Recipe.of(name).training.window for name in shipped_names() if _found_by_search(name)]
    assert set(found) <= {plan["set"]["training.window"]}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("cora-jk", 0.80), ("pubmed-recursive", 0.77)])
def test_a_recipe_reaches_on_real_data_what_an_mlp_does_not(
    name: str, least: float, data_dir: Path, tmp_path: Path
) -> None:
    graph = load(name.rpartition("-")[0], data_dir)
    prepared = prepare(graph, Recipe.of(name), tmp_path)
    fitted = fit_prepared(prepared, 0, Machine())
    assert graph.nodes.split is not None
    report = evaluate_rows({0: bundle_of(prepared, fitted, 0)}, prepared.store, graph.nodes.split.test)
    assert report["mean"]["score"] > least


def _same(row: dict[str, str], recipe: Recipe) -> bool:
    """Whether a line of a log is of these settings, but for what chose the epoch: the search sets that for all."""
    if "recipe" in row:
        known = Recipe.of(json.loads(row["recipe"]))
        judged = {f"training.{key}": known[f"training.{key}"] for key in ("monitor", "window", "metric")}
        return known.changed({"about": ""}) == recipe.changed({**judged, "about": ""})
    tried = {key: yaml.safe_load(value) for key, value in row.items() if "." in key and value != ""}
    return all(type(recipe[key])(value) == recipe[key] for key, value in tried.items())
