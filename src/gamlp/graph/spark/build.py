"""DataFrames of nodes and edges → the graph folder that `gamlp ingest` writes, built by Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.cluster.tasks import run_tasks, slots, told
from gamlp.errors import GamlpError
from gamlp.graph.columns import OnBad
from gamlp.graph.edges_table import EdgeNames
from gamlp.graph.graph import FloatName
from gamlp.graph.ingest import IngestReport
from gamlp.graph.label_column import class_numbers
from gamlp.graph.manifest import (
    BlockEntry,
    FeaturesEntry,
    FileEntry,
    GraphManifest,
    LabelsEntry,
    NodesEntry,
    RelationEntry,
)
from gamlp.graph.nodes_table import NodeNames
from gamlp.graph.spark.answer_files import AnswerFiles
from gamlp.graph.spark.block_files import FileFacts, NodeBlocks, Rows
from gamlp.graph.spark.edges import Relations, build_relations, chosen_columns, edge_checks
from gamlp.graph.spark.nodes import CheckedNodes, check_nodes, label_texts, node_checks, sort_ids, write_nodes
from gamlp.graph.spark.shared_folder import Building, building
from gamlp.graph.spark.sorted_ids import SortedIds
from gamlp.graph.spark.tables import SparkTable
from gamlp.graph.splits import check_fractions
from gamlp.progress import Progress, silent
from gamlp.storage import Place

BLOCK_BYTES = 256 << 20
_UNKNOWN_PARALLELISM = 8
_ENTRY = 16  # bytes of an entry while a block is sorted


@dataclass(frozen=True)
class SparkGraphOptions:
    """How tables are read; see `gamlp.graph.ingest.IngestOptions`. `blocks`: of rows; None: by their sizes."""

    edge_names: EdgeNames = field(default_factory=EdgeNames)
    node_names: NodeNames = field(default_factory=NodeNames)
    directed: bool = False
    dtype: FloatName = "float32"
    on_bad: OnBad = "stop"
    fractions: Sequence[float] = (0.6, 0.2, 0.2)
    stratified: bool = True
    seed: int = 0
    name: str | None = None  # None: that of the folder
    blocks: int | None = None


def spark_graph(
    spark: Any,
    edges: Any,
    nodes: Any,
    out: str | Path | Place,
    options: SparkGraphOptions | None = None,
    progress: Progress = silent,
) -> IngestReport:
    """Build a graph folder from DataFrames `edges(src, dst[, weight][, relation])` and `nodes(id, …)`, or tables
    that `read_table` gave; nothing is left behind when something is wrong.

    Rows are numbered by ascending id, integers by value and strings by their UTF-8 bytes, so that the result does
    not depend on how Spark partitions. Of several nodes with one id (`on_bad="skip"`) the one with the smallest
    content stays; weights of a repeated edge add up from the smallest. A random split is made in one task over the
    labels, and is that of `gamlp ingest`. Without `blocks` edges are counted first, to choose how many there are.
    """
    began = time.monotonic()
    options = options or SparkGraphOptions()
    check_fractions(options.fractions)
    place = Place.of(out).resolved()
    made = _Build(spark, SparkTable.of(edges, "edges"), SparkTable.of(nodes, "nodes"), options, progress)
    with told(), building(place) as folder:
        report = made.run(folder, place)
    report.seconds = round(time.monotonic() - began, 3)
    return report


@dataclass
class _Build:
    """One graph while it is built."""

    spark: Any
    edges: SparkTable
    nodes: SparkTable
    options: SparkGraphOptions
    progress: Progress

    def run(self, folder: Building, out: Place) -> IngestReport:
        options = self.options
        checks = node_checks(self.nodes, options.node_names, options.dtype, options.on_bad)
        chosen_columns(self.edges, options.edge_names)
        nodes = check_nodes(self.spark, self.nodes, checks, self.progress)
        try:
            ids, repeats = sort_ids(self.spark, nodes, folder.staging, self.progress)
            rows = self._rows(ids.count, nodes.width)
            report = IngestReport(str(out), ids.count, bad_rows=dict(nodes.notes.counts))
            if repeats:
                report.bad_rows["duplicate id"] = repeats
            entry, files = self._nodes(folder, nodes, ids, rows, report)
        finally:
            nodes.close()
        asked = edge_checks(self.edges, options.edge_names, options.directed, options.on_bad, ids, rows)
        made = build_relations(self.spark, self.edges, asked, ids, rows, folder.graph, self.progress)
        self._report_edges(report, made)
        manifest = GraphManifest(
            name=options.name or out.name,
            target="node",
            nodes={"node": entry},
            relations={name: self._relation(counts, rows, made.weighted) for name, counts in made.entries.items()},
            source=report.source(_last(self.edges.name), _last(self.nodes.name), options.seed),
            files={
                name: FileEntry(bytes=size, crc32=crc) for name, (size, crc) in sorted((files | made.files).items())
            },
        )
        folder.manifest = manifest.model_dump_json(indent=1).encode()
        return report

    def _rows(self, count: int, width: int | None) -> Rows:
        """Blocks of equal size, so many that one fits a task."""
        wanted = self.options.blocks
        if wanted is None:
            entries = self.edges.frame.count() * (1 if self.options.directed else 2)
            item = 4 if self.options.dtype == "float32" else 2
            need = max(entries * _ENTRY, count * (width or 0) * item)
            wanted = max(slots(self.spark), -(-need // BLOCK_BYTES))
        elif wanted < 1:
            raise GamlpError(f"{wanted} blocks are none", hint="--blocks is a number above zero")
        return Rows(count, max(1, -(-count // min(wanted, count))))

    def _nodes(
        self, folder: Building, nodes: CheckedNodes, ids: SortedIds, rows: Rows, report: IngestReport
    ) -> tuple[NodesEntry, FileFacts]:
        texts, many, dtype = label_texts(nodes), nodes.checks.many, self.options.dtype
        blocks = NodeBlocks(folder.graph, folder.staging, rows, nodes.width, dtype, texts, many)
        answers = write_nodes(self.spark, nodes, ids, blocks, self.progress)
        files: FileFacts = {name: facts for answer in answers for name, facts in answer["files"].items()}
        entry = NodesEntry(count=ids.count)
        if nodes.width is not None:
            stops = [rows.bounds(block)[1] for block in range(rows.blocks)]
            entry.features = FeaturesEntry(width=nodes.width, dtype=dtype, shards=stops)
            report.features, report.dtype = nodes.width, dtype
        used = np.unique([code for answer in answers for code in answer["used"]]).astype(np.int64)
        classes, numbers = class_numbers(texts or [], used)
        made = AnswerFiles(folder.graph, folder.staging, rows, len(classes), numbers, many)
        given = any(answer["roles"] for answer in answers)
        works: list[Callable[[], dict[str, Any]]] = []
        if not ids.is_range:
            entry.ids = "integers" if ids.integers else "strings"
            works.append(partial(ids.write, folder.graph))
        if classes:
            entry.labels = LabelsEntry(many=many, classes=list(classes))
            report.classes = len(classes)
            works.append(made.write_labels)
        if given or classes:
            entry.split = True
            works.append(made.write_given_split if given else partial(made.write_random_split, *self._random()))
            report.split_made = not given
        for answer in run_tasks(self.spark, lambda number: works[number](), range(len(works)), "labels", self.progress):
            files |= answer["files"]
            if "split" in answer:
                report.unlabelled(answer["useless"])
                report.split = answer["split"]
                report.untrained([classes[number] for number in answer["absent"]])
        return entry, files

    def _random(self) -> tuple[tuple[float, ...], int, bool]:
        return tuple(self.options.fractions), self.options.seed, self.options.stratified

    def _relation(self, counts: list[int], rows: Rows, weighted: bool) -> RelationEntry:
        bounds = [rows.bounds(block) for block in range(rows.blocks)]
        blocks = [BlockEntry(start=start, stop=stop, entries=count) for (start, stop), count in zip(bounds, counts)]
        return RelationEntry(
            source="node", target="node", directed=self.options.directed, weighted=weighted, blocks=blocks
        )

    def _report_edges(self, report: IngestReport, made: Relations) -> None:
        report.edges_read, report.self_loops_dropped = made.read, made.loops
        report.entries = {name: sum(counts) for name, counts in made.entries.items()}
        stored = sum(report.entries.values())
        report.duplicates_merged = (made.given - stored) // (1 if self.options.directed else 2)
        for kind, count in made.bad.items():  # both tables may have rows with a wrong number of columns
            report.bad_rows[kind] = report.bad_rows.get(kind, 0) + count
        if made.given == 0:
            report.warn("the graph has no edges")


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1]
