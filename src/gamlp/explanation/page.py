"""An explanation as a notebook shows it: weights over hops as maps of shades, and a table for every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gamlp import markup

if TYPE_CHECKING:
    from gamlp.explanation.explanation import Explanation
    from gamlp.explanation.nodes import NodeExplanation


def explanation_html(explanation: Explanation) -> str:
    """Self-contained; whatever classes and ids are called is text."""
    parts = [markup.sentence(note) for note in explanation.notes]
    groups: list[tuple[str, Any, Any]] = []
    if (degree := explanation.degree) is not None:
        groups.append(("neighbours", degree, degree.ranges))
    if (predicted := explanation.predicted) is not None:
        groups.append(("predicted class", predicted, predicted.classes))
    for by, found, rows in groups:  # flat weights are said among the notes, not painted
        parts.append("" if found.flat("features") else _weights(by, "features", rows, 0))
        parts.append("" if found.flat("labels") else _weights(by, "labels", rows, found.first_label_hop))
    parts += [_node(node) for node in explanation.nodes]
    return markup.page(f"How far {explanation.model} listens on {explanation.graph}", parts)


def _weights(by: str, signal: str, groups: Any, first: int) -> str:
    """Mean weight of every hop of a signal, a row for each group."""
    shown = [(group.text, weights) for group in groups if (weights := getattr(group, signal)) is not None]
    if not shown:
        return ""
    hops = [f"hop {hop}" for hop in range(first, first + len(shown[0][1]))]
    return markup.heat(
        [by, *hops], [name for name, _ in shown], [weights for _, weights in shown], f"{signal}, by {by}"
    )


def _node(node: NodeExplanation) -> str:
    true = "not known" if node.true is None else " | ".join(node.true)
    said = f"{node.id}: {node.predicted.text} ({node.predicted.probability:.1%})"
    about = f"{said}, true label {true}, {node.degree:,} neighbours"
    hops = [[part.hop, part.weight, "" if part.alone is None else part.alone.text] for part in node.hops]
    classes = [
        [part.name, part.probability, part.without_labels, part.from_features, part.from_labels]
        for part in node.classes
    ]
    header = ["class", "probability", "without labels", "from features", "from labels"]
    return (
        markup.sentence(about) + markup.table(["hop", "weight", "alone it says"], hops) + markup.table(header, classes)
    )
