"""The paper's tables and figures as data, measured and set beside the published values."""

# The page that says what reproduces
from gamlp.bench.claims import as_summary

# Run what a table lacks; write what it has
from gamlp.bench.measure import WrittenTable, measure_table, results_of, write_result

# Finished runs, kept beside the pages
from gamlp.bench.record import NAME as RECORD
from gamlp.bench.record import Record

# Tables by name
from gamlp.bench.tables import NAMES, PaperTable, table_of

# Where a measurement lives and what it may spend
from gamlp.bench.work import Work

__all__ = [
    "NAMES",
    "RECORD",
    "PaperTable",
    "Record",
    "Work",
    "WrittenTable",
    "as_summary",
    "measure_table",
    "results_of",
    "table_of",
    "write_result",
]
