"""The whole of it: wide features are reduced, then types without features are given some."""

from __future__ import annotations

from pathlib import Path

from gamlp.errors import GamlpError, MissingExtra
from gamlp.graph import fingerprint
from gamlp.graph.embeddings.cache import FOLDER, Cache
from gamlp.graph.graph import Graph
from gamlp.graph.manifest import digest
from gamlp.progress import Progress, silent
from gamlp.sections import Relations
from gamlp.storage import Place

WIDTH = 128  # of embeddings where present features share no width; that of ogbn-mag
METHOD = 1  # raised when other code makes other rows: what was kept is then not found


def completed(graph: Graph, wanted: Relations, beside: Place | Path, progress: Progress = silent) -> Graph:
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


def lacking(graph: Graph) -> list[str]:
    """Types without features."""
    return [kind for kind, nodes in graph.node_types.items() if nodes.features is None or not nodes.features.width]


def _reduced(graph: Graph, wanted: Relations, cache: Cache, progress: Progress) -> tuple[Graph, dict[str, str]]:
    """Types of one width share a basis; also returned: keys of what was reduced."""
    groups: dict[int, list[str]] = {}
    for kind, nodes in graph.node_types.items():
        if wanted.reduce and nodes.features is not None and nodes.features.width > wanted.reduce:
            groups.setdefault(nodes.features.width, []).append(kind)
    keys: dict[str, str] = {}
    for kinds in groups.values():
        rows = [[kind, graph.node_types[kind].count, fingerprint.features(graph, kind)] for kind in kinds]
        key = digest(["svd", METHOD, rows, wanted.reduce, wanted.seed])
        shapes = {kind: (graph.node_types[kind].count, wanted.reduce) for kind in kinds}
        made = {kind: cache.found(kind, key, shape) for kind, shape in shapes.items()}
        if None in made.values():
            from gamlp.graph.embeddings.reducing import Projected, basis

            wide = {kind: features for kind in kinds if (features := graph.node_types[kind].features) is not None}
            shared = basis(list(wide.values()), wanted.reduce, wanted.seed, progress)
            for kind in kinds:
                if made[kind] is None:
                    made[kind] = cache.keep(kind, key, Projected(wide[kind], shared, kind, progress))
        graph = graph.with_features(**made)
        keys |= dict.fromkeys(kinds, key)
    return graph, keys


def _with_means(graph: Graph, keys: dict[str, str], cache: Cache, progress: Progress) -> Graph:
    """Breadth first: types beside those with features, then types beside these; others stay without."""
    from gamlp.graph.embeddings.means import mean_of_neighbours, sources_of

    edges = [fingerprint.structure(graph), list(graph.links.values())]
    while chosen := {kind: sources for kind in lacking(graph) if (sources := sources_of(graph, kind))}:
        made = {}
        for kind, sources in chosen.items():
            for source in sources:
                keys.setdefault(source, fingerprint.features(graph, source))
            keys[kind] = digest(["mean", METHOD, edges, kind, [[source, keys[source]] for source in sources]])
            features = graph.node_types[sources[0]].features
            assert features is not None
            made[kind] = cache.found(kind, keys[kind], (graph.node_types[kind].count, features.width))
            if made[kind] is None:
                made[kind] = cache.keep(kind, keys[kind], mean_of_neighbours(graph, kind, sources, progress))
        graph = graph.with_features(**made)
    return graph


def _with_embeddings(graph: Graph, wanted: Relations, cache: Cache, progress: Progress) -> Graph:
    """Trained on all links, for all nodes; only those of types without features are used."""
    width, kinds = wanted.dimension or _shared_width(graph), lacking(graph)
    edges = [fingerprint.structure(graph), list(graph.node_types), list(graph.links.values())]
    key = digest(["complex", METHOD, edges, width, wanted.embedding_epochs, wanted.seed])
    made = {kind: cache.found(kind, key, (graph.node_types[kind].count, width)) for kind in kinds}
    if None in made.values():
        try:
            from gamlp.graph.embeddings import complex
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch_geometric":
                raise
            raise MissingExtra("torch-geometric", "datasets") from error
        training = complex.Training(width, wanted.embedding_epochs, wanted.seed, cache.folder / f"complex-{key}")
        found = complex.embeddings(graph, training, kinds, progress)
        made |= {kind: cache.keep(kind, key, found[kind]) for kind in kinds if made[kind] is None}
        training.forget()
    return graph.with_features(**made)


def _shared_width(graph: Graph) -> int:
    """The width that all present features have, else WIDTH."""
    widths = {nodes.features.width for nodes in graph.node_types.values() if nodes.features is not None} - {0}
    return widths.pop() if len(widths) == 1 else WIDTH
