"""A whole run on Spark before it is run: steps, and settings for YARN and Kubernetes that are ready to paste."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gamlp.io import format_size
from gamlp.sizing.cluster import Cluster, ClusterSizes
from gamlp.sizing.fitting import PROCESS, FitSizes
from gamlp.sizing.graph_shape import GraphShape
from gamlp.sizing.outlook import Outlook, Step
from gamlp.sizing.rates import Rates

_SURE = (0.4, 2.5)  # of rates that were recorded on another machine
_JAVA = 1 << 30  # bytes for Java, a core: joins of ingest
# Bytes in ingest: an entry with and without a weight; a row number; an id with what is kept of it, which is assumed.
_ENTRY, _WEIGHT, _ROW, _ID = 8, 4, 4, 16
_KNOWN = 3_000_000  # nodes whose ids every task that reads edges may hold: those of more nodes travel
_COPY = "gamlp.tar.gz"  # what `gamlp spark pack` writes


@dataclass(frozen=True)
class SparkRun:
    """What `gamlp plan --engine spark` tells."""

    shape: GraphShape
    sizes: ClusterSizes
    fit: FitSizes
    rates: Rates
    there: bool  # whether the graph is on disk already

    @classmethod
    def of(cls, outlook: Outlook) -> SparkRun:
        return cls(outlook.shape, outlook.cluster, outlook.fit, outlook.rates, outlook.there)

    @property
    def cluster(self) -> Cluster:
        return self.sizes.cluster

    @property
    def processes(self) -> int:
        """Of training: one an executor, as long as each has a row of every batch."""
        return max(1, min(self.cluster.executors, self.fit.batch))

    @cached_property
    def steps(self) -> list[Step]:
        """In order; memory is a task's, disk is shared storage."""
        made = [] if self.there else [self._ingest()]
        return [*made, self._propagate(), *self._fitted()]

    @property
    def seconds(self) -> tuple[float, float]:
        """Of all steps whose time is foretold."""
        known = [step.seconds for step in self.steps if step.seconds]
        return sum(low for low, _ in known), sum(high for _, high in known)

    @property
    def storage(self) -> int:
        """Shared storage at its most: what was left before a step, and what it takes."""
        peak, left = 0, 0
        for step in self.steps:
            peak = max(peak, left + step.meanwhile + step.left)
            left += step.left
        return peak

    @property
    def local_disk(self) -> int:
        """Of spark.local.dir, an executor: what ingest shuffles, columns and entries once, and ids of many nodes."""
        return 0 if self.there else -(-sum(ingest_shuffled(self.shape).values()) // self.cluster.executors)

    def options(self) -> dict[str, str]:
        """Of gamlp."""
        return {
            "--engine": "spark",
            "--blocks": str(self.sizes.blocks),
            "--memory": _as_typed(self.cluster.memory),
            "--processes": str(self.processes),
        }

    def settings(self, manager: str) -> dict[str, str]:
        """Of Spark, for `yarn` or `kubernetes`; words in capitals are for the reader to fill in."""
        cluster = self.cluster
        common = {
            "spark.executor.instances": str(cluster.executors),
            "spark.executor.cores": str(cluster.cores),
            "spark.executor.memory": _megabytes(cluster.cores * _JAVA),
            "spark.executor.memoryOverhead": _megabytes(self.sizes.executor_memory),
            "spark.dynamicAllocation.enabled": "false",
        }
        if manager == "yarn":
            brought = {"spark.archives": f"{_COPY}#gamlp", "spark.pyspark.python": "./gamlp/bin/python"}
            return common | brought
        volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.shared"
        return common | {
            "spark.kubernetes.container.image": "IMAGE",
            f"{volume}.options.claimName": "CLAIM",
            f"{volume}.mount.path": "/shared",
        }

    def command(self, manager: str) -> str:
        """Options of gamlp and of Spark, one a line, as a shell reads them."""
        master = {"yarn": "yarn", "kubernetes": "k8s://https://HOST:6443"}[manager]
        words = [f"{name} {value}" for name, value in self.options().items()]
        words += [
            f"--master {master}",
            *(f"--spark-conf {key}={value}" for key, value in self.settings(manager).items()),
        ]
        return " \\\n".join(words)

    def _ingest(self) -> Step:
        shape, slots = self.shape, self.cluster.slots
        shuffled = ingest_shuffled(shape)
        staged = shuffled["columns"] + shuffled["ids"]
        # What is moved is written and read once; the rate is of nodes whose ids every task knows.
        moved = 2 * (staged + sum(shuffled.values())) + shape.folder_bytes
        seconds = shape.entries / 2 / (self.rates.spark_ingest * slots)
        seconds += moved / (self.cluster.executors * self.rates.storage)
        words = f"from tables that Spark reads; {format_size(self.local_disk)} of spark.local.dir on each executor"
        return Step("ingest", 0, staged, shape.folder_bytes, self._about(seconds), words)

    def _propagate(self) -> Step:
        sizes = self.sizes
        low, high = sizes.seconds
        store = sum(sizing.store for sizing in sizes.signals.values())
        task = max(sizing.task_bytes for sizing in sizes.signals.values())
        words = f"{sizes.blocks} blocks, {max(one.rounds for one in sizes.signals.values())} for each core at a hop"
        start = self.rates.spark_start
        seconds = _SURE[0] * (low + start), _SURE[1] * (high + start)
        return Step("propagate", task, sizes.storage - store, store, seconds, words)

    def _fitted(self) -> list[Step]:
        if not self.shape.classes:
            return []
        rows = self.shape.kept(self.sizes.plan) or self.shape.nodes
        one = self.fit.train_seconds(self.rates, self.cluster.memory)
        # A process has a core, and rates are those of all cores of a machine.
        training = None if one is None else one * self.rates.cores / self.processes
        words = f"{self.processes} processes, each with its share of {self.fit.rows:,} rows"
        memory = PROCESS + (self.fit.memory(self.cluster.memory) - PROCESS) // self.processes
        train = Step("train", memory, 0, self.fit.run_folder, self._about(training), words)
        predicting = self._about(rows / (self.rates.spark_predict * self.cluster.slots))
        predict = Step("predict", 0, 0, self.fit.predictions(rows), predicting, f"{rows:,} rows, a folder of parts")
        return [train, predict]

    def _about(self, seconds: float | None) -> tuple[float, float] | None:
        if seconds is None:
            return None
        whole = seconds + self.rates.spark_start
        return _SURE[0] * whole, _SURE[1] * whole


def ingest_shuffled(shape: GraphShape) -> dict[str, int]:
    """Bytes that `gamlp ingest` moves between tasks: nodes' columns, entries, and ids of edges where nodes are many.

    Columns and ids wait in files on shared storage too. Ids are taken to be of 16 bytes, and every end of an edge for
    another node.
    """
    return {
        "columns": shape.nodes * (shape.features * 4 + _ID),
        "entries": shape.entries * (_ENTRY + (_WEIGHT if shape.weighted else 0)),
        "ids": shape.entries * (_ID + _ROW) if shape.nodes > _KNOWN else 0,
    }


def spark_content(run: SparkRun) -> Mapping[str, object]:
    """The same as JSON."""
    return {
        "executors": run.cluster.executors,
        "executor_cores": run.cluster.cores,
        "executor_memory": run.sizes.executor_memory,
        "task_memory": run.cluster.memory,
        "blocks": run.sizes.blocks,
        "processes": run.processes,
        "storage": run.storage,
        "local_disk": run.local_disk,
        "steps": {
            step.name: {
                "memory": step.memory,
                "storage_meanwhile": step.meanwhile,
                "storage_after": step.left,
                "seconds": None if step.seconds is None else [round(one, 3) for one in step.seconds],
            }
            for step in run.steps
        },
        "seconds": [round(one, 3) for one in run.seconds],
        "options": run.options(),
        "yarn": run.settings("yarn"),
        "kubernetes": run.settings("kubernetes"),
        "rates": run.rates.sources["spark"],
    }


def _megabytes(size: int) -> str:
    """As Spark writes it, rounded up."""
    return f"{-(-size // 2**20)}m"


def _as_typed(size: int) -> str:
    return f"{size >> 30}GiB" if size % (1 << 30) == 0 else f"{-(-size // 2**20)}MiB"
