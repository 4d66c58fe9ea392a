"""TensorBoard and MLflow: they are told every epoch, and imported only when asked for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError, MissingExtra
from gamlp.io import write_json
from gamlp.recipe import Recipe

Observe = Callable[[dict[str, Any]], None]
_RUNS = "mlflow.json"  # in the run folder: where it is tracked, and each seed's run there


@contextmanager
def trackers_for(
    run_folder: Path, *, tensorboard: bool, mlflow: str | None, recipe: Recipe, name: str
) -> Iterator[Observe | None]:
    """What to tell every epoch's line to; None where nothing was asked for.

    `mlflow` is a folder or an address (http://, sqlite:///). Lines that a resumed run repeats are harmless.

    >>> with trackers_for(Path("run"), tensorboard=False, mlflow=None, recipe=Recipe(), name="run") as observe:
    ...     observe is None
    True
    """
    with ExitStack() as stack:
        observers: list[Observe] = []
        if tensorboard:
            observers.append(stack.enter_context(_tensorboard(run_folder / "tensorboard")))
        if mlflow is not None:
            observers.append(stack.enter_context(_mlflow(run_folder, mlflow, recipe, name)))

        def observe(line: dict[str, Any]) -> None:
            for observer in observers:
                observer(line)

        yield observe if observers else None


def tracked_run(run_folder: Path, seed: int) -> tuple[str, str] | None:
    """MLflow's address and the run there that followed a seed, or the first of the models that became its blend."""
    try:
        known = json.loads((run_folder / _RUNS).read_text(encoding="utf-8"))
        runs = {str(name): str(run) for name, run in known["runs"].items()}
        of_seed = [run for name, run in runs.items() if name == str(seed) or name.startswith(f"{seed}-model-")]
        return str(known["address"]), of_seed[0]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def dotted(recipe: Recipe) -> dict[str, str]:
    """Every setting by its dotted key, as it would stand in YAML.

    >>> dotted(Recipe())["training.seeds"]
    '[0]'
    """
    found = {}
    for section, values in recipe.model_dump(mode="json").items():
        for key, value in values.items() if isinstance(values, dict) else [("", values)]:
            text = value if isinstance(value, str) else json.dumps(value)
            if text:
                found[f"{section}.{key}".rstrip(".")] = text
    return found


def _metrics(line: dict[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in line.items() if key not in ("seed", "member", "epoch")}


def _model(line: dict[str, Any]) -> str:
    """Whose line this is: a seed's, or that of one of the models which are blended into the seed's own."""
    return str(line["seed"]) if "member" not in line else f"{line['seed']}-model-{line['member']}"


@contextmanager
def _tensorboard(folder: Path) -> Iterator[Observe]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "tensorboard") from error
    writers: dict[str, Any] = {}

    def observe(line: dict[str, Any]) -> None:
        seed, epoch = _model(line), line["epoch"]
        if seed not in writers:
            # Epochs from here on that a killed run wrote after its checkpoint are not shown.
            writers[seed] = SummaryWriter(str(folder / f"seed-{seed}"), purge_step=epoch)
        for key, value in _metrics(line).items():
            writers[seed].add_scalar(key, value, epoch)

    try:
        yield observe
    finally:
        for writer in writers.values():
            writer.close()


@contextmanager
def _mlflow(run_folder: Path, where: str, recipe: Recipe, name: str) -> Iterator[Observe]:
    # All are read when MLflow is used: 3.x refuses folders unless told otherwise, would report its use home, and prints
    # addresses where --json alone may print.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise MissingExtra("mlflow", "mlflow") from error
    address = where if "://" in where or where.startswith("file:") else Path(where).resolve().as_uri()
    runs = _Runs(run_folder / _RUNS, address)
    try:
        client = MlflowClient(tracking_uri=address)
        experiment = _experiment(client)
    except (MlflowException, ImportError, OSError) as error:
        raise _failed(where, error) from error
    begun: dict[str, str] = {}

    def begin(seed: str) -> str:
        run = runs.find(client, seed, MlflowException)
        if run is None:
            run = client.create_run(experiment, run_name=f"{name}, seed {seed}").info.run_id
            client.log_param(run, "seed", seed)
            for key, value in dotted(recipe).items():
                client.log_param(run, key, value)
            runs.keep(seed, run)
        else:
            client.update_run(run, status="RUNNING")
        return run

    def observe(line: dict[str, Any]) -> None:
        from mlflow.entities import Metric

        now, seed = int(time.time() * 1000), _model(line)
        try:
            if seed not in begun:
                begun[seed] = begin(seed)
            values = [Metric(key, value, now, line["epoch"]) for key, value in _metrics(line).items()]
            client.log_batch(begun[seed], metrics=values)
        except (MlflowException, OSError) as error:
            raise _failed(where, error) from error

    status = "FINISHED"
    try:
        yield observe
    except BaseException as error:
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        raise
    finally:
        for run in begun.values():
            try:
                client.set_terminated(run, status)
            except (MlflowException, OSError) as error:
                if status == "FINISHED":  # else what ended the run is the news
                    raise _failed(where, error) from error


class _Runs:
    """Each seed's MLflow run, remembered beside the run, so that a resumed one goes on where it was."""

    def __init__(self, path: Path, address: str) -> None:
        self.path, self.address = path, address

    def find(self, client: Any, seed: str, missing: type[Exception]) -> str | None:
        run: str | None = self._read().get(seed)
        if run is None:
            return None
        try:
            client.get_run(run)
        except missing:  # it was deleted there
            return None
        return run

    def keep(self, seed: str, run: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {"address": self.address, "runs": {**self._read(), seed: run}})

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
            return dict(known["runs"]) if known["address"] == self.address else {}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}


def _experiment(client: Any) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "gamlp")
    found = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if found is None else found.experiment_id)


def _failed(where: str, error: Exception) -> GamlpError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
    return GamlpError(
        f"MLflow cannot write to '{where}': {first}", hint="give a folder or the address of a server, then --resume"
    )
