"""`gamlp plan`: sizes before anything is run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gamlp.cli.main import app
from gamlp.errors import GamlpError
from gamlp.graph.datasets import communities

COUNTS = ["--nodes", "20000", "--edges", "90000", "--features", "16", "--classes", "3", "--no-measure"]


def plan(*words: str) -> str:
    done = CliRunner().invoke(app, ["plan", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_step_is_told_in_words() -> None:
    said = plan(*COUNTS)
    for step in ("ingest", "generate", "propagate", "train", "predict"):
        assert f"\n{step}: " in said
    assert "20,000 nodes, 180,000 stored neighbours" in said
    assert "Spark: 8 executors of 4 cores" in said
    assert "rates: sums recorded" in said


def test_a_cluster_has_its_own_steps_and_settings_to_paste() -> None:
    cluster = ["--engine", "spark", "--executors", "3", "--executor-cores", "2", "--task-memory", "1GiB"]
    said = plan(*COUNTS, *cluster)
    for step in ("ingest", "propagate", "train", "predict"):
        assert f"\n{step}: " in said
    assert "3 executors of 2 cores, each with" in said and "this machine" not in said
    found = json.loads(plan(*COUNTS, "--json", *cluster))["spark"]
    assert found["blocks"] == 6 and found["processes"] == 3 and found["steps"].keys() == {
        "ingest", "propagate", "train", "predict",
    }  # fmt: skip
    assert found["executor_memory"] >= 2 << 30  # two tasks
    assert found["storage"] >= found["steps"]["propagate"]["storage_after"] > 20000 * 16 * 4 * 6
    for name, master in (("YARN", "yarn"), ("Kubernetes", "k8s://https://HOST:6443")):
        pasted = said.partition(f"\n{name}:\n\n")[2].partition("\n\n")[0]
        words = shlex.split(pasted.replace("\\\n", " "))
        conf = dict(word.split("=", 1) for word in words if word.startswith("spark."))
        assert conf == found["yarn" if name == "YARN" else "kubernetes"] and conf["spark.executor.instances"] == "3"
        assert words[words.index("--master") + 1] == master and words[words.index("--blocks") + 1] == "6"


def test_more_executors_take_less_time() -> None:
    large = ["--nodes", "100000000", "--edges", "1000000000", "--no-measure", "--json", "--engine", "spark"]
    few, many = (json.loads(plan(*large, "--executors", number))["spark"] for number in ("8", "64"))
    assert many["seconds"][1] < few["seconds"][1] / 2


def test_the_options_decide_the_sizes() -> None:
    every, half = (json.loads(plan(*COUNTS, "--json", *words)) for words in ([], ["--dtype", "float16"]))
    assert half["store"] == pytest.approx(every["store"] / 2, rel=0.05)
    few = json.loads(plan(*COUNTS, "--json", "--labelled", "10%", "--rows", "labelled"))
    assert few["store"] == pytest.approx(every["store"] / 10, rel=0.2)
    blocks = json.loads(plan(*COUNTS, "--json", "--memory", "70MB"))
    assert blocks["passes"] > every["passes"] == 1
    assert blocks["readings"] == blocks["passes"] * 5
    assert every["fits"] and every["verdict"][0].startswith("fits: ")
    assert set(every["steps"]) == {"ingest", "generate", "propagate", "train", "predict"}


def test_a_folder_is_sized_by_what_it_holds(tmp_path: Path) -> None:
    communities(tmp_path / "graph", nodes=2000, edges=9000, features=8, classes=3)
    found = json.loads(plan(str(tmp_path / "graph"), "--out", str(tmp_path / "run"), "--no-measure", "--json"))
    assert (found["nodes"], found["features"], found["classes"]) == (2000, 8, 3)
    assert set(found["steps"]) == {"propagate", "train", "predict"}


def test_a_dataset_is_sized_by_its_counts_and_nothing_is_loaded() -> None:
    found = json.loads(
        plan("ogbn-papers100M", "--labelled", "1,546,782", "--rows", "labelled", "--no-measure", "--json")
    )
    assert (found["nodes"], found["entries"]) == (111_059_956, 2 * 1_615_685_872)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "there is no graph to size"),
        (["--nodes", "5"], "there is no graph to size"),
        (["digits", "--nodes", "5"], "'digits' has its own sizes"),
        ([*COUNTS, "--labelled", "many"], "'many' is no number of rows"),
        ([*COUNTS, "--labelled", "130%"], "cannot be labelled"),
        ([*COUNTS, "--memory", "1MB"], "too small for 20,000 nodes"),
        (["--nodes", "5", "--edges", "5", "--features", "0", "--classes", "0"], "there is nothing to propagate"),
    ],
)
def test_what_cannot_be_sized_ends_in_a_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(GamlpError, match=sentence):
        plan(*words)
