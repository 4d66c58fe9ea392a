"""What MLflow loads: `mlflow.pyfunc.load_model(folder).predict(frame)`, of known ids or of newcomers.

MLflow calls `_load_pyfunc` of the module that the folder names. Nothing is unpickled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.run import table_columns, table_schema
from gamlp.serve import Ends, NewNode, Question, Refusal, ServedRun
from gamlp.training import Bundle

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

ID, FEATURES = "id", "features"
# Columns of lists of ids and of their weights, by what they say; a relation follows after a colon.
NEIGHBOURS = {"neighbours": "weights", "leads_to": "leads_to_weights"}


class GraphModel:
    """A run that answers frames.

    A frame with the column `id` alone asks about known nodes. Any other has a newcomer a row: the columns of the table
    that the run was trained on (`features`, a list of numbers, where they have no names), `neighbours`, a list of ids,
    and, where edges have them, `weights`; of several relations `neighbours:RELATION`. Its own `id` is optional, and so
    is `leads_to`, ids that its directed edges lead to. Rows know nothing of each other.
    """

    def __init__(self, served: ServedRun) -> None:
        self.served = served

    def predict(self, frame: pd.DataFrame, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """`id`, `label`, `probability` and `p_CLASS` of every row, in its order."""
        columns = list(frame.columns)
        if columns == [ID]:
            questions = [Question(ids=tuple(_plain(value) for value in frame[ID]))] if len(frame) else []
        else:
            questions = [Question(nodes=(node,)) for node in self._newcomers(frame)]
        answers = self.served.answer(questions)
        for row, one in enumerate(answers):
            if isinstance(one, Refusal):
                raise GamlpError(
                    one.problem, row=None if columns == [ID] else row, column=one.column, hint=one.hint
                ) from one
        found = [one for one in answers if not isinstance(one, Refusal)]
        ids = [name for one in found for name in one.ids]
        classes = len(self.served.bundle.classes)
        chances = np.concatenate([np.zeros((0, classes), np.float32), *(one.probabilities for one in found)])
        table = self._table(ids, chances.astype(np.float32)).to_pandas()
        table.index = frame.index
        table.attrs["notes"] = list(dict.fromkeys(note for one in found for note in one.notes))
        made: pd.DataFrame = table
        return made

    def _table(self, ids: list[Any], probabilities: Any) -> pa.Table:
        bundle, known = self.served.bundle, self.served.graph.nodes.ids
        schema = table_schema(bundle, known, True, text=False)
        names = _names(ids, schema.field(ID).type)
        schema = schema.set(0, pa.field(ID, names.type))
        return table_columns(bundle, schema, names, probabilities, True)

    def _newcomers(self, frame: pd.DataFrame) -> Iterator[NewNode]:
        """A node a row; a column of training that has the name of one of ours is a cell."""
        named = set(training_columns(self.served.bundle, self.served.graph))
        edges = [name for name in frame.columns if name not in named and _edge_word(name) is not None]
        own = {ID, FEATURES, *edges} - named
        weights = {name: beside for name in edges if (beside := _weights_name(name)) in {*frame.columns} - named}
        columns = {name: frame[name].tolist() for name in frame.columns}
        for row in range(len(frame)):
            left_out = {*own, *weights.values()}
            cells = {str(name): _plain(values[row]) for name, values in columns.items() if name not in left_out}
            ends = {name: _ends(columns, name, weights.get(name), row) for name in edges}
            features = _plain(columns[FEATURES][row]) if FEATURES in columns and FEATURES not in named else None
            name = _plain(columns[ID][row]) if ID in columns and ID not in named else None
            yield NewNode(
                id=name,
                cells=cells,
                features=None if features is None else tuple(features),
                hears=_by_relation(ends, "neighbours"),
                leads_to=_by_relation(ends, "leads_to"),
            )


def training_columns(bundle: Bundle, graph: Graph) -> list[str]:
    """Names of the columns that a node of the target type has; none where features have no names."""
    own = bundle.columns.get(graph.target)
    if own is None and len(graph.node_types) == 1:  # where there is one type, its name does not matter
        own = next(iter(bundle.columns.values()), None)
    return [column.name for column in own or ()]


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> GraphModel:
    """`model_config={"trust": "package.module:Class"}` names a model of one's own code, which then runs."""
    return GraphModel(ServedRun.open(Path(path), trust=(model_config or {}).get("trust"), read_only=True))


def _names(ids: list[Any], kind: pa.DataType) -> pa.Array:
    """Ids as the graph has them; where newcomers are called otherwise, as texts."""
    try:
        return pa.array(ids, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if one is None else str(one) for one in ids], pa.string())


def _edge_word(name: Any) -> str | None:
    """`neighbours` of neighbours:writes."""
    word = str(name).partition(":")[0]
    return word if word in NEIGHBOURS else None


def _weights_name(name: str) -> str:
    """`weights:writes` of neighbours:writes."""
    word, colon, relation = name.partition(":")
    return f"{NEIGHBOURS[word]}{colon}{relation}"


def _ends(columns: Mapping[str, list[Any]], name: str, beside: str | None, row: int) -> Ends:
    """Ids of a row, and the weights in the column `beside`."""
    ids = _listed(columns[name][row], name, row)
    given = [] if beside is None else _listed(columns[beside][row], beside, row)
    return Ends(tuple(ids), tuple(float(weight) for weight in given) if given else None)


def _listed(cell: Any, name: str, row: int) -> list[Any]:
    """A list of ids; a gap is none."""
    plain = _plain(cell)
    if plain is None:
        return []
    if not isinstance(plain, list):
        raise GamlpError("a list is expected", row=row, column=name, hint="give ids as a list: ['a', 'b']")
    return plain


def _by_relation(ends: Mapping[str, Ends], word: str) -> dict[str | None, Ends]:
    """{relation: ends}; None where no relation is named. Relations without edges are left out."""
    return {
        name.partition(":")[2] or None: found
        for name, found in ends.items()
        if _edge_word(name) == word and (found.ids or found.weights)
    }


def _plain(value: Any) -> Any:
    """A cell as a table has it: what is missing is None, and 3.0 among ids of a column with gaps is 3."""
    if isinstance(value, np.ndarray | Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    ):
        return None
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
