"""NodeClassifier: fit, predict, score and explain, for people who live in Python."""

from gamlp.classifier.estimator import NodeClassifier

__all__ = ["NodeClassifier"]
