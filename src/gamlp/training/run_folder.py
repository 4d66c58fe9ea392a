"""A run folder: the exact recipe, metrics as JSON Lines, a bundle for every seed, and the best of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gamlp.errors import GamlpError
from gamlp.io import (
    Place,
    Trust,
    check_trusted,
    folder_here,
    is_url,
    names_of,
    remove_partial,
    sealed,
    seen_by_all,
    sole_writer,
    unsealed,
    write_json,
    write_text,
)
from gamlp.recipe import Recipe
from gamlp.training.bundle import Bundle
from gamlp.training.loop import CHECKPOINT_SECONDS
from gamlp.training.seeds import SeedFiles

_ABOUT = "run.json"
_STAGE_WORDS = "stages.json"
_MOST = 1e30  # of a number in metrics or timings: no measurement is larger
STAGES = "stages"  # run folders of the stages of a run
PREDICTIONS = "predictions.parquet"  # of all rows whose hops the run has
_WRITING = "another process is writing this run"
# What tasks read and write of a run behind a URL: it stays there.
_OF_TASKS = ("hops", "training-hops", "training-graph", "graph", "as-of", "made", PREDICTIONS, "seen-ids.npy")
METHOD_RUN = "method.json"  # of a peer that has no bundle (gamlp.peers.single)


# Runs that the current task writes already: a step of a path that holds the whole run need not ask again.
_WRITTEN: ContextVar[frozenset[Path]] = ContextVar("written", default=frozenset())


@contextmanager
def writing_run(path: Path) -> Iterator[None]:
    """Hold a run folder, made if need be, while something is written into it; a second writer is refused."""
    folder = path.absolute()
    if folder in _WRITTEN.get():
        yield
        return
    with sole_writer(Place.of(path), refused=_WRITING):
        token = _WRITTEN.set(_WRITTEN.get() | {folder})
        try:
            yield
        finally:
            _WRITTEN.reset(token)


@contextmanager
def run_here(place: str | Path, *, writes: bool) -> Iterator[Path]:
    """A run folder as one on this machine: itself, or of a URL a copy, whose files are sent where it `writes`."""
    with folder_here(place, _OF_TASKS, refused=_WRITING if writes else None) as folder:
        yield folder


class Origin(BaseModel):
    """A graph that can be opened again: a folder or a dataset's name with the seed of its split."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    graph: str
    data_dir: str | None = None
    seed: int = 0


