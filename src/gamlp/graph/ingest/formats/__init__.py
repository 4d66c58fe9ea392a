"""Formats of tables: each is a file with rows that are read in batches, and knows what is wrong with itself."""

from gamlp.graph.ingest.formats.arrow import sized_batches  # of any batches of Arrow
from gamlp.graph.ingest.formats.contract import (
    PassOver,  # is told of a row that is left out
    ReadingRules,  # what a person says of how tables are written
    TableFile,  # what every format answers
    file_row,
)
from gamlp.graph.ingest.formats.databases import split_place  # `path::table`
from gamlp.graph.ingest.formats.long_text import refuse_long_text
from gamlp.graph.ingest.formats.parts import (
    TablePart,  # a file of a table, with its partition
    find_parts,
    partition_types,
)
from gamlp.graph.ingest.formats.sniffing import delimiter_name, parse_delimiter, refuse_decimal_commas, sniffed

__all__ = [
    "PassOver",
    "ReadingRules",
    "TableFile",
    "TablePart",
    "delimiter_name",
    "file_row",
    "find_parts",
    "parse_delimiter",
    "partition_types",
    "refuse_decimal_commas",
    "refuse_long_text",
    "sized_batches",
    "sniffed",
    "split_place",
]
