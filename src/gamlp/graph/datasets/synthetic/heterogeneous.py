"""A generated graph of ogbn-mag's shape in which one metapath carries the labels and the others carry none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.synthetic import planted
from gamlp.graph.datasets.synthetic.homogeneous import class_centres, named, thread_count, write_features
from gamlp.graph.datasets.synthetic.planted import Cells, apportion, generator, rank_weights
from gamlp.graph.folder import GraphWriter, writing
from gamlp.graph.graph import Block, Graph, Split
from gamlp.graph.opening import open_graph
from gamlp.progress import Progress, silent

_ORDER, _EDGES = 6, 7  # streams of random numbers beside those of `planted` and `synthetic`


@dataclass(frozen=True)
class PlantedEnd:
    """The nodes at one end of a relation: the class of each (int32), and how steep their popularity."""

    labels: Array
    steep: int


@dataclass(frozen=True)
class PlantedRelation:
    """`edges` distinct edges source → target; a share signal + (1 - signal) / classes joins nodes of one class.

    That is: a share `signal` by choice, and chance does the rest. One class alone: ends are independent.
    `within`: both ends are the same nodes, and none is joined with itself.
    """

    source: PlantedEnd
    target: PlantedEnd
    edges: int
    classes: int
    signal: float
    seed: int
    number: int  # tells the random numbers of the relations of one graph apart
    within: bool = False

    @cached_property
    def sources(self) -> list[Cells]:
        return self._cells(self.source, 0)

    @cached_property
    def targets(self) -> list[Cells]:
        return self._cells(self.target, 1)

    def _cells(self, end: PlantedEnd, side: int) -> list[Cells]:
        """Blocks of rows; in each the nodes of a class follow one another in an order drawn at random."""
        blocks = max(1, -(-self.edges // planted.BLOCK_ENTRIES), -(-len(end.labels) // planted.BLOCK_ROWS))
        bounds = np.linspace(0, len(end.labels), blocks + 1).round().astype(np.int64)
        cells = []
        for index, (start, stop) in enumerate(pairwise(bounds.tolist())):
            random = generator(self.seed, _ORDER, self.number, side, index)
            order = random.permutation(np.arange(start, stop, dtype=np.int32))
            labels = end.labels[order]
            order = order[np.argsort(labels, kind="stable")]
            sizes = np.bincount(labels, minlength=self.classes)
            if sizes.min() == 0:
                raise GamlpError(
                    f"{self.classes} classes are too many for {stop - start} nodes of a type", hint="ask for fewer"
                )
            first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
            cells.append(Cells(index, start, stop, end.steep, side, order, first))
        return cells

    @cached_property
    def draws(self) -> tuple[float, float]:
        """(within a class, regardless of class): edges to draw so that the distinct ones are as many as asked for.

        Popular pairs come repeatedly, and more so within a class; each part is made up for by itself.
        """
        c = self.classes
        pairs = len(self.sources) * len(self.targets)
        (ws, ps), (wt, pt) = (
            rank_weights(len(end.labels) / len(cells) / c, end.steep)
            for end, cells in ((self.source, self.sources), (self.target, self.targets))
        )
        number, probability = ws[:, None] * wt[None, :] * pairs, ps[:, None] * pt[None, :] / pairs

        def distinct(rate: float, cells: int) -> float:
            """Edges among `cells` pairs of classes, each of which is drawn `rate` times: Σ 1 - exp(-rate · chance)."""
            return float(cells * (number * -np.expm1(-rate * probability)).sum())

        unlike = (1 - self.signal) * (1 - 1 / c) * self.edges
        free = self._solve(lambda draws: distinct(draws / c**2, c * (c - 1)), unlike)
        alike = self._solve(lambda draws: distinct(draws / c + free / c**2, c), self.edges - unlike)
        return alike, free

    def _solve(self, distinct: Callable[[float], float], wanted: float) -> float:
        """The number of draws that gives `wanted` distinct edges, by bisection."""
        if distinct(0.0) >= wanted:
            return 0.0
        low, high = 0.0, wanted
        while distinct(high) < wanted:
            low, high = high, high * 2
            if high > 64 * self.edges:
                raise GamlpError(
                    f"{self.edges} distinct edges, {self.signal:.2g} of them within a class, are too many for "
                    f"{len(self.source.labels)} and {len(self.target.labels)} nodes of {self.classes} classes",
                    hint="ask for fewer classes, a larger scale or less signal",
                )
        while high - low > 1e-4 * self.edges:
            middle = (low + high) / 2
            low, high = (middle, high) if distinct(middle) < wanted else (low, middle)
        return high

    def blocks(self, *, reverse: bool, threads: int) -> Iterator[Block]:
        """The rows of targets with their sources, or, in reverse, the rows of sources with their targets."""
        for mine in self.sources if reverse else self.targets:
            pairs = [(mine, other) for other in self.targets] if reverse else [(one, mine) for one in self.sources]
            sources, targets = self._edges(pairs, threads)
            rows, neighbours = (sources, targets) if reverse else (targets, sources)
            yield Block.from_edges(
                rows,
                neighbours,
                None,
                start=mine.start,
                stop=mine.stop,
                symmetric=False,
                drop_loops=self.within,  # node 3 of one type and node 3 of another are no self-loop
                threads=threads,
            )

    def _edges(self, pairs: list[tuple[Cells, Cells]], threads: int) -> tuple[Array, Array]:
        """The edges between pairs of blocks, repeats included."""
        packets: list[tuple[Cells, Cells, int, slice]] = []
        at = 0
        for source, target in pairs:
            share = source.size / len(self.source.labels) * target.size / len(self.target.labels)
            total = round(sum(self.draws) * share)
            for packet, begin in enumerate(range(0, total, planted.PACKET)):
                size = min(planted.PACKET, total - begin)
                packets.append((source, target, packet, slice(at, at + size)))
                at += size
        sources, targets = np.empty(at, np.int32), np.empty(at, np.int32)

        def fill(job: tuple[Cells, Cells, int, slice]) -> None:
            source, target, packet, here = job
            self._draw(source, target, packet, sources[here], targets[here])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, packets))
        return sources, targets

    def _draw(self, source: Cells, target: Cells, packet: int, u: Array, v: Array) -> None:
        """Fill u with sources and v with targets: first those within a class, then those regardless of it."""
        random = generator(self.seed, _EDGES, self.number, source.index, target.index, packet)
        alike, free = self.draws
        same = round(len(u) * alike / (alike + free))
        counts = apportion(random, same, source.sizes)
        source.pick(random, counts, u[:same])
        target.pick(random, counts, v[:same])
        source.pick_any(random, u[same:])
        target.pick_any(random, v[same:])


_SPLIT, _CLASSES = 3, 5  # streams of random numbers; the others are those of `synthetic` and `planted_relation`
_MOST_CLASSES = 349
_FIELDS_A_CLASS = 40  # a paper has ten fields: fewer than this in a class, and they would repeat too often
_CENTRE = 2.0  # length of a class's centre in the features of the metapath's end; noise has deviation 1
_OWN = 1.0  # the same for papers where the metapath ends in papers

# ogbn-mag (OGB, https://ogb.stanford.edu/docs/nodeprop/): nodes, and the fewest that a small scale is given.
_NODES = {
    "paper": (736_389, 100),
    "author": (1_134_649, 100),
    "institution": (8_740, 10),
    "field": (59_965, 80),
}
_PARTS = (629_571, 64_879, 41_939)  # papers that train, validate and test


@dataclass(frozen=True)
class _Relation:
    """A relation of ogbn-mag: its ends, its edges, and how steep the popularity of sources and targets is."""

    source: str
    verb: str
    target: str
    edges: int
    steep: tuple[int, int]

    @property
    def name(self) -> str:
        return f"{self.source}-{self.verb}-{self.target}"


_RELATIONS = (
    _Relation("author", "affiliated_with", "institution", 1_043_998, (1, 3)),
    _Relation("author", "writes", "paper", 7_145_660, (2, 2)),
    _Relation("paper", "cites", "paper", 5_416_271, (2, 3)),
    _Relation("paper", "has_topic", "field", 7_505_078, (2, 3)),
)

# The relations along each metapath.
METAPATHS: dict[str, tuple[str, ...]] = {
    "paper-field": ("paper-has_topic-field",),
    "paper-author": ("author-writes-paper",),
    "paper-paper": ("paper-cites-paper",),
    "paper-author-institution": ("author-writes-paper", "author-affiliated_with-institution"),
}


def mag_like(
    out: str | Path,
    *,
    scale: float = 0.01,
    metapath: str = "paper-field",
    signal: float = 0.8,
    own: float | None = None,
    features: str = "all",
    width: int = 128,
    classes: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    replace: bool = False,
    progress: Progress = silent,
) -> Graph:
    """Papers, authors, institutions and fields in ogbn-mag's shape times `scale`; `metapath` carries the labels.

    A paper's class is hidden in the nodes at the metapath's end: a share `signal` of the ways along it lead to the
    paper's own class (the others to any), and features there are the class's centre + noise. With two relations on
    the way each keeps a share √signal, and the nodes between have noise alone (of a popular author even that tells
    a little: papers of one class share it). All other relations are drawn regardless of class, all other features
    are noise. `own` is the length of a class's centre in the papers' features: 0, or 1 where papers are the
    metapath's end. Entries are within 2 % of ogbn-mag's times `scale`, classes equally large.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     graph = mag_like(folder, scale=0.002, width=8)
    ...     graph.nodes.count, len(graph.relation_pairs), len(graph.relations)
    (1473, 4, 8)
    """
    counts = _counts(scale)
    classes = min(_MOST_CLASSES, max(2, counts["field"] // _FIELDS_A_CLASS)) if classes is None else classes
    own = (_OWN if metapath.endswith("-paper") else 0.0) if own is None else own
    plan = _Plan(scale, metapath, signal, own, features, width, classes, seed)
    _check(plan, counts)
    with writing(Path(out), "mag-like", target="paper", replace=replace) as writer:
        writer.source = {"generator": "mag-like", **asdict(plan)}
        for node_type, count in counts.items():
            writer.nodes(count, node_type)
            if features == "all" or node_type == "paper":
                labels, stream = hidden_classes(node_type, count, classes, seed), (_number(node_type),)
                write_features(
                    writer, labels, plan.centres(node_type), seed, threads, progress, node_type=node_type, stream=stream
                )
        writer.labels(named(hidden_classes("paper", counts["paper"], classes, seed), classes), "paper")
        writer.split(_split(counts["paper"], seed), "paper")
        for relation in _RELATIONS:
            _write_relation(writer, relation, plan.relation(relation, counts), thread_count(threads), progress)
    return open_graph(Path(out))


@dataclass(frozen=True)
class _Plan:
    """What was asked for."""

    scale: float
    metapath: str
    signal: float
    own: float
    features: str
    width: int
    classes: int
    seed: int

    def centres(self, node_type: str) -> Array:
        """The part of a type's features that the class decides, `[classes, width]`: zero off the metapath's end."""
        lengths = {self.metapath.split("-")[-1]: _CENTRE, "paper": self.own}
        return class_centres(self.width, self.classes, lengths.get(node_type, 0.0), self.seed)

    def relation(self, relation: _Relation, counts: dict[str, int]) -> PlantedRelation:
        """Edges that mostly stay within a class along the metapath, and know of none elsewhere."""
        steps = METAPATHS[self.metapath]
        classes = self.classes if relation.name in steps else 1
        source, target = (
            PlantedEnd(hidden_classes(node_type, counts[node_type], classes, self.seed), steep)
            for node_type, steep in zip((relation.source, relation.target), relation.steep)
        )
        return PlantedRelation(
            source,
            target,
            edges=max(1, round(self.scale * relation.edges)),
            classes=classes,
            signal=self.signal ** (1 / len(steps)),
            seed=self.seed,
            number=_RELATIONS.index(relation),
            within=relation.source == relation.target,
        )


def hidden_classes(node_type: str, count: int, classes: int, seed: int) -> Array:
    """The class of every node of a type, int32, as many nodes in each: known to papers alone as their label."""
    bounds = np.linspace(0, count, classes + 1).round().astype(np.int64)
    labels = np.repeat(np.arange(classes, dtype=np.int32), np.diff(bounds))
    generator(seed, _CLASSES, _number(node_type)).shuffle(labels)
    return labels


def _number(node_type: str) -> int:
    return list(_NODES).index(node_type)


def _counts(scale: float) -> dict[str, int]:
    if not 0 < scale <= 1000:
        raise GamlpError(f"scale {scale}", hint="give a number above 0; 1 is ogbn-mag's 1.94 million nodes")
    return {node_type: max(least, round(scale * count)) for node_type, (count, least) in _NODES.items()}


def _split(count: int, seed: int) -> Split:
    """ogbn-mag's shares, drawn at random: there is no time here."""
    bounds = (np.cumsum(_PARTS) * (count / sum(_PARTS))).round().astype(np.int64)
    train, valid, test = np.split(generator(seed, _SPLIT).permutation(count), bounds[:2])
    return Split.of(count, train=train, valid=valid, test=test)


