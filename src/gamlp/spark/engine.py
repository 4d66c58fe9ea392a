"""The Spark engine: block tasks on executors, states of hops on shared storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from gamlp.io import Workers
from gamlp.propagation.blocks import BlockEngine
from gamlp.spark.session import SparkSettings, session
from gamlp.spark.tasks import run_tasks, slots

# Java only hands out tasks here: to compile it well costs more than it saves.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LIGHT_JAVA = {"spark.driver.extraJavaOptions": _JAVA, "spark.executor.extraJavaOptions": _JAVA}


@dataclass(frozen=True)
class SparkEngine(BlockEngine):
    """Which Spark, how many row blocks (None: by memory and cores), and the bytes a task may hold (None: 1 GiB).

    The graph's folder and the store must be seen by all machines: a shared folder, or any fsspec URL. An active
    session is used as it is; a new one ends with the run.
    """

    settings: SparkSettings = field(default_factory=SparkSettings)

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with session(self.settings.with_defaults(LIGHT_JAVA)) as spark:
            yield Workers(partial(run_tasks, spark), slots(spark))
