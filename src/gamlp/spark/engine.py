"""The Spark engine: every step of a run in tasks on executors, states of hops on shared storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, IngestReport, TablePlaces
from gamlp.io import Place, Ranges, RangeWork, State, Workers, tally_by_tasks
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, Plan
from gamlp.propagation.blocks import BlockPropagator
from gamlp.run import LIKELIEST, Decision, Opening, Resources
from gamlp.spark.ingest import read_tables, spark_graph
from gamlp.spark.sessions import SparkSettings, keeping, session
from gamlp.spark.tasks import run_tasks, slots
from gamlp.spark.watch import FOR_EXECUTORS

if TYPE_CHECKING:  # torch is imported by the steps that need it
    from gamlp.run import Written
    from gamlp.training import Fitted, Observe, Prepared, Result, SeedFiles

# Java only hands out tasks and packs of bytes here: to compile it well costs more than it saves.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LIGHT_JAVA = {"spark.driver.extraJavaOptions": _JAVA, "spark.executor.extraJavaOptions": _JAVA}
_SETTINGS = ("master", "spark_conf", "blocks", "executor_wait")


@dataclass(frozen=True)
class SparkPropagator(BlockPropagator):
    """Which Spark, how many row blocks (None: by memory and cores), and the bytes a task may hold (None: 1 GiB).

    The graph's folder and the store must be seen by all machines: a shared folder, or any fsspec URL. An active
    session is used as it is; a new one ends with the run.
    """

    settings: SparkSettings = field(default_factory=SparkSettings)

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with session(self.settings.with_defaults(LIGHT_JAVA)) as spark:
            yield Workers(partial(run_tasks, spark), slots(spark))


class SparkEngine:
    """All steps on Spark. A session that a step starts stays until the engine is closed.

    Graphs, stores and run folders must be seen by all machines. Settings: `master`, `spark_conf` (key=value texts),
    `blocks`, the row blocks of a graph, and `executor_wait`, seconds until executors must be there.
    """

    one_machine = False

    def __init__(self, resources: Resources) -> None:
        if unknown := [name for name in resources.settings if name not in _SETTINGS]:
            raise GamlpError(f"--{unknown[0]} is not for Spark", hint=f"it knows {', '.join(_SETTINGS)}")
        self.resources = resources
        given = resources.settings
        self._settings = SparkSettings.of(
            given.get("master"), given.get("spark_conf") or (), given.get("executor_wait", FOR_EXECUTORS)
        )
        self._blocks: int | None = resources.settings.get("blocks")
        self._open = ExitStack()
        self._open.enter_context(keeping())

    def ingest(
        self,
        edges: TablePlaces,
        nodes: TablePlaces,
        out: str | Path,
        options: IngestOptions | None = None,
        progress: Progress = silent,
    ) -> IngestReport:
        with session(self._settings.with_defaults(LIGHT_JAVA)) as spark:
            rules = (options or IngestOptions()).rules()
            tables = read_tables(spark, edges, rules), read_tables(spark, nodes, rules)
            return spark_graph(spark, *tables, out, options, blocks=self._blocks, progress=progress)

    def propagate(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore:
        return self._propagator().propagate(graph, plan, store, progress)

    def induce(self, graph: Graph, rows: Array, folder: str | Path | Place, progress: Progress = silent) -> Graph:
        return self._propagator().induce(graph, rows, folder, progress)

    def _propagator(self) -> SparkPropagator:
        return SparkPropagator(self._blocks, self.resources.memory, self._settings)

    def fit(
        self,
        prepared: Prepared,
        seed: int,
        files: SeedFiles | None = None,
        *,
        observe: Observe | None = None,
        progress: Progress = silent,
    ) -> Fitted:
        from gamlp.spark.served import launch_spark_served
        from gamlp.spark.training import launch_spark
        from gamlp.training import SeedFiles, fitted_of, shared_job

        given, files = self.resources, files or SeedFiles()
        if given.tls is not None and prepared.recipe.training.exchange != "server":
            raise GamlpError("--tls-cert is for a parameter server", hint="say --exchange server too")
        settings = {"device": given.device, "threads": given.threads, "memory": given.memory}
        with (
            shared_job(prepared, seed, files, **settings) as job,
            session(self._settings.with_defaults(LIGHT_JAVA)) as spark,
        ):
            launch: Callable[..., Result] = partial(launch_spark, wait=self._settings.wait)
            if prepared.recipe.training.exchange == "server":
                launch = partial(launch_spark_served, tls=given.tls, wait=self._settings.wait)
            found = launch(
                job, spark, given.processes, observed_epoch=files.observed, observe=observe, progress=progress
            )
        return fitted_of(prepared, *found)

    def predict(
        self,
        opening: Opening,
        out: str | Path | Place,
        *,
        rows: str = "all",
        each_class: bool = True,
        batch_size: int | None = None,
        decision: Decision = LIKELIEST,
        keep_finished: bool = False,
        progress: Progress = silent,
    ) -> Written | None:
        """A folder of Parquet or CSV parts, written by executors."""
        from gamlp.spark.prediction import MARK, check_out, forget_parts, write_spark_predictions

        if keep_finished:
            if (Place.of(out) / MARK).exists():
                return None
            forget_parts(Place.of(out))
        target = check_out(out)
        beside = None
        if target.local is not None:
            beside = target.local.resolve().parent
            beside.mkdir(parents=True, exist_ok=True)
        with session(self._settings.with_defaults(LIGHT_JAVA)) as spark, opening(beside) as read:
            return write_spark_predictions(
                spark, read.bundle, read.store, read.graph, out, rows=rows, each_class=each_class, decision=decision,
                progress=progress,
            )  # fmt: skip

    def tally(
        self,
        beside: str | Path | Place,
        work: RangeWork,
        ranges: Ranges,
        stage: str = "",
        progress: Progress = silent,
    ) -> Iterator[State]:
        """By tasks, whose answers are files in a folder `beside`."""
        with session(self._settings.with_defaults(LIGHT_JAVA)) as spark:
            yield from tally_by_tasks(
                partial(run_tasks, spark), Place.of(beside).resolved(), work, ranges, stage, progress
            )

    def close(self) -> None:
        self._open.close()