def _write_relation(
    writer: GraphWriter, relation: _Relation, plan: PlantedRelation, threads: int, progress: Progress
) -> None:
    """A relation and, as `rev-…`, the same edges the other way; both directed, as OGB has them."""
    names = (relation.name, f"rev-{relation.name}")
    stored = 0
    for name, other, reverse in ((*names, False), (*names[::-1], True)):
        source, target = (relation.target, relation.source) if reverse else (relation.source, relation.target)
        writer.relation(directed=True, weighted=False, name=name, source=source, target=target, reverse=other)
        for block in plan.blocks(reverse=reverse, threads=threads):
            writer.block(block, name)
            stored += len(block.neighbours)
            progress(f"edges of {relation.name}", stored / 2, plan.edges, "edges")


def _check(plan: _Plan, counts: dict[str, int]) -> None:
    if plan.metapath not in METAPATHS:
        raise GamlpError(f"metapath '{plan.metapath}'", hint=f"choose one of {', '.join(METAPATHS)}")
    if plan.features not in ("all", "paper"):
        raise GamlpError(f"features of '{plan.features}'", hint="choose all or paper")
    for name, value, low in (("classes", plan.classes, 2), ("width", plan.width, 1), ("seed", plan.seed, 0)):
        if value < low:
            raise GamlpError(f"{name} is {value}", hint=f"give at least {low}")
    for node_type in plan.metapath.split("-"):
        if plan.classes > min(counts[node_type], 2**15 - 1):
            message = f"{plan.classes} classes for {counts[node_type]} nodes of type {node_type}"
            raise GamlpError(message, hint="ask for fewer classes or a larger scale")
    if not 0 <= plan.signal <= 1:
        raise GamlpError(f"signal is {plan.signal}", hint="give a share from 0 to 1")
    if not 0 <= plan.own < np.inf:
        raise GamlpError(f"own is {plan.own}", hint="give the length of a class's centre, 0 for noise alone")
