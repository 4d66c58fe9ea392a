"""A graph in a notebook: what it holds is there, and nothing that somebody called it runs."""

from __future__ import annotations

import pandas as pd
import pytest

from gamlp import Graph

EVIL = "<script>alert(1)</script>"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_types_relations_columns_and_classes_are_shown_and_escaped() -> None:
    nodes = pd.DataFrame(
        {"id": [1, 2, 3], EVIL: [1.0, 2.0, 3.0], "label": [EVIL, "b", "b"], "split": ["train", "train", "test"]}
    )
    edges = pd.DataFrame({"src": [1, 2], "dst": [2, 3], "colour": ["red", EVIL]})
    page = Graph.from_frames(nodes, edges, name=EVIL)._repr_html_()
    assert "3 nodes, 2 edges" in page and "node → node" in page and "colour" in page
    assert "&lt;script&gt;" in page and "<script" not in page and "http" not in page


def test_a_graph_of_arrays_has_no_names_of_columns() -> None:
    page = Graph.from_arrays([[0], [1]], [[1.0], [2.0]])._repr_html_()
    assert "2 nodes, 1 edges" in page and "<th" in page
