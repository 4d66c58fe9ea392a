"""Tables of nodes and edges → a graph folder. The rules of columns and rows are also those of Spark's ingest."""

from gamlp.graph.ingest.additions import (
    AddedTables,  # a graph folder that has grown
    Additions,  # what tables add to a graph
    add_tables,  # tables → a graph folder that grows in place
    read_additions,
)
from gamlp.graph.ingest.buckets import Buckets, bucket_count  # edges of any number, sorted in a memory budget
from gamlp.graph.ingest.build import (
    IngestOptions,  # how tables are read, on every engine
    TablePlaces,  # the place of one table, or of several by what they hold
    ingest,  # tables → a graph folder, on this machine
    resolve_relation_ends,  # which types the relations of tables join
    type_tables,  # node tables by type, and the target
    unnamed_edges,  # the error of edges between several types without names
)
from gamlp.graph.ingest.cells import (
    CellChecks,  # which cells of feature columns are what they were asked to be
    fit_dtype,  # features as a half type holds them
    is_no,  # what is said of a cell that is not
    kept_raw,  # columns that a graph keeps as the table had them
)
from gamlp.graph.ingest.columns import (
    BadRows,  # what to do with bad rows, and how many there were
    CheckedRows,  # the rows of a batch, and which of them are good
    Column,
    OnBad,
    is_null,
    numbers,
    plain,
    shown,
)
from gamlp.graph.ingest.edges import (
    MOST_RELATIONS,
    EdgeNames,  # which columns of an edge table are what
    read_relations,
    read_weights,
    refuse_undeclared,
    refuse_unknown,
    stranger,
    too_heavy,
    too_many_relations,
)
from gamlp.graph.ingest.encoding import (
    unseen_sentences,  # what is said of what a schema does not know
    what_was_done,  # what became of a column, for people
)
from gamlp.graph.ingest.features import (
    ColumnFeatures,  # columns of numbers and lists → a matrix
    columns_schema,  # their names and types
)
from gamlp.graph.ingest.formats import (
    ReadingRules,  # what a person says of how tables are written
    delimiter_name,  # as people call it
    parse_delimiter,  # what a person writes for one
    refuse_decimal_commas,
    sniffed,  # the delimiter of a text that starts so
    split_place,  # a database's file and its table
)
from gamlp.graph.ingest.frames import FrameTable, is_frame  # a table that Python holds
from gamlp.graph.ingest.ids import IdMap, as_integers, as_text, id_integers  # original ids ↔ rows
from gamlp.graph.ingest.labels import (
    MOST_CLASSES,
    UNKNOWN_LABELS,  # texts that say that a label is not known
    LabelColumn,  # one label or many from a column
    check_classes,
    class_numbers,
    split_roles,
    too_many_classes,
    unknown_labels,
)
from gamlp.graph.ingest.nodes import (
    NodeNames,  # which columns of a node table are what
    RandomSplit,
    check_ids,
    choose,
)
from gamlp.graph.ingest.report import IngestReport  # what was read, stored and left out
from gamlp.graph.ingest.tables import TableBatch, too_many_rows  # rows of a table with their place in it
from gamlp.graph.ingest.time_split import (
    EARLIER,  # parts at whose ends edges are kept as they were
    EdgePeriods,
    TimeSplit,  # a split by the times of nodes
    periods_by_role,
    roles_of,
    tell_split,
)
from gamlp.graph.ingest.times import (
    Cut,  # a time that a person wrote: before it, or until it
    TimeColumn,  # times of a table, batch by batch
    holds_times,
    time_by_name,  # the column that is called as times usually are
)
from gamlp.graph.ingest.uses import (
    ColumnUse,  # what a column of a table is used for
    FeatureColumns,  # which columns of a node table are features, and why others are not
    edge_uses,
    feature_columns,
    index_left_out,
    node_uses,
)
from gamlp.graph.ingest.wanted import (
    ColumnPlan,  # what is to become of the feature columns of a table
    GivenSchema,  # types and states that a schema has for one node type
    PlainSchema,  # a schema as options keep it
    WantedTypes,  # what --column and --drop say
    plain_schema,
    plain_type,
    plan_columns,
    states_schema,  # the columns that a graph or a bundle uses, as a schema
)

__all__ = [
    "EARLIER",
    "MOST_CLASSES",
    "MOST_RELATIONS",
    "UNKNOWN_LABELS",
    "AddedTables",
    "Additions",
    "BadRows",
    "Buckets",
    "CellChecks",
    "CheckedRows",
    "Column",
    "ColumnFeatures",
    "ColumnPlan",
    "ColumnUse",
    "Cut",
    "EdgeNames",
    "EdgePeriods",
    "FeatureColumns",
    "FrameTable",
    "GivenSchema",
    "IdMap",
    "IngestOptions",
    "IngestReport",
    "LabelColumn",
    "NodeNames",
    "OnBad",
    "PlainSchema",
    "RandomSplit",
    "ReadingRules",
    "TableBatch",
    "TablePlaces",
    "TimeColumn",
    "TimeSplit",
    "WantedTypes",
    "add_tables",
    "as_integers",
    "as_text",
    "bucket_count",
    "check_classes",
    "check_ids",
    "choose",
    "class_numbers",
    "columns_schema",
    "delimiter_name",
    "edge_uses",
    "feature_columns",
    "fit_dtype",
    "holds_times",
    "id_integers",
    "index_left_out",
    "ingest",
    "is_frame",
    "is_no",
    "is_null",
    "kept_raw",
    "node_uses",
    "numbers",
    "parse_delimiter",
    "periods_by_role",
    "plain",
    "plain_schema",
    "plain_type",
    "plan_columns",
    "read_additions",
    "read_relations",
    "read_weights",
    "refuse_decimal_commas",
    "refuse_undeclared",
    "refuse_unknown",
    "resolve_relation_ends",
    "roles_of",
    "shown",
    "sniffed",
    "split_place",
    "split_roles",
    "states_schema",
    "stranger",
    "tell_split",
    "time_by_name",
    "too_heavy",
    "too_many_classes",
    "too_many_relations",
    "too_many_rows",
    "type_tables",
    "unknown_labels",
    "unnamed_edges",
    "unseen_sentences",
    "what_was_done",
]  # fmt: skip
