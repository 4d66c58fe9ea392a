"""Recipes chosen by validation rows alone: from a portfolio that every graph is tried with, or by a search."""

# What a person asks of the choice, checked
from gamlp.tune.asked import AskedChoice, seconds_of

# The recipe of a run from the portfolio, trained; how much of it is asked for
from gamlp.tune.choosing import PRESETS, Chosen, Preset, choose

# The next recipe to try, by what those before it scored
from gamlp.tune.drawing import BY_CHANCE, draw

# What was tried and how well it validated
from gamlp.tune.leaderboard import Leaderboard, LeaderboardRow

# Trials in a given space, the best few again with more seeds
from gamlp.tune.search import Found, Search

__all__ = [
    "BY_CHANCE",
    "PRESETS",
    "AskedChoice",
    "Chosen",
    "Found",
    "Leaderboard",
    "LeaderboardRow",
    "Preset",
    "Search",
    "choose",
    "draw",
    "seconds_of",
]
