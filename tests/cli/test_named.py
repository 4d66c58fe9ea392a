"""Options for each of several tables: what their words mean, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gamlp.cli.options import named
from gamlp.errors import GamlpError


def test_tables_have_names_where_there_are_several() -> None:
    assert named.tables("--nodes", ["papers.csv"]) == "papers.csv"
    assert named.tables("--nodes", ["paper=papers.csv"]) == {"paper": "papers.csv"}
    assert named.tables("--nodes", ["b=x/day=3.csv", "a=y.csv"]) == {"b": "x/day=3.csv", "a": "y.csv"}


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("day=3.csv").touch()
    assert named.tables("--nodes", ["day=3.csv"]) == "day=3.csv"
    assert named.tables("--nodes", ["s3://bucket/day=3"]) == "s3://bucket/day=3"
    assert named.tables("--nodes", ["day=4.csv"]) == {"day": "4.csv"}


def test_values_hold_for_all_tables_or_for_one() -> None:
    found = named.values("--features", ["x,y", "author=", "paper=a=b"], ("paper", "author", "venue"))
    assert [found.of(node_type) for node_type in ("venue", "author", "paper")] == ["x,y", "", "a=b"]
    assert named.values("--id", None, ("paper",)).of("paper") is None
    # A table without a name may have any column.
    assert named.values("--id", ["a=b"], ()).of("") == "a=b"


def test_joins() -> None:
    assert named.relation_ends(["writes=author:paper", "cites=paper:paper"]) == {
        "writes": ("author", "paper"), "cites": ("paper", "paper")
    }  # fmt: skip
    assert named.relation_ends(None) == {}


@pytest.mark.parametrize(
    ("parse", "told"),
    [
        (lambda: named.relation_ends(["cites=a:b", "cites=a:b"]), "--join gives relation 'cites' twice"),
        (lambda: named.relation_ends(["writes=author"]), "--join writes=author is not NAME=SOURCE:TARGET"),
        (
            lambda: named.relation_ends(["author:paper"]),
            "is not NAME=SOURCE:TARGET; for example --join writes=author:paper",
        ),
        (lambda: named.tables("--nodes", ["a=x.csv", "y.csv"]), "--nodes y.csv: several tables need names; write --no"),
        (lambda: named.tables("--nodes", ["a=x.csv", "b="]), "--nodes b=: several tables need names"),
        (lambda: named.tables("--edges", ["a=x.csv", "a=y.csv"]), "--edges gives 'a' twice; a table in several files"),
        (lambda: named.values("--id", ["b=x"], ("a",)), "--id b=x: nothing is called 'b'; there are: a"),
        (lambda: named.values("--id", ["a=x", "a=y"], ("a",)), "--id is given twice for 'a'"),
        (lambda: named.values("--id", ["x", "y"], ("a",)), "--id is given twice: 'x' and 'y'"),
    ],
)
def test_is_refused(parse: Callable[[], Any], told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        parse()
