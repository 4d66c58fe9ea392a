"""Which subsets of relations are views: chosen as a recipe says, and none twice, by dense algebra."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.propagation import Reach, choose_subsets
from gamlp.propagation.subsets import FEW
from gamlp.recipe import RelationsSettings
from tests.conformance.typed_graphs import TARGET, CaseRelation, TypedCase, typed_cases

some = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FAR = Reach(hops=5, label_hops=5)
REACHES = st.builds(Reach, st.integers(0, 3), st.integers(0, 4), st.booleans())


def case_of(*relations: CaseRelation, counts: dict[str, int] | None = None) -> TypedCase:
    counts = counts or dict.fromkeys((TARGET, "author", "venue", "field", "place"), 4)
    features = {node_type: np.ones((count, 2), np.float32) for node_type, count in counts.items()}
    roles = np.ones(counts[TARGET], np.int8)
    return TypedCase(counts, features, list(relations), np.zeros(counts[TARGET], np.int32), roles)


CITES = CaseRelation("cites", TARGET, TARGET, [(0, 1), (1, 2)])
WRITES = CaseRelation("writes", "author", TARGET, [(0, 0), (1, 1), (1, 2)])
APPEARS = CaseRelation("appears-in", TARGET, "venue", [(0, 0), (3, 1)])
WORKS = CaseRelation("works-on", "author", "field", [(0, 0), (1, 1)])
LIES = CaseRelation("lies-in", "field", "place", [(0, 0), (1, 1)])


def subsets_of(graph: Graph, subsets: object = "all", reach: Reach = FAR, **said: int) -> list[str]:
    wanted = RelationsSettings(subsets=subsets, **said)  # type: ignore[arg-type]
    return ["+".join(subset) for subset in choose_subsets(graph, wanted, reach).subsets]


def many(count: int) -> TypedCase:
    """So many links that differ."""
    relations = [CaseRelation(f"link{index}", "author", TARGET, [(index % 4, index // 4)]) for index in range(count)]
    return case_of(*relations)


def test_all_are_those_that_touch_the_target() -> None:
    graph = case_of(CITES, WORKS, WRITES).graph()
    expected = ["cites", "writes", "cites+writes", "works-on+writes", "cites+works-on+writes"]
    assert subsets_of(graph) == subsets_of(graph, "auto") == expected
    notes = choose_subsets(graph, RelationsSettings(subsets="all"), FAR).notes
    assert notes == ("cites+works-on gives paper the same hops as cites: 1 left out",)


def test_one_is_the_subset_of_all_relations() -> None:
    assert subsets_of(case_of(CITES, WORKS, WRITES).graph(), "one") == ["cites+works-on+writes"]


def test_auto_takes_all_while_they_are_few_and_a_sample_of_more() -> None:
    few, more = many(4).graph(), many(5).graph()
    assert len(subsets_of(few, "auto")) == 15 <= FEW
    assert len(subsets_of(more, "all")) == 31
    assert subsets_of(more, "auto", count=6, seed=3) == subsets_of(more, "sample", count=6, seed=3)
    assert len(subsets_of(more, "auto")) == 8


@pytest.mark.parametrize("relations", [5, 16])
def test_a_sample_is_by_its_seed_and_has_no_repeats(relations: int) -> None:
    graph = many(relations).graph()
    one = subsets_of(graph, "sample", count=8, seed=1)
    assert one == subsets_of(graph, "sample", count=8, seed=1)
    assert len(set(one)) == len(one) == 8
    assert one != subsets_of(graph, "sample", count=8, seed=2)


def test_a_sample_of_more_than_there_are_is_all() -> None:
    graph = case_of(CITES, WRITES).graph()
    assert subsets_of(graph, "sample", count=50) == subsets_of(graph, "all")


def test_of_many_links_subsets_are_drawn_and_all_is_refused() -> None:
    graph = many(13).graph()
    assert len(subsets_of(graph, "auto", count=9)) == 9
    with pytest.raises(GamlpError, match="13 relations have 8,191 subsets"):
        subsets_of(graph, "all")
    empty = [CaseRelation(f"empty{index}", TARGET, "venue", []) for index in range(12)]
    drawn = subsets_of(case_of(CITES, *empty).graph(), "sample", count=9)
    assert len(drawn) == 1 and "cites" in drawn[0], "what is drawn again and again is one"


def test_a_list_is_kept_in_its_order_by_names_of_relations_or_their_reverses() -> None:
    graph = case_of(CITES, WRITES, APPEARS).graph()
    listed = (("writes", "cites"), ("rev-appears-in",))
    assert subsets_of(graph, listed) == ["cites+writes", "appears-in"]
    assert subsets_of(graph, (("writes",), ("rev-writes",), ("writes", "writes"))) == ["writes"]


def test_a_list_is_refused_where_it_names_no_relation_or_leaves_the_target_aside() -> None:
    graph = case_of(CITES, WRITES, WORKS).graph()
    with pytest.raises(GamlpError, match="no relation 'writs': did you mean 'writes'"):
        choose_subsets(graph, RelationsSettings(subsets=(("cites", "writs"),)), FAR)
    with pytest.raises(GamlpError, match="works-on does not touch paper"):
        choose_subsets(graph, RelationsSettings(subsets=(("cites",), ("works-on",))), FAR)


def test_relations_without_edges_are_left_out_and_told() -> None:
    graph = case_of(CITES, CaseRelation("empty", TARGET, "venue", [])).graph()
    found = choose_subsets(graph, RelationsSettings(subsets="all"), FAR)
    assert found.subsets == (("cites",),)
    assert found.notes == (
        "empty holds no edge that leads to paper: left out",
        "cites+empty gives paper the same hops as cites: 1 left out",
    )
    listed = choose_subsets(graph, RelationsSettings(subsets=(("empty", "cites"), ("empty",))), FAR)
    assert listed.subsets == (("cites", "empty"),) and "empty holds no edge" in listed.notes[0]
    with pytest.raises(GamlpError, match="no relation of graph 'typed' leads to paper"):
        choose_subsets(case_of(CaseRelation("empty", TARGET, "venue", [])).graph(), RelationsSettings(), FAR)


def test_relations_that_hold_the_same_edges_are_one() -> None:
    copied = dataclasses.replace(WRITES, name="copied")
    turned = CaseRelation("written-by", TARGET, "author", [(paper, author) for author, paper in WRITES.edges])
    graph = case_of(WRITES, copied, turned).graph()
    found = choose_subsets(graph, RelationsSettings(subsets="all"), FAR)
    assert found.subsets == (("writes",),)
    assert found.notes == ("copied, written-by … give paper the same hops as writes: 6 left out",)


def test_a_relation_whose_edges_another_holds_adds_nothing_to_it() -> None:
    first = dataclasses.replace(WRITES, name="writes-first", edges=WRITES.edges[:2])
    turned = CaseRelation("signed-by", TARGET, "author", [(WRITES.edges[2][1], WRITES.edges[2][0])])
    found = choose_subsets(case_of(WRITES, first, turned).graph(), RelationsSettings(subsets="all"), FAR)
    kept = ["+".join(subset) for subset in found.subsets]
    assert kept == ["writes", "writes-first", "signed-by", "writes-first+signed-by"]
    assert found.notes == ("writes+writes-first, writes+signed-by … give paper the same hops as writes: 3 left out",)
    heavy = dataclasses.replace(CITES, weights=[1.0, 2.0])
    counted = subsets_of(case_of(WRITES, first, heavy).graph())
    assert "writes+writes-first+cites" in counted and "writes+writes-first" not in counted, "weights add up"


def test_weights_of_the_same_edges_add_up_and_are_not_one() -> None:
    weighed = dataclasses.replace(WRITES, weights=[1.0, 2.0, 3.0])
    copied = dataclasses.replace(weighed, name="copied")
    assert subsets_of(case_of(weighed, copied).graph()) == ["writes", "writes+copied"]
    # A relation with weights anywhere in a view makes pairs of the others count for each that has them.
    copied = dataclasses.replace(WRITES, name="copied")
    heavy = dataclasses.replace(CITES, weights=[1.0, 2.0])
    found = subsets_of(case_of(WRITES, copied, heavy).graph())
    assert found == ["writes", "cites", "writes+cites", "writes+copied+cites"]


@pytest.mark.parametrize(
    ("reach", "kept"),
    [
        (Reach(0), ["cites"]),
        (Reach(1, columns=False), ["cites", "writes", "cites+writes"]),
        (Reach(1), ["cites", "writes", "cites+writes", "writes+works-on", "cites+writes+works-on"]),
        (Reach(2, columns=False), ["cites", "writes", "cites+writes", "writes+works-on", "cites+writes+works-on"]),
        (Reach(1, 1, False), ["cites", "writes", "cites+writes"]),
        (Reach(0, 2), ["cites", "writes", "cites+writes", "writes+works-on", "cites+writes+works-on"]),
    ],
    ids=str,
)
def test_relations_that_lie_beyond_the_hops_are_left_out(reach: Reach, kept: list[str]) -> None:
    graph = case_of(CITES, WRITES, WORKS, LIES).graph()
    assert subsets_of(graph, reach=reach) == kept


def test_many_repeats_are_told_in_few_notes() -> None:
    relations = [CaseRelation(f"link{index}", "author", TARGET, [(index, index)]) for index in range(4)]
    graph = case_of(*relations, CaseRelation("empty", TARGET, "venue", [])).graph()
    found = choose_subsets(graph, RelationsSettings(subsets="all"), FAR)
    assert len(found.subsets) == 15
    assert len(found.notes) == 6 and found.notes[-1].startswith("11 more")


@st.composite
def alike_cases(draw: st.DrawFn) -> TypedCase:
    """Typed graphs with copies of links, turned ones, and one that is farther away."""
    case = draw(typed_cases(one_width=True, all_features=True))
    relations = list(case.relations)
    for relation in draw(
        st.lists(st.sampled_from(case.relations), max_size=2, unique_by=lambda relation: relation.name)
    ):
        if draw(st.booleans()):
            some = draw(st.integers(1, 4))  # the whole, or every other edge …
            weights = None if relation.weights is None else relation.weights[::some]
            relations.append(
                dataclasses.replace(relation, name=f"{relation.name}2", edges=relation.edges[::some], weights=weights)
            )
        else:
            edges = [(target, source) for source, target in relation.edges]
            relations.append(
                CaseRelation(f"{relation.name}3", relation.target, relation.source, edges, relation.weights)
            )
    if draw(st.booleans()):
        count = case.counts["field"]
        weights = [2.0] * count if draw(st.booleans()) else None
        relations.append(
            CaseRelation("parent-of", "field", "field", [(a, (a + 1) % count) for a in range(count)], weights)
        )
    order = draw(st.permutations(relations))
    return dataclasses.replace(case, relations=order[:6])


def touching_of(case: TypedCase) -> set[str]:
    """Links that have an edge to the target; loops inside a type are none."""
    return {
        relation.name
        for relation in case.relations
        if TARGET in (relation.source, relation.target)
        and any(relation.source != relation.target or source != target for source, target in relation.edges)
    }


def felt(case: TypedCase, subset: tuple[str, ...], reach: Reach, r: float, loops: bool) -> list[np.ndarray]:
    """All that a plan of this reach keeps of the target's rows: hops of every type's features, and of labels."""
    found = [case.hops(subset, case.first_labels(subset), reach.label_hops, r, loops)]
    for node_type, values in case.features.items():
        if node_type in case.reached(subset):
            found.append(case.hops(subset, case.first(subset, [node_type]), reach.hops, r, loops))
        else:
            assert values is not None
            found.append(np.zeros((case.counts[TARGET], reach.hops + 1, values.shape[1])))
    return found


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.allclose(a, b, atol=1e-12) for a, b in zip(one, other, strict=True))


@some
@given(case=alike_cases(), reach=REACHES, loops=st.booleans())
def test_every_subset_that_is_dropped_gives_the_hops_of_one_that_is_kept(
    case: TypedCase, reach: Reach, loops: bool
) -> None:
    names = [relation.name for relation in case.relations]
    touching = touching_of(case)
    assume(touching)
    kept = choose_subsets(case.graph(), RelationsSettings(subsets="all"), reach).subsets
    assert len(set(kept)) == len(kept) and all(touching & set(subset) for subset in kept)
    r = 0.5 if reach.columns else 0.0
    known = {subset: felt(case, subset, reach, r, loops) for subset in kept}
    for size in range(1, len(names) + 1):
        for subset in itertools.combinations(names, size):
            if touching & set(subset) and subset not in known:
                mine = felt(case, subset, reach, r, loops)
                assert any(same(mine, other) for other in known.values()), subset


@some
@given(case=alike_cases(), reach=REACHES, loops=st.booleans(), r=st.sampled_from([0.3, 0.5, 1.0]), data=st.data())
def test_two_subsets_that_are_called_the_same_are(
    case: TypedCase, reach: Reach, loops: bool, r: float, data: st.DataObject
) -> None:
    touching = touching_of(case)
    assume(touching)
    names = [relation.name for relation in case.relations]
    r = r if reach.columns else 0.0
    subsets = st.lists(st.sampled_from(names), min_size=1, unique=True).filter(lambda subset: touching & set(subset))
    graph = case.graph()
    for _ in range(4):
        pair = tuple(tuple(sorted(data.draw(subsets))) for _ in range(2))
        if len(choose_subsets(graph, RelationsSettings(subsets=pair), reach).subsets) == 1:
            assert same(felt(case, pair[0], reach, r, loops), felt(case, pair[1], reach, r, loops)), pair


def rich() -> TypedCase:
    """A chain of types away from the target, with edges enough that whatever is within reach is felt."""
    random = np.random.default_rng(0)
    node_types = [TARGET, "author", "field", "place"]
    ends = [(TARGET, TARGET), ("author", TARGET), ("author", "field"), ("field", "place")]
    relations = []
    for name, (source, target) in zip(["cites", "writes", "works-on", "lies-in"], ends):
        edges = [(int(a), int(b)) for a, b in random.integers(0, 4, (9, 2))]
        relations.append(CaseRelation(name, source, target, edges))
    case = case_of(*relations, counts=dict.fromkeys(node_types, 4))
    features = {node_type: random.normal(size=(4, 2)).astype(np.float32) for node_type in node_types}
    return dataclasses.replace(case, features=features, labels=np.arange(4, dtype=np.int32))


@pytest.mark.parametrize("r", [0.0, 0.5])
@pytest.mark.parametrize("loops", [True, False])
def test_kept_are_exactly_the_subsets_that_differ(r: float, loops: bool) -> None:
    case = rich()
    graph, names = case.graph(), [relation.name for relation in case.relations]
    every = [subset for size in range(1, 5) for subset in itertools.combinations(names, size)]
    for hops, label_hops in itertools.product(range(4), range(6)):
        reach = Reach(hops, label_hops, r > 0)
        different: list[list[np.ndarray]] = []
        for subset in every:
            mine = felt(case, subset, reach, r, loops)
            if {"cites", "writes"} & set(subset) and not any(same(mine, other) for other in different):
                different.append(mine)
        kept = choose_subsets(graph, RelationsSettings(subsets="all"), reach).subsets
        assert len(kept) == len(different), (reach, kept)
