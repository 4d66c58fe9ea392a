"""One block a partition: the keys, Spark's own hash of them, and what ingest makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.spark.ingest.partitions import one_a_partition, partition_of


def test_keys_have_a_partition_each() -> None:
    for count in (1, 2, 7, 1193, 5000):
        keys = one_a_partition(count)
        assert partition_of(keys, count).tolist() == list(range(count))
    plain = np.bincount(partition_of(np.arange(1193), 1193), minlength=1193)  # what numbers themselves would do
    assert (plain == 0).sum() > 0.3 * 1193 and plain.max() >= 5


@pytest.mark.parametrize("count", [1, 5, 64])
def test_spark_puts_keys_where_we_say(spark: Any, count: int) -> None:
    from pyspark.sql import functions

    keys = [*one_a_partition(count).tolist(), -1, 0, 1, -(2**31), 2**31 - 1]
    frame = spark.createDataFrame([(key,) for key in keys], "slot int")
    hashed = {row[0]: row[1] for row in frame.select("slot", functions.hash("slot")).collect()}
    assert partition_of(np.array(keys), 2**31).tolist() == [hashed[key] % 2**31 for key in keys]
    placed = frame.limit(count).repartition(count, "slot").select(functions.spark_partition_id().alias("at"))
    rows = placed.groupBy("at").count().collect()
    assert sorted((row["at"], row["count"]) for row in rows) == [(at, 1) for at in range(count)]


def test_ingest_gives_every_task_one_block(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a block tells by which partition it was made."""
    from gamlp.spark.ingest import edges, nodes, spark_graph

    seen: dict[str, list[tuple[int, int]]] = {}

    def noted(spark: Any, frame: Any, stage: str, *rest: Any) -> Any:
        from pyspark.sql import functions

        found = plain(spark, frame.withColumn("at", functions.spark_partition_id()), stage, *rest)
        seen[stage] = [(row["at"], row["block"]) for row, _ in found if "block" in row.asDict()]
        return found

    plain = edges.collect_results
    monkeypatch.setattr(edges, "collect_results", noted)
    monkeypatch.setattr(nodes, "collect_results", noted)
    rng = np.random.default_rng(0)
    pairs = [(f"n{a}", f"n{b}") for a, b in rng.integers(0, 300, (900, 2))]
    tables = (
        spark.createDataFrame(pairs, "src string, dst string"),
        spark.createDataFrame([(f"n{i}", [1.0, float(i)]) for i in range(300)], "id string, features array<double>"),
    )
    spark_graph(spark, *tables, tmp_path / "graph", blocks=25)
    for stage, blocks in (("features", 25), ("edges", 26)):  # and what is noted of edges
        assert len(seen[stage]) == blocks
        assert len({at for at, _ in seen[stage]}) == blocks, stage
