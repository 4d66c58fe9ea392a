"""A run behind a URL: nothing of it lies on the driver, and it is the run that a folder would hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gamlp.cli.main import app
from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.propagation import LocalPropagator
from gamlp.recipe import Recipe
from gamlp.run import Resources, predict, train
from gamlp.spark.prediction import MARK
from gamlp.training import RunFolder, plan_of, run_here
from tests.run.test_scoring import same as same_scores
from tests.spark.graph_tables import random_tables
from tests.spark.test_prediction import same as same_rows
from tests.training.small import ONE_THREAD, RECIPE, make_graph

SET = ["training.epochs=2", "model.hidden=4", "propagation.hops=1", "propagation.label_hops=1"]
CHANGES = [word for one in SET for word in ("--set", one)]
ON_SPARK = ["--engine", "spark"]


def told(*words: object) -> None:
    assert not app([*map(str, words)], standalone_mode=False)


@pytest.fixture(scope="module")
def runs(spark: Any, s3_bucket: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The same run in a folder and behind a URL, from tables to predictions and a report."""
    folder = tmp_path_factory.mktemp("urls")
    edges, nodes = random_tables(4, "text", 120, 500).write(folder / "tables", "csv")
    for out in (folder / "runs" / "mine", f"{s3_bucket}/runs/mine"):
        told("run", "--edges", edges, "--nodes", nodes, "--out", out, *CHANGES, *ON_SPARK)
    return folder / "runs" / "mine", f"{s3_bucket}/runs/mine"


@pytest.mark.long
def test_everything_lies_behind_the_url(runs: tuple[Path, str], tmp_path: Path) -> None:
    here, there = runs
    names = [name for name in Place.of(there).names() if not name.startswith(".")]
    assert names == sorted(path.name for path in here.iterdir() if not path.name.startswith("."))
    with run_here(there, writes=False) as folder:
        one, other = RunFolder.open(here), RunFolder.open(folder)
        assert not (folder / "hops").exists() and not (folder / "graph").exists()
        assert other.recipe() == one.recipe()
        assert other.seed_path(0).read_bytes() == one.seed_path(0).read_bytes()
        same_scores(other.evaluation(), one.evaluation())
        assert [name for name in Place.of(there + "/seeds").names() if "checkpoint" in name or "job" in name] == []
    for part in Place.of(f"{there}/predictions.parquet").names():
        (Place.of(f"{there}/predictions.parquet") / part).copy_to(tmp_path / part)
    same_rows(pq.read_table(tmp_path), pq.read_table(here / "predictions.parquet"))
    assert (tmp_path / MARK).exists()


@pytest.mark.long
def test_other_verbs_take_the_url(runs: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, there = runs
    before = Place.of(f"{there}/report.html").read()
    told("evaluate", there, *ON_SPARK)
    assert f"{there}/report.html" in "".join(capsys.readouterr().out.split())
    assert len(Place.of(f"{there}/report.html").read()) == pytest.approx(len(before), abs=200)
    for run, engine in ((here, ON_SPARK), (there, ON_SPARK), (there, [])):
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        told("predict", run, "--rows", "unlabelled", "--out", out, *engine)
        same_rows(pq.read_table(out), pq.read_table(tmp_path / "0.parquet"))


@pytest.mark.long
def test_again_it_is_found_and_other_tables_are_refused(runs: tuple[Path, str], tmp_path: Path) -> None:
    _, there = runs
    edges, nodes = random_tables(5, "text", 120, 500).write(tmp_path / "tables", "csv")
    with pytest.raises(GamlpError, match=rf"{there}: holds a run on other tables"):
        told("run", "--edges", edges, "--nodes", nodes, "--out", there, *CHANGES, *ON_SPARK)
    with pytest.raises(GamlpError, match="already holds a run"):
        told("train", f"{there}/hops", "--out", there, *CHANGES, *ON_SPARK)


@pytest.mark.long
def test_a_run_on_a_store_behind_a_url_finds_it_again(spark: Any, s3_bucket: str, tmp_path: Path) -> None:
    """Where a person names it: a run folder that somebody else sent could name any address."""
    make_graph().save(tmp_path / "graph")
    store = LocalPropagator().propagate(make_graph(), plan_of(RECIPE), tmp_path / "hops")
    place = Place.of(s3_bucket) / "hops"
    for path in (tmp_path / "hops").rglob("*"):
        if path.is_file():
            (place / path.relative_to(tmp_path / "hops").as_posix()).put_file(path)
    assert store.stored_rows
    told("train", place.url, "--out", tmp_path / "run", *CHANGES[:4], *ON_SPARK)
    with pytest.raises(GamlpError, match=rf"the run's hops are at '{place.url}', which is asked only when you name it"):
        predict(tmp_path / "run", tmp_path / "out.parquet", own=make_graph())
    written = predict(tmp_path / "run", tmp_path / "out.parquet", own=make_graph(), trust=place.url)
    assert written is not None and written.rows == 60


@pytest.mark.long
def test_the_inductive_setting_and_a_parameter_server_behind_a_url(spark: Any, s3_bucket: str, tmp_path: Path) -> None:
    """The graph of training nodes, its hops, and the checkpoints of a server that nobody here sees."""
    graph = make_graph().save(tmp_path / "graph")
    assert isinstance(graph.folder, Path)
    changes = {"training.setting": "inductive", "model.beta": 0.0}
    there = f"{s3_bucket}/inductive"
    asked = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    (tmp_path / "recipe.yaml").write_text(RECIPE.to_yaml())
    told("train", graph.folder, "--recipe", tmp_path / "recipe.yaml", "--out", there, *asked, *ON_SPARK)
    recipe = Recipe.of(tmp_path / "recipe.yaml").changed(changes)
    here = train(graph.folder, recipe, tmp_path / "run", resources=ONE_THREAD).run
    with run_here(there, writes=False) as folder:
        assert RunFolder.open(folder).seed_path(0).read_bytes() == here.seed_path(0).read_bytes()
    assert {"training-graph", "training-hops", "hops"} <= set(Place.of(there).names())
    served = f"{s3_bucket}/served"
    told("train", f"{there}/hops", "--out", served, *CHANGES[:4], "--exchange", "server", "--processes", 2, *ON_SPARK)
    with run_here(served, writes=False) as folder:
        assert [line["epoch"] for line in RunFolder.open(folder).metrics()] == [1, 2]


@pytest.mark.long
def test_parts_that_a_killed_driver_left_are_written_anew(runs: tuple[Path, str], tmp_path: Path) -> None:
    here, _ = runs
    out = tmp_path / "out.parquet"
    out.mkdir()
    (out / "part-00000.parquet").write_text("half")
    (out / ".part-00001.parquet.partial").mkdir()
    resources = Resources(device="cpu", engine="spark")
    assert predict(here, out, keep_finished=True, resources=resources) is not None
    assert predict(here, out, keep_finished=True, resources=resources) is None
    same_rows(pq.read_table(out), pq.read_table(here / "predictions.parquet"))
    (tmp_path / "mine.parquet").mkdir()
    (tmp_path / "mine.parquet" / "notes.txt").write_text("not yours")
    with pytest.raises(GamlpError, match="already exists"):
        predict(here, tmp_path / "mine.parquet", keep_finished=True, resources=resources)


def test_on_one_machine_a_url_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GamlpError, match="memory://a/run: a run behind a URL is trained by tasks; give a folder"):
        told("train", "karate", "--out", "memory://a/run")
    assert list(tmp_path.iterdir()) == []
