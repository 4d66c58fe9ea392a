"""Training: hops to tensors, one loop, metrics, saved models."""

from gamlp.training.batches import Batch, Batches, HopRows
from gamlp.training.bundle import Bundle
from gamlp.training.loop import Fitted, fit
from gamlp.training.scores import evaluate

__all__ = ["Batch", "Batches", "Bundle", "Fitted", "HopRows", "evaluate", "fit"]
