"""A package that brings a model, a dataset and an engine: installed, found by name, and run by the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gamlp.errors import GamlpError
from gamlp.graph.datasets import load
from gamlp.models import MODELS, Shape, build, check_operators, labels_used
from gamlp.recipe import Recipe

pytestmark = pytest.mark.slow

PROJECT = """
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"

[project]
name = "tiny-plugin"
version = "1.0"

[tool.scikit-build]
wheel.cmake = false
wheel.packages = ["tiny_plugin"]

[project.entry-points."gamlp.models"]
tiny-mean = "tiny_plugin:Mean"
tiny-plain = "tiny_plugin:Plain"
sgc = "tiny_plugin:absent"

[project.entry-points."gamlp.datasets"]
tiny-ring = "tiny_plugin:ring"
tiny-number = "tiny_plugin:number"
karate = "tiny_plugin:absent"

[project.entry-points."gamlp.engines"]
tiny-counting = "tiny_plugin:Counting"
"""
PACKAGE = '''
"""A model, a dataset and an engine of somebody else."""

from pathlib import Path

import numpy as np
from torch import nn

import gamlp
from gamlp.graph import Split
from gamlp.run import LocalEngine


class Mean(nn.Module):
    """Linear in the mean over hops; says nothing of what it reads, so that it gets all there is."""

    def __init__(self, shape, *, hidden=4, scale=1.0):
        super().__init__()
        self.scale = scale
        self.first = nn.Linear(shape.features, hidden)
        self.last = nn.Linear(hidden, shape.classes)
        self.labels = nn.Linear(shape.classes, shape.classes)

    def forward(self, x, y):
        return self.last(self.first(x.mean((1, 2)))) * self.scale + self.labels(y.mean((1, 2)))


class Plain(nn.Module):
    """Reads a node's own features."""

    reads_labels = False
    reads_operators = False

    def __init__(self, shape):
        super().__init__()
        self.only = nn.Linear(shape.features, shape.classes)

    def forward(self, x, y=None):
        return self.only(x[:, 0, 0])


def ring(data_dir, seed):
    """Sixty nodes in a ring, two classes by halves."""
    number = np.arange(60)
    features = np.eye(2)[number // 30] + np.random.default_rng(seed).normal(0, 0.1, (60, 2))
    roles = (number % 3 + 1).astype(np.int8)  # train, valid, test
    edges = [number, (number + 1) % 60]
    return gamlp.Graph.from_arrays(edges, features, labels=number // 30, split=Split(roles), name="tiny-ring")


def number(data_dir, seed):
    return 7


class Counting(LocalEngine):
    """This machine, with a note of every step."""

    def propagate(self, *arguments):
        return self._noted("propagate", super().propagate(*arguments))

    def fit(self, *arguments, **options):
        return self._noted("fit", super().fit(*arguments, **options))

    def close(self):
        self._noted("close", None)

    def _noted(self, step, result):
        with Path("steps.txt").open("a") as file:
            file.write(step + "\\n")
        return result
'''


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has installed the package."""
    pytest.importorskip("scikit_build_core", reason="the build backend comes with gamlp[dev]")
    source, target = tmp_path_factory.mktemp("tiny-plugin"), tmp_path_factory.mktemp("installed")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "tiny_plugin").mkdir()
    (source / "tiny_plugin" / "__init__.py").write_text(PACKAGE)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--target", str(target), str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def gamlp(target: Path, folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """The real command, in an environment that has the package."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "gamlp.cli.main", *line.split()]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_what_a_plugin_brings_is_run_by_its_names(target: Path, tmp_path: Path) -> None:
    options = "--set training.epochs=30 --set propagation.hops=2 --set model.options.scale=2.0 --threads 1 --json"
    done = gamlp(target, tmp_path, f"run tiny-ring --model tiny-mean --engine tiny-counting --out run {options}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["test"]["mean"]["score"] > 0.9
    steps = (tmp_path / "steps.txt").read_text().split()
    assert {"propagate", "fit"} <= set(steps) and steps[-1] == "close", "the engine did every step, and was closed"
    recipe = Recipe.of(tmp_path / "run" / "recipe.yaml")
    assert recipe.model.name == "tiny-mean" and labels_used(Recipe()), "labels are on by default"
    done = gamlp(target, tmp_path, "predict run --out predictions.csv")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 61, "the dataset is loaded again by its name"
    listed = json.loads(gamlp(target, tmp_path, "datasets --json").stdout)
    assert ("tiny-ring", "tiny-plugin") in [(one["name"], one["source"]) for one in listed]


def test_a_model_says_what_it_reads(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(target)
    mean, plain = (Recipe.of({"model": {"name": name}}) for name in ("tiny-mean", "tiny-plain"))
    assert labels_used(mean) and not labels_used(mean.changed({"model.beta": 0})) and not labels_used(plain)
    check_operators(mean.changed({"propagation.also_r": [0.0]}))
    with pytest.raises(GamlpError, match="'tiny-plain' reads one operator"):
        check_operators(plain.changed({"propagation.also_r": [0.0]}))
    with pytest.raises(GamlpError, match="did you mean 'tiny-mean'"):
        build("tiny-meen", Shape(2, 2, 1), {})
    with pytest.raises(GamlpError, match=r"'tiny-mean' has no setting 'model.attention'; it has hidden, scale"):
        build("tiny-mean", Shape(2, 2, 1), {"attention": "jk"}, mentioned={"attention"})


def test_built_in_names_win_and_a_broken_plugin_is_one_sentence(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(target)
    assert load("karate").nodes.count == 34
    assert isinstance(build("sgc", Shape(2, 2, 1), {}), MODELS["sgc"])
    with pytest.raises(GamlpError, match="the plug-in 'tiny-number' gives no graph but a int"):
        load("tiny-number")
    with pytest.raises(GamlpError, match="did you mean tiny-ring"):
        load("tiny-rin")


def test_an_unknown_engine_is_one_sentence_with_the_names_there_are(target: Path, tmp_path: Path) -> None:
    done = gamlp(target, tmp_path, "propagate karate --out hops --engine tiny-countin")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "there is no engine 'tiny-countin': did you mean 'tiny-counting'?" in done.stderr
    done = gamlp(target, tmp_path, "propagate karate --out hops --blocks 3")
    assert done.returncode == 2 and "--blocks is for Spark" in done.stderr
