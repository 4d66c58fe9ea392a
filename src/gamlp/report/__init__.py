"""report.html: one page with everything a run has to tell, in one file."""

from gamlp.report.content import SeedScores, Timings, content_of_chances, content_of_run
from gamlp.report.observed import Observed, listening
from gamlp.report.page import render, write_page, write_report

__all__ = ["Observed", "SeedScores", "Timings", "content_of_chances", "content_of_run", "listening", "render"]
__all__ += ["write_page", "write_report"]
