"""DataFrames of nodes and edges → the graph folder that `gamlp ingest` writes, built by Spark's tasks."""

from gamlp.graph.spark.build import SparkGraphOptions, spark_graph
from gamlp.graph.spark.tables import SparkTable, read_table

__all__ = ["SparkGraphOptions", "SparkTable", "read_table", "spark_graph"]