class About(BaseModel):
    """What run.json holds. `store` is where rows are evaluated and predicted from, relative to the run or absolute."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["gamlp-run"] = "gamlp-run"
    version: Literal[1] = 1
    graph: Origin | None
    valid_graph: Origin | None = None
    store: str


@dataclass(frozen=True)
class RunFolder:
    """Where a training run lives. `trust` names what its files may name: code of its own, the address of its graph."""

    path: Path
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    trust: Trust = None

    @classmethod
    def create(cls, path: Path, about: About, recipe: Recipe, *, resume: bool, trust: Trust = None) -> RunFolder:
        """A new run, or with `resume` the same one again; one of another recipe or graph is refused."""
        run = cls(path, trust=(recipe.model.name, *names_of(trust)))
        if (path / _ABOUT).exists():
            if not resume:
                raise GamlpError(
                    "already holds a run", file=path, hint="go on with gamlp train --resume, or choose another --out"
                )
            before = run.about()
            if (before.graph, before.valid_graph) != (about.graph, about.valid_graph):
                raise GamlpError("holds a run on another graph", file=path, hint="choose another --out")
            if run.recipe() != recipe:
                key = _difference(run.recipe(), recipe)
                raise GamlpError(
                    f"holds a run of another recipe ('{key}' differs)", file=path, hint="choose another --out"
                )
            return run
        if path.exists() and not path.is_dir():
            raise GamlpError("is a file where a folder is to be written", file=path, hint="choose another --out")
        try:
            (path / "seeds").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GamlpError(f"cannot write here ({error.strerror})", file=path) from error
        write_text(run.recipe_path, recipe.to_yaml())
        write_json(path / _ABOUT, sealed(about.model_dump(mode="json")))
        return run

    @classmethod
    def open(cls, path: str | Path, trust: Trust = None) -> RunFolder:
        """A run that was trained to its end."""
        run = cls(Path(path), trust=trust)
        run.about()
        if not run.bundle_path.exists():
            raise GamlpError("the run is unfinished", file=run.path, hint="go on: gamlp train … --out RUN --resume")
        return run

    @property
    def recipe_path(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def bundle_path(self) -> Path:
        """The bundle of the seed with the best validation score."""
        return self.path / "bundle.safetensors"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def evaluation_path(self) -> Path:
        return self.path / "evaluation.json"

    @property
    def timings_path(self) -> Path:
        return self.path / "timings.json"

    @property
    def shared(self) -> Path | Place:
        """Where all machines see the run: the folder itself, or its place behind a URL."""
        return seen_by_all(self.path)

    @property
    def seen_path(self) -> Path | Place:
        """Hashed ids of the nodes that trained the model or chose it, sorted, 8 bytes each."""
        return self.shared / "seen-ids.npy"

    @property
    def predictions_path(self) -> Path | Place:
        return self.shared / PREDICTIONS

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    @property
    def words_path(self) -> Path:
        return self.path / "words.json"

    def note_words(self, words: list[str]) -> None:
        write_json(self.words_path, sealed({"words": words}))

    def words(self) -> list[str]:
        """Sentences of the report that say whether to trust the run; none where there are none, or somebody's own."""
        return self._words(self.words_path)

    def _words(self, path: Path) -> list[str]:
        try:
            return [str(one) for one in unsealed(path.read_bytes(), required=True)["words"]]
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return []

    def timings(self) -> dict[str, float]:
        """Seconds of `preparation` and `evaluation` and bytes of `peak_memory`, as far as they were measured."""
        try:
            found = json.loads(self.timings_path.read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return {}
        named = found.items() if isinstance(found, dict) else ()
        return {name: float(value) for name, value in named if _is_number(value) and value >= 0}

    def note_timings(self, **measured: float) -> None:
        write_json(self.timings_path, self.timings() | measured)

    def note_evaluation(self, report: dict[str, Any]) -> None:
        write_json(self.evaluation_path, sealed(report))

    def evaluation(self) -> dict[str, Any] | None:
        """Scores as they were written; None where there are none, or somebody changed them."""
        try:
            return unsealed(self.evaluation_path.read_bytes(), required=True)
        except (FileNotFoundError, ValueError):
            return None

    def recipe(self) -> Recipe:
        return Recipe.of(self.recipe_path, trust=self.trust)

    def about(self) -> About:
        try:
            return About.model_validate(unsealed((self.path / _ABOUT).read_bytes()))
        except (FileNotFoundError, NotADirectoryError) as error:
            if (self.path / METHOD_RUN).exists():
                raise GamlpError(
                    "is the run of a peer that knows only its own graph", file=self.path,
                    hint="its scores are in evaluation.json and its labels in predictions.parquet",
                ) from error  # fmt: skip
            raise GamlpError(
                "is no run folder", file=self.path, hint="train one: gamlp train GRAPH --out RUN"
            ) from error
        except ValueError as error:  # pydantic's is one too
            raise GamlpError("damaged or foreign run", file=self.path / _ABOUT, hint="train again") from error

    def store_path(self) -> Path | Place:
        """Where the hops are. Of a run that somebody else made, a URL is asked only when a person names it."""
        store = self.about().store
        if is_url(store):
            told = f"the run's hops are at '{store}', which is asked only when you name it"
            check_trusted(store, self.trust, told, self.path)
            return Place.of(store)
        return seen_by_all(self.path / store)  # an absolute path stays itself

    def seed_path(self, seed: int, member: int | None = None) -> Path:
        return self.path / "seeds" / f"{_name(seed, member)}.safetensors"

    def checkpoint_path(self, seed: int, member: int | None = None) -> Path:
        return self.path / "seeds" / f"{_name(seed, member)}.checkpoint"

    def files(self, seed: int, member: int | None = None) -> SeedFiles:
        """Where the training of a seed may leave files; epochs that were observed before it was interrupted."""
        return SeedFiles(
            checkpoint=seen_by_all(self.checkpoint_path(seed, member)),
            checkpoint_seconds=self.checkpoint_seconds,
            job=self.shared / "seeds" / f".{_name(seed, member)}.job",
            log=self.path / "seeds" / f"{_name(seed, member)}.log",
            observed=max((line["epoch"] for line in self.metrics() if _is_of(line, seed, member)), default=0),
        )

    def found(self, seed: int, member: int | None = None) -> Bundle | None:
        """The bundle of a seed that was trained before."""
        if not self.seed_path(seed, member).exists():
            return None
        self._tidy(seed, member)  # a kill may have come between the two
        return Bundle.load(self.seed_path(seed, member), self.trust)

    def bundles(self) -> dict[int, Bundle]:
        """Every seed's bundle."""
        return {seed: Bundle.load(self.seed_path(seed), self.trust) for seed in self.recipe().training.seeds}

    def keep(self, seed: int, bundle: Bundle, member: int | None = None) -> None:
        """A seed is done: its bundle instead of its checkpoint, its members, and what a kill left half-written."""
        bundle.save(self.seed_path(seed, member))
        self._tidy(seed, member)
        for written in (self.checkpoint_path(seed, member), self.seed_path(seed, member)):
            remove_partial(written)

    def stage_path(self, stage: int) -> Path:
        """The run folder of a stage."""
        return self.path / STAGES / str(stage)

    def adopt(self, stage: Path, *, own_store: bool, words: list[str]) -> None:
        """Make what a stage learned the run's own; with its hops where it has some. Done twice, once."""
        other = RunFolder(stage, trust=self.trust)
        for seed in self.recipe().training.seeds:
            Place.of(self.seed_path(seed)).put_file(other.seed_path(seed))
        if other.metrics_path.exists():
            Place.of(self.metrics_path).put_file(other.metrics_path)
        if own_store:
            store = str((stage / other.about().store).relative_to(self.path))
            write_json(
                self.path / _ABOUT, sealed(self.about().model_copy(update={"store": store}).model_dump(mode="json"))
            )
        write_json(self.path / _STAGE_WORDS, sealed({"words": words}))
        Place.of(self.bundle_path).put_file(other.bundle_path)

    def stage_words(self) -> list[str]:
        """What was said of the stages when they ended."""
        return self._words(self.path / _STAGE_WORDS)

    def _tidy(self, seed: int, member: int | None) -> None:
        """Remove what a bundle makes needless. A blend holds the weights of its members."""
        Place.of(seen_by_all(self.checkpoint_path(seed, member))).remove()  # of several servers it is a folder
        if member is None:
            for left in (self.path / "seeds").glob(f"{_name(seed, '*')}.*"):
                Place.of(left).remove()

    def forget(self) -> None:
        """A run that learned nothing leaves only its hops, which another recipe may use; one that did can go on."""
        seeds = Place.of(self.shared) / "seeds"
        learned = [path.name for path in [*(self.path / "seeds").iterdir(), *self.path.glob(f"{STAGES}/*/seeds/*")]]
        if not any(name.endswith((".safetensors", ".checkpoint")) for name in [*learned, *seeds.names()]):
            for path in (self.path / _ABOUT, self.recipe_path, self.metrics_path, self.timings_path, self.seen_path):
                Place.of(path).remove()

    def choose(self, seed: int) -> None:
        """Make a seed's bundle the run's."""
        Place.of(self.bundle_path).put_file(self.seed_path(seed))

    def lines(self, seed: int, member: int | None = None) -> Callable[[dict[str, Any]], None]:
        """Append to the metrics. Epochs that a killed run wrote after its checkpoint come again, and theirs go."""
        started = False

        def write(line: dict[str, Any]) -> None:
            nonlocal started
            if not started:
                self._drop(seed, member, line["epoch"])
                started = True
            with self.metrics_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({key: _json_number(value) for key, value in line.items()}) + "\n")

        return write

    def _drop(self, seed: int, member: int | None, first: int) -> None:
        """Remove lines of a seed from an epoch on, and whatever a kill cut off."""
        kept = [line for line in self.metrics() if not _is_of(line, seed, member) or line["epoch"] < first]
        write_text(self.metrics_path, "".join(json.dumps(line) + "\n" for line in kept))

    def metrics(self) -> list[dict[str, Any]]:
        """Every epoch of every seed; a line that a kill has cut off, or that is none of ours, is left out."""
        if not self.metrics_path.exists():
            return []
        found = []
        for line in self.metrics_path.read_bytes().splitlines():
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _is_epoch(content):
                found.append(content)
        return found


def _name(seed: int, member: int | str | None) -> str:
    """Of the files of a seed, or of one of the models that are blended into its own."""
    return str(seed) if member is None else f"{seed}-model-{member}"


def _is_of(line: dict[str, Any], seed: int, member: int | None) -> bool:
    return line["seed"] == seed and line.get("member") == member


def _is_epoch(line: Any) -> bool:
    """Whether this is what `lines` writes: whole numbers that say seed and epoch, and numbers or null beside them."""
    return (
        isinstance(line, dict)
        and all(type(line.get(name)) is int and 0 <= line[name] < 1 << 63 for name in ("seed", "epoch"))
        and all(value is None or _is_number(value) for value in line.values())
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -_MOST < value < _MOST  # NaN is in no range


def _json_number(value: Any) -> Any:
    """JSON knows no NaN and no infinity: null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _difference(one: Recipe, other: Recipe) -> str:
    for section, values in one.model_dump().items():
        against = other.model_dump()[section]
        if isinstance(values, dict):
            for key, value in values.items():
                if against[key] != value:
                    return f"{section}.{key}"
        elif values != against:
            return str(section)
    return "recipe"
