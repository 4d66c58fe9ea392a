"""Features where there are none, and narrower ones where they are wide: what graphs of several types need."""

from gamlp.graph.embeddings.completing import completed

__all__ = ["completed"]
