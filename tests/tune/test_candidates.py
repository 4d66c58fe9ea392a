"""The shipped portfolio: recipes that can be read and share one store; every graph has one reference."""

from __future__ import annotations

from itertools import product

from gamlp.graph.datasets import load
from gamlp.models import is_model, labels_used
from gamlp.tune.candidates import facts_of, fitting, load_candidates, views_of_relations
from gamlp.tune.scaling import scaling_for
from tests.training.typed_small import planted

FACTS = (
    ("typed", "homogeneous"), ("sparse", "dense"), ("wide", "narrow"), ("few_columns", "many_columns"),
    ("words", "columns"), ("few", "many"),
)  # fmt: skip
SHARED = ("r", "loops", "scaling", "dtype", "directions", "label_r", "fold_seed", "also_r", "rows")


def test_all_share_one_store() -> None:
    found = load_candidates()
    assert all(is_model(one.recipe.model.name) for one in found)
    assert len({tuple(one.recipe[f"propagation.{key}"] for key in SHARED) for one in found}) == 1
    assert len({one.recipe.propagation.folds for one in found if labels_used(one.recipe)}) == 1
    assert len({(one.recipe.relations, one.recipe.features) for one in found}) == 1
    assert all(one.recipe.training.setting == "transductive" for one in found)


def test_every_graph_has_the_simple_answers_and_one_reference() -> None:
    for facts in product(*FACTS):
        found = fitting(frozenset(facts), load_candidates())
        assert [one.role for one in found].count("reference") == 1, facts
        simple = [one.name for one in found if one.role == "simple"]
        assert simple == ["majority", "logistic-features", "logistic-hops"], facts
    known = {fact for pair in FACTS for fact in pair}
    assert all(known.issuperset(some) for one in load_candidates() for some in one.when), "a fact that nobody knows"


def test_of_a_list_among_the_conditions_one_must_hold() -> None:
    def has(*facts: str) -> bool:
        found = fitting(frozenset(facts), load_candidates())
        return "lightgbm-labels" in {one.name for one in found}

    assert has("few_columns", "columns", "few") and has("few_columns", "words", "many")
    assert not has("few_columns", "words", "few") and not has("many_columns", "columns", "many")


def test_what_is_known_of_a_graph() -> None:
    digits = load("digits")
    assert {"homogeneous", "few_columns", "narrow"} <= facts_of(digits)
    assert scaling_for(digits) in ("l2", "standard")
    assert views_of_relations(digits) is None


def test_relations_are_views_by_themselves_and_together() -> None:
    graph = planted(48).graph()
    names = list(graph.relation_pairs)
    assert views_of_relations(graph) == [*([name] for name in names), names]
