"""TensorBoard and MLflow: what they were told is read back from their own files. No network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.recipe import Recipe
from gamlp.training.trackers import dotted, trackers_for

RECIPE = Recipe.of({"training": {"seeds": [0, 1], "learning_rate": 0.02}, "model": {"attention": "jk"}})


def line(seed: int, epoch: int, loss: float, **more: float) -> dict[str, Any]:
    return {"seed": seed, "epoch": epoch, "learning_rate": 0.02, "loss": loss, **more, "seconds": 0.1}


def scalars(folder: Path, key: str) -> list[tuple[int, float]]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return [(event.step, pytest.approx(event.value)) for event in events.Scalars(key)]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return mlflow.MlflowClient(tracking_uri=(tmp_path / "tracked").as_uri())


def runs_of(client: Any) -> dict[str, Any]:
    found = client.search_runs([client.get_experiment_by_name("gamlp").experiment_id])
    return {run.info.run_name: run for run in found}


@pytest.mark.slow
def test_nothing_is_imported_when_nothing_is_asked_for() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom gamlp.recipe import Recipe\n"
        "from gamlp.training.trackers import trackers_for\n"
        "with trackers_for(Path('x'), tensorboard=False, mlflow=None, recipe=Recipe(), name='x') as observe:\n"
        "    assert observe is None\n"
        "assert not {'tensorboard', 'mlflow'} & set(sys.modules) and not Path('x').exists()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_tensorboard_has_a_run_for_each_seed(tmp_path: Path) -> None:
    with trackers_for(tmp_path, tensorboard=True, mlflow=None, recipe=RECIPE, name="run") as observe:
        assert observe is not None
        observe(line(0, 1, 0.5, valid_score=0.25))
        observe(line(0, 2, 0.25, valid_score=0.75))
        observe(line(1, 1, 0.125))
    assert scalars(tmp_path / "tensorboard" / "seed-0", "loss") == [(1, 0.5), (2, 0.25)]
    assert scalars(tmp_path / "tensorboard" / "seed-0", "valid_score") == [(1, 0.25), (2, 0.75)]
    assert scalars(tmp_path / "tensorboard" / "seed-1", "loss") == [(1, 0.125)]


def test_epochs_that_come_again_take_the_place_of_what_a_killed_run_wrote(tmp_path: Path) -> None:
    for epochs, loss in ((range(1, 6), 1.0), (range(4, 8), 2.0)):  # killed after 5, resumed from a checkpoint at 3
        with trackers_for(tmp_path, tensorboard=True, mlflow=None, recipe=RECIPE, name="run") as observe:
            assert observe is not None
            for epoch in epochs:
                observe(line(0, epoch, loss))
    found = scalars(tmp_path / "tensorboard" / "seed-0", "loss")
    assert found == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0), (6, 2.0), (7, 2.0)]


def test_mlflow_has_a_run_for_each_seed_with_every_setting(tmp_path: Path, client: Any) -> None:
    where = str(tmp_path / "tracked")
    with trackers_for(tmp_path / "run", tensorboard=False, mlflow=where, recipe=RECIPE, name="mine") as observe:
        assert observe is not None
        observe(line(0, 1, 0.5, valid_score=0.25))
        observe(line(0, 2, 0.25, valid_score=0.75))
        observe(line(1, 1, 0.125))
    runs = runs_of(client)
    assert set(runs) == {"mine, seed 0", "mine, seed 1"}
    first = runs["mine, seed 0"]
    assert first.info.status == "FINISHED"
    assert first.data.params == {"seed": "0", **dotted(RECIPE)}
    assert first.data.params["training.learning_rate"] == "0.02" and first.data.params["model.attention"] == "jk"
    history = client.get_metric_history(first.info.run_id, "valid_score")
    assert [(metric.step, metric.value) for metric in history] == [(1, 0.25), (2, 0.75)]


def test_a_resumed_run_goes_on_in_the_same_mlflow_run(tmp_path: Path, client: Any) -> None:
    where = str(tmp_path / "tracked")

    def train(epochs: range) -> None:
        with trackers_for(tmp_path / "run", tensorboard=False, mlflow=where, recipe=RECIPE, name="mine") as observe:
            assert observe is not None
            for epoch in epochs:
                observe(line(0, epoch, float(epoch)))
            if epochs.start == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(range(1, 6))
    assert runs_of(client)["mine, seed 0"].info.status == "KILLED"
    train(range(4, 8))
    (run,) = runs_of(client).values()
    assert run.info.status == "FINISHED"
    assert {metric.step for metric in client.get_metric_history(run.info.run_id, "loss")} == set(range(1, 8))
    client.delete_run(run.info.run_id)
    (tmp_path / "run" / "mlflow.json").write_text("no json")
    train(range(8, 9))
    assert len(runs_of(client)) == 1, "what cannot be found again begins anew"


def test_a_server_that_is_not_there_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with (
        pytest.raises(GamlpError, match=r"MLflow cannot write to 'http://127.0.0.1:9'"),
        trackers_for(tmp_path, tensorboard=False, mlflow="http://127.0.0.1:9", recipe=RECIPE, name="x"),
    ):
        pass


@pytest.mark.parametrize(
    ("library", "module", "asked"),
    [
        ("tensorboard", "torch.utils.tensorboard", {"tensorboard": True, "mlflow": None}),
        ("mlflow", "mlflow", {"tensorboard": False, "mlflow": "tracked"}),
    ],
)
def test_a_missing_library_names_its_extra(
    library: str, module: str, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(GamlpError) as told, trackers_for(tmp_path, **asked, recipe=RECIPE, name="x"):
        pass
    assert str(told.value) == f'{library} is not installed; run: pip install "gamlp[{library}]".'


def test_every_setting_has_its_dotted_key() -> None:
    settings = dotted(RECIPE)
    assert settings["training.seeds"] == "[0, 1]" and settings["propagation.label_r"] == "null"
    assert settings["propagation.loops"] == "true" and "about" not in settings
