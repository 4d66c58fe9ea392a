"""Tables that Spark reads → the graph folder that `gamlp ingest` writes, built by tasks."""

from gamlp.spark.ingest.build import spark_graph  # DataFrames or tables of nodes and edges → a graph folder
from gamlp.spark.ingest.tables import read_table, read_tables  # files of any format, tables of the catalogue

__all__ = ["read_table", "read_tables", "spark_graph"]
