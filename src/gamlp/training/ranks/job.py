"""A training job as plain JSON, and the worker that runs it: the same in processes here and in tasks of Spark."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from safetensors import SafetensorError
from torch import distributed

from gamlp.errors import GamlpError
from gamlp.io import Place, available_memory, usable_cores
from gamlp.progress import silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.training.checkpoint import Weights, read_tensors, save_tensors, with_digest
from gamlp.training.device import choose_device
from gamlp.training.loop import CHECKPOINT_SECONDS, Machine
from gamlp.training.ranks.sources import Sources, sources_of, unpacked
from gamlp.training.ranks.world import World
from gamlp.training.rows import Prepared, reopened
from gamlp.training.seeds import SeedFiles, fit_prepared

DRIVER = "GAMLP_DRIVER"  # the process whose end ends the workers it started on the same machine
GO_ON = "run it again to go on (gamlp train: with --resume)"
_BETWEEN_PUTS = 1.0  # seconds


class TrainingJob(BaseModel):
    """One seed of a recipe on finished stores. Places are folders or URLs that all workers see.

    `training_store` holds the training rows where they were propagated apart (inductive, two graphs). `memory` and
    `threads` are of each process. `sources` is the code of a model of one's own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: str
    training_store: str | None = None
    valid: Literal["none", "split", "labelled"] = "split"
    recipe: dict[str, Any]
    seed: int = 0
    checkpoint: str
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    result: str
    metrics: str
    device: str = "auto"
    threads: int | None = None
    memory: int | None = None
    sources: Sources = {}
    warm: str | None = None
    stage: int = 0
    teacher: str | None = None

    @property
    def trouble(self) -> Place:
        """Where a worker leaves its last words."""
        return Place.of(f"{self.result}.trouble")

    def prepared(self) -> Prepared:
        """The rows, opened again."""
        inner = None if self.training_store is None else HopStore.open(self.training_store)
        # Its driver made the job of a recipe that it trusts.
        recipe = Recipe.of(self.recipe, trust=self.recipe.get("model", {}).get("name"))
        again = reopened(HopStore.open(self.store), inner, recipe, self.valid)
        return replace(again, warm=self.warm, stage=self.stage, teacher=self.teacher)

    @classmethod
    def of(cls, prepared: Prepared, seed: int, checkpoint: Path | Place, folder: Place, **settings: Any) -> TrainingJob:
        """The job of a seed; its result and metrics go to `folder`."""
        own, inner = prepared.store, prepared.train.store
        made = cls(
            store=own.place.resolved().url,
            training_store=None if inner is own else inner.place.resolved().url,
            recipe=prepared.recipe.model_dump(mode="json", exclude_unset=True),
            seed=seed,
            checkpoint=Place.of(checkpoint).resolved().url,
            result=(folder / "result.safetensors").resolved().url,
            metrics=(folder / "metrics.jsonl").resolved().url,
            sources=sources_of(prepared.recipe.model.name),
            warm=None if prepared.warm is None else Place.of(prepared.warm).resolved().url,
            stage=prepared.stage,
            teacher=None if prepared.teacher is None else Place.of(prepared.teacher).resolved().url,
            **settings,
        )
        for valid in ("none",) if prepared.valid is None else ("split", "labelled"):
            job = made.model_copy(update={"valid": valid})
            again = reopened(own, inner, prepared.recipe, valid)
            if _same_rows(again, prepared):
                return job
        raise GamlpError("these rows are not those of a store's split", hint="train them in one process")


@contextmanager
def shared_job(prepared: Prepared, seed: int, files: SeedFiles, **settings: Any) -> Iterator[TrainingJob]:
    """The job of a seed; its folder goes when the block ends, the log only when it ends well."""
    if files.job is None or files.checkpoint is None:
        raise GamlpError("several processes need a folder that all of them see", hint="give an --out folder")
    folder = Place.of(files.job)
    folder.make()
    try:
        yield TrainingJob.of(
            prepared, seed, files.checkpoint, folder, checkpoint_seconds=files.checkpoint_seconds, **settings
        )
    finally:
        folder.remove()
    if files.log is not None:
        files.log.unlink(missing_ok=True)


def _same_rows(one: Prepared, other: Prepared) -> bool:
    pairs = [(one.train, other.train), (one.valid, other.valid)]
    return all(
        (a is None) == (b is None)
        and (a is None or b is None or (a.features_from is b.features_from and np.array_equal(a.rows, b.rows)))
        for a, b in pairs
    )


def run_job(job: TrainingJob, world: World) -> None:
    """Train with all ranks; rank 0 writes the result. An error that a person can mend is a result too."""
    if Place.of(job.result).exists():  # of an attempt that ended just as a process died
        return
    try:
        with unpacked(job.sources):
            device = device_of(job.device, world)
            with world.joined(device):
                try:
                    _train(job, world, device)
                except Exception as error:
                    tell_trouble(job, error)  # before the others see this rank go
                    raise
    except GamlpError as error:
        tell_trouble(job, error)
        raise


