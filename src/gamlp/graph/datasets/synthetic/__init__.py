"""Graphs that are generated: planted communities, a short-video network, academic graphs of several node types."""

from gamlp.graph.datasets.synthetic.heterogeneous import mag_like
from gamlp.graph.datasets.synthetic.homogeneous import communities, short_video

__all__ = ["communities", "mag_like", "short_video"]
