"""report.html: one page with everything a run has to tell, in one file."""

# A model card in Markdown
from gamlp.report.card import card_of

# What a page says, as plain numbers and texts
from gamlp.report.content import SeedScores, Timings, content_of_probabilities, content_of_run

# What is counted of scored rows beside their scores; weights over hops by degree
from gamlp.report.observed import Frame, Observed, Tally, listening

# The page itself
from gamlp.report.page import WrittenReport, render, write_page, write_report

# What is known of rows before they are scored
from gamlp.report.survey import RowSurvey

# Sentences that say whether to trust a result
from gamlp.report.words import Facts, Words, words_of

__all__ = [
    "Facts",
    "Frame",
    "Observed",
    "RowSurvey",
    "SeedScores",
    "Tally",
    "Timings",
    "Words",
    "WrittenReport",
    "card_of",
    "content_of_probabilities",
    "content_of_run",
    "listening",
    "render",
    "words_of",
    "write_page",
    "write_report",
]
