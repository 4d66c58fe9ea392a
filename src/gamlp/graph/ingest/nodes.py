"""The nodes of one type on their way from a table into the graph folder."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.folder import GraphWriter
from gamlp.graph.graph import ROLES, Ids, Labels, Split
from gamlp.graph.ingest.columns import BadRows, CheckedRows, Column, shown
from gamlp.graph.ingest.encoding import EncodedColumns, unseen_sentences, what_was_done
from gamlp.graph.ingest.features import ArrayFeatures, ColumnFeatures, FeatureRows, FeatureSource
from gamlp.graph.ingest.ids import IdColumn, IdMap, first_rows, is_id, missing
from gamlp.graph.ingest.labels import UNKNOWN_LABELS, LabelColumn, split_roles
from gamlp.graph.ingest.report import IngestReport
from gamlp.graph.ingest.tables import Table, TableBatch
from gamlp.graph.ingest.time_split import NodePeriods, TimeSplit
from gamlp.graph.ingest.uses import ColumnUse, FeatureColumns, feature_columns, index_left_out, node_uses
from gamlp.graph.ingest.wanted import ColumnPlan, GivenSchema, WantedTypes, plan_columns, stored_type
from gamlp.graph.relations import ONE_TYPE
from gamlp.graph.splits import classes_without_training, random_split
from gamlp.io import create_array
from gamlp.kernel import MOST_NODES, FloatName
from gamlp.progress import Progress


@dataclass(frozen=True)
class NodeNames:
    """Names of columns; None: the usual name if there is such a column, empty: leave it out."""

    id: str = "id"
    label: str | None = None
    split: str | None = None
    features: str | None = None  # columns, comma-separated, or a path to a .npy
    separator: str | None = None  # of many labels in one text
    unknown: tuple[str, ...] = UNKNOWN_LABELS  # texts that say that a label is not known
    left_out: tuple[str, ...] = ()  # columns that are not features, whatever they hold

    def __post_init__(self) -> None:
        if self.separator == "":
            raise GamlpError("--many-labels '' separates nothing", hint="give what stands between labels, such as '|'")


@dataclass(frozen=True)
class NodeColumns:
    """What a node table holds. `kept` marks rows of the table that are nodes; None: all."""

    ids: Array | Column
    labels: LabelColumn | None
    roles: Array | None
    kept: Array | None
    features: FeatureRows | EncodedColumns | None
    places: RowPlaces
    periods: NodePeriods | None = None  # of a split by time

    @property
    def count(self) -> int:
        return len(self.ids)

    def original_ids(self) -> Ids:
        return Ids(self.count, self.ids)

    def make_labels(self, create: Callable[[tuple[int, int]], Array]) -> Labels | None:
        return None if self.labels is None else self.labels.labels(self.kept, create)


@dataclass
class NodesTable:
    """A node table with the columns that were chosen from it."""

    table: Table
    names: NodeNames
    bad: BadRows
    size: int  # bytes of a batch
    progress: Progress
    node_type: str = ONE_TYPE
    split_by: TimeSplit | None = None
    wanted: WantedTypes = field(default_factory=WantedTypes)
    schema: GivenSchema | None = None
    taken: IdMap | None = None  # ids that nodes of a graph have, which these are added to
    columns: FeatureColumns = field(init=False)
    plan: ColumnPlan = field(init=False)
    features: FeatureSource | None = field(init=False)  # None: there are none, or columns are to be encoded
    label: str | None = field(init=False)
    split: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.label = choose(self.table, self.names.label, "label")
        self.split = choose(self.table, self.names.split, "split") if self.split_by is None else None
        self.table.need([self.names.id] + ([] if self.split_by is None else [self.split_by.column]))
        if self.names.features is None:
            self._check_columns()
        time = None if self.split_by is None else self.split_by.column
        self.columns = feature_columns(self.table.all_column_names, self.names, self.label, self.split, time)
        self.table.need(self.columns.names)
        self.arrow_types = {name: stored_type(self.table, name) for name in self.columns.names}
        self.plan = plan_columns(
            self.columns.names, self.arrow_types, self.wanted, self.node_type, self.schema, file=self.table.place
        )
        self.features = self._features()

    def read(self, dtype: FloatName, scratch: Path) -> NodeColumns:
        """All good rows, whose ids are known to differ; features go to the file or folder `scratch` as they are read.

        The table is read once: what is read twice may have changed in between.
        """
        ids, labels = IdColumn(), self._label_column()
        kept: list[Array] = []
        roles: list[Array] = []
        places = RowPlaces()
        names = [name for name in (self.names.id, self.label, self.split) if name]
        features = self._feature_rows(dtype, scratch)
        names += features.columns if features is not None else []
        periods = None if self.split_by is None else NodePeriods(self.split_by, self.table.place)
        names += [] if self.split_by is None else [self.split_by.column]
        # A ragged row that is passed over would shift every later node against the rows of a .npy.
        ragged = None if isinstance(self.features, ArrayFeatures) else self.bad.ragged()
        total = self.table.count()
        with closing(features) if features is not None else nullcontext():
            for batch in self.table.batches(_once(names), self.size, ragged, self._most_rows()):
                at = places.add(batch)
                rows = CheckedRows(batch, self.bad)
                column = check_ids(rows, self.names.id)
                self._refuse_taken(rows, column)
                found = labels.read(rows, typed=batch.typed) if labels else None
                role = split_roles(rows, self.split) if self.split else None
                if periods is not None:
                    periods.read(rows)
                if features is not None:
                    features.read(batch, at, rows, self.bad)
                good = pa.array(rows.good)
                kept.append(rows.good)
                ids.add(column.filter(good), typed=batch.typed)
                if labels and found is not None:
                    labels.add(found)
                if role is not None:
                    roles.append(role)
                self.progress(self.stage("nodes"), places.count, total, "nodes")
            if places.count == 0:
                raise GamlpError("no nodes: the table has no rows", file=self.table.place)
            if isinstance(self.features, ArrayFeatures):
                self.features.check_count(places.count)
            all_kept = np.concatenate(kept)
            places.read = np.flatnonzero(all_kept)  # rows that features were written of
            values = self._drop_duplicates(ids.values(), all_kept, places)
            if features is not None:
                before = all_kept[places.read]
                good = features.finish(before, places.of_read, self.bad, self.table.place)
                if not np.array_equal(before, good):
                    values = _marked(values, good[before])
                    all_kept[places.read] = good
            if len(values) == 0:
                raise GamlpError("no nodes: every row of the table is bad", file=self.table.place)
        keeps = None if all_kept.all() else all_kept
        role_of = np.concatenate(roles) if roles else None
        if role_of is not None and keeps is not None:
            role_of = role_of[keeps]
        if periods is not None:
            role_of = periods.finish(keeps)
        return NodeColumns(values, labels, role_of, keeps, features, places, periods)

    def _refuse_taken(self, rows: CheckedRows, column: Column) -> None:
        if self.taken is not None:
            rows.refuse(
                "node of the graph",
                self.taken.rows(column) >= 0,
                self.names.id,
                lambda i: f"node '{shown(column, i)}' is in the graph already",
                "give newcomers alone; --on-bad skip passes over the others",
            )

    def _label_column(self) -> LabelColumn | None:
        return LabelColumn(self.label, self.names.separator, self.names.unknown) if self.label else None

    def _features(self) -> FeatureSource | None:
        given = self.names.features
        if given is not None and given.endswith(".npy"):
            return ArrayFeatures(Path(given))
        return ColumnFeatures(list(self.plan.wanted)) if self.plan.untouched else None

    def _feature_rows(self, dtype: FloatName, scratch: Path) -> FeatureRows | EncodedColumns | None:
        if self.features is not None:
            return FeatureRows(self.features, dtype, scratch)
        if not self.plan.wanted:
            return None
        return EncodedColumns(self.plan, self.arrow_types, dtype, scratch, self.size)

    def _check_columns(self) -> None:
        """Every file has the columns of the first."""
        for file in self.table.files:
            more = [name for name in self.table.schema(file).names if name not in self.table.column_names]
            if more:
                raise GamlpError(
                    f"has a column '{more[0]}' that {self.table.files[0].name} has not",
                    file=file,
                    hint="name the feature columns with --features",
                )

    def uses(self, features: FeatureRows | EncodedColumns | None) -> list[ColumnUse]:
        """What every column is used for, after features were read."""
        lists = self.features.list_widths if isinstance(self.features, ColumnFeatures) else {}
        table = "nodes" if self.node_type == ONE_TYPE else f"nodes {self.node_type}"
        done = {name: ("ignored", why) for name, why in self.plan.left_out.items()}
        if isinstance(features, EncodedColumns):
            done |= {column.name: what_was_done(column, features.gaps) for column in features.fitted}
        return node_uses(table, self.names, self.columns, self.label, self.split, lists, self.split_by, done)

    def stage(self, name: str) -> str:
        """What a line of progress calls it."""
        return name if self.node_type == ONE_TYPE else f"{name}: {self.node_type}"

    def _most_rows(self) -> int:
        """Rows whose features fit a batch, where the table does not say how wide they are."""
        return max(1, self.size // (8 * self.features.width())) if isinstance(self.features, ArrayFeatures) else 1 << 22

    def _drop_duplicates(self, ids: Array | Column, kept: Array, places: RowPlaces) -> Array | Column:
        first = first_rows(ids)
        if first is None:
            return ids
        again = first != np.arange(len(ids))
        table_rows = np.flatnonzero(kept)
        if not self.bad.skip:
            index = int(np.argmax(again))
            file, row = places.of(int(table_rows[index]))
            before = places.of(int(table_rows[first[index]]))
            name = shown(ids, index) if not isinstance(ids, np.ndarray) else str(ids[index])
            where = f"row {before[1]}" + ("" if before[0] == file else f" of {before[0]}")
            raise GamlpError(f"node '{name}' is already in {where}", file=file, row=row, column=self.names.id)
        self.bad.counts["duplicate id"] += int(again.sum())
        kept[table_rows[again]] = False
        return _marked(ids, ~again)


def _marked(ids: Array | Column, marked: Array) -> Array | Column:
    return ids[marked] if isinstance(ids, np.ndarray) else ids.filter(pa.array(marked))


class RowPlaces:
    """Row of the whole table → file and row. `read`: rows of the table whose features were read."""

    def __init__(self) -> None:
        self.count = 0
        self.read: Array = np.zeros(0, np.int64)
        self._starts: list[int] = []
        self._batches: list[tuple[Path, int]] = []

    def add(self, batch: TableBatch) -> int:
        """Note a batch; returns the number of rows before it."""
        start = self.count
        if not self._batches or self._batches[-1][0] != batch.file:
            self._starts.append(start)
            self._batches.append((batch.file, batch.start))
        self.count += batch.columns.num_rows
        return start

    def of(self, row: int) -> tuple[Path, int]:
        index = bisect_right(self._starts, row) - 1
        file, start = self._batches[index]
        return file, start + row - self._starts[index] + 1

    def of_read(self, row: int) -> tuple[Path, int]:
        return self.of(int(self.read[row]))


class HasColumns(Protocol):
    """A table of any kind."""

    @property
    def all_column_names(self) -> list[str]:
        """Of all files, in the order in which they are met."""
        ...

    def need(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks one of these columns, or has it twice."""
        ...


