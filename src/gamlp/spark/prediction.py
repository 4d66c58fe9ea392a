"""Hops and a trained model → predictions, as a DataFrame or as a folder of parts; every task reads its own rows."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, TargetIds, arrow_classes, fingerprint, nodes_folder
from gamlp.io import Place, Trust
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, StoreManifest
from gamlp.run import (
    LIKELIEST,
    SUFFIXES,
    Decided,
    Decision,
    Written,
    asked_among,
    batch_probabilities,
    new_table,
    no_rows,
    not_kept,
    row_sets,
    table_columns,
    table_schema,
)
from gamlp.spark.tasks import run_tasks, spark_failure_as_error, status
from gamlp.training import (
    Bundle,
    Sources,
    bytes_of,
    check_store,
    loaded,
    plan_of,
    rows_of,
    sources_of,
    unpacked,
    without_folds,
)

_RANGES_OF_TASK = 16  # where there are many: a task opens the model once
_TASKS = 64  # before a task gets more than one range
_ROWS = 1 << 20  # labels and roles looked at at a time
_PIECE = 8 << 20


@dataclass(frozen=True)
class SharedIds:
    """Original ids of rows as tasks read them; `texts`: they are strings."""

    ids: TargetIds
    texts: bool

    @classmethod
    def of(cls, graph: Graph) -> SharedIds:
        values = graph.nodes.ids.values
        in_folder = any(name.startswith(f"{nodes_folder(graph.target)}/ids") for name in graph.checksums)
        if values is not None and (graph.folder is None or not in_folder):
            raise GamlpError(
                f"graph '{graph.name}' is in this process's memory, where no executor sees its ids",
                hint="save it to a folder that all of them see: graph.save(FOLDER)",
            )
        return cls(TargetIds(graph), values is not None and not isinstance(values, np.ndarray))

    @property
    def typed(self) -> Ids:
        """No ids, of the right type."""
        return Ids(0, pa.array([], pa.string()) if self.texts else None)

    def take(self, rows: Array) -> pa.Array:
        """Ids of rows, as int64 or string."""
        return self.ids.take(rows).cast(pa.string() if self.texts else pa.int64())


@dataclass(frozen=True)
class PredictionTask:
    """What tasks need, as plain values that are sent to them. Range i is the stored rows `bounds[i]`."""

    bundle: bytes
    model: str
    sources: Sources
    store: str
    manifest: str
    ids: SharedIds
    rows: tuple[str, ...]
    bounds: tuple[tuple[int, int], ...]
    each_class: bool
    decision: Decision = LIKELIEST

    def run(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Numbers of ranges → rows of predictions."""
        with unpacked(self.sources):
            bundle = loaded(self.bundle, self.model)  # whoever asked has named it on the driver
            store = self.opened()
            schema, take = self.schema(bundle), self.ids.take
            for batch in batches:
                ranges = [self.range_rows(store, number) for number in batch.column(0).to_pylist()]
                rows = np.concatenate([np.zeros(0, np.int64), *ranges])
                for some, probabilities in batch_probabilities(bundle, store, rows):
                    yield from self._table(bundle, schema, take(some), probabilities).to_batches()

    def opened(self) -> HopStore:
        """The store as it was when the frame was made: another one that lies there now has other files."""
        return HopStore(Place.of(self.store), StoreManifest.model_validate_json(self.manifest), copies=False)

    def range_rows(self, store: HopStore, number: int) -> Array:
        """Row numbers of a range that are asked for."""
        begin, end = self.bounds[number]
        kept = store.kept
        rows = np.arange(begin, end) if kept is None else np.asarray(kept[begin:end])
        return rows[asked_among(store, self.rows, slice(begin, end) if kept is None else rows)]

    def schema(self, bundle: Bundle) -> pa.Schema:
        """Id, label, probability, and all probabilities as one list or as a column each."""
        schema = table_schema(bundle, self.ids.typed, self.each_class, text=False)
        return schema if self.each_class else schema.append(pa.field("probabilities", pa.list_(pa.float32())))

    def _table(self, bundle: Bundle, schema: pa.Schema, ids: pa.Array, probabilities: Array) -> pa.Table:
        chosen = None if self.decision == LIKELIEST else self.decision.chosen(bundle, probabilities)
        if self.each_class:
            return table_columns(bundle, schema, ids, probabilities, True, chosen)
        table = table_columns(bundle, schema.remove(len(schema) - 1), ids, probabilities, False, chosen)
        ends = np.arange(len(probabilities) + 1, dtype=np.int32) * np.int32(probabilities.shape[1])
        lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(np.ascontiguousarray(probabilities).reshape(-1)))
        return table.append_column(schema.field("probabilities"), lists)


