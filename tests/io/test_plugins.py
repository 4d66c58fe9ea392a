"""Plug-ins: found by name without being imported, built-in names win, a broken one is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gamlp.errors import GamlpError
from gamlp.io.plugins import find_plugins, load_plugin


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package, as pip leaves it: a module and its metadata."""
    info = tmp_path / "brings_things-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brings-things\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gamlp.examples]\nplain = brings_things:VALUE\nbroken = brings_things:absent\nlost = no_such_module:x\n"
    )
    (tmp_path / "brings_things.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_plugins_are_found_by_name_and_imported_when_asked(package: Path) -> None:
    found = find_plugins("gamlp.examples")
    assert set(found) == {"plain", "broken", "lost"}
    assert load_plugin(found["plain"]) == 7
    assert find_plugins("gamlp.nothing") == {}


def test_a_built_in_name_is_never_replaced(package: Path) -> None:
    assert set(find_plugins("gamlp.examples", {"plain": None})) == {"broken", "lost"}


@pytest.mark.parametrize("name", ["broken", "lost"])
def test_a_broken_plugin_is_one_sentence(package: Path, name: str) -> None:
    with pytest.raises(GamlpError, match=f"the plug-in '{name}' of brings-things cannot be imported"):
        load_plugin(find_plugins("gamlp.examples")[name])
