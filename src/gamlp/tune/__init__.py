"""Search over recipes: trials by validation alone, the best few again with more seeds."""

from gamlp.tune.search import Found, Search

__all__ = ["Found", "Search"]
