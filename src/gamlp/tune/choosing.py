"""Choose a recipe by validation from a portfolio that shares one store of hops; its trained bundle becomes the run's.

Test rows are read once, by `_with_test`, when the choice is written down: nothing is decided after that.
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import Graph, fingerprint
from gamlp.io import digest, sealed, unsealed, write_json
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import LOCAL, Resources, Source, adopt_trained, as_source, check_start
from gamlp.training import (
    MOST_HELD_ROWS,
    Bundle,
    RunFolder,
    choose_device,
    metric_value,
    probabilities_of,
    rows_of,
    writing_run,
)
from gamlp.tune.best import blend, improve
from gamlp.tune.candidates import Candidate, facts_of, fitting, load_candidates, views_of_relations
from gamlp.tune.effort import Clock
from gamlp.tune.leaderboard import Leaderboard
from gamlp.tune.pace import pace_for, training_rows
from gamlp.tune.portfolio import FOLDER, Portfolio
from gamlp.tune.scaling import scaling_for
from gamlp.tune.study import load_optuna

Preset = Literal["fast", "default", "best"]
PRESETS: tuple[Preset, ...] = ("fast", "default", "best")
LIMIT = 1800.0  # seconds of `best` where nobody says how many
_QUESTION = "question.json"


@dataclass(frozen=True)
class Chosen:
    """The recipe to go on with: `run_path(source, chosen.recipe, out)` finds it trained. `notes` are sentences.

    Without a leaderboard nothing is trained yet: there is one model, and no choice.
    """

    recipe: Recipe
    leaderboard: Leaderboard | None = None
    notes: list[str] = field(default_factory=list)


def choose(
    source: Source | Graph | str | Path,
    out: str | Path,
    *,
    preset: Preset = "default",
    time_limit: float | None = None,
    metric: str | None = None,
    seed: int = 0,
    valid: Source | Graph | str | Path | None = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> Chosen:
    """Try a portfolio of recipes on a graph and choose one by its validation rows. Interrupted, it goes on.

    source: a graph or its folder, or the name of a dataset.
    out: the run folder. Hops, candidates (`portfolio`), `leaderboard.json` and the chosen bundle are left in it.
    preset: fast: one model, which is not trained here; default; best: search, several seeds and a blend as well.
    time_limit: seconds for all of it, earlier sittings included. (default: none; of best half an hour)
    metric: what validation goes by. (default: accuracy; see training.metric)
    valid: another graph to validate on.
    """
    source, out = as_source(source), Path(out)
    other = None if valid is None else as_source(valid)
    if preset not in PRESETS:
        raise GamlpError(f"there is no preset '{preset}'", hint=f"choose from {', '.join(PRESETS)}")
    candidates = _candidates(source, metric, seed)
    why = "" if preset == "fast" else _alone(source, other, resources)
    if preset == "fast" or why:
        reference = next(one for one in candidates if one.role == "reference")
        recipe = reference.recipe if source.store is None else _of_store(reference.recipe)
        return Chosen(recipe, notes=[why] if why else [])
    with writing_run(out):
        return _choose(source, other, out, candidates, preset, time_limit, seed, resources, progress)


def _candidates(source: Source, metric: str | None, seed: int) -> list[Candidate]:
    """Those that fit the graph, all with the same scaling, metric and seed."""
    changes: dict[str, Any] = {"training.seeds": [seed]}
    if metric is not None:
        changes["training.metric"] = metric
    if source.store is not None:
        return [one.changed(changes) for one in load_candidates()]
    changes["propagation.scaling"] = scaling_for(source.opened)
    changes |= pace_for(source.opened)
    if (views := views_of_relations(source.opened)) is not None:
        changes["relations.subsets"] = views
    found = [one.changed(changes) for one in fitting(facts_of(source.opened), load_candidates())]
    most = _most_folds(source.opened)
    return [one.changed({"propagation.folds": most}) if one.recipe.propagation.folds > most else one for one in found]


def _most_folds(graph: Graph) -> int:
    """Folds that its training rows have room for, two rows in each; further splits may have a few rows less."""
    rows = training_rows(graph)
    return rows // 2 if rows >= 4 else 0


def _of_store(recipe: Recipe) -> Recipe:
    """Hops are those that the store has."""
    content = recipe.explicit()
    content.pop("propagation", None)
    return Recipe.of(content)


def _alone(source: Source, valid: Source | None, resources: Resources) -> str:
    """Why one model is trained and none is chosen, in a sentence; nothing where there can be a choice."""
    with closing(resources.open_engine()) as engine:
        one_machine = engine.one_machine
    if not one_machine:
        return f"one model is trained: engine {resources.engine} does not choose from a portfolio"
    if resources.processes > 1:
        return "one model is trained: a portfolio is tried by one process, and several are asked for"
    if source.store is not None:
        return "one model is trained: a store holds hops as one recipe reads them; give the graph to have one chosen"
    if valid is None:
        nodes = source.opened.nodes
        labels, split = nodes.labels, nodes.split
        if labels is not None and split is not None and not labels.known_at(split.valid).any():
            return "one model is trained: without validation rows nothing can be chosen"
    return ""


def _choose(
    source: Source,
    valid: Source | None,
    out: Path,
    candidates: list[Candidate],
    preset: Preset,
    time_limit: float | None,
    seed: int,
    resources: Resources,
    progress: Progress,
) -> Chosen:
    question, place = _question(source, valid, candidates, preset), out / FOLDER
    board = Leaderboard.read(out)
    if board is not None or (place / _QUESTION).exists():
        _same_question(place / _QUESTION, question)
    elif (out / "run.json").exists():
        raise GamlpError(
            "holds a run of a given recipe, and none is given now", file=out,
            hint="choose another --out, or give its recipe again",
        )  # fmt: skip
    if board is None:
        if preset == "best":
            load_optuna()  # lacking, it is said now
            time_limit = LIMIT if time_limit is None else time_limit
        clock = Clock(place / "clock.json", time_limit)
        work = Portfolio(source, out, candidates, clock, valid, seed, resources, progress)
        check_start(source, work.deepest, out)
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / _QUESTION, sealed(question))
        board = _tried(work, preset)
        board.write(out)  # the choice is fixed: from here on test rows may be read
    if not board.tested:
        board = _with_test(board, out, resources)
        board.write(out)
    recipe = Recipe.of(board.recipe)
    adopt_trained(source, recipe, out, RunFolder(place / board.chosen), valid=valid)
    return Chosen(recipe, board, list(board.notes))


def _tried(work: Portfolio, preset: Preset) -> Leaderboard:
    """Everything up to the choice; no test row is read."""
    work.prepare()
    work.train()
    work.repeat()
    work.weigh_classes()
    if preset == "best":
        improve(work)
    blend(work)
    verdict = work.decide()
    assert work.prepared.valid is not None
    return Leaderboard(
        preset=preset,
        metric=work.metric,
        positive=work.positive,
        chosen=verdict.chosen.name,
        sentence=verdict.sentence,
        recipe=verdict.chosen.recipe.explicit(),
        valid_rows=len(work.prepared.valid),
        splits=1 + len(work.splits),
        seconds=round(work.clock.spent, 3),
        notes=work.notes,
        rows=work.rows(),
    )


def _with_test(board: Leaderboard, out: Path, resources: Resources) -> Leaderboard:
    """The test score of every candidate that came to its end: the choice was made before, and stays."""
    store, device = HopStore.open(out / "hops"), choose_device(resources.device)
    labels, split = store.labels, store.split
    rows = np.zeros(0, np.int64) if labels is None or split is None else split.test[labels.known_at(split.test)]
    notes, scored = list(board.notes), []
    if len(rows) > MOST_HELD_ROWS:
        notes.append(
            f"test scores of the leaderboard are of {MOST_HELD_ROWS:,} of the {len(rows):,} test rows, evenly among "
            "them"
        )
        rows = rows[np.linspace(0, len(rows) - 1, MOST_HELD_ROWS).astype(np.int64)]
    for row in board.rows:
        if row.state == "finished" and len(rows) and labels is not None:
            (file,) = (out / FOLDER / row.name / "seeds").glob("*.safetensors")
            bundle = Bundle.load(file)
            said = probabilities_of(bundle, rows_of(store, bundle.recipe, rows), device, resources.memory)
            value = metric_value(board.metric, said, labels.values[rows], board.positive)
            row = row.model_copy(update={"test": None if math.isnan(value) else value})
        scored.append(row)
    return board.model_copy(update={"rows": scored, "tested": True, "notes": notes})


def _question(source: Source, valid: Source | None, candidates: list[Candidate], preset: Preset) -> dict[str, Any]:
    """What is chosen for: another graph, another portfolio or another preset is another question."""
    graphs = [one.opened for one in (source, valid) if one is not None]
    return {
        "graph": digest(
            [[fingerprint.structure(one), fingerprint.inputs(one), fingerprint.targets(one)] for one in graphs]
        ),
        "portfolio": digest([[one.name, one.recipe.explicit()] for one in candidates]),
        "preset": preset,
    }


def _same_question(path: Path, question: dict[str, Any]) -> None:
    """A portfolio of other data, other candidates or another preset cannot be gone on with."""
    try:
        before = unsealed(path.read_bytes(), required=True)
    except (FileNotFoundError, ValueError) as error:
        raise GamlpError("is damaged or missing", file=path, hint="choose another --out") from error
    words = {"graph": "another graph", "portfolio": "other candidates (or another metric or seed)"}
    for name, value in question.items():
        if before.get(name) != value:
            what = words.get(name, f"--preset {before.get(name)}")
            raise GamlpError(f"holds a choice for {what}", file=path.parent.parent, hint="choose another --out")
