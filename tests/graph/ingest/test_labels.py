"""What a column of labels may say: unknown in many spellings, quantities that are no classes, several in one text."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import as_graph
from gamlp.graph.ingest.labels import UNKNOWN_LABELS, LabelColumn, check_classes

EDGES = "src,dst\n0,1\n"


def table(labels, header="id,label"):
    return "\n".join([header, *(f"{row},{label}" for row, label in enumerate(labels))]) + "\n"


@pytest.mark.parametrize("text", UNKNOWN_LABELS)
def test_what_programs_write_for_missing_is_no_class(build, text):
    with pytest.warns(UserWarning, match=rf"labels 2 '{re.escape(text)}' are taken for unknown; --unknown-label ''"):
        graph, report = build(table(["a", text, "b", f" {text} ", ""]), EDGES, seed=1)
    assert graph.nodes.labels.classes == ("a", "b")
    assert graph.nodes.labels.values.tolist() == [0, -1, 1, -1, -1]
    assert report.unknown_labels == {"": 1, text: 2}


def test_the_list_can_be_another(build, tmp_path):
    labels = ["a", "None", "?", "b", "-1.0", ""]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        graph, _ = build(table(labels), EDGES, unknown=(), fractions=(1, 0, 0))
    assert graph.nodes.labels.classes == ("-1.0", "?", "None", "a", "b")
    with pytest.warns(UserWarning, match="labels 1 '-1.0', 1 '\\?' are taken for unknown"):
        graph, _ = build(table(labels), EDGES, unknown=("?", "-1"), out=tmp_path / "other")
    assert graph.nodes.labels.classes == ("None", "a", "b")


def test_many_labels_may_be_unknown_too(build):
    with pytest.warns(UserWarning, match="labels 1 'NA', 1 'null'"):
        graph, report = build(table(["a;b", "NA", "b;null", ""]), EDGES, separator=";")
    assert graph.nodes.labels.classes == ("a", "b")
    assert graph.nodes.labels.values.tolist() == [[1, 1], [-1, -1], [0, 1], [-1, -1]]
    assert report.unknown_labels == {"": 1, "NA": 1, "null": 1}


def test_in_python_too():
    with pytest.warns(UserWarning, match="column 'y': labels 1 'NA' are taken for unknown"):
        labels = as_graph(([[0], [1]], np.eye(3), ["ant", "NA", None])).nodes.labels
    assert labels.classes == ("ant",) and labels.values.tolist() == [0, -1, -1]


def test_a_quantity_is_refused(build, tmp_path):
    values = np.random.default_rng(0).random(207)
    with pytest.raises(GamlpError) as told:
        build(table([f"{value:.6f}" for value in values]), EDGES)
    assert "207 different numbers such as 0." in str(told.value) and "a quantity, not classes" in str(told.value)
    assert "column label" in str(told.value) and "--label ''" in str(told.value)
    assert not (tmp_path / "graph").exists()


def test_whole_numbers_written_as_fractions_are_classes(build):
    graph, _ = build(table([f"{row % 40}.0" for row in range(400)]), EDGES)
    assert graph.nodes.labels.classes == tuple(str(number) for number in range(40))


def test_grades_in_halves_are_classes():
    assert check_classes([f"{number / 2}" for number in range(1, 11)], 12, column="label") == []
    assert (
        check_classes([f"20{year}.{month:02}" for year in (20, 21) for month in range(1, 13)], 5000, column="y") == []
    )


def test_as_many_classes_as_rows_is_said(build):
    with pytest.warns(UserWarning, match="150 classes for 200 labelled nodes: is 'label' the column of classes?"):
        build(table([f"name {row % 150}" for row in range(200)]), EDGES)


@pytest.mark.parametrize("mark", "|;/")
def test_several_labels_in_one_text_are_said(build, mark):
    with pytest.warns(UserWarning) as told:
        build(table(["a", "b", f"a{mark}b", f"b{mark}c", "c", "a"] * 5), EDGES)
    assert any(
        f"2 of 5 classes hold '{mark}', such as 'a{mark}b'" in str(one.message)
        and f"--many-labels '{mark}'" in str(one.message)
        for one in told
    )


@pytest.mark.parametrize(
    "classes",
    [["true/false", "n/a yet", "x"], ["Health | Beauty", "Toys"], ["a", "b"], ["|", "a"], ["1/2", "3/4", "1/8"]],
)
def test_a_mark_within_a_name_is_not_several_labels(classes):
    assert check_classes(classes, 100, column="label") == []


def test_batches_are_coded_alike():
    column = LabelColumn("label")
    for part in (["b", "NA", None], ["a", "b "], ["NA"]):
        column.add(column.known(pa.array(part, pa.large_string())))
    labels = column.labels(None, lambda shape: np.empty(shape, np.int8))
    assert labels.classes == ("a", "b") and labels.values.tolist() == [1, -1, -1, 0, 1, -1]
    assert column.not_known == {"NA": 2, "": 1}
