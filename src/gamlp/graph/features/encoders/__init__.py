"""Encoders: columns of a table, whatever they hold → float32 features, by a state of plain data.

How the others use it (`values` is always an Arrow array of one column; of CSV tables its cells are text):

    fitting = Fitting("age")                 # or Fitting("age", wanted="robust"): the TYPE of --column age=TYPE
    for batch in batches:
        fitting.add(batch.column("age"))     # streaming; NaN, null, '' and words such as NA are gaps
    fitting.merge(other)                     # of another task, in any order: the same bytes
    Fitting.from_plain(fitting.to_plain())   # plain data on its way to Spark's driver

    found = infer(fitting)                   # Inference(type, reason, refusal): what it is, and why, in a clause
    column = finish(fitting)                 # FittedColumn; raises GamlpError (column, hint) where found.refusal

    column.type, column.width, column.feature_names(), column.reason
    features, unseen = column.apply(values)  # float32 [rows, width], finite; Unseen(values, gaps, examples)
    column.apply(values, out=block[:, 3:9])  # into columns of a block that is there
    column.unreadable(values)                # mask of cells that apply cannot mean: to be refused by row before

A type that somebody named is checked cell by cell with `unreadable(values, wanted)` before `add`. Where `infer` refuses
(numbers with a few words among them, lists of different lengths, infinity), `unreadable(values, found.type)` finds the
rows to name; `refusal_hint(name, found)` says what to do. Columns of types in LEFT_OUT have width 0 and no state.

FittedColumn is a pydantic model: `model_dump(mode="json")`, `model_validate`. `column.feature_column()` is what a
manifest and a bundle keep (name, type, width, source, state); `FittedColumn.of(feature_column)` comes back from it,
also from manifests without states. `same_as` compares what two columns do.

`schema_text({"node": columns})` is the text of schema.yaml, with all columns, also those that are left out;
`read_schema(path)` gives `types` (every column's, to be wanted) and `fitted` (columns whose state still holds).
"""

from gamlp.graph.features.encoders.category import CategoryState  # the states whose numbers others may write out
from gamlp.graph.features.encoders.fitted import (
    FittedColumn,  # a state that turns cells into features
    as_known,  # columns that are encoded alike, as another table has them
    finish,  # Fitting → FittedColumn
    refusal_hint,  # what to do about a column that is refused
    unreadable,  # which cells are not of a type
)
from gamlp.graph.features.encoders.fitting import Fitting  # what a pass sees of a column, mergeable
from gamlp.graph.features.encoders.inference import Inference, infer  # what a column is, and why
from gamlp.graph.features.encoders.reading import (
    GAP_WORDS,  # texts that say that a value is missing
    number_key,  # a number as a category is called
)
from gamlp.graph.features.encoders.scaled import RankedState, ScaledState, TruthState
from gamlp.graph.features.encoders.schema_file import (
    SCHEMA,  # the name of the file
    SchemaFile,  # types and states by node type
    read_schema,  # from a file that somebody may have edited
    schema_text,  # FittedColumns → the text of the file
)
from gamlp.graph.features.encoders.state import (
    LARGEST,  # features beyond it are cut off there
    Unseen,  # what fitting had not seen
)
from gamlp.graph.features.encoders.vectors import VectorState
from gamlp.graph.features.encoders.words import COLUMN_TYPES, LEFT_OUT, known_type  # types by their words

__all__ = [
    "COLUMN_TYPES",
    "GAP_WORDS",
    "LARGEST",
    "LEFT_OUT",
    "SCHEMA",
    "CategoryState",
    "FittedColumn",
    "Fitting",
    "Inference",
    "RankedState",
    "ScaledState",
    "SchemaFile",
    "TruthState",
    "Unseen",
    "VectorState",
    "as_known",
    "finish",
    "infer",
    "known_type",
    "number_key",
    "read_schema",
    "refusal_hint",
    "schema_text",
    "unreadable",
]
