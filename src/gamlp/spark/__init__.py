"""GAMLP for people who live in Spark: an estimator over DataFrames, and predictions as one.

from gamlp.spark import GAMLPClassifier

model = GAMLPClassifier(labelCol="subject", workDir="/shared/work").fit(nodes, edges)
model.transform(nodes, edges).select("id", "prediction", "probability").show()
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = {
    "GAMLPClassifier": "gamlp.spark.estimator",
    "GAMLPClassificationModel": "gamlp.spark.estimator",
    "predictions": "gamlp.spark.prediction",
    "write_spark_predictions": "gamlp.spark.writing",
}


__all__ = ["GAMLPClassificationModel", "GAMLPClassifier", "predictions", "write_spark_predictions"]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: tasks that predict need no estimator, and no pyspark.ml."""
    if name not in _PLACES:
        raise AttributeError(f"module '{__name__}' has no '{name}'")
    return getattr(import_module(_PLACES[name]), name)
