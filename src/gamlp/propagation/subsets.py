"""Which subsets of a graph's relations are views (NARS): all while they are few, a seeded sample, or a list."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Relation, contained, fingerprint, touches_target, view_of
from gamlp.recipe import RelationsSettings

FEW = 16  # subsets: as many as auto takes without choosing
_COUNTABLE = 12  # relations whose subsets are listed; of more, subsets are drawn
_TRIES = 64  # draws for every subset of a sample, before there seem to be no further ones
_MOST_NOTES = 5  # notes that are written out; of more, their number is
Subset = tuple[str, ...]
Key = tuple[bool, frozenset[tuple[str, int]]]


@dataclass(frozen=True)
class ChosenSubsets:
    """Subsets as sorted by the graph's relations, and what was left out, in sentences."""

    subsets: tuple[Subset, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reach:
    """How far a plan looks: hops of features and of labels, and whether sums of columns enter (r > 0)."""

    hops: int
    label_hops: int = 0
    columns: bool = True


def choose_subsets(graph: Graph, wanted: RelationsSettings, reach: Reach) -> ChosenSubsets:
    """The subsets of a recipe for a graph; each touches_target the target, and no two give its rows the same hops."""
    same = _Sameness(graph, reach)
    if isinstance(wanted.subsets, tuple):
        return _listed(graph, wanted.subsets, same)
    pairs = list(graph.relation_pairs)
    if wanted.subsets == "one":
        return ChosenSubsets((tuple(pairs),))
    if len(pairs) > _COUNTABLE:
        if wanted.subsets == "all":
            raise GamlpError(
                f"{len(pairs)} relations have {2 ** len(pairs) - 1:,} subsets",
                hint="set relations.subsets to sample, or to a list",
            )
        drawn = _drawn(pairs, wanted)
        return _distinct(graph, drawn, same, wanted.count)
    listed = [tuple(subset) for size in range(1, len(pairs) + 1) for subset in itertools.combinations(pairs, size)]
    found = _distinct(graph, listed, same)
    if wanted.subsets == "all" or (wanted.subsets == "auto" and len(found.subsets) <= FEW):
        return found
    count = min(wanted.count, len(found.subsets))
    picked = np.random.default_rng(wanted.seed).choice(len(found.subsets), count, replace=False)
    return ChosenSubsets(tuple(found.subsets[index] for index in sorted(picked)), found.notes)


def _listed(graph: Graph, subsets: tuple[Subset, ...], same: _Sameness) -> ChosenSubsets:
    pairs = [tuple(relation_pair_of(graph, name) for name in subset) for subset in subsets]
    for subset in pairs:
        view_of(graph, subset)  # refuses one that leaves the target aside
    return _distinct(graph, pairs, same)


def relation_pair_of(graph: Graph, name: str) -> str:
    """The pair a relation belongs to, by its own name or its reverse's."""
    for pair, relations in graph.relation_pairs.items():
        if name in relations:
            return pair
    near = difflib.get_close_matches(name, graph.relations, 1)
    raise GamlpError(
        f"graph '{graph.name}' has no relation '{name}'" + (f": did you mean '{near[0]}'?" if near else ""),
        hint=f"it has {', '.join(graph.relation_pairs)}",
    )


def _drawn(pairs: list[str], wanted: RelationsSettings) -> Iterator[Subset]:
    """Subsets by chance, each relation in with probability a half."""
    random = np.random.default_rng(wanted.seed)
    for _ in range(_TRIES * wanted.count):
        yield tuple(pair for pair, inside in zip(pairs, random.integers(0, 2, len(pairs))) if inside)


def _distinct(graph: Graph, subsets: Iterable[Subset], same: _Sameness, most: int | None = None) -> ChosenSubsets:
    """The smallest subset of every kind; those that give the same hops are told, once for each that is kept."""
    alike: dict[Key, dict[Subset, None]] = {}  # of each kind, in the order in which they came
    bare: dict[Subset, None] = {}
    for subset in subsets:
        ordered = tuple(pair for pair in graph.relation_pairs if pair in set(subset))
        if not touches_target(graph, same.with_edges(ordered)):
            bare |= {ordered: None} if touches_target(graph, ordered) else {}
            continue
        alike.setdefault(same.key(ordered), {})[ordered] = None
        if len(alike) == most:
            break
    if not alike:
        raise GamlpError(
            f"no relation of graph '{graph.name}' leads to {graph.target}", hint="give the relations that do"
        )
    notes = [f"{_joined(bare)} {_verb(bare, 'hold')} no edge that leads to {graph.target}: left out"] if bare else []
    kept = []
    for group in alike.values():
        smallest = min(group, key=len)  # what it leaves out reaches no target row
        kept.append(smallest)
        if others := [subset for subset in group if subset != smallest]:
            notes.append(
                f"{_joined(others)} {_verb(others, 'give')} {graph.target} the same hops as {'+'.join(smallest)}: "
                f"{len(others)} left out"
            )
    if len(notes) > _MOST_NOTES + 1:
        notes[_MOST_NOTES:] = [f"{len(notes) - _MOST_NOTES} more subsets are kept for others that give the same hops"]
    return ChosenSubsets(tuple(kept), tuple(notes))


def _joined(subsets: Iterable[Subset]) -> str:
    names = ["+".join(subset) for subset in subsets]
    return ", ".join(names[:2]) + (" …" if len(names) > 2 else "")


def _verb(subsets: Sized, verb: str) -> str:
    return f"{verb}s" if len(subsets) == 1 else verb


class _Sameness:
    """What of a subset reaches the target's rows: two subsets with the same give it the same hops.

    Left aside are relations without edges, those that are not connected with the target, those farther away than the
    hops go, and those whose edges another holds too, unless weights add up.
    """

    def __init__(self, graph: Graph, reach: Reach) -> None:
        self._graph, self._reach = graph, reach
        self._part: dict[tuple[str, str], bool] = {}
        self._edges = {
            name: fingerprint.relation(graph, name)
            for pair, names in graph.relation_pairs.items()
            if graph.relations[pair].entries
            for name in names
        }

    def with_edges(self, subset: Iterable[str]) -> list[str]:
        return [pair for pair in subset if pair in self._edges]

    def key(self, subset: Subset) -> Key:
        """The relations that are felt, by content; where pairs may be in several and add up, how often too."""
        felt = [self._graph.relations[name] for pair in self._near(subset) for name in self._graph.relation_pairs[pair]]
        ends = {(relation.source, relation.target) for relation in felt}
        # A view with weights anywhere counts a pair once for every relation that has it (gamlp.graph.union).
        adds_up = len(ends) < len(felt) and view_of(self._graph, subset).weighted(self._graph)
        if adds_up:
            return True, frozenset(Counter(self._edges[relation.name] for relation in felt).items())
        # Pairs are merged: what a relation shares with a larger one adds nothing.
        whole = [one for one in felt if not any(self._within(one, other) for other in felt)]
        return False, frozenset((self._edges[relation.name], 1) for relation in whole)

    def _within(self, small: Relation, large: Relation) -> bool:
        """Whether all edges of a relation, and some more, are another's."""
        pair = (small.name, large.name)
        if pair not in self._part:
            self._part[pair] = small.entries < large.entries and contained(self._graph, small, large)
        return self._part[pair]

    def _near(self, subset: Subset) -> list[str]:
        """Links with edges that change a hop that is kept."""
        pairs = self.with_edges(subset)
        distance = {self._graph.target: 0}
        for step in itertools.count(1):
            new = {
                node_type
                for pair in pairs
                for node_type in self._ends(pair)
                if node_type not in distance and set(self._ends(pair)) & distance.keys()
            }
            if not new:
                break
            distance |= dict.fromkeys(new, step)
        return [pair for pair in pairs if self._felt(min(distance.get(end, 1 << 30) for end in self._ends(pair)))]

    def _ends(self, pair: str) -> tuple[str, str]:
        relation = self._graph.relations[pair]
        return relation.source, relation.target

    def _felt(self, away: int) -> bool:
        """Whether an edge whose nearer end is `away` steps from the target changes a hop that is kept.

        Its rows arrive one hop after its nearer end; with r > 0 its share in that end's degree is felt as soon as
        the end itself. Labels go out to that end and come back.
        """
        farther = 0 if self._reach.columns and away > 0 else 1
        return away + farther <= self._reach.hops or max(2 * away, 1) <= self._reach.label_hops
