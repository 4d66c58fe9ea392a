"""The archive for executors: a bare Python imports gamlp from it, here and on a cluster that has none."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from gamlp.errors import GamlpError
from gamlp.spark.packing import Packed, pack, required
from tests.spark.processes import CONF, Driver, fingerprints, local_bytes, running, save_graph
from tests.spark.standalone import Standalone

LEFT_OUT = ["torch", "scikit-learn", "pandas"]  # that propagation does not import


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def packed(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return pack(tmp_path_factory.mktemp("packed") / "gamlp.tar.gz", leave_out=LEFT_OUT, python=str(bare))


@pytest.mark.slow
def test_a_bare_python_imports_gamlp_from_the_archive(packed: Packed, bare: Path, tmp_path: Path) -> None:
    with tarfile.open(packed.path) as archive:
        archive.extractall(tmp_path, filter="data")
    code = "import gamlp, gamlp.propagation, gamlp.kernel._native; print(gamlp.__file__)"
    clean = {"PATH": "/usr/bin:/bin"}
    alone = subprocess.run([bare, "-c", code], capture_output=True, text=True, env=clean, cwd=tmp_path)
    assert "No module named 'gamlp'" in alone.stderr
    found = subprocess.run([tmp_path / "bin/python", "-c", code], capture_output=True, text=True, env=clean, cwd="/")
    assert found.stdout.strip() == str(tmp_path / "lib/gamlp/__init__.py"), found.stderr
    assert not {"pyspark", *LEFT_OUT} & set(packed.distributions) and "numpy" in packed.distributions
    assert packed.bytes == packed.path.stat().st_size


@pytest.mark.long
def test_workers_without_gamlp_propagate_with_the_archive(
    cluster: Standalone, packed: Packed, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)  # that a session in this process set
    graph = save_graph(tmp_path / "graph")
    words = ["propagate", str(graph), "--hops", "3", "--label-hops", "2", "--engine", "spark", "--blocks", "2"]
    command = [sys.executable, "-m", "gamlp.cli.main", *words, "--master", cluster.address]

    def run(store: Path, conf: dict[str, str]) -> Driver:
        options = [word for key, value in (CONF | conf).items() for word in ("--spark-conf", f"{key}={value}")]
        return Driver([*command, "--out", str(store), *options], tmp_path)

    with running(run(tmp_path / "refused", {"spark.pyspark.python": str(bare)})) as refused:
        assert "the executors' Python has no '" in refused.ends_with_a_sentence()
    with running(run(tmp_path / "store", packed.conf)) as driver:
        driver.ends_well()
    assert fingerprints(tmp_path / "store") == local_bytes(graph, tmp_path / "local")


def test_what_is_required_is_found_and_what_is_missing_told() -> None:
    found = required(["gamlp"], {"torch"}, {"gamlp"})
    assert {"gamlp", "numpy", "pydantic", "pydantic-core", "rich"} <= set(found)  # also what those require
    assert not {"torch", "pyspark", "pytest"} & set(found)
    with pytest.raises(GamlpError, match="'no-such-thing' is not installed here; run: pip install no-such-thing"):
        required(["gamlp", "no_such.thing"], set(), {"no_such.thing"})


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=r"gamlp.zip: is no archive that Spark unpacks; end it with .tar.gz or .tgz"):
        pack(tmp_path / "gamlp.zip")
    (tmp_path / "there.tgz").touch()
    with pytest.raises(GamlpError, match="already exists; choose another --out"):
        pack(tmp_path / "there.tgz")
    with pytest.raises(GamlpError, match="is no Python"):
        pack(tmp_path / "a.tgz", python="python; rm")
    with pytest.raises(GamlpError, match=r"'Scikit_lern' would not be in the archive; did you mean 'scikit-learn'\?"):
        pack(tmp_path / "a.tgz", leave_out=["pyspark", "torch", "Scikit_lern"])
    assert [path.name for path in tmp_path.iterdir()] == ["there.tgz"]