@dataclass(frozen=True)
class PartTask:
    """Part i of a folder of Parquet files: the ranges of `asked` from `cuts[i]` to `cuts[i + 1]`.

    Written where they are computed: rows of Spark's and its own writer cost several times as much with many classes.
    """

    asked: PredictionTask
    folder: Place
    cuts: tuple[int, ...]

    def __call__(self, number: int) -> dict[str, int]:
        """Writes it; what a decision made of its rows."""
        if self.folder.local is not None and not self.folder.local.is_dir():
            hint = "choose a folder that all of them see, or a URL"
            raise GamlpError("an executor does not see this folder", file=self.folder, hint=hint)
        task, decided = self.asked, Decided()
        with unpacked(task.sources):
            bundle, store = loaded(task.bundle, task.model), task.opened()
            ranges = [task.range_rows(store, one) for one in range(*self.cuts[number : number + 2])]
            rows = np.concatenate([np.zeros(0, np.int64), *ranges])
            if not len(rows):
                return vars(decided)
            schema = table_schema(bundle, task.ids.typed, task.each_class, text=False)
            part = self.folder / f"part-{number:05d}.parquet"
            with part.atomic_file() as new, new_table(new, schema, sole=False) as write:
                for some, probabilities in batch_probabilities(bundle, store, rows):
                    chosen = None
                    if task.decision != LIKELIEST:
                        chosen = task.decision.chosen(bundle, probabilities)
                        decided.add(task.decision, bundle, chosen)
                    write(table_columns(bundle, schema, task.ids.take(some), probabilities, task.each_class, chosen))
        return vars(decided)


@dataclass(frozen=True)
class Asked:
    """What is asked for, and how many rows and tasks it has."""

    task: PredictionTask
    rows: int
    tasks: int

    def frame(self, spark: Any, bundle: Bundle) -> Any:
        """Not computed yet."""
        numbers = spark.range(0, len(self.task.bounds), 1, self.tasks)
        return numbers.mapInArrow(self.task.run, ddl(self.task.schema(bundle)))


def predictions(
    spark: Any,
    bundle: Bundle | str | Path,
    store: HopStore | str | Path | Place,
    graph: Graph | str | Path | Place,
    *,
    rows: str = "all",
    each_class: bool = False,
    decision: Decision = LIKELIEST,
    trust: Trust = None,
) -> Any:
    """A DataFrame `id, label, probability, probabilities`, computed when Spark asks for it.

    `graph` is the one that `store` was made of: it knows the ids. `rows`: all, labelled, unlabelled, split, train,
    valid, test, or some joined by '+'. `probabilities` follow the order of the bundle's classes; with `each_class`
    there is a column `p_<class>` for each instead. Many labels a node: `label` is a list, and there is no
    `probability`. `decision`: a threshold, or how likely a label must be. Store and graph must stay where they are
    until the frame is read.
    """
    bundle = bundle if isinstance(bundle, Bundle) else Bundle.load(bundle, trust)
    store = store if isinstance(store, HopStore) else HopStore.open(store, copies=False)
    graph = graph if isinstance(graph, Graph) else Graph.open(graph)
    found = asked(bundle, store, graph, rows=rows, each_class=each_class, decision=decision)
    return found.frame(spark, bundle)


