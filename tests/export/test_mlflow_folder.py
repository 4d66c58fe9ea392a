"""MLflow: a folder that mlflow.pyfunc loads and asks about known nodes and new ones; logged to a tracking server."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.export import export_run
from gamlp.export.mlflow_folder import link_tree, log_model, pinned
from gamlp.io import sealed, write_json
from gamlp.recipe import Recipe
from gamlp.run import predict, train
from gamlp.serve import Ends, NewNode, Question, Refusal, ServedRun, refresh_run, serving
from gamlp.training import Bundle, RunFolder, tracked_run, trackers_for
from tests.export import tracking_server
from tests.serve.trained import RECIPE, trained_run
from tests.training.typed_small import RECIPE as TYPED_RECIPE
from tests.training.typed_small import planted

pd = pytest.importorskip("pandas")
mlflow = pytest.importorskip("mlflow")
COLUMNS = ["id", "label", "probability", "p_x", "p_y", "p_z"]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On tables with a number, a category and a date, weighted edges."""
    return trained_run(tmp_path_factory.mktemp("mlflow"), weighted=True)


@pytest.fixture(scope="module")
def folder(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its model, from which the run itself can be moved away."""
    out = tmp_path_factory.mktemp("model") / "model"
    export_run(run, out, "mlflow")
    return out


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Any:
    import mlflow.pyfunc

    return mlflow.pyfunc.load_model(str(folder))


def newcomers() -> Any:
    return pd.DataFrame(
        {
            "size": [0.5, None],
            "colour": ["u", "never seen"],
            "since": ["2024-05-01", None],
            "neighbours": [["n1", "n2"], ["n7"]],
            "weights": [[1.0, 0.5], [2.0]],
            "id": ["new", None],
        }
    )


def test_known_ids_are_answered_as_predict_does(run: Path, loaded: Any, tmp_path: Path) -> None:
    predict(run, tmp_path / "all.parquet")
    expected = pq.read_table(tmp_path / "all.parquet").to_pandas().set_index("id")
    asked = pd.DataFrame({"id": ["n3", "n39", "n0", "n3"]}, index=[5, 6, 7, 8])
    found = loaded.predict(asked)
    assert list(found.columns) == COLUMNS and list(found.index) == [5, 6, 7, 8]
    assert found["id"].tolist() == ["n3", "n39", "n0", "n3"]
    own = expected.loc[found["id"]]
    assert found["label"].tolist() == own["label"].tolist()
    np.testing.assert_allclose(found[COLUMNS[2:]].to_numpy(), own[COLUMNS[2:]].to_numpy(), atol=1e-6)


def test_newcomers_are_answered_as_the_served_run_does(run: Path, loaded: Any) -> None:
    served = ServedRun.open(run, read_only=True)
    nodes = (
        NewNode(
            cells={"size": 0.5, "colour": "u", "since": "2024-05-01"}, hears={None: Ends(("n1", "n2"), (1.0, 0.5))}
        ),
        NewNode(cells={"size": None, "colour": "never seen", "since": None}, hears={None: Ends(("n7",), (2.0,))}),
    )
    expected = [served.answer([Question(nodes=(node,))])[0].probabilities[0] for node in nodes]  # type: ignore[union-attr]
    found = loaded.predict(newcomers())
    np.testing.assert_allclose(found[COLUMNS[3:]].to_numpy(), expected, atol=1e-6)
    assert found["id"].tolist() == ["new", None]
    alone = loaded.predict(newcomers().iloc[1:])
    np.testing.assert_allclose(alone[COLUMNS[3:]].to_numpy(), expected[1:], atol=1e-6)


def test_a_newcomer_without_neighbours_is_answered_by_its_own_features(loaded: Any) -> None:
    found = loaded.predict(newcomers().drop(columns=["neighbours", "weights", "id"]))
    gap = newcomers().drop(columns=["id"]).assign(neighbours=[None, []], weights=[None, []])
    np.testing.assert_array_equal(found["p_x"], loaded.predict(gap)["p_x"])


def test_no_rows_give_no_rows(loaded: Any) -> None:
    for frame in (newcomers().iloc[:0], pd.DataFrame({"id": pd.Series([], dtype=object)})):
        found = loaded.predict(frame)
        assert list(found.columns) == COLUMNS and len(found) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"neighbours": ["n1", ["n7"]]}, "row 0, column neighbours: a list is expected"),
        ({"neighbours": [["n1", "n2"], ["nobody"]]}, "row 1: there is no neighbour 'nobody'"),
        ({"weights": [[1.0], [2.0]]}, "row 0: 1 weights for 2 neighbours"),
        ({"size": ["large", 1.0]}, "row 0, column size: 'large' cannot be read as"),
    ],
)
def test_what_cannot_be_answered_names_its_row(change: dict[str, Any], said: str, loaded: Any) -> None:
    with pytest.raises(GamlpError, match=said):
        loaded.predict(newcomers().assign(**change))


def test_an_unknown_id_and_a_missing_column_are_named(loaded: Any) -> None:
    with pytest.raises(GamlpError, match="there is no node 'nobody'"):
        loaded.predict(pd.DataFrame({"id": ["n1", "nobody"]}))
    with pytest.raises(GamlpError, match="row 0: the node lacks 'size'"):
        loaded.predict(newcomers().drop(columns="size"))


def test_the_folder_says_what_it_is_and_pins_what_it_needs(folder: Path, run: Path) -> None:
    import yaml

    content = yaml.safe_load((folder / "MLmodel").read_text())
    flavour = content["flavors"]["python_function"]
    assert flavour["loader_module"] == "gamlp.export.mlflow_flavour" and flavour["data"] == "run"
    inputs = {one["name"] for one in json.loads(content["signature"]["inputs"])}
    assert inputs == {"id", "size", "colour", "since", "neighbours", "weights"}
    outputs = [one["name"] for one in json.loads(content["signature"]["outputs"])]
    assert outputs == COLUMNS
    lines = (folder / "requirements.txt").read_text().splitlines()
    assert all("==" in line and "+" not in line for line in lines)
    assert {line.split("==")[0] for line in lines} >= {"gamlp", "torch", "numpy", "pyarrow", "pandas"}
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pickle")]
    assert (folder / "README.md").read_text().startswith("---\nlibrary_name: gamlp")
    assert str(run.parent) not in (folder / "run" / "hops" / "store.json").read_text(), "no folder of this machine"


def test_files_of_the_run_are_not_copied_where_links_can_be(folder: Path, run: Path) -> None:
    (shard,) = (folder / "run" / "hops").glob("features-*/00000.npy")
    (own,) = (run / "hops").glob("features-*/00000.npy")
    assert shard.samefile(own)
    assert not (folder / "run" / "hops" / "store.json").samefile(run / "hops" / "store.json")
    before = json.loads((run / "hops" / "store.json").read_text())
    assert before["graph_folder"] is not None, "the run's own manifest stays as it was"


def test_where_links_cannot_be_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one" / "inner").mkdir(parents=True)
    (tmp_path / "one" / "inner" / "file").write_text("text")
    (tmp_path / "one" / "newcomers.log").write_text("a line")
    (tmp_path / "one" / ".lock").write_text("")

    def refuse(*_: Any) -> None:
        raise OSError("another disk")

    link_tree(tmp_path / "one", tmp_path / "two")
    assert not (tmp_path / "two" / "newcomers.log").samefile(tmp_path / "one" / "newcomers.log"), "it is written to"
    monkeypatch.setattr("os.link", refuse)
    link_tree(tmp_path / "one", tmp_path / "three")
    assert (tmp_path / "three" / "inner" / "file").read_text() == "text"
    assert not (tmp_path / "three" / ".lock").exists()


def test_the_model_stands_alone_unless_the_graph_stays_in_place(run: Path, tmp_path: Path) -> None:
    import mlflow.pyfunc

    moved = tmp_path / "own"
    shutil.copytree(run.parent, moved)
    about = json.loads((moved / "run" / "run.json").read_text())
    assert about["graph"]["graph"] == str(run.parent / "graph")
    done = export_run(run, tmp_path / "in-place", "mlflow", graph_in_place=True)
    assert done.notes == [f"the graph stays at '{run.parent / 'graph'}': the model needs it there"]
    assert not (tmp_path / "in-place" / "run" / "graph").exists()
    export_run(run, tmp_path / "whole", "mlflow")
    elsewhere = tmp_path / "elsewhere"
    shutil.move(tmp_path / "whole", elsewhere)
    for place in (elsewhere, tmp_path / "in-place"):
        assert len(mlflow.pyfunc.load_model(str(place)).predict(pd.DataFrame({"id": ["n1"]}))) == 1


def test_a_dataset_by_name_and_features_without_names(tmp_path: Path) -> None:
    import mlflow.pyfunc

    train("karate", {"training": {"epochs": 2}, "model": {"hidden": 4}}, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "model", "mlflow")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    predict(tmp_path / "run", tmp_path / "all.parquet")
    expected = pq.read_table(tmp_path / "all.parquet").to_pandas()
    found = model.predict(pd.DataFrame({"id": [33, 0]}))
    np.testing.assert_allclose(found["p_1"], expected["p_1"].iloc[[33, 0]], atol=1e-6)
    assert found["id"].tolist() == [33, 0] and found["label"].tolist() == expected["label"].iloc[[33, 0]].tolist()
    new = pd.DataFrame({"features": [[0.0] * 34], "neighbours": [[0, 33]], "id": [None]})
    assert model.predict(new)["probability"].between(0, 1).all()


def test_several_relations_are_named_by_columns(tmp_path: Path) -> None:
    import mlflow.pyfunc

    planted().graph().save(tmp_path / "graph")
    train(tmp_path / "graph", TYPED_RECIPE.changed({"training.epochs": 2}), tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "model", "mlflow")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    frame = pd.DataFrame({"features": [[0.1, 0.2, 0.3, 0.4]], "neighbours:writes": [[0, 1]], "neighbours:cites": [[5]]})
    found = model.predict(frame)
    served = ServedRun.open(tmp_path / "run", read_only=True)
    node = NewNode(features=(0.1, 0.2, 0.3, 0.4), hears={"writes": Ends((0, 1)), "cites": Ends((5,))})
    (answer,) = served.answer([Question(nodes=(node,))])
    assert not isinstance(answer, Refusal), answer
    classes = [name for name in found.columns if name.startswith("p_")]
    np.testing.assert_allclose(found[classes].to_numpy(), answer.probabilities, atol=1e-6)


def test_code_of_ones_own_runs_only_when_it_is_named(tmp_path: Path) -> None:
    import mlflow.pyfunc

    name = "tests.conformance.models:Mean"
    recipe = Recipe.of({"model": {"name": name}, "training": {"epochs": 2}}, trust=name)
    train("karate", recipe, tmp_path / "run", trust=name)
    with pytest.raises(GamlpError, match="is loaded only when you name it; if you know it, say --trust"):
        export_run(tmp_path / "run", tmp_path / "model", "mlflow")
    export_run(tmp_path / "run", tmp_path / "model", "mlflow", trust=name)
    with pytest.raises(GamlpError, match="only when you name it"):
        mlflow.pyfunc.load_model(str(tmp_path / "model"))
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"), model_config={"trust": name})
    assert len(model.predict(pd.DataFrame({"id": [1]}))) == 1


def test_nothing_is_left_of_what_cannot_be_exported(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "hops")
    with pytest.raises(GamlpError, match="the hops of the run are gone; train again"):
        export_run(copy, tmp_path / "model", "mlflow")
    train("karate", {"training": {"epochs": 1}, "model": {"name": "sgc", "hidden": 4}}, tmp_path / "other")
    about = RunFolder.open(tmp_path / "other").about().model_copy(update={"graph": None})
    write_json(tmp_path / "other" / "run.json", sealed(about.model_dump(mode="json")))
    with pytest.raises(GamlpError, match="does not know its graph's place; an MLflow model answers about the nodes"):
        export_run(tmp_path / "other", tmp_path / "model", "mlflow")
    with pytest.raises(GamlpError, match="a bundle alone knows no nodes"):
        export_run(run / "bundle.safetensors", tmp_path / "model", "mlflow")
    assert not (tmp_path / "model").exists()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(GamlpError, match="already exists; choose another --out"):
        export_run(run, tmp_path / "taken", "mlflow")


def test_boosted_trees_need_their_library(run: Path) -> None:
    from tests.export.bundles import ONE, model_bundle

    pytest.importorskip("lightgbm")
    assert any(line.startswith("lightgbm==") for line in pinned(model_bundle("lightgbm", ONE)))
    assert not any(line.startswith("lightgbm") for line in pinned(Bundle.load(run / "bundle.safetensors")))


def test_a_missing_library_names_its_extra(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(GamlpError) as told:
        export_run(run, tmp_path / "model", "mlflow")
    assert str(told.value) == 'mlflow is not installed; run: pip install "gamlp[mlflow]".'


def tracked(run: Path, where: str) -> RunFolder:
    """As if seed 0 of the run had been followed by MLflow at an address."""
    opened = RunFolder.open(run)
    with trackers_for(run, tensorboard=False, mlflow=where, recipe=opened.recipe(), name="mine") as observe:
        assert observe is not None
        observe({"seed": 0, "epoch": 1, "loss": 0.5})
    return opened


@pytest.fixture
def own(run: Path, tmp_path: Path) -> Path:
    """A copy of the run, which may be written to."""
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_a_run_is_logged_beside_its_epochs(kind: str, own: Path, tmp_path: Path) -> None:
    import mlflow.pyfunc

    where = str(tmp_path / "tracked") if kind == "folder" else f"sqlite:///{tmp_path / 'tracked.db'}"
    if kind == "sqlite":
        pytest.importorskip("sqlalchemy")
        mlflow.MlflowClient(where).create_experiment("gamlp", artifact_location=str(tmp_path / "artifacts"))
    opened = tracked(own, where)
    found = tracked_run(own, 0)
    assert found is not None
    address, name = found
    assert log_model(opened, 0) == f"the model was logged to MLflow: runs:/{name}/model"
    assert log_model(opened, 7) == "no run of MLflow followed seed 7: the model was not logged"
    assert not list(own.glob(".mlflow*"))
    mlflow.set_tracking_uri(address)
    model = mlflow.pyfunc.load_model(f"runs:/{name}/model")
    assert model.predict(pd.DataFrame({"id": ["n1"]}))["id"].tolist() == ["n1"]


def test_what_is_too_large_is_not_sent(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamlp.export.mlflow_folder._MOST_LOGGED", 1000)
    said = log_model(tracked(own, str(tmp_path / "tracked")), 0)
    assert said.startswith("the model was not logged to MLflow: with its hops and its graph it has ")
    assert "gamlp export" in said and "--to mlflow --out FOLDER" in said


def test_a_run_that_cannot_be_exported_is_said_not_to_be_logged(own: Path, tmp_path: Path) -> None:
    opened = tracked(own, str(tmp_path / "tracked"))
    shutil.rmtree(own / "hops")
    said = log_model(opened, 0)
    assert said.startswith("the model was not logged to MLflow: ") and said.endswith("train again")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if (why := tracking_server.absent()) is not None:
        pytest.skip(why)
    with tracking_server.running(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.mark.slow
def test_a_tracking_server_has_epochs_and_the_model(server: str, tmp_path: Path) -> None:
    """`gamlp train --mlflow` of two seeds: the best of them has the model, which is read back over HTTP."""
    import mlflow.pyfunc

    from tests import forked

    done = forked.gamlp(
        "train", "karate", "--out", str(tmp_path / "run"), "--seeds", "2", "--mlflow", server, "--json",
        "--set", "training.epochs=3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    client = mlflow.MlflowClient(tracking_uri=server)
    runs = {
        run.info.run_name: run for run in client.search_runs([client.get_experiment_by_name("gamlp").experiment_id])
    }
    assert set(runs) == {"run, seed 0", "run, seed 1"}
    assert all(len(client.get_metric_history(run.info.run_id, "loss")) == 3 for run in runs.values())
    (note,) = [note for note in json.loads(done.stdout)["notes"] if "MLflow" in note]
    seed = RunFolder.open(tmp_path / "run").bundles()
    best = max(seed, key=lambda one: seed[one].report["valid"]["score"])
    name = runs[f"run, seed {best}"].info.run_id
    assert note == f"the model was logged to MLflow: runs:/{name}/model"
    mlflow.set_tracking_uri(server)
    model = mlflow.pyfunc.load_model(f"runs:/{name}/model")
    predict(tmp_path / "run", tmp_path / "all.parquet")
    expected = pq.read_table(tmp_path / "all.parquet").to_pandas()
    found = model.predict(pd.DataFrame({"id": [0, 33]}))
    np.testing.assert_allclose(found["p_2"], expected["p_2"].iloc[[0, 33]], atol=1e-6)


def test_a_refreshed_run_of_a_dataset_is_loaded(tmp_path: Path) -> None:
    train("karate", RECIPE, tmp_path / "run")
    new = NewNode(77, features=(0.0,) * 34, hears={None: Ends((0, 1))})
    with serving(tmp_path / "run") as served:
        served.answer([Question(nodes=(new,), keep=True)])
    assert refresh_run(tmp_path / "run").generation == 1
    export_run(tmp_path / "run", tmp_path / "model", "mlflow")
    found = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(pd.DataFrame({"id": [77]}))
    assert found["id"].tolist() == [77]
