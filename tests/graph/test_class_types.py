"""Labels keep the type that they had in a table, through the graph folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from gamlp.graph import Graph, arrow_classes, class_type_of, fits_type
from gamlp.graph.ingest import ingest
from gamlp.graph.manifest import LabelsEntry


def graph_of(folder: Path, labels: Any) -> Graph:
    """A graph whose nodes have these labels: an Arrow array in Parquet, or texts in a CSV."""
    (folder / "edges.csv").write_text("src,dst\n0,1\n1,2\n2,3\n")
    nodes = folder / "nodes.csv"
    if isinstance(labels, list):
        nodes.write_text("id,x,label\n" + "".join(f"{row},{row}.5,{text}\n" for row, text in enumerate(labels)))
    else:
        nodes = folder / "nodes.parquet"
        ids, x = pa.array(range(len(labels))), pa.array([float(row) for row in range(len(labels))])
        pa.parquet.write_table(pa.table({"id": ids, "x": x, "label": labels}), nodes)
    ingest(folder / "edges.csv", nodes, folder / "graph")
    return Graph.open(folder / "graph")


@pytest.mark.parametrize(
    ("labels", "class_type", "classes"),
    [
        (pa.array([3, 10, None, 3], pa.int64()), "integer", [3, 10]),
        (pa.array([3.0, 10.0, None, 3.0]), "integer", [3, 10]),
        (pa.array([True, False, None, True]), "boolean", [False, True]),
        (pa.array(["3", "10", None, "3"]), "string", ["3", "10"]),
        (pa.array([[3, 10], [], None, [3]], pa.list_(pa.int64())), "integer", [3, 10]),
        (pa.array([["3", "10"], [], None, ["3"]]), "string", ["3", "10"]),
        (["3", "10", "", "3"], "integer", [3, 10]),
        (["True", "False", "", "True"], "boolean", [False, True]),
        (["true", "True", "False", "true"], "string", ["False", "True", "true"]),
        (["007", "8", "", "8"], "string", ["007", "8"]),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_through_a_folder(labels: Any, class_type: str, classes: list[Any], tmp_path: Path) -> None:
    found = graph_of(tmp_path, labels).nodes.labels
    assert found is not None and found.class_type == class_type
    assert arrow_classes(found.classes, found.class_type).to_pylist() == classes


def test_an_integer_beyond_64_bits_is_a_text() -> None:
    assert class_type_of([str(2**63 - 1)]) == "integer" and class_type_of([str(2**63)]) == "string"


def test_a_manifest_whose_classes_are_not_of_its_type_is_refused() -> None:
    assert not fits_type(["a"], "integer") and not fits_type(["maybe"], "boolean") and fits_type(["0", "1"], "boolean")
    with pytest.raises(ValueError, match="classes are no integer values"):
        LabelsEntry(multi_label=False, classes=["ant"], class_type="integer")


def test_a_bool_of_an_array_is_a_boolean() -> None:
    graph = Graph.from_arrays([[0], [1]], [[1.0], [2.0]], [True, False])
    assert graph.nodes.labels is not None and graph.nodes.labels.class_type == "boolean"


def test_classes_of_an_older_gamlp_are_texts() -> None:
    assert LabelsEntry.model_validate({"many": False, "classes": ["0", "1"]}).class_type == "string"
