"""Models over hops: GAMLP and its peers; torch alone."""

from gamlp.models.gamlp import GAMLP
from gamlp.models.registry import build
from gamlp.models.shape import HopWeights, Shape

__all__ = ["GAMLP", "HopWeights", "Shape", "build"]
