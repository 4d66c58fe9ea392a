"""The package as it is installed: with and without a compiler; extras; what importing it costs is in tests/cli."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.slow
def test_without_a_compiler_the_install_succeeds_without_the_kernel(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core", reason="the build backend comes with gamlp[dev]")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    options = ["--wheel-dir", str(tmp_path), f"--config-settings=build-dir={tmp_path / 'build'}", str(ROOT)]
    nowhere = str(tmp_path / "no-such-compiler")
    done = subprocess.run(
        [*command, *options], env={**os.environ, "CC": nowhere, "CXX": nowhere}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"gamlp/cli/main.py", "gamlp/py.typed"} <= set(names)
    assert {"gamlp/recipe/spaces/default.yaml", "gamlp/recipe/shipped/cora/jk.yaml"} <= set(names)
    assert {f"gamlp/report/{name}" for name in ("template.html", "style.css", "charts.js")} <= set(names)
    assert "gamlp/serve/http/page.html" in names
    assert not [name for name in names if "_native" in name or name.endswith((".cpp", ".hpp"))]


def test_the_core_needs_nothing_but_what_is_promised() -> None:
    names = {re.split(r"[<>=!~ ]", requirement)[0] for requirement in PROJECT["dependencies"]}
    promised = {"torch", "numpy", "scipy", "pyarrow", "pydantic", "safetensors", "scikit-learn", "typer", "rich"}
    promised |= {"pyyaml"}  # recipes are YAML
    promised |= {"fsspec"}  # places
    assert names == promised
    assert {"datasets", "spark", "bench", "tune", "plots", "serve", "dev", "all"} <= set(
        PROJECT["optional-dependencies"]
    )


def test_the_lock_names_a_version_for_all_that_is_asked_for() -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), "one plain pin a line, no suffix, no hash"
    locked = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    assert "torch==2.13.0" in lines
    wanted = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    names = {re.split(r"[<>=!~\[ ]", requirement)[0].lower() for requirement in wanted} - {"gamlp"}
    assert names <= locked
