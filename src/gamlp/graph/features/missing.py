"""The whole of it: wide features are reduced, then types without features are given some."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # its parts are imported when they are first used

from gamlp.arrays import Array
from gamlp.errors import GamlpError, MissingExtra
from gamlp.graph import fingerprint
from gamlp.graph.graph import Block, Features, Graph, Relation
from gamlp.io import Place, RowSource, digest, npy_size, open_rows, put_rows, sealed, unsealed
from gamlp.progress import Progress, silent
from gamlp.recipe import RelationsSettings

FOLDER = "made"


@dataclass(frozen=True)
class Cache:
    """A folder, here or behind a URL, of features that were made; a key says all that they depend on."""

    folder: Place

    def place(self, node_type: str, key: str) -> Place:
        return self.folder / f"{node_type}-{key}.npy"

    def found(self, node_type: str, key: str, shape: tuple[int, int]) -> Features | None:
        """Mapped, if they were made before; a file whose bytes are not those that were written is as good as none."""
        place = self.place(node_type, key)
        try:
            facts = unsealed(self._note(place).read(), required=True)
            if facts != {"bytes": npy_size(shape, np.float32), "crc32": place.checksum()}:
                return None
            values = open_rows(place)
            fits = tuple(values.shape) == shape and values.dtype == np.float32
        except (FileNotFoundError, ValueError, GamlpError):
            return None
        return Features(values) if fits else None

    def keep(self, node_type: str, key: str, values: RowSource) -> Features:
        """Written and mapped."""
        place = self.place(node_type, key)
        size, crc = put_rows(place, values)
        self._note(place).put(json.dumps(sealed({"bytes": size, "crc32": crc})).encode())
        return Features(open_rows(place))

    def _note(self, place: Place) -> Place:
        """Written after the file: its size and checksum."""
        return Place(f"{place.url}.json")


_PIECE = 1 << 30  # bytes of neighbours' columns in memory at a time


def sources_of(graph: Graph, node_type: str) -> list[str]:
    """Types beside `kind` whose features it takes: those of one width, the target's where it is beside.

    Otherwise the width is that of the first type beside it.
    """
    beside = {end for relation in graph.relations.values() for end in _other_ends(relation, node_type)}
    widths = {
        source: nodes.features.width
        for source, nodes in graph.node_types.items()
        if source in beside and nodes.features is not None and nodes.features.width
    }
    if not widths:
        return []
    width = widths.get(graph.target, next(iter(widths.values())))
    return [source for source, wide in widths.items() if wide == width]


def mean_of_neighbours(graph: Graph, node_type: str, sources: list[str], progress: Progress) -> Array:
    """`[count, width]` float32; a zero row for a node without such neighbours.

    Sums are float64, a block of columns at a time: memory is that of the result, of _PIECE and of a block of edges.
    """
    width = getattr(graph.node_types[sources[0]].features, "width", 0)
    count = graph.node_types[node_type].count
    most = max([count, *(graph.node_types[source].count for source in sources)])
    step = max(1, _PIECE // (8 * max(1, most)))
    towards = [
        found
        for names in graph.relation_pairs.values()
        if (found := _towards(graph, names, node_type, sources)) is not None
    ]
    out = np.zeros((count, width), np.float32)
    message = f"means of {', '.join(sources)}, width {width}"
    for begin in range(0, width, step):
        columns = slice(begin, min(width, begin + step))
        total, weight = np.zeros((count, columns.stop - begin)), np.zeros(count)
        for relation, source in towards:
            features = graph.node_types[source].features
            assert features is not None
            _add(relation, relation.target != node_type, features.read(slice(None), columns), total, weight)
        np.divide(total, weight[:, None], out=total, where=weight[:, None] > 0)
        out[:, columns] = total
        progress(f"features of '{node_type}'", columns.stop, width, "columns", message)
    return out


def _other_ends(relation: Relation, node_type: str) -> Iterator[str]:
    if relation.target == node_type != relation.source:
        yield relation.source
    elif relation.source == node_type != relation.target:
        yield relation.target


def _towards(graph: Graph, names: tuple[str, ...], node_type: str, sources: list[str]) -> tuple[Relation, str] | None:
    """The relation of a pair whose rows are of this type, or the other way where that alone is stored."""
    relations = sorted((graph.relations[name] for name in names), key=lambda each: each.target != node_type)
    source = next(_other_ends(relations[0], node_type), None)
    return (relations[0], source) if source in sources and source is not None else None


def _add(relation: Relation, turned: bool, values: Array, total: Array, weight: Array) -> None:
    """Adds Σ w x to total and Σ w to weight, block by block."""
    for block in relation.blocks:
        matrix = _matrix(block, len(total) if turned else len(values))
        if turned:
            total += matrix.T @ values[block.start : block.stop]
            weight += matrix.sum(axis=0)
        else:
            total[block.start : block.stop] += matrix @ values
            weight[block.start : block.stop] += matrix.sum(axis=1)


def _matrix(block: Block, columns: int) -> Any:
    neighbours = np.asarray(block.neighbours)
    weights = np.ones(len(neighbours)) if block.weights is None else np.asarray(block.weights, np.float64)
    return scipy.sparse.csr_array((weights, neighbours, np.asarray(block.offsets)), (block.stop - block.start, columns))


SAMPLE = 50_000  # rows that a basis is fitted on, at most
_BYTES = 1 << 31  # of a sample, were all of its values kept
_SVD_PIECE = 64 << 20  # bytes of wide rows in memory while they are read
_FEW = 0.1  # of values that are not zero: below it rows are worked on as sparse ones


def basis(features: Sequence[Features], width: int, seed: int, progress: Progress) -> Array:
    """V[wide, width] of the rows of all these features together, or of a seeded sample where they are many.

    No centring: zeros stay zeros, and X V keeps products of rows, (X V)(X V)ᵀ ≈ X Xᵀ. The largest value of every
    column is positive, so that signs do not depend on chance. Where rows or their rank are fewer than `width`, the
    last columns are zero.
    """
    wide = features[0].width
    counts = [each.count for each in features]
    total = sum(counts)
    most = min(total, SAMPLE, max(_BYTES // (4 * wide), 4 * width))
    rows = np.sort(np.random.default_rng(seed).choice(total, most, replace=False)) if most < total else np.arange(total)
    parts, start = [], 0
    for each, count in zip(features, counts):
        inside = rows[(rows >= start) & (rows < start + count)] - start
        step = max(1, _SVD_PIECE // (4 * wide))
        for begin in range(0, len(inside), step):
            parts.append(as_sparse(each.read(inside[begin : begin + step])))
            progress("reduced features: rows read", min(len(rows), sum(part.shape[0] for part in parts)), most, "rows")
        start += count
    return _fitted(_stacked(parts), width, wide, seed)


def _stacked(parts: list[Any]) -> Any:
    """One matrix: sparse where most of its parts are."""
    if not parts:
        return np.zeros((0, 1), np.float32)
    few = sum(part.shape[0] for part in parts if scipy.sparse.issparse(part))
    if 2 * few > sum(part.shape[0] for part in parts):
        return scipy.sparse.vstack([scipy.sparse.csr_array(part) for part in parts]).tocsr()
    return np.concatenate([part.toarray() if scipy.sparse.issparse(part) else part for part in parts])


def _fitted(sample: Any, width: int, wide: int, seed: int) -> Array:
    out = np.zeros((wide, width), np.float32)
    kept = min(width, *sample.shape)
    if not sample.shape[0] or not sample.size:
        return out
    if min(sample.shape) <= 2 * width:  # so small that the exact decomposition costs no more
        dense = sample.toarray() if scipy.sparse.issparse(sample) else sample
        _, values, components = np.linalg.svd(dense.astype(np.float64), full_matrices=False)
    else:
        from sklearn.utils.extmath import randomized_svd  # imported here: it takes a second

        # Seven rounds of power iteration: spectra of bags of words fall slowly, and four leave a visible error.
        _, values, components = randomized_svd(sample, kept, n_oversamples=32, n_iter=7, random_state=seed)
    inside = values[:kept] > 1e-6 * values[0]  # below it float32 holds nothing but noise
    components = components[:kept][inside]
    largest = np.abs(components).argmax(1)
    components *= np.sign(components[np.arange(len(components)), largest])[:, None]
    out[:, : len(components)] = components.T
    return out


def as_sparse(rows: Array) -> Any:
    """The same rows as a sparse matrix where most of their values are zero."""
    return scipy.sparse.csr_array(rows) if np.count_nonzero(rows) < _FEW * rows.size else rows


class Projected:
    """X V[n, width], computed as it is written: features may be larger than memory."""

    dtype = np.dtype(np.float32)

    def __init__(self, features: Features, shared: Array, node_type: str, progress: Progress) -> None:
        self.features, self.shared, self.node_type, self.progress = features, shared, node_type, progress
        self.shape = (features.count, shared.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice, /) -> Array:
        begin, end, _ = part.indices(len(self))
        out = np.empty((end - begin, self.shape[1]), np.float32)
        step = max(1, _SVD_PIECE // (4 * self.features.width))
        for first in range(begin, end, step):
            last = min(end, first + step)
            out[first - begin : last - begin] = as_sparse(self.features.read(slice(first, last))) @ self.shared
            self.progress(f"reduced features of '{self.node_type}'", last, len(self), "rows")
        return out


WIDTH = 128  # of embeddings, unless the recipe says otherwise; that of ogbn-mag
METHOD = 1  # raised when other code makes other rows: what was kept is then not found


def completed(graph: Graph, wanted: RelationsSettings, beside: Place | Path, progress: Progress = silent) -> Graph:
    """The graph with features for every node type, as `wanted.reduce` and `wanted.missing` say; made once.

    What is made lies in `beside`/made under a name that changes with all it depends on. Labels are no such thing: no
    step reads them. A homogeneous graph is returned as it is.
    """
    if not graph.heterogeneous:
        return graph
    if wanted.missing == "complex" and wanted.dimension % 2 and lacking(graph):
        raise GamlpError(
            f"relations.dimension is {wanted.dimension}, and half of a ComplEx embedding's columns are imaginary parts",
            hint="give an even number",
        )
    cache = Cache(Place.of(beside) / FOLDER)
    graph, names = _reduced(graph, wanted, cache, progress)
    if not lacking(graph) or wanted.missing == "none":
        return graph
    if wanted.missing == "mean":
        return _with_means(graph, names, cache, progress)
    return _with_embeddings(graph, wanted, cache, progress)


def is_complete(graph: Graph, wanted: RelationsSettings) -> bool:
    """Whether `completed` has nothing to make."""
    features = [nodes.features for nodes in graph.node_types.values() if nodes.features is not None]
    wide = bool(wanted.reduce) and any(one.width > wanted.reduce for one in features)
    return not wide and (wanted.missing == "none" or not lacking(graph))


def lacking(graph: Graph) -> list[str]:
    """Types without features."""
    return [
        node_type for node_type, nodes in graph.node_types.items() if nodes.features is None or not nodes.features.width
    ]


def _reduced(graph: Graph, wanted: RelationsSettings, cache: Cache, progress: Progress) -> tuple[Graph, dict[str, str]]:
    """Types of one width share a basis; also returned: keys of what was reduced."""
    groups: dict[int, list[str]] = {}
    for node_type, nodes in graph.node_types.items():
        if wanted.reduce and nodes.features is not None and nodes.features.width > wanted.reduce:
            groups.setdefault(nodes.features.width, []).append(node_type)
    keys: dict[str, str] = {}
    for node_types in groups.values():
        rows = [
            [node_type, graph.node_types[node_type].count, fingerprint.features(graph, node_type)]
            for node_type in node_types
        ]
        key = digest(["svd", METHOD, rows, wanted.reduce, wanted.seed])
        shapes = {node_type: (graph.node_types[node_type].count, wanted.reduce) for node_type in node_types}
        made = {node_type: cache.found(node_type, key, shape) for node_type, shape in shapes.items()}
        if None in made.values():
            from gamlp.graph.features.missing import Projected, basis

            wide = {
                node_type: features
                for node_type in node_types
                if (features := graph.node_types[node_type].features) is not None
            }
            shared = basis(list(wide.values()), wanted.reduce, wanted.seed, progress)
            for node_type in node_types:
                if made[node_type] is None:
                    made[node_type] = cache.keep(
                        node_type, key, Projected(wide[node_type], shared, node_type, progress)
                    )
        graph = graph.with_features(**made)
        keys |= dict.fromkeys(node_types, key)
    return graph, keys


def _with_means(graph: Graph, keys: dict[str, str], cache: Cache, progress: Progress) -> Graph:
    """Breadth first: types beside those with features, then types beside these; others stay without."""
    from gamlp.graph.features.missing import mean_of_neighbours, sources_of

    edges = [fingerprint.structure(graph), list(graph.relation_pairs.values())]
    while chosen := {node_type: sources for node_type in lacking(graph) if (sources := sources_of(graph, node_type))}:
        made = {}
        for node_type, sources in chosen.items():
            for source in sources:
                keys.setdefault(source, fingerprint.features(graph, source))
            keys[node_type] = digest(["mean", METHOD, edges, node_type, [[source, keys[source]] for source in sources]])
            features = graph.node_types[sources[0]].features
            assert features is not None
            made[node_type] = cache.found(
                node_type, keys[node_type], (graph.node_types[node_type].count, features.width)
            )
            if made[node_type] is None:
                made[node_type] = cache.keep(
                    node_type, keys[node_type], mean_of_neighbours(graph, node_type, sources, progress)
                )
        graph = graph.with_features(**made)
    return graph


def _with_embeddings(graph: Graph, wanted: RelationsSettings, cache: Cache, progress: Progress) -> Graph:
    """Trained on all relations, for all nodes; only those of types without features are used."""
    width, node_types = made_width(graph, wanted), lacking(graph)
    edges = [fingerprint.structure(graph), list(graph.node_types), list(graph.relation_pairs.values())]
    key = digest(["complex", METHOD, edges, width, wanted.embedding_epochs, wanted.seed])
    made = {
        node_type: cache.found(node_type, key, (graph.node_types[node_type].count, width)) for node_type in node_types
    }
    if None in made.values():
        try:
            from gamlp.graph.features import complex
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch_geometric":
                raise
            raise MissingExtra("torch-geometric", "datasets") from error
        training = complex.Training(width, wanted.embedding_epochs, wanted.seed, cache.folder / f"complex-{key}")
        found = complex.embeddings(graph, training, node_types, progress)
        made |= {
            node_type: cache.keep(node_type, key, found[node_type])
            for node_type in node_types
            if made[node_type] is None
        }
        training.forget()
    return graph.with_features(**made)


def made_width(graph: Graph, wanted: RelationsSettings) -> int:
    """Columns of embeddings: as the recipe says, else WIDTH; a table's width says nothing of what edges tell."""
    widths = {nodes.features.width for nodes in graph.node_types.values() if nodes.features is not None} - {0}
    narrowest = {min(width, wanted.reduce) for width in widths}
    shared = wanted.reduce if narrowest == {wanted.reduce} and wanted.reduce % 2 == 0 else 0
    return wanted.dimension or shared or WIDTH
