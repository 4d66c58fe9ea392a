"""Relations as one graph: set arithmetic is the oracle; memory and company change nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Block, Graph, Relation, View, contained, union_graphs, view_of
from tests.conformance.typed_graphs import TARGET, TypedCase, typed_cases

some = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
RELATIONS = ["cites", "writes", "appears-in", "works-on", "reviews"]
SUBSETS = st.lists(st.sampled_from(RELATIONS), min_size=1, unique=True).filter(
    lambda relations: set(relations) != {"works-on"}
)
TINY = 1  # byte: a row at a time


def pairs_of(case: TypedCase, view: View) -> dict[tuple[int, int], float]:
    """(row, neighbour) → weight, counted with a dictionary for each relation and both ways."""
    found: dict[tuple[int, int], float] = {}
    chosen = [relation for relation in case.relations if relation.name in view.relation_pairs]
    heavy = any(relation.weights is not None for relation in chosen)
    for relation in chosen:
        own: dict[tuple[int, int], float] = {}
        for number, (source, target) in enumerate(relation.edges):
            if relation.source == relation.target and source == target:
                continue
            pair = (view.start(relation.target) + target, view.start(relation.source) + source)
            own[pair] = 1.0 if relation.weights is None else own.get(pair, 0.0) + relation.weights[number]
        for (row, neighbour), weight in own.items():
            for pair in ((row, neighbour), (neighbour, row)):
                found[pair] = found.get(pair, 0.0) + weight if heavy else 1.0
    return found


def read(graph: Graph) -> dict[tuple[int, int], float]:
    found = {}
    for block in graph.relation.blocks:
        for row in range(block.start, block.stop):
            begin, end = int(block.offsets[row - block.start]), int(block.offsets[row - block.start + 1])
            neighbours = np.asarray(block.neighbours[begin:end])
            assert (np.diff(neighbours) > 0).all(), "neighbours ascend, each once"
            weights = np.ones(end - begin) if block.weights is None else np.asarray(block.weights[begin:end])
            found |= {(row, int(other)): float(weight) for other, weight in zip(neighbours, weights)}
    return found


def arrays(graph: Graph) -> list[np.ndarray]:
    """Of all blocks as one, however many they are."""
    blocks = graph.relation.blocks
    degrees = [np.diff(block.offsets) for block in blocks]
    weights = [block.weights for block in blocks if block.weights is not None]
    parts = [degrees, [block.neighbours for block in blocks], weights]
    return [np.concatenate(part) if part else np.zeros(0) for part in parts]


@some
@given(case=typed_cases(), subset=SUBSETS)
def test_a_union_holds_each_pair_once_and_adds_weights(case: TypedCase, subset: list[str], tmp_path: Path) -> None:
    graph = case.graph()
    view = view_of(graph, subset)
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    made = union_graphs(graph, [view], folder)[view.name]
    assert made.nodes.count == view.count == sum(case.counts[node_type] for node_type in view.types)
    assert view.types[0] == TARGET and not made.relation.directed
    assert read(made) == pairs_of(case, view)


@some
@given(
    case=typed_cases(), subsets=st.lists(SUBSETS, min_size=2, max_size=4, unique_by=lambda relations: tuple(relations))
)
def test_a_tiny_budget_and_views_together_give_the_same_arrays(
    case: TypedCase, subsets: list[list[str]], tmp_path: Path
) -> None:
    graph, at = case.graph(), tmp_path / str(len(list(tmp_path.iterdir())))
    views = list({view.name: view for view in (view_of(graph, subset) for subset in subsets)}.values())
    together = union_graphs(graph, views, at / "together")
    tight = union_graphs(graph, views, at / "tight", memory=TINY)
    for view in views:
        alone = union_graphs(graph, [view], at / "alone")[view.name]
        for other in (together[view.name], tight[view.name]):
            assert all(np.array_equal(a, b) for a, b in zip(arrays(alone), arrays(other), strict=True))
        if max(relation.entries for relation in alone.relations.values()) > view.count:
            assert len(tight[view.name].relation.blocks) > len(alone.relation.blocks)


def small() -> Graph:
    case = TypedCase(
        {TARGET: 3, "author": 2},
        {TARGET: np.ones((3, 1), np.float32), "author": np.ones((2, 1), np.float32)},
        [],
        np.zeros(3, np.int32),
        np.ones(3, np.int8),
    )
    block = Block.from_edges(
        np.array([0, 1, 2]), np.array([0, 1, 1]), None, start=0, stop=3, symmetric=False, drop_loops=False
    )
    return dataclasses.replace(
        case.graph(), relations={"writes": Relation("writes", "author", TARGET, True, (block,), None)}
    )


def test_a_relation_without_its_reverse_leads_one_way(tmp_path: Path) -> None:
    graph = small()
    view = view_of(graph, ["writes"])
    made = union_graphs(graph, [view], tmp_path)[view.name]
    assert made.relation.directed
    assert read(made) == {(0, 3): 1.0, (1, 4): 1.0, (2, 4): 1.0}, "authors have no neighbours"


def test_what_is_there_is_opened_and_not_made_again(tmp_path: Path) -> None:
    graph = small()
    view = view_of(graph, ["writes"])
    made = union_graphs(graph, [view], tmp_path)[view.name].folder
    changed = {path: path.stat().st_mtime_ns for path in Path(str(made)).rglob("*") if path.is_file()}
    union_graphs(graph, [view], tmp_path)
    assert changed and changed == {path: path.stat().st_mtime_ns for path in changed}


@pytest.mark.parametrize("wrong", [-1, 2, 3])
def test_a_neighbour_that_does_not_exist_is_refused_and_nothing_is_left(wrong: int, tmp_path: Path) -> None:
    graph = small()
    block = graph.relations["writes"].blocks[0]
    damaged = Block(block.start, block.stop, block.offsets, np.array([0, wrong, 1], np.int32), None)
    relation = dataclasses.replace(graph.relations["writes"], blocks=(damaged,))
    graph = dataclasses.replace(graph, relations={"writes": relation})
    with pytest.raises(GamlpError, match="relation 'writes' names a node of author beyond the 2 there are"):
        union_graphs(graph, [view_of(graph, ["writes"])], tmp_path / "views")
    assert not list((tmp_path / "views").iterdir())


def test_edges_of_one_relation_are_found_in_another() -> None:
    graph = small()

    def relation(pairs: list[tuple[int, int]]) -> Relation:
        rows, neighbours = np.array(pairs, np.int64).reshape(-1, 2).T
        block = Block.from_edges(rows, neighbours, None, start=0, stop=3, symmetric=False, drop_loops=False)
        return Relation("some", "author", TARGET, True, (block,), None)

    whole = graph.relations["writes"]  # (0, 0), (1, 1), (2, 1)
    for pairs, expected in (
        ([], True),
        ([(2, 1)], True),
        ([(0, 0), (1, 1), (2, 1)], True),
        ([(2, 0)], False),
        ([(0, 0), (0, 1)], False),
        ([(0, 0), (1, 1), (2, 1), (2, 0)], False),
    ):
        assert contained(graph, relation(pairs), whole) == expected, pairs
    assert not contained(graph, dataclasses.replace(whole, source=TARGET), whole)
