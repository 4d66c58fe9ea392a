"""All that knows Spark: an estimator over DataFrames, predictions as one, and the engine `spark`.

from gamlp.spark import GAMLPClassifier

model = GAMLPClassifier(labelCol="subject", workDir="/shared/work").fit(nodes, edges)
model.transform(nodes, edges).select("id", "prediction", "probability").show()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gamlp.spark.engine import SparkEngine
    from gamlp.spark.estimator import GAMLPClassificationModel, GAMLPClassifier
    from gamlp.spark.packing import Packed, pack
    from gamlp.spark.prediction import predictions, write_spark_predictions
    from gamlp.spark.sessions import SparkSettings, session

_PLACES = {
    "GAMLPClassifier": "gamlp.spark.estimator",  # fit(nodes, edges), in Spark ML's manner
    "GAMLPClassificationModel": "gamlp.spark.estimator",  # what it fits
    "SparkEngine": "gamlp.spark.engine",  # every step of a run on Spark
    "SparkSettings": "gamlp.spark.sessions",  # which Spark, with which options
    "session": "gamlp.spark.sessions",  # the active session, or a new one that ends with the block
    "pack": "gamlp.spark.packing",  # gamlp and what it needs as an archive for executors
    "Packed": "gamlp.spark.packing",  # what it wrote
    "predictions": "gamlp.spark.prediction",  # a bundle and its hops → a DataFrame
    "write_spark_predictions": "gamlp.spark.prediction",  # the same as a folder of Parquet or CSV
}
__all__ = [
    "GAMLPClassificationModel",
    "GAMLPClassifier",
    "Packed",
    "SparkEngine",
    "SparkSettings",
    "pack",
    "predictions",
    "session",
    "write_spark_predictions",
]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: tasks pass through this door, and most need neither pyspark.ml nor torch."""
    if name not in _PLACES:
        raise AttributeError(f"module '{__name__}' has no '{name}'")
    return getattr(import_module(_PLACES[name]), name)
