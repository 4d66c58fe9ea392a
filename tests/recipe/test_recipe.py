"""Recipes: what they accept, what they refuse and how they say it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.models import labels_used
from gamlp.recipe import ModelSettings, Recipe, described, parse_value, shipped_names


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"trainnig": {}}, "no 'trainnig': did you mean 'training'"),
        ({"training": {"epoch": 5}}, "no 'training.epoch': did you mean 'training.epochs'"),
        ({"training": {"lr": 5, "epochs": 3}}, "no 'training.lr'"),
        ({"model": {"hidden_size": 5}}, "no 'model.hidden_size': did you mean 'model.hidden'"),
        ({"epochs": 5}, "no 'epochs': did you mean 'training.epochs'"),
        ({"model": {"epochs": 5}}, "no 'model.epochs': did you mean 'training.epochs'"),
        ({"propagation": {"folds": 5, "zzzzzzz": 1}}, "a recipe has no 'propagation.zzzzzzz'[;.]"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known(content: dict[str, Any], told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        Recipe.of(content)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.epochs", True),
        ("training.epochs", 5.0),
        ("training.epochs", "5"),
        ("training.epochs", 0),
        ("training.epochs", None),
        ("training.learning_rate", "0.1"),
        ("training.learning_rate", True),
        ("training.learning_rate", -0.1),
        ("training.learning_rate", 0),
        ("training.learning_rate", float("inf")),
        ("training.learning_rate", float("nan")),
        ("training.weight_decay", float("inf")),
        ("training.optimizer", "sgd"),
        ("training.keep", "first"),
        ("training.seeds", []),
        ("training.seeds", [0, 0]),
        ("training.seeds", [-1]),
        ("training.seeds", [1 << 63]),
        ("training.seeds", [True]),
        ("training.seeds", 3),
        ("model.beta", float("inf")),
        ("model.batch_norm", 1),
        ("model.batch_norm", "yes"),
        ("model.dropout", 1.0),
        ("model.dropout", -0.1),
        ("model.hidden", 0),
        ("model.options", [1]),
        ("model.attention", "JK"),
        ("propagation.r", 1.5),
        ("propagation.folds", 1),
        ("propagation.dtype", "float64"),
        ("model", 3),
        ("training", [1]),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_key(key: str, value: Any) -> None:
    with pytest.raises(GamlpError, match=re.escape(f"'{key}")):
        Recipe().changed({key: value})


def test_one_fold_is_refused_and_says_why() -> None:
    with pytest.raises(GamlpError, match="one fold leaves no labels"):
        Recipe.of({"propagation": {"folds": 1}})


def test_batch_norm_of_batches_of_one_row_is_refused() -> None:
    with pytest.raises(GamlpError, match="at least two rows"):
        Recipe.of({"model": {"batch_norm": True}, "training": {"batch_size": 1}})


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "0.001", "1.e-3", ".1e-2", "+1e-3"])
def test_a_number_may_be_written_with_an_exponent(tmp_path: Path, text: str) -> None:
    found = Recipe.of(written(tmp_path, f"training: {{learning_rate: {text}}}"))
    assert found.training.learning_rate == 0.001
    assert parse_value(text) == 0.001


def test_whole_numbers_stand_for_numbers_but_not_the_reverse(tmp_path: Path) -> None:
    assert Recipe.of(written(tmp_path, "propagation: {r: 1, label_r: 0}")).propagation.label_r == 0.0
    with pytest.raises(GamlpError, match=r"training\.epochs"):
        Recipe.of(written(tmp_path, "training: {epochs: 1e2}"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &x [1]\nb: *x\n", "row 2: not YAML: aliases are not allowed"),
        ("model: &m {hidden: 3}\ntraining: {<<: *m}\n", "aliases are not allowed"),
        ("about: !!python/object/apply:os.system ['touch pwned']\n", "not YAML: could not determine a constructor"),
        ("about: !!python/name:os.system\n", "not YAML"),
        ("model: {hidden: 3\n", "not YAML"),
        ("about: 2024-13-45\n", "not YAML"),
        ("about: " + "[" * 5000, "not YAML"),
        ("- 1\n- 2\n", "a recipe is a mapping"),
        ("just text", "a recipe is a mapping"),
        ("about: " + "9" * 5000, "not YAML"),
        ("about: \x00", "not YAML"),
    ],
)
def test_a_file_that_is_no_plain_mapping_is_told_in_a_sentence(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(GamlpError, match=told) as caught:
        Recipe.of(written(tmp_path, text))
    assert "recipe.yaml" in str(caught.value) and len(str(caught.value)) < 500
    assert not Path("pwned").exists()


def test_a_file_that_is_large_binary_missing_or_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="too large"):
        Recipe.of(written(tmp_path, "about: " + "x" * (1 << 20)))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(GamlpError, match="not text"):
        Recipe.of(tmp_path / "bytes.yaml")
    with pytest.raises(GamlpError, match="no such recipe"):
        Recipe.of(tmp_path / "absent.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(GamlpError, match="cannot be read"):
        Recipe.of(tmp_path / "folder.yaml")
    with pytest.raises(GamlpError, match="there is no recipe 'nothing-like-it'"):
        Recipe.of("nothing-like-it")


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert Recipe.of(written(tmp_path, "# nothing said\n")) == Recipe() == Recipe.of(None) == Recipe.of({})


def test_changed_alters_what_is_named_and_nothing_else() -> None:
    recipe = Recipe.of({"training": {"epochs": 7}, "about": "mine"})
    other = recipe.changed({"training.seeds": [1, 2], "model.beta": 0.5, "model.options.width": 3, "about": "other"})
    assert (other.training.epochs, other.training.seeds, other.model.beta) == (7, (1, 2), 0.5)
    assert other.model.options == {"width": 3} and other.about == "other"
    assert (recipe.training.seeds, recipe.model.options, recipe.about) == ((0,), {}, "mine")
    assert recipe.changed({}) == recipe


@pytest.mark.parametrize("key", ["about.deeper", "training.epochs.more", "nothing.at.all", "hidden", ""])
def test_changed_refuses_what_is_no_setting(key: str) -> None:
    with pytest.raises(GamlpError):
        Recipe.of({"about": "x", "training": {"epochs": 3}}).changed({key: 1})


def test_without_hops_of_labels_there_is_no_label_branch_and_with_them_beta_is_what_was_said() -> None:
    recipe = Recipe.of({"propagation": {"label_hops": 0}, "model": {"beta": 2.0}})
    assert not labels_used(recipe)
    assert recipe.changed({"propagation.label_hops": 3}).model.beta == 2.0
    assert labels_used(recipe.changed({"propagation.label_hops": 3}))
    assert labels_used(recipe.changed({"model.label_zero": True}))
    assert not labels_used(Recipe.of({"model": {"beta": 0}}))


PLAIN = st.integers(-(2**53), 2**53) | st.text() | st.booleans()
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "propagation": st.fixed_dictionaries(
            {}, optional={"hops": st.integers(0, 20), "r": st.floats(0, 1), "label_r": st.none() | st.floats(0, 1)}
        ),
        "model": st.fixed_dictionaries(
            {},
            optional={
                "beta": st.floats(0, 1e300),
                "dropout": st.floats(0, 1, exclude_max=True),
                # An option that is a setting too ("beta", "name") obeys its limits, or is refused.
                "options": st.dictionaries(
                    st.text(max_size=5).filter(lambda key: key not in ModelSettings.model_fields), PLAIN, max_size=3
                ),
            },
        ),
        "training": st.fixed_dictionaries(
            {},
            optional={
                "learning_rate": st.floats(1e-300, 1e300),
                "seeds": st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4, unique=True),
            },
        ),
        "about": st.text(),
    },
)


@settings(max_examples=60, deadline=None)
@given(SETTINGS)
def test_written_out_and_read_again_a_recipe_is_equal(content: dict[str, Any]) -> None:
    recipe = Recipe.of(content)
    assert Recipe.of(yaml.safe_load(recipe.to_yaml())) == recipe
    assert Recipe.of(recipe.explicit()) == recipe


def test_written_to_a_file_and_read_again_a_recipe_is_equal(tmp_path: Path) -> None:
    recipe = Recipe.of({"training": {"learning_rate": 1e-5, "seeds": [3, 1]}, "about": "é: 'x' #1 1e-3 *a &b"})
    assert Recipe.of(written(tmp_path, recipe.to_yaml())) == recipe


def test_every_setting_is_described_or_told_by_its_name() -> None:
    rows = described()
    assert ("training.keep", "best") in {(key, default) for key, default, *_ in rows}
    assert len(rows) == len({key for key, *_ in rows})


def test_every_setting_says_which_values_it_may_have() -> None:
    allowed = {key: values for key, _, values, _ in described()}
    assert all(allowed.values())
    assert allowed["model.attention"] == "recursive | jk"
    assert allowed["model.label_attention"] == "recursive | jk or null"
    assert allowed["training.monitor"] == "score | loss | both | smooth"
    assert allowed["propagation.hops"] == "whole number from 0 to 1,000"
    assert allowed["model.dropout"] == "number from 0 below 1"
    assert allowed["training.learning_rate"] == "number above 0"
    assert allowed["training.attention_decay"] == "number from 0 or null"
    assert allowed["training.seeds"] == "list of whole number"
    assert allowed["model.options"] == "mapping" and allowed["model.input_norm"] == "True | False"


def test_attention_that_could_never_move_and_a_norm_of_one_row_are_refused() -> None:
    with pytest.raises(GamlpError, match="never moves with activation 'relu'"):
        Recipe.of({"model": {"attention_start": "uniform", "activation": "relu"}})
    with pytest.raises(GamlpError, match=r"'model\.input_norm' needs batches of at least two rows"):
        Recipe.of({"model": {"input_norm": True}, "training": {"batch_size": 1}})


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_recipe_validates_and_says_where_it_comes_from(name: str) -> None:
    recipe = Recipe.of(name)
    assert recipe.about
    assert Recipe.of(recipe.explicit()) == recipe


def test_a_recipe_is_frozen() -> None:
    recipe = Recipe()
    with pytest.raises(Exception, match="frozen"):
        recipe.training.epochs = 3  # type: ignore[misc]


def test_an_old_spelling_of_a_key_is_read_with_a_warning() -> None:
    """Fails where a recipe written before a key was renamed is refused, or its setting lost."""
    with pytest.warns(FutureWarning, match=r"'relations\.apart' is now called 'relations\.separate_types'"):
        recipe = Recipe.of({"relations": {"apart": "yes", "reduce": 8}})
    assert recipe.relations.separate_types == "yes" and recipe.relations.reduce == 8
    assert "separate_types" in recipe.explicit_yaml() and "apart" not in recipe.explicit_yaml()
    with pytest.warns(FutureWarning, match=r"relations\.apart"):
        changed = recipe.changed({"relations.apart": "no"})
    assert changed["relations.apart"] == changed.relations.separate_types == "no"