def asked(
    bundle: Bundle,
    store: HopStore,
    graph: Graph,
    *,
    rows: str = "all",
    each_class: bool = False,
    decision: Decision = LIKELIEST,
) -> Asked:
    """What tasks are to do; what can be refused is refused here."""
    check_store(store, without_folds(plan_of(bundle.recipe)))
    if fingerprint.structure(graph) != store.manifest.structure:
        raise GamlpError("the hops are of another graph", file=store.folder, hint=f"propagate '{graph.name}' first")
    chosen = tuple(row_sets(rows))
    bounds = tuple(store.ranges(rows_of(store, bundle.recipe, np.zeros(0, np.int64)).row_bytes))
    task = PredictionTask(
        bundle=bytes_of(bundle),
        model=bundle.recipe.model.name,
        sources=sources_of(bundle.recipe.model.name),
        store=store.place.resolved().url,
        manifest=store.manifest.model_dump_json(),
        ids=SharedIds.of(graph),
        rows=chosen,
        bounds=bounds,
        each_class=each_class,
        decision=decision.settled(bundle),
    )
    count = _count(store, chosen, rows)
    tasks = min(len(bounds), max(_TASKS, -(-len(bounds) // _RANGES_OF_TASK)))
    return Asked(task, count, tasks)


def _count(store: HopStore, chosen: tuple[str, ...], names: str) -> int:
    """Rows that are asked for, counted a part at a time; a set that is empty, or not kept, is refused."""
    kept, nodes, count = store.kept, store.manifest.nodes, store.manifest.nodes
    if "all" not in chosen:
        parts = (slice(begin, min(begin + _ROWS, nodes)) for begin in range(0, nodes, _ROWS))
        count = sum(int(np.count_nonzero(asked_among(store, chosen, part))) for part in parts)
    if not count:
        raise no_rows(names)
    if kept is not None:
        held = (np.asarray(kept[begin : begin + _ROWS]) for begin in range(0, len(kept), _ROWS))
        if sum(int(np.count_nonzero(asked_among(store, chosen, part))) for part in held) < count:
            raise not_kept(store, names)
    return count


def ddl(schema: pa.Schema) -> str:
    """An Arrow schema as Spark's SQL writes it; a name may hold anything."""
    kinds = {pa.int64(): "bigint", pa.string(): "string", pa.float32(): "float", pa.bool_(): "boolean"}

    def kind(of: pa.DataType) -> str:
        return f"array<{kind(of.value_type)}>" if pa.types.is_list(of) else kinds[of]

    return ", ".join(f"`{field.name.replace('`', '``')}` {kind(field.type)}" for field in schema)


MARK = "_SUCCESS"  # of a folder of parts that is whole, as Spark's own
_LIST_MARK = "|"  # between the labels of a node in a CSV, as gamlp predict writes them


def write_spark_predictions(
    spark: Any,
    bundle: Bundle,
    store: HopStore,
    graph: Graph,
    out: str | Path | Place,
    *,
    rows: str = "all",
    each_class: bool = True,
    decision: Decision = LIKELIEST,
    progress: Progress = silent,
) -> Written:
    """The columns of `gamlp predict` as a folder of parts, whole when `_SUCCESS` is there; one that exists is refused.

    `out` ends with .parquet, .csv or .csv.gz. A URL is one that this Spark writes to; to a `Place` tasks write as they
    do to stores.
    """
    begun, target = time.monotonic(), check_out(out)
    decision = decision.settled(bundle)
    found = asked(bundle, store, graph, rows=rows, each_class=each_class, decision=decision)
    if target.name.endswith(".parquet") and (target.local is not None or isinstance(out, Place)):
        decided = _write_parts(spark, found, target, progress)
    else:
        frame, count = _counted(found.frame(spark, bundle), bundle, decision)
        frame = frame if each_class else frame.drop("probabilities")
        try:
            with spark_failure_as_error(), status(spark, "predict", found.tasks, progress):
                _write(frame, target, bundle.multi_label)
        except BaseException:
            _forget(target)
            raise
        decided = count()
    progress("predict", found.tasks, found.tasks, "blocks")
    return Written(
        target.local or target, found.rows, time.monotonic() - begun,
        decided.sentences(decision), decided.as_json(decision),
    )  # fmt: skip


def _write_parts(spark: Any, found: Asked, folder: Place, progress: Progress) -> Decided:
    """A part a task, and a mark when all are there; nothing stays of what did not end well."""
    cuts = tuple(int(cut) for cut in np.linspace(0, len(found.task.bounds), found.tasks + 1))
    if folder.local is None and folder.names():
        raise GamlpError("already exists", file=folder, hint="choose another --out")
    try:
        if folder.local is not None:
            folder.local.mkdir(parents=True)
    except FileExistsError:
        raise GamlpError("already exists", file=folder, hint="choose another --out") from None
    try:
        answers = run_tasks(spark, PartTask(found.task, folder, cuts), range(found.tasks), "predict", progress)
        for left in [] if folder.local is None else folder.local.glob(".*"):  # of tasks that were tried again
            shutil.rmtree(left, ignore_errors=True)
        (folder / MARK).put(b"")
    except BaseException:
        folder.remove()
        raise
    return Decided(**{name: sum(answer[name] for answer in answers) for name in vars(Decided())})


def forget_parts(folder: Place) -> None:
    """What a killed driver left of them; a folder with anything else in it is somebody's, and stays."""
    names = folder.names()
    if names and MARK not in names and all(name.startswith(("part-", ".")) for name in names):
        folder.remove()


def _counted(frame: Any, bundle: Bundle, decision: Decision) -> tuple[Any, Callable[[], Decided]]:
    """The frame, and what tells how many rows got what a decision is about, once the frame was written."""
    if decision == LIKELIEST:
        return frame, Decided
    from pyspark.sql import Observation, functions

    label, is_positive = functions.col("label"), functions.lit(False)
    if decision.positive is not None:
        values = arrow_classes(bundle.classes, bundle.class_type)  # in the type that the label has
        is_positive = label == functions.lit(values[bundle.classes.index(decision.positive)].as_py())
    labels = functions.size(label) if bundle.multi_label else functions.lit(0)
    sums = {
        "positives": functions.when(is_positive, 1).otherwise(0),
        "abstained": functions.when(label.isNull(), 1).otherwise(0),
        "labels": labels,
    }
    seen = Observation()
    counted = [functions.sum(value).alias(name) for name, value in sums.items()]
    watched = frame.observe(seen, functions.count(functions.lit(1)).alias("rows"), *counted)
    return watched, lambda: Decided(**{name: int(value or 0) for name, value in seen.get.items()})


def check_out(out: str | Path | Place) -> Place:
    """Refuse a name that says no format, and a place that is taken."""
    target = Place.of(out).resolved()
    if not target.name.endswith(SUFFIXES):
        raise GamlpError("is no kind of table that is written", file=out, hint=f"end it with {', '.join(SUFFIXES)}")
    if target.local is not None and target.local.exists():
        raise GamlpError("already exists", file=out, hint="Spark writes a folder of its own: choose another --out")
    return target


def _write(frame: Any, target: Place, multi_label: bool) -> None:
    address = target.url if target.local is None else target.local.as_uri()
    try:
        if target.name.endswith(".parquet"):
            frame.write.mode("error").parquet(address)
            return
        if multi_label:
            from pyspark.sql import functions

            frame = frame.withColumn("label", functions.array_join("label", _LIST_MARK))
        packed = "gzip" if target.name.endswith(".gz") else "none"
        # Quotes inside a cell are doubled, as everywhere but in Spark.
        frame.write.mode("error").csv(address, header=True, compression=packed, escape='"')
    except Exception as error:
        if "PATH_ALREADY_EXISTS" in str(error):
            raise GamlpError("already exists", file=target.url, hint="choose another --out") from error
        raise


def _forget(target: Place) -> None:
    """What a broken write left; Spark marks one that ended well."""
    if target.local is not None and target.local.is_dir() and not (target.local / "_SUCCESS").exists():
        target.remove()
