"""Tables of nodes and edges → a graph folder, in a memory budget."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.files import create_array
from gamlp.graph.buckets import Buckets, bucket_count
from gamlp.graph.columns import BadRows, OnBad
from gamlp.graph.edges_table import ONE_RELATION, EdgeNames, EdgesTable, too_heavy
from gamlp.graph.folder import GraphWriter, writing
from gamlp.graph.graph import ROLES, FloatName, Labels, Split
from gamlp.graph.ids import IdMap
from gamlp.graph.nodes_table import NodeColumns, NodeNames, NodesTable
from gamlp.graph.splits import check_fractions, classes_without_training, random_split
from gamlp.graph.tables import Table
from gamlp.kernel.csr import MOST_NODES
from gamlp.memory import available_memory
from gamlp.progress import Progress, silent

_SMALLEST_SHARE = 1 << 20  # for sorting; less would read a bucket over and over
_SMALLEST_BATCH, _LARGEST_BATCH, _LARGEST_HASHED = 1 << 18, 8 << 20, 256 << 20


@dataclass(frozen=True)
class IngestOptions:
    """What to read, how, and where to write it."""

    edges: Path
    nodes: Path
    out: Path
    edge_names: EdgeNames = field(default_factory=EdgeNames)
    node_names: NodeNames = field(default_factory=NodeNames)
    directed: bool = False
    dtype: FloatName = "float32"
    memory: int | None = None  # bytes; None: half of what is available
    on_bad: OnBad = "stop"
    fractions: Sequence[float] = (0.6, 0.2, 0.2)
    stratified: bool = True
    seed: int = 0
    name: str | None = None  # None: that of the folder


@dataclass
class IngestReport:
    """What was read, what became of it and what was left out."""

    folder: str
    nodes: int
    features: int = 0
    dtype: str = ""
    edges_read: int = 0
    self_loops_dropped: int = 0
    duplicates_merged: int = 0
    entries: dict[str, int] = field(default_factory=dict)  # stored, by relation; an undirected edge counts twice
    classes: int = 0
    split: dict[str, int] = field(default_factory=dict)
    split_made: bool = False
    bad_rows: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def warn(self, sentence: str) -> None:
        """Say it at once and keep it."""
        self.warnings.append(sentence)
        warnings.warn(sentence, UserWarning, stacklevel=3)

    def untrained(self, absent: Sequence[str]) -> None:
        """Warn of classes without training nodes."""
        if absent:
            shown = ", ".join(absent[:5]) + (" …" if len(absent) > 5 else "")
            self.warn(f"{len(absent)} of {self.classes} classes have no training nodes: {shown}")

    def unlabelled(self, count: int) -> None:
        """Warn of nodes that are in the split for nothing."""
        if count:
            self.warn(f"{count} nodes of the split have no label and are left out of it")

    def source(self, edges: str, nodes: str, seed: int) -> dict[str, Any]:
        """What the manifest keeps of how the graph was made."""
        return {
            "made_by": "ingest",
            "edges": edges,
            "nodes": nodes,
            "edges_read": self.edges_read,
            "self_loops_dropped": self.self_loops_dropped,
            "duplicates_merged": self.duplicates_merged,
            "bad_rows": self.bad_rows,
            "seed": seed if self.split_made else None,
        }


def ingest(options: IngestOptions, progress: Progress = silent) -> IngestReport:
    """Build a graph folder; nothing is left behind when something is wrong."""
    began = time.monotonic()
    check_fractions(options.fractions)
    memory = options.memory or available_memory() // 2
    bad = BadRows(options.on_bad)
    edges = EdgesTable(Table(options.edges), options.edge_names, options.directed)
    size = min(max(memory // 16, _SMALLEST_BATCH), _LARGEST_BATCH)
    nodes = NodesTable(Table(options.nodes), options.node_names, bad, size, progress)
    with writing(options.out, options.name or options.out.name) as writer:
        found = nodes.read_columns()
        report = IngestReport(str(options.out), found.count)
        _write_nodes(options, nodes, found, writer, report)
        ids = IdMap(found.ids)
        if ids.by_hash:
            size = min(max(memory // 8, _SMALLEST_BATCH), _LARGEST_HASHED)
        count = found.count
        del found
        relations = _spill(options, edges, ids, count, memory, writer, bad, size, progress)
        del ids  # its memory is for sorting now
        pa.default_memory_pool().release_unused()
        _sort(edges, relations, writer, report, progress)
        report.bad_rows = dict(bad.counts)
        writer.source = report.source(options.edges.name, options.nodes.name, options.seed)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def _write_nodes(
    options: IngestOptions, nodes: NodesTable, found: NodeColumns, writer: GraphWriter, report: IngestReport
) -> None:
    if found.count > MOST_NODES:
        raise GamlpError(f"{found.count} nodes are more than this format holds", hint=f"stay below {MOST_NODES}")
    writer.nodes(found.count)
    is_range = isinstance(found.ids, np.ndarray) and bool(np.all(found.ids == np.arange(found.count)))
    writer.ids(None if is_range else found.ids)
    scratch = writer.folder / "many-labels.npy"  # 0/1 of every class of every node may be larger than memory
    labels = found.make_labels(lambda shape: create_array(scratch, shape, np.int8))
    if labels is not None:
        report.classes = len(labels.classes)
        writer.labels(labels)
    scratch.unlink(missing_ok=True)
    split = _split(options, labels, found, report)
    if split is not None:
        writer.split(split)
        report.split = {role: int(np.count_nonzero(split.roles == ROLES.index(role))) for role in ROLES[1:]}
    if nodes.features is not None:
        nodes.write_features(found, options.dtype, writer.features)
        report.features, report.dtype = nodes.features.width(), options.dtype


def _split(options: IngestOptions, labels: Labels | None, found: NodeColumns, report: IngestReport) -> Split | None:
    """The split of the table, or one at random over labelled nodes."""
    given = found.roles is not None and bool(found.roles.any())
    if labels is None:
        return Split(found.roles) if given and found.roles is not None else None
    if given and found.roles is not None:
        split = Split(_roles_with_labels(found.roles, labels, report))
    else:
        split = random_split(labels, options.fractions, options.seed, options.stratified)
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


def _spill(
    options: IngestOptions,
    edges: EdgesTable,
    ids: IdMap,
    nodes: int,
    memory: int,
    writer: GraphWriter,
    bad: BadRows,
    size: int,
    progress: Progress,
) -> dict[str, Buckets]:
    weighted = edges.weight is not None
    share = max(memory * 3 // 4, _SMALLEST_SHARE)
    buckets = bucket_count(edges.entries_at_most(), nodes, weighted, share)

    def create(name: str) -> Buckets:
        writer.relation(directed=options.directed, weighted=weighted, name=name)
        return Buckets(writer.folder / "buckets" / name, nodes, weighted, buckets, share)

    relations = edges.spill(ids, create, bad, size, progress)
    if not relations:
        relations[ONE_RELATION] = create(ONE_RELATION)
    return relations


def _sort(
    edges: EdgesTable,
    relations: dict[str, Buckets],
    writer: GraphWriter,
    report: IngestReport,
    progress: Progress,
) -> None:
    report.edges_read, report.self_loops_dropped = edges.read, edges.loops
    total = sum(buckets.entries for buckets in relations.values())
    rows = len(relations) * report.nodes
    done = 0
    for name, buckets in relations.items():
        report.entries[name] = 0
        for block in buckets.blocks():
            if block.weights is not None and not np.isfinite(block.weights).all():
                raise too_heavy(edges.weight)
            writer.block(block, name)
            report.entries[name] += len(block.neighbours)
            done += block.stop - block.start
            progress("sort", done, rows, "rows")
        buckets.close()
    (writer.folder / "buckets").rmdir()
    report.duplicates_merged = (total - sum(report.entries.values())) // (1 if edges.directed else 2)
    if total == 0:
        report.warn("the graph has no edges")
