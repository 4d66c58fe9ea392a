"""docs/notebook.ipynb is run, cell by cell, as a person would; what cells show is looked at, and none is kept in it."""

from __future__ import annotations

import ast
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def shown(source: str, session: dict[str, Any]) -> Any:
    """Run a cell; its last expression is what it shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NOTEBOOK.name, "exec"), session)
    return None if last is None else eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), session)


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("networkx")
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {}
    pages = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            if cell["cell_type"] == "code":
                found = shown("".join(cell["source"]), session)
                pages += [found._repr_html_()] if type(found).__module__.startswith("gamlp.") else []
    assert [page.split(">")[2].split("<")[0].split(" ")[0] for page in pages] == [
        "Graph", "NodeClassifier:", "How", "Graph",
    ]  # fmt: skip
    assert all("<script" not in page and "src=" not in page for page in pages)
    assert session["right"] > 0.6 and session["model"].score() > 0.6


def test_no_output_is_kept_in_the_notebook() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
