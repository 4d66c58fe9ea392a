"""The same hop as anybody would first write it: join the edges with the rows, a mean per dimension and node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gamlp.graph import Graph


@dataclass(frozen=True)
class Joins:
    """Each hop is a table; it is written, as a hop of ours is, so that the next does not begin at the first."""

    spark: Any
    work: Path
    width: int

    @classmethod
    def prepared(cls, spark: Any, graph: Graph, work: Path, blocks: int) -> Joins:
        spark.conf.set("spark.sql.shuffle.partitions", str(blocks))
        assert graph.nodes.features is not None
        values, count = graph.nodes.features.read(slice(0, graph.nodes.count)), graph.nodes.count
        nodes = {"id": np.arange(count), **{f"x{at}": column for at, column in enumerate(values.T)}}
        ends = [np.repeat(np.arange(b.start, b.stop), np.diff(b.offsets)) for b in graph.relation.blocks]
        starts = [np.asarray(block.neighbours, np.int64) for block in graph.relation.blocks]
        loops = np.arange(count)
        edges = {"dst": np.concatenate([*ends, loops]), "src": np.concatenate([*starts, loops])}
        for name, table in (("hop0", nodes), ("edges", edges)):
            pq.write_table(pa.table(table), work / f"{name}.parquet")
        return cls(spark, work, values.shape[1])

    def hop(self, k: int) -> dict[str, int]:
        from pyspark.sql import functions

        edges = self.spark.read.parquet(str(self.work / "edges.parquet"))
        rows = self.spark.read.parquet(str(self.work / f"hop{k - 1}.parquet"))
        joined = edges.join(rows, edges["src"] == rows["id"]).groupBy("dst")
        means = [functions.avg(f"x{at}").cast("float").alias(f"x{at}") for at in range(self.width)]
        joined.agg(*means).withColumnRenamed("dst", "id").write.parquet(str(self.work / f"hop{k}.parquet"))
        return {}

    def some(self, k: int) -> list[float]:
        rows = self.spark.read.parquet(str(self.work / f"hop{k}.parquet")).where("id < 3").orderBy("id").collect()
        return [float(row[f"x{at}"]) for row in rows for at in range(4)]
