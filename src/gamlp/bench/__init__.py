"""The paper's tables and figures as data, measured and set beside the published values."""

# Write what a table has; whether it is one of runs or of points of its own
from gamlp.bench.measure import WrittenTable, is_special, results_of, write_result

# Finished runs, kept beside the pages
from gamlp.bench.record import FOLDER as RUNS
from gamlp.bench.record import Record

# Run what tables lack, and what that will cost
from gamlp.bench.runner import measure_tables
from gamlp.bench.schedule import Forecast, Schedule, duration

# What a table has and lacks
from gamlp.bench.status import TableStatus, status_of

# The page that says what reproduces
from gamlp.bench.summary import PAGES, as_summary, write_summary

# Tables by name
from gamlp.bench.tables import NAMES, PaperTable, table_of

# Where a measurement lives and what it may spend
from gamlp.bench.work import Work

__all__ = [
    "NAMES",
    "PAGES",
    "RUNS",
    "Forecast",
    "PaperTable",
    "Record",
    "Schedule",
    "TableStatus",
    "Work",
    "WrittenTable",
    "as_summary",
    "duration",
    "is_special",
    "measure_tables",
    "results_of",
    "status_of",
    "table_of",
    "write_result",
    "write_summary",
]
