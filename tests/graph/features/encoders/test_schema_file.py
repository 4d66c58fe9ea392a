"""schema.yaml: written, read, edited, and refused with its column where it cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.features.encoders import FittedColumn, Fitting, finish, read_schema, schema_text


def fitted(name: str, values: list[object]) -> FittedColumn:
    fitting = Fitting(name)
    fitting.add(pa.array(values))
    return finish(fitting)


COLUMNS = [
    fitted("age", [31.5, None, 1e300, -7.25, 1e-300]),
    fitted("yes", ["no", "yes", "null", "~", "1e3", "2020-01-01", "no", "ümlaut: #x"] * 3),
    fitted("2020", ["2020-01-01", "2021-03-04", None]),
    fitted("name", [f"person {number}" for number in range(30)]),
    fitted("vector", [[1.0, 2.0], [2.0, 1.0]]),
    fitted("heavy", [float(2**number) for number in range(900)]),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "schema.yaml").write_text(schema_text({"node": COLUMNS, "author": COLUMNS[:1]}), encoding="utf-8")
    return tmp_path / "schema.yaml"


def test_what_is_written_is_read(path: Path) -> None:
    found = read_schema(path)
    assert found.types == {"node": {column.name: column.type for column in COLUMNS}, "author": {"age": "standard"}}
    with_state = [column for column in COLUMNS if column.state is not None]
    assert found.fitted["node"] == with_state and len(with_state) == 5
    assert "# " in path.read_text() and "vector-l2" in path.read_text()


def test_a_type_that_was_edited_is_fitted_anew(path: Path) -> None:
    path.write_text(path.read_text().replace("type: standard", "type: robust"))
    found = read_schema(path)
    assert found.types["node"]["age"] == "robust"
    assert "age" not in [column.name for column in found.fitted["node"]]
    path.write_text("node: {age: as-is, name: drop}\n")
    assert read_schema(path).types == {"node": {"age": "as-is", "name": "drop"}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node: {age: {type: colour}}", "schema.yaml, column age: 'colour' is no type of a column; types are number, "),
        ("node: {age: {typ: date}}", "column age: 'typ' says nothing; keys are type"),
        ("node: {age: {why: x}}", "column age: no type; write type: and one of"),
        ("node: {age: 3}", "column age: no type and fitted by name"),
        ("node: [age]", "schema.yaml: no columns of 'node' by name"),
        ("node: {yes: date}", "schema.yaml: no columns of 'node' by name; quote names such as 'yes'"),
        ("[]", "schema.yaml: no node types by name"),
        ("node: {age: &a {type: date}, b: *a}", "not YAML: aliases are not allowed"),
        ("node: !!python/object:os.system {}", "not YAML"),
        (
            "node: {age: {type: standard, fitted: {as: standard, state: {kind: scaled, scale: 0}}}}",
            "scale: input should",
        ),
        ("node: {age: {type: standard, fitted: {as: standard, state: {kind: scaled, center: .nan}}}}", "finite number"),
        ("node: {age: {type: standard, fitted: {as: standard, state: {kind: truth}}}}", "no state of a column of type"),
        ("node: {age: {type: vector, fitted: {as: vector, state: {kind: vector, width: 99999999}}}}", "width: input"),
        ("node: {age: {type: quantile, fitted: {as: quantile, state: {kind: ranked, quantiles: [2, 1]}}}}", "ascend"),
    ],
)
def test_what_cannot_be_meant_is_told_in_a_sentence(path: Path, text: str, told: str) -> None:
    path.write_text(text)
    with pytest.raises(GamlpError) as caught:
        read_schema(path)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="there is no such schema; gamlp ingest writes"):
        read_schema(tmp_path / "none.yaml")
    (tmp_path / "large.yaml").write_bytes(b" " * ((1 << 24) + 1))
    with pytest.raises(GamlpError, match="too large for a schema"):
        read_schema(tmp_path / "large.yaml")
