"""Recipes of all methods searched on validation rows alone, with equal time; what `benchmarks/search.py` runs."""

# Where the next second goes
from gamlp.bench.search.allocation import RESERVE, Act, Purse, Standing, Tried, next_cells

# Datasets and methods of a plan
from gamlp.bench.search.plan import SearchCell, cells_of, chosen_cells

# How well validation ranks test, after the choice
from gamlp.bench.search.ranking import rank_cell, spearman, write_ranking

# Runs, one after another, on validation rows
from gamlp.bench.search.running import CellSearch, Validation

# Logs, and leaders among the shipped recipes
from gamlp.bench.search.shipping import Shelf, Shipped, ship, write_log

# What is on disk of a cell
from gamlp.bench.search.trials import Journal, Trial, Trials

__all__ = [
    "RESERVE",
    "Act",
    "CellSearch",
    "Journal",
    "Purse",
    "SearchCell",
    "Shelf",
    "Shipped",
    "Standing",
    "Trial",
    "Trials",
    "Tried",
    "Validation",
    "cells_of",
    "chosen_cells",
    "next_cells",
    "rank_cell",
    "ship",
    "spearman",
    "write_log",
    "write_ranking",
]
