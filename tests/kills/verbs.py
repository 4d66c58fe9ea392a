"""Every verb that writes, on tables so small that it ends in about a second; and what is to come out of it."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import gamlp

_TIMES = {"seconds", "preparation", "evaluation", "peak_memory", "duration"}
TRAINING = (
    "--set training.epochs=12 --set training.seeds=[0,1] --set model.hidden=16 "
    "--set propagation.hops=2 --set propagation.label_hops=2"
)


@dataclass(frozen=True)
class Verb:
    """A command, with the inputs it reads or goes on with; `{inputs}` is where all of them lie, `{data}` raw files."""

    name: str
    command: str
    result: Callable[[Path], Any]
    copied: str = ""  # an input that the command writes into
    again: str = ""  # how it is run again; the same command where nothing is said
    cut: Callable[[Path], None] | None = None  # what is taken out of the copied input first
    refuses_what_is_there: bool = False  # a kill between the last write and the end leaves a whole result


def files(*names: str) -> Callable[[Path], Any]:
    """Bytes of files, and of all files of folders."""

    def read(folder: Path) -> Any:
        found = {}
        for name in names:
            place = folder / name
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if path.is_file():
                    found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    return read


def run_folder(*further: str) -> Callable[[Path], Any]:
    """Bundles and hops byte by byte, and the metrics but for times."""

    def read(folder: Path) -> Any:
        run = folder / "run"
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        seeds = sorted(path.name for path in (run / "seeds").iterdir())
        kept = files("run/bundle.safetensors", "run/recipe.yaml", "run/seeds", "run/hops", *further)(folder)
        return kept, seeds, [without_times(line) for line in lines]

    return read


def evaluation(folder: Path) -> Any:
    assert (folder / "run" / "report.html").read_text().endswith("</html>\n")
    return without_times(json.loads((folder / "run" / "evaluation.json").read_text()))


def peer_run(folder: Path) -> Any:
    seeds = [json.loads(path.read_text()) for path in sorted((folder / "run" / "seeds").glob("*.json"))]
    return files("run/predictions.parquet")(folder), without_times(seeds)


def recipe_found(folder: Path) -> Any:
    """The recipe, and every trial but for its time."""
    with (folder / "found.csv").open(newline="") as file:
        return (folder / "found.yaml").read_text(), without_times(list(csv.DictReader(file)))


def without_times(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_times(value) for key, value in content.items() if key not in _TIMES}
    return [without_times(value) for value in content] if isinstance(content, list) else content


def _lacks_a_seed(run: Path) -> None:
    (run / "seeds" / "1.safetensors").unlink()
    (run / "bundle.safetensors").unlink()


def _has_newcomers(run: Path) -> None:
    """As `gamlp serve` leaves a run whose newcomers were kept."""
    from gamlp.serve import Ends, NewNode, Question, serving

    nodes = tuple(
        NewNode(f"q{number}", cells={"x1": number / 10, "x2": -1}, hears={None: Ends((f"n{number}", "n7"))})
        for number in range(5)
    )
    with serving(run) as served:
        served.answer([Question(nodes=nodes, keep=True)])


def _refreshed(folder: Path) -> Any:
    """Arrays of the grown graph and of its hops, and which generation is served; manifests name their folder."""
    serving = folder / "run" / "serving"
    made = serving / "generation-1"
    arrays = {
        path.relative_to(made).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(made.rglob("*.npy"))
    }
    return arrays, json.loads((serving / "current.json").read_text())


VERBS = [
    Verb(
        "ingest", "ingest --edges {inputs}/edges.csv --nodes {inputs}/nodes.csv --out graph", files("graph"),
        refuses_what_is_there=True,
    ),
    Verb(
        "generate", "generate communities --nodes 20000 --edges 100000 --features 16 --out graph", files("graph"),
        refuses_what_is_there=True,
    ),
    Verb(
        "datasets", "datasets cora --data-dir {data} --out graph", files("graph", "cache"), refuses_what_is_there=True
    ),
    Verb("propagate", "propagate {inputs}/graph --out store --hops 4 --label-hops 3", files("store")),
    Verb(
        "train", f"train {{inputs}}/graph --out run {TRAINING}", run_folder(),
        again=f"train {{inputs}}/graph --out run {TRAINING} --resume",
    ),
    Verb(
        "train --resume", f"train {{inputs}}/graph --out run {TRAINING} --resume", run_folder(),
        copied="run", cut=_lacks_a_seed,
    ),
    Verb(
        "run", f"run --edges {{inputs}}/edges.csv --nodes {{inputs}}/nodes.csv --out run {TRAINING}",
        lambda folder: (run_folder("run/graph", "run/predictions.parquet")(folder), evaluation(folder)),
    ),
    Verb("run of a peer", "run {inputs}/graph --model mlp --out run --set training.epochs=5 --seeds 2", peer_run),
    Verb("evaluate", "evaluate run", evaluation, copied="run"),
    Verb("predict", "predict {inputs}/run --out predictions.csv", files("predictions.csv")),
    Verb(
        "predict --graph", "predict {inputs}/run --graph {inputs}/other --out predictions.parquet",
        files("predictions.parquet"),
    ),
    Verb(
        "explain", "explain {inputs}/run --nodes n1,n2 --out weights.json --out weights.csv",
        files("weights.json", "weights.csv"),
    ),
    Verb(
        "export --to onnx", "export {inputs}/run --to onnx --out model.onnx", files("model.onnx", "model.encoders.onnx")
    ),
    Verb(
        "export --to mlflow", "export {inputs}/run --to mlflow --out model", files("model/run"),
        refuses_what_is_there=True,
    ),
    Verb("card", "card {inputs}/run --out card.md", files("card.md")),
    Verb("refresh", "refresh run", _refreshed, copied="run", cut=_has_newcomers),
    Verb(
        "tune",
        "tune {inputs}/graph --out found.yaml --trials 3 --seeds 1 --confirm 1 --confirm-seeds 1 "
        "--space {inputs}/space.yaml --study study --set training.epochs=4 --set model.hidden=16 "
        "--set propagation.hops=2 --set propagation.label_hops=2",
        recipe_found,
    ),
]  # fmt: skip


def make_inputs(folder: Path, nodes: int = 200) -> None:
    """Tables, their graph, another graph, a run of two seeds, and a space to search."""
    draw = random.Random(5)
    for name, begin in (("", 0), ("other-", 1000)):
        ids = [f"n{begin + number}" for number in range(nodes)]
        edges = [(one, ids[draw.randrange(number, nodes)]) for number, one in enumerate(ids) for _ in range(3)]
        (folder / f"{name}edges.csv").write_text("src,dst\n" + "".join(f"{one},{other}\n" for one, other in edges))
        rows = []
        for number, one in enumerate(ids):
            label, role = "ab"[number % 2], ("train", "valid", "test", "train")[draw.randrange(4)]
            rows.append(f"{one},{label},{role},{draw.gauss(number % 2, 1):.3f},{draw.gauss(0, 1):.3f}\n")
        (folder / f"{name}nodes.csv").write_text("id,label,split,x1,x2\n" + "".join(rows))
    (folder / "space.yaml").write_text("training.learning_rate:\n  low: 0.001\n  high: 0.1\n  log: true\n")
    for words in (
        "ingest --edges edges.csv --nodes nodes.csv --out graph",
        "ingest --edges other-edges.csv --nodes other-nodes.csv --out other",
        f"train graph --out run {TRAINING}",
    ):
        done = gamlp(*words.split(), folder=folder)
        assert done.returncode == 0, done.stderr


def lay_out(verb: Verb, inputs: Path, folder: Path) -> None:
    """A working folder with what the verb writes into, and folders for temporary files and converted datasets."""
    for name in ("tmp", "cache"):
        (folder / name).mkdir(parents=True)
    if verb.copied:
        shutil.copytree(inputs / verb.copied, folder / verb.copied)
        if verb.cut is not None:
            verb.cut(folder / verb.copied)
