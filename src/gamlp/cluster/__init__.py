"""Spark itself: sessions, and tasks on them. Nothing of graphs or models; pyspark is imported when it is needed."""

from gamlp.cluster.session import SparkSettings, check_java, is_here, keeping, session
from gamlp.cluster.tasks import run_tasks, sentence, slots, told

__all__ = ["SparkSettings", "check_java", "is_here", "keeping", "run_tasks", "sentence", "session", "slots", "told"]
