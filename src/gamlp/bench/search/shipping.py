"""What a search found: a log of every trial, and the leader among the shipped recipes where it is the better one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import yaml

from gamlp.bench.search.plan import SearchCell
from gamlp.bench.search.running import CellSearch
from gamlp.bench.search.trials import Trial, Trials
from gamlp.errors import GamlpError
from gamlp.graph import digest
from gamlp.io import write_json, write_text
from gamlp.recipe import Recipe

CONFIRM = 5  # replicates that the leader and the present recipe are compared on
COLUMNS = ("trial", "source", "state", "replicates", "valid", "deviation", "valid_loss", "seconds", "recipe")


def write_log(cell: SearchCell, trials: Trials, folder: Path) -> Path:
    """A line for every trial: `valid` and `valid_loss` are means over its replicates, `recipe` is what it says."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    for trial in trials.trials:
        scores = [run["score"] for run in trial.runs.values()]
        recipe = {key: value for key, value in trial.recipe.explicit().items() if key != "about"}
        writer.writerow(
            {
                "trial": trial.number,
                "source": trial.source,
                "state": "failed" if trial.failed else "complete" if scores else "waiting",
                "replicates": len(scores),
                "valid": round(fmean(scores), 5) if scores else "",
                "deviation": round(stdev(scores), 5) if len(scores) > 1 else "",
                "valid_loss": round(fmean(run["loss"] for run in trial.runs.values()), 5) if scores else "",
                "seconds": round(sum(run["seconds"] for run in trial.runs.values()), 1),
                "recipe": json.dumps(recipe, sort_keys=True),
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path := folder / f"{cell.name}.csv", text.getvalue())
    return path


@dataclass(frozen=True)
class Shipped:
    """Whether the leader took the place of the present recipe, and what both validate with, on the same replicates."""

    name: str
    replaced: bool
    leader: int
    scores: list[float]
    before: list[float]


def ship(search: CellSearch, cell: SearchCell, folder: Path, tell: Callable[[str], None] = print) -> Shipped:
    """Write the leader among the shipped recipes in `folder`, if it is better than the present one by validation.

    First both are run on CONFIRM replicates, as often as that changes who leads.
    """
    leader, present = _settled(search, cell)
    common = sorted(set(leader.runs) if present is None else set(leader.runs) & set(present.runs))
    scores = [leader.runs[number]["score"] for number in common]
    before = [] if present is None else [present.runs[number]["score"] for number in common]
    better = present is None or (leader.number != present.number and fmean(scores) > fmean(before))
    if better:
        trials = search.trials(cell.name)
        recipe = leader.recipe.changed({"about": _about(cell, trials, leader, scores, before)})
        Shelf(folder).put(cell.dataset, cell.method, recipe)
    found = Shipped(cell.name, better, leader.number, scores, before)
    write_json(search.of_cell(cell.name, "shipped"), {"leader": leader.number, "replaced": better})
    was = f" (present recipe: {told(before)})" if before else ""
    tell(f"{cell.name}: trial {leader.number}, {told(scores)}{was}: {'shipped' if better else 'the present one stays'}")
    return found


def _settled(search: CellSearch, cell: SearchCell) -> tuple[Trial, Trial | None]:
    while True:
        trials = search.trials(cell.name)
        leader = trials.leader()
        if leader is None:
            raise GamlpError(f"'{cell.name}' has no trial yet", hint="search first, without --ship")
        present = next((one for one in trials.trials if one.source == "present" and not one.failed), None)
        both = [leader] if present is None else [leader, present]
        lacking = [one for one in both if not set(range(CONFIRM)) <= set(one.runs)]
        if not lacking:
            return leader, present
        for one in lacking:
            search.complete(cell, one, CONFIRM)
            if search.trials(cell.name).trials[one.number].failed:
                break


def _about(cell: SearchCell, trials: Trials, leader: Trial, scores: list[float], before: list[float]) -> str:
    runs = sum(len(one.runs) for one in trials.trials)
    over = f"{len(scores)} {'splits' if cell.draws_split else 'seeds'}"
    was = f", where the recipe before it has {told(before)}" if before else ""
    return (
        f"Found by benchmarks/search.py on {cell.dataset}: trial {leader.number} of {len(trials.trials)} ({runs} runs)"
        f", validation {told(scores)} over {over}{was}; test rows were not read."
    )


def told(scores: list[float]) -> str:
    """Mean and deviation, in percent."""
    return f"{100 * fmean(scores):.2f} ± {100 * (stdev(scores) if len(scores) > 1 else 0.0):.2f} %"


@dataclass(frozen=True)
class Shelf:
    """The folder of shipped recipes: <dataset>/<method>.yaml, and names.yaml with further names of some files."""

    folder: Path

    def put(self, dataset: str, method: str, recipe: Recipe) -> None:
        """The recipe under its name. Other names of the file that it replaces keep what they had.

        Where another file has the same settings, this is a further name of that one.
        """
        place, name = f"{dataset}/{method}", f"{dataset}-{method}"
        names = self._names()
        for path in list(names):
            names[path] = [one for one in names[path] if one != name]
        if others := names.pop(place, []):
            heir = self._place_of(others[0])
            self._write(heir, self._file(place).read_text(encoding="utf-8"))
            names[heir] = others[1:]
        self._file(place).unlink(missing_ok=True)
        same = self._same(recipe)
        if same is None:
            self._write(place, recipe.explicit_yaml())
        else:
            names[same] = [*names.get(same, []), name]
        self._write_names({path: further for path, further in names.items() if further})

    def _same(self, recipe: Recipe) -> str | None:
        wanted = _known(recipe)
        for path in sorted(self.folder.glob("*/*.yaml")):
            if _known(Recipe.of(path)) == wanted:
                return f"{path.parent.name}/{path.stem}"
        return None

    def _place_of(self, name: str) -> str:
        """Where a further name has its own file: its dataset is the longest folder that it begins with."""
        datasets = [path.name for path in self.folder.iterdir() if path.is_dir() and name.startswith(f"{path.name}-")]
        if not datasets:
            raise GamlpError(f"'{name}' in names.yaml begins with no dataset that has a folder", file=self.folder)
        dataset = max(datasets, key=len)
        return f"{dataset}/{name.removeprefix(f'{dataset}-')}"

    def _file(self, place: str) -> Path:
        return self.folder / f"{place}.yaml"

    def _write(self, place: str, text: str) -> None:
        self._file(place).parent.mkdir(parents=True, exist_ok=True)
        write_text(self._file(place), text)

    def _names(self) -> dict[str, list[str]]:
        path = self.folder / "names.yaml"
        return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}

    def _write_names(self, names: dict[str, list[str]]) -> None:
        path = self.folder / "names.yaml"
        kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        comments = [line for line in kept if line.startswith("#")]
        lines = [f"{place}: [{', '.join(sorted(further))}]" for place, further in sorted(names.items())]
        write_text(path, "\n".join([*comments, *lines]) + "\n")


def _known(recipe: Recipe) -> str:
    return digest(recipe.model_dump(mode="json", exclude={"about"}))
