"""The nodes of one type on Spark: rows numbered by ascending id, then features, labels, split and ids as files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gamlp.cluster.tasks import run_tasks
from gamlp.graph.graph import FloatName
from gamlp.graph.ingest_nodes import RandomSplit
from gamlp.graph.ingest_report import IngestReport
from gamlp.graph.joins import ONE_TYPE
from gamlp.graph.label_column import class_numbers
from gamlp.graph.manifest import FeaturesEntry, LabelsEntry, NodesEntry
from gamlp.graph.spark.answer_files import AnswerFiles
from gamlp.graph.spark.block_files import FileFacts, NodeBlocks, Rows
from gamlp.graph.spark.edges import TypeRows
from gamlp.graph.spark.node_checks import NodeChecks
from gamlp.graph.spark.nodes import CheckedNodes, check_nodes, label_texts, sort_ids, write_nodes
from gamlp.graph.spark.shared_folder import Building
from gamlp.graph.spark.sorted_ids import SortedIds
from gamlp.graph.spark.tables import SparkTable
from gamlp.progress import Progress


@dataclass(frozen=True)
class NodeBuild:
    """Writes the nodes of types into a graph; `rows` cuts so many nodes with features of a width into blocks."""

    spark: Any
    folder: Building
    dtype: FloatName
    draw: RandomSplit
    rows: Callable[[str, int, int | None], Rows]
    report: IngestReport
    progress: Progress

    def build(self, kind: str, table: SparkTable, checks: NodeChecks) -> tuple[TypeRows, NodesEntry, FileFacts]:
        """One type; counts of what was left out go into the report."""
        nodes = check_nodes(self.spark, table, checks, self.progress)
        try:
            ids, repeats = sort_ids(self.spark, nodes, self.folder.staging / kind, self.progress)
            rows = self.rows(kind, ids.count, nodes.width)
            bad = self.report.bad_rows
            for name, count in [*nodes.notes.counts.items(), *([("duplicate id", repeats)] if repeats else [])]:
                bad[name] = bad.get(name, 0) + count
            entry, files = self._files(kind, nodes, ids, rows)
        finally:
            nodes.close()
        self.report.nodes += ids.count
        if kind == self.report.target:
            self.report.features = nodes.width or 0
        if kind != ONE_TYPE:
            self.report.types[kind] = {"nodes": ids.count, "features": nodes.width or 0}
        return TypeRows(kind, ids, rows), entry, files

    def _files(self, kind: str, nodes: CheckedNodes, ids: SortedIds, rows: Rows) -> tuple[NodesEntry, FileFacts]:
        texts, many, report = label_texts(nodes), nodes.checks.many, self.report
        graph, staging = self.folder.graph, self.folder.staging / kind
        blocks = NodeBlocks(graph, staging, rows, nodes.width, self.dtype, texts, many, kind)
        answers = write_nodes(self.spark, nodes, ids, blocks, self.progress)
        files: FileFacts = {name: facts for answer in answers for name, facts in answer["files"].items()}
        entry = NodesEntry(count=ids.count)
        if nodes.width is not None:
            stops = [rows.bounds(block)[1] for block in range(rows.blocks)]
            entry.features = FeaturesEntry(width=nodes.width, dtype=self.dtype, shards=stops)
            report.dtype = self.dtype
        used = np.unique([code for answer in answers for code in answer["used"]]).astype(np.int64)
        classes, numbers = class_numbers(texts or [], used)
        made = AnswerFiles(graph, staging, rows, len(classes), numbers, many, kind)
        given = any(answer["roles"] for answer in answers)
        works: list[Callable[[], dict[str, Any]]] = []
        if not ids.is_range:
            entry.ids = "integers" if ids.integers else "strings"
            works.append(partial(ids.write, graph, kind))
        if classes:
            entry.labels = LabelsEntry(many=many, classes=list(classes))
            report.classes = len(classes)
            works.append(made.write_labels)
        if given or classes:
            entry.split = True
            draw = tuple(self.draw.fractions), self.draw.seed, self.draw.stratified
            works.append(made.write_given_split if given else partial(made.write_random_split, *draw))
            report.split_made = not given
        for answer in run_tasks(self.spark, lambda number: works[number](), range(len(works)), "labels", self.progress):
            files |= answer["files"]
            if "split" in answer:
                report.unlabelled(answer["useless"])
                report.split = answer["split"]
                report.untrained([classes[number] for number in answer["absent"]])
        return entry, files
