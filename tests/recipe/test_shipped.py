"""The shipped recipes: each comes from a search that is written down, and does on real data what its page says."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.loading import load
from gamlp.recipe import Recipe, load_space, parse_changes, shipped_names, suggest
from gamlp.run.evaluation import evaluate_rows
from gamlp.run.preparation import prepare
from gamlp.training.loop import Machine
from gamlp.training.seeds import bundle_of, fit_prepared

ROOT = Path(__file__).parents[2]
ACCURACY = yaml.safe_load((ROOT / "benchmarks" / "accuracy.yaml").read_text())
TABLE = [f"{name}-{attention}" for name in ACCURACY["datasets"] for attention in ("jk", "recursive")]
SEARCHED = [*TABLE, *ACCURACY["twitch"]["recipes"].values()]  # by gamlp tune; a peer's come from its own paper


@pytest.fixture(scope="module")
def searches() -> ModuleType:
    path = ROOT / "benchmarks" / "search.py"
    spec = importlib.util.spec_from_file_location("search", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["search"] = module
    spec.loader.exec_module(module)
    return module


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
    assert set(TABLE) | set(ACCURACY["twitch"]["recipes"].values()) <= set(shipped_names())
    twitch = ACCURACY["twitch"]
    assert {twitch["train"], twitch["valid"], *twitch["test"], *ACCURACY["datasets"]} <= set(DATASETS)


@pytest.mark.parametrize("name", SEARCHED)
def test_a_recipe_says_how_it_was_found_and_lies_in_the_space_that_was_searched(
    name: str, searches: ModuleType
) -> None:
    recipe = Recipe.of(name)
    assert "gamlp tune" in recipe.about and "test rows were not read" in recipe.about
    words = searches.searches()[name]
    space = load_space(words[words.index("--space") + 1])
    base = Recipe().changed(parse_changes([words[i + 1] for i, word in enumerate(words) if word == "--set"]))
    # Spaces held the monitor once; what ranks trials is no longer among what they try.
    base = base.changed({"training.monitor": recipe.training.monitor})
    tried = suggest(_Replay(recipe), space, base)
    assert tried.changed({"about": recipe.about}) == recipe


@pytest.mark.parametrize("name", SEARCHED)
def test_the_log_of_a_search_holds_the_trial_that_won(name: str) -> None:
    rows = list(csv.DictReader((ROOT / "docs" / "results" / "search" / f"{name}.csv").read_text().splitlines()))
    recipe = Recipe.of(name)
    assert any(row["state"] == "complete" and _same(row, recipe) for row in rows)


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


class _Replay:
    """A trial that suggests what a recipe holds, if the space has it."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def suggest_categorical(self, key: str, choices: list[object]) -> object:
        assert self.recipe[key] in choices
        return self.recipe[key]

    def suggest_float(self, key: str, low: float, high: float, *, step: float | None, log: bool) -> object:
        assert low <= self.recipe[key] <= high
        return self.recipe[key]


def _same(row: dict[str, str], recipe: Recipe) -> bool:
    tried = {key: yaml.safe_load(value) for key, value in row.items() if "." in key and value != ""}
    return all(type(recipe[key])(value) == recipe[key] for key, value in tried.items())
