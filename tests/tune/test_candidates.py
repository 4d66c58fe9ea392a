"""The shipped portfolio: recipes that can be read and share one store; every graph has one reference."""

from __future__ import annotations

from itertools import product

import pytest

from gamlp.graph.datasets import load
from gamlp.models import is_model, labels_used
from gamlp.tune.candidates import facts_of, fitting, load_candidates
from gamlp.tune.scaling import scaling_for

FACTS = (
    ("typed", "homogeneous"), ("sparse", "dense"), ("multi_label", "one_label"), ("wide", "narrow"),
    ("directed", "undirected"),
)  # fmt: skip
SHARED = ("r", "loops", "scaling", "dtype", "directions", "label_r", "fold_seed", "also_r", "rows")


def test_all_share_one_store() -> None:
    found = load_candidates()
    assert all(is_model(one.recipe.model.name) for one in found)
    assert len({tuple(one.recipe[f"propagation.{key}"] for key in SHARED) for one in found}) == 1
    assert len({one.recipe.propagation.folds for one in found if labels_used(one.recipe)}) == 1
    assert len({(one.recipe.relations, one.recipe.features) for one in found}) == 1
    assert all(one.recipe.training.setting == "transductive" for one in found)


@pytest.mark.parametrize("facts", list(product(*FACTS)), ids="-".join)
def test_every_graph_has_the_simple_answers_and_one_reference(facts: tuple[str, ...]) -> None:
    found = fitting(frozenset(facts), load_candidates())
    assert [one.role for one in found].count("reference") == 1
    assert [one.name for one in found if one.role == "simple"] == ["majority", "logistic-features", "logistic-hops"]
    known = {fact for pair in FACTS for fact in pair}
    assert all(known.issuperset(one.when) for one in load_candidates()), "a condition that never holds"


def test_what_is_known_of_a_graph() -> None:
    digits = load("digits")
    assert {"homogeneous", "one_label", "narrow"} <= facts_of(digits)
    assert scaling_for(digits) in ("l2", "standard")