def _train(job: TrainingJob, world: World, device: torch.device) -> None:
    torch.set_num_threads(job.threads or max(1, usable_cores() // world.local_size))
    memory = available_memory() // 2 // world.local_size if job.memory is None else job.memory
    prepared = job.prepared()
    checkpoint = Place.of(job.checkpoint)
    machine = Machine(device, memory, checkpoint, job.checkpoint_seconds, world)
    with MetricLines(Place.of(job.metrics)) if world.tells else nullcontext() as lines:
        progress = silent if lines is None else lines.progress
        observe = None if lines is None else lines.observe
        fitted = fit_prepared(prepared, job.seed, machine, observe=observe, progress=progress)
    if world.keeps:
        facts = {name: getattr(fitted, name) for name in ("epoch", "epochs", "valid", "stopped", "solved")}
        save_tensors(Place.of(job.result), fitted.weights, with_digest(json.dumps({"fitted": facts}), fitted.weights))


def tell_trouble(job: TrainingJob, error: Exception) -> None:
    """A GamlpError becomes the job's result; of others the first words are kept, for the sentence at the end."""
    with suppress(Exception):  # the storage itself may be what fails
        if isinstance(error, GamlpError):
            fields = {name: getattr(error, name) for name in ("problem", "file", "row", "column", "hint")}
            save_tensors(Place.of(job.result), {}, with_digest(json.dumps({"error": fields}), {}))
        elif not _of_a_peer(error) and not job.trouble.exists():
            message = " ".join(str(error).split())[:300]
            job.trouble.put(json.dumps(f"{type(error).__name__}: {message}").encode())


def _of_a_peer(error: Exception) -> bool:
    """Whether this rank only saw another one go."""
    return isinstance(error, distributed.DistError) or "gloo" in str(error).lower()


def read_result(job: TrainingJob) -> tuple[dict[str, Any], Weights] | None:
    """Facts and weights of a finished job, or None; a GamlpError of a worker is raised as it was."""
    place = Place.of(job.result)
    if not place.exists():
        return None
    try:
        text, unchanged, weights = read_tensors(place)
        found: dict[str, Any] = json.loads(text)
        if not unchanged:
            raise ValueError("its bytes are not those that were written")
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise GamlpError("the result of training is damaged", file=place.url, hint=GO_ON) from error
    if "error" in found:
        raise GamlpError(**found["error"])
    return found["fitted"], weights


def device_of(name: str, world: World) -> torch.device:
    """Each rank of a machine has a GPU of its own, or none has: gloo and nccl are of one kind of device each."""
    device = choose_device(name)
    if device.type == "cuda" and ":" not in name and torch.cuda.device_count() >= world.local_size:
        return torch.device("cuda", world.local_rank)
    if world.size == 1 or device.type == "cpu":
        return device
    if name == "auto":
        return torch.device("cpu")
    raise GamlpError(
        f"{world.local_size} processes cannot share device '{name}'", hint="one GPU for each, or --device cpu"
    )


class MetricLines:
    """Metrics as JSON Lines: appended to a file, or put again as a whole where a URL names it."""

    def __init__(self, place: Place) -> None:
        self.place, self.line, self.put = place, dict[str, Any](), 0.0
        self.text = place.read() if place.local is None and place.exists() else b""
        self.file = None if place.local is None else place.local.open("ab")
        if self.file is not None and self.file.tell():
            self.file.write(b"\n")  # a kill may have cut the last line off

    def observe(self, line: dict[str, Any]) -> None:
        self.line = line

    def progress(self, stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        message = {"line": self.line, "stage": stage, "done": done, "total": total, "unit": unit, "note": note}
        data = json.dumps(message).encode() + b"\n"
        if self.file is not None:
            self.file.write(data)
            self.file.flush()
            return
        self.text += data
        if time.monotonic() - self.put >= _BETWEEN_PUTS:
            self.place.put(self.text)
            self.put = time.monotonic()

    def __enter__(self) -> MetricLines:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()
        else:
            self.place.put(self.text)


def end_with(driver: int) -> None:
    """Leave when the driver is gone: nobody reads the result."""

    def watch() -> None:
        while True:
            time.sleep(1)
            try:
                os.kill(driver, 0)
            except ProcessLookupError:
                os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """One of the processes that `launch_processes` starts: its argument is the file of the job."""
    if driver := os.environ.get(DRIVER):
        end_with(int(driver))
    job = TrainingJob.model_validate_json(Path(sys.argv[1]).read_bytes())
    try:
        run_job(job, World.from_environment())
    except GamlpError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