def choose(table: HasColumns, given: str | None, usual: str) -> str | None:
    """A column by the name given, or by the usual name if any file has it; empty: none. Then all files must have it."""
    name = (usual if usual in table.all_column_names else None) if given is None else given
    if name:
        table.need([name])
    return name or None


def check_ids(rows: CheckedRows, name: str, of: str = "id") -> Column:
    """A column of ids; rows without one are bad."""
    column = rows.column(name)
    if not is_id(column.type):
        raise GamlpError(f"ids are {column.type}", file=rows.batch.file, column=name, hint="use integers or strings")
    rows.refuse(f"missing {of}", missing(column), name, lambda _: f"missing {of}")
    return column


def _once(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class RandomSplit:
    """How a split is drawn where the table has none: by a hash of ids."""

    fractions: Sequence[float]
    seed: int


def write_nodes(
    node_type: str,
    nodes: NodesTable,
    found: NodeColumns,
    draw: RandomSplit,
    writer: GraphWriter,
    report: IngestReport,
) -> None:
    """Ids, labels, split and features of one type; all but the target have no labels and no split."""
    if found.count > MOST_NODES:
        raise GamlpError(f"{found.count} nodes are more than this format holds", hint=f"stay below {MOST_NODES}")
    writer.nodes(found.count, node_type)
    is_range = isinstance(found.ids, np.ndarray) and bool(np.all(found.ids == np.arange(found.count)))
    writer.ids(None if is_range else found.ids, node_type)
    scratch = writer.folder / "many-labels.npy"  # 0/1 of every class of every node may be larger than memory
    labels = found.make_labels(lambda shape: create_array(scratch, shape, np.int8))
    if found.labels is not None:
        classes, known = ((), 0) if labels is None else (labels.classes, int(np.count_nonzero(labels.known())))
        where = {"file": nodes.table.place, "column": nodes.label}
        report.labelled(classes, known, found.labels.not_known, found.labels.multi_label, **where)
    if labels is not None:
        writer.labels(labels, node_type)
    scratch.unlink(missing_ok=True)
    split = _split(draw, labels, found, report)
    if split is not None:
        writer.split(split, node_type)
        report.split = {role: int(np.count_nonzero(split.roles == ROLES.index(role))) for role in ROLES[1:]}
        report.empty_parts(draw.fractions)
    width = 0
    if found.features is not None:
        width = found.features.write(writer, node_type, nodes.size, found.places.of_read, nodes.stage, nodes.progress)
        report.dtype = found.features.dtype if width else report.dtype
    report.columns += nodes.uses(found.features)
    if isinstance(found.features, EncodedColumns):
        for unknown in unseen_sentences(found.features.unseen):
            report.warn(unknown)
    if sentence := index_left_out(nodes.columns.index, nodes.table.place):
        report.warn(sentence)
    report.nodes += found.count
    if node_type == report.target:
        report.features = width
    if node_type != ONE_TYPE:
        report.types[node_type] = {"nodes": found.count, "features": width}


def _split(draw: RandomSplit, labels: Labels | None, found: NodeColumns, report: IngestReport) -> Split | None:
    """The split of the table, or one at random over labelled nodes."""
    if found.periods is not None:
        split = found.periods.split(labels, report)
        report.untrained([] if labels is None else classes_without_training(labels, split))
        return split
    given = found.roles is not None and bool(found.roles.any())
    if labels is None:
        return Split(found.roles) if given and found.roles is not None else None
    if given and found.roles is not None:
        split = Split(_roles_with_labels(found.roles, labels, report))
    else:
        split = random_split(labels, found.original_ids(), draw.fractions, draw.seed)
        report.split_made, report.fractions = True, [float(part) for part in draw.fractions]
    report.untrained(classes_without_training(labels, split))
    return split


def _roles_with_labels(roles: Any, labels: Labels, report: IngestReport) -> Any:
    useless = (roles > 0) & ~labels.known()
    count = int(np.count_nonzero(useless))
    report.unlabelled(count)
    if count:
        return np.where(useless, 0, roles).astype(np.int8)
    return roles
