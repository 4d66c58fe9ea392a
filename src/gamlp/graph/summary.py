"""What a graph holds, as a notebook shows it: types, relations, columns and classes; features are not read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gamlp import markup
from gamlp.graph.graph import Graph, Nodes
from gamlp.graph.schema import FeatureSchema


def graph_html(graph: Graph) -> str:
    """A summary, self-contained."""
    edges = sum(
        relation.entries // (1 if relation.directed or relation.source != relation.target else 2)
        for relation in graph.relations.values()
    )
    many = sum(nodes.count for nodes in graph.node_types.values())
    types = [
        [name, nodes.count, "none" if nodes.features is None else nodes.features.width, *_targets(nodes)]
        for name, nodes in graph.node_types.items()
    ]
    relations = [
        [name, f"{one.source} → {one.target}", one.entries, _yes(one.weighted), _yes(one.directed)]
        for name, one in graph.relations.items()
    ]
    parts = [
        markup.table(["nodes", "count", "features", "classes", "labelled", "train", "valid", "test"], types),
        markup.table(["relation", "joins", "entries", "weighted", "directed"], relations),
    ]
    if graph.made is None:
        parts.append(columns_html(graph.columns))
    else:
        uses = [[use.table, use.column, use.use, use.about] for use in graph.made.report.columns]
        parts.append(markup.table(["table", "column", "use", "what it is"], uses))
    parts.append(_classes(graph.nodes))
    return markup.page(f"Graph '{graph.name}': {many:,} nodes, {edges:,} edges", parts)


def columns_html(columns: Mapping[str, FeatureSchema]) -> str:
    """Names and types of feature columns, by node type."""
    rows = [[of, one.name, one.type, one.width] for of, schema in columns.items() for one in schema]
    return markup.table(["nodes", "column", "type", "features"], rows)


def _targets(nodes: Nodes) -> list[object]:
    labels, split = nodes.labels, nodes.split
    counts: list[object] = ["", ""] if labels is None else [len(labels.classes), int(labels.known().sum())]
    return counts + (["", "", ""] if split is None else [len(split.train), len(split.valid), len(split.test)])


def _classes(nodes: Nodes) -> str:
    labels = nodes.labels
    if labels is None:
        return ""
    values = labels.values
    if labels.multi_label:
        counts = (values > 0).sum(0)
    else:
        counts = np.bincount(values[values >= 0], minlength=len(labels.classes))
    order = np.argsort(-counts, kind="stable")
    return markup.bars([labels.classes[one] for one in order], [int(counts[one]) for one in order], "classes")


def _yes(true: bool) -> str:
    return "yes" if true else "no"
