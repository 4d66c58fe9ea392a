"""Rows of a frame as questions: what a column means, and what a cell is."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gamlp.export.mlflow_flavour import GraphModel
from gamlp.graph import FeatureColumn, Graph
from gamlp.serve import Answered, Ends, NewNode, Question

pd = pytest.importorskip("pandas")


class Asked:
    """In the place of a served run: remembers what it is asked, and says the first class of everything."""

    def __init__(self, *columns: str) -> None:
        schema = {"node": tuple(FeatureColumn(name=name) for name in columns)} if columns else {}
        self.bundle = SimpleNamespace(classes=("a", "b"), multi_label=False, class_type="string", columns=schema)
        self.graph = Graph.from_arrays([[0], [1]], [[1.0], [2.0]])
        self.questions: list[Question] = []

    def answer(self, questions: list[Question]) -> list[Answered]:
        self.questions += questions
        found = []
        for one in questions:
            ids = (*one.ids, *(node.id for node in one.nodes))
            found.append(Answered(ids, np.tile(np.float32([0.75, 0.25]), (len(ids), 1)), ("a note",)))
        return found

    @property
    def nodes(self) -> list[NewNode]:
        return [node for question in self.questions for node in question.nodes]


def asked(frame: Any, *columns: str) -> tuple[Any, Asked]:
    served = Asked(*columns)
    return GraphModel(served).predict(frame), served  # type: ignore[arg-type]


def test_ids_alone_are_known_nodes() -> None:
    found, served = asked(pd.DataFrame({"id": [1, 0]}))
    assert served.questions == [Question(ids=(1, 0))]
    assert found.to_dict("list") == {"id": [1, 0], "label": ["a", "a"], "probability": [0.75, 0.75],
                                     "p_a": [0.75, 0.75], "p_b": [0.25, 0.25]}  # fmt: skip
    assert found.attrs["notes"] == ["a note"]


def test_every_row_of_another_frame_is_a_newcomer_by_itself() -> None:
    frame = pd.DataFrame({"age": [3, 4], "neighbours": [[0], np.array([0, 1])], "weights": [[0.5], None]})
    _, served = asked(frame, "age")
    assert len(served.questions) == 2
    first, second = served.nodes
    assert first == NewNode(cells={"age": 3}, hears={None: Ends((0,), (0.5,))})
    assert second == NewNode(cells={"age": 4}, hears={None: Ends((0, 1))})
    assert all(type(one) is int for one in second.hears[None].ids)


def test_edges_by_relation_and_direction() -> None:
    frame = pd.DataFrame(
        {
            "id": ["new"], "neighbours:cites": [[1]], "weights:cites": [[2.0]], "leads_to:cites": [[0]],
            "leads_to_weights:cites": [[3.0]], "neighbours:writes": [[]],
        }
    )  # fmt: skip
    _, served = asked(frame, "age")
    (node,) = served.nodes
    assert node.id == "new" and node.cells == {}
    assert node.hears == {"cites": Ends((1,), (2.0,))}, "of a relation without edges nothing is said"
    assert node.leads_to == {"cites": Ends((0,), (3.0,))}


def test_a_column_of_training_keeps_its_name() -> None:
    frame = pd.DataFrame({"weights": [1.5], "id": [7], "features": [2.0], "neighbours": [[0]]})
    _, served = asked(frame, "weights", "id", "features")
    assert served.nodes == [NewNode(cells={"weights": 1.5, "id": 7, "features": 2.0}, hears={None: Ends((0,))})]


def test_what_is_missing_is_a_gap_and_numbers_are_plain() -> None:
    frame = pd.DataFrame(
        {
            "a": [np.float32(0.5), np.nan], "b": pd.array([1, pd.NA], "Int64"), "c": ["x", None],
            "d": [pd.Timestamp("2024-05-01"), pd.NaT],
        }
    )  # fmt: skip
    _, served = asked(frame, "a", "b", "c", "d")
    full, empty = served.nodes
    assert full.cells == {"a": 0.5, "b": 1, "c": "x", "d": datetime.datetime(2024, 5, 1)}
    assert type(full.cells["d"]) is datetime.datetime
    assert empty.cells == {"a": None, "b": None, "c": None, "d": None}


def test_features_without_names_are_a_list() -> None:
    _, served = asked(pd.DataFrame({"features": [[1.0, 2.0]], "id": [None]}))
    assert served.nodes == [NewNode(features=(1.0, 2.0))]
