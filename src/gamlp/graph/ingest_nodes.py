"""The nodes of one type on their way from a table into the graph folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.files import create_array
from gamlp.graph.folder import GraphWriter
from gamlp.graph.graph import ROLES, FloatName, Labels, Split
from gamlp.graph.ingest_report import IngestReport
from gamlp.graph.joins import ONE_TYPE
from gamlp.graph.nodes_table import NodeColumns, NodesTable
from gamlp.graph.splits import classes_without_training, random_split
from gamlp.kernel.csr import MOST_NODES


@dataclass(frozen=True)
class RandomSplit:
    """How a split is drawn where the table has none."""

    fractions: Sequence[float]
    seed: int
    stratified: bool


def write_nodes(
    kind: str,
    nodes: NodesTable,
    found: NodeColumns,
    dtype: FloatName,
    draw: RandomSplit,
    writer: GraphWriter,
    report: IngestReport,
) -> None:
    """Ids, labels, split and features of one type; all but the target have no labels and no split."""
    if found.count > MOST_NODES:
        raise GamlpError(f"{found.count} nodes are more than this format holds", hint=f"stay below {MOST_NODES}")
    writer.nodes(found.count, kind)
    is_range = isinstance(found.ids, np.ndarray) and bool(np.all(found.ids == np.arange(found.count)))
    writer.ids(None if is_range else found.ids, kind)
    scratch = writer.folder / "many-labels.npy"  # 0/1 of every class of every node may be larger than memory
    labels = found.make_labels(lambda shape: create_array(scratch, shape, np.int8))
    if labels is not None:
        report.classes = len(labels.classes)
        writer.labels(labels, kind)
    scratch.unlink(missing_ok=True)
    split = _split(draw, labels, found, report)
    if split is not None:
        writer.split(split, kind)
        report.split = {role: int(np.count_nonzero(split.roles == ROLES.index(role))) for role in ROLES[1:]}
    width = 0
    if nodes.features is not None:
        nodes.write_features(found, dtype, partial(writer.features, kind=kind))
        width, report.dtype = nodes.features.width(), dtype
    report.nodes += found.count
    if kind == report.target:
        report.features = width
    if kind != ONE_TYPE:
        report.types[kind] = {"nodes": found.count, "features": width}


def _split(draw: RandomSplit, labels: Labels | None, found: NodeColumns, report: IngestReport) -> Split | None:
    """The split of the table, or one at random over labelled nodes."""
    given = found.roles is not None and bool(found.roles.any())
    if labels is None:
        return Split(found.roles) if given and found.roles is not None else None
    if given and found.roles is not None:
        split = Split(_roles_with_labels(found.roles, labels, report))
    else:
        split = random_split(labels, draw.fractions, draw.seed, draw.stratified)
        report.split_made = True
    report.untrained(classes_without_training(labels, split))
    return split


def _roles_with_labels(roles: Any, labels: Labels, report: IngestReport) -> Any:
    useless = (roles > 0) & ~labels.known()
    count = int(np.count_nonzero(useless))
    report.unlabelled(count)
    if count:
        return np.where(useless, 0, roles).astype(np.int8)
    return roles
