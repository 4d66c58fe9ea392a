"""Sizing: memory, disk and time of a run before it is run, by the engines' own formulas."""

# Spark: executors, and what they would need
from gamlp.sizing.cluster import Cluster, ClusterSizes

# Training and prediction
from gamlp.sizing.fitting import FitSizes

# Counts of a graph that is there or not
from gamlp.sizing.graph_shape import GraphShape

# Propagation on one machine
from gamlp.sizing.hops import HopSizes

# A whole run on this machine, in steps and in sentences
from gamlp.sizing.outlook import Outlook, Step, ThisMachine, about

# How fast the machine is
from gamlp.sizing.rates import Rates, measured_rates, recorded_rates

# A whole run on Spark, and its settings
from gamlp.sizing.spark_run import SparkRun, ingest_shuffled, spark_content

__all__ = [
    "Cluster",
    "ClusterSizes",
    "FitSizes",
    "GraphShape",
    "HopSizes",
    "Outlook",
    "Rates",
    "SparkRun",
    "Step",
    "ThisMachine",
    "about",
    "ingest_shuffled",
    "measured_rates",
    "recorded_rates",
    "spark_content",
]
