"""The Python processes of executors: how many there are, and which are used again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from gamlp.spark.tasks import run_tasks


def test_queries_and_tasks_share_their_python(spark: Any) -> None:
    """Each kind of process costs two seconds of imports for every core: what forks them must be one."""

    def forked_by(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"parent": [os.getppid()]})

    tasks = {answer["parent"] for answer in run_tasks(spark, lambda _: {"parent": os.getppid()}, range(4))}
    queries = {row["parent"] for row in spark.range(0, 4, 1, 4).mapInArrow(forked_by, "parent long").collect()}
    assert queries == tasks and len(tasks) == 1
