"""papers100M's shape from nothing to predictions, on one machine: what every step cost, beside its bound.

    python benchmarks/papers100m.py                    # 111 M nodes, 3.2 billion entries; about 60 GB of disk
    python benchmarks/papers100m.py --scale 0.1        # a tenth of everything, memory too
    python benchmarks/papers100m.py --page             # nothing is run: the page from what was measured

generates the graph, propagates 12 hops of features and 10 of labels, trains GAMLP(JK) and GAMLP(R), predicts every
labelled row, and writes docs/results/papers100m.md. Every step is a command of `gamlp` in a process of its own; two of
them are killed on the way, and go on. Run again, it goes on with the first step that is not finished.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open

import papers100m_page
from bounds import LINE, disk, products, random_lines
from gamlp.graph import Graph
from gamlp.io import format_size, parse_size, usable_cores, write_text
from gamlp.kernel import WINDOW
from machine import describe, versions
from watched import Watched, watch

NODES, EDGES, FEATURES, CLASSES = 111_059_956, 1_615_685_872, 128, 172
TRAIN, VALID, TEST = 1_207_179, 125_265, 214_338
HOPS, LABEL_HOPS, HIDDEN = 12, 10, 256
RESULTS = Path(__file__).parents[1] / "docs" / "results"
GAMLP = [sys.executable, "-m", "gamlp.cli.main"]


@dataclass(frozen=True)
class Step:
    """A command that is done when `made` is there. `kill`: after so many seconds it is killed once, and goes on."""

    name: str
    words: list[str]
    made: Path
    again: list[str] = field(default_factory=list)  # further words where it was begun before
    kill: float | None = None
    said: Path | None = None  # where what it prints is kept


def steps(work: Path, scale: float, memory: int, epochs: int, kill: float | None) -> list[Step]:
    """All commands, in order."""
    labelled, graph, hops = TRAIN + VALID + TEST, work / "graph", work / "hops"
    generate = [
        *("generate", "communities", "--nodes", str(round(NODES * scale)), "--edges", str(round(EDGES * scale))),
        *("--features", str(FEATURES), "--classes", str(CLASSES), "--dtype", "float16"),
        *("--labelled", f"{labelled / NODES:.6f}", "--train", f"{TRAIN / labelled:.6f}"),
        *("--valid", f"{VALID / labelled:.6f}", "--out", str(graph)),
    ]
    propagate = [
        *("propagate", str(graph), "--out", str(hops), "--hops", str(HOPS), "--label-hops", str(LABEL_HOPS)),
        *("--set", "propagation.label_r=0", "--rows", "split", "--dtype", "float16", "--memory", f"{memory}B"),
    ]
    made = [
        Step("generate", generate, graph / "graph.json"),
        Step("propagate", propagate, hops / "store.json", kill=kill),
    ]
    for attention, short in (("jk", "JK"), ("recursive", "R")):
        run = work / attention
        train = ["train", str(hops), "--recipe", f"ogbn-papers100m-{attention}", *_small(epochs), "--out", str(run)]
        again = ["--resume"]
        first = kill / 5 if kill and attention == "jk" else None  # training takes less than propagation
        made.append(Step(f"train {short}", train, run / "bundle.safetensors", again, first))
        scores = work / f"{attention}.json"
        made.append(Step(f"evaluate {short}", ["evaluate", str(run), "--json"], scores, said=scores))
        out = work / f"{attention}.parquet"
        made.append(Step(f"predict {short}", ["predict", str(run), "--rows", "labelled", "--out", str(out)], out))
    return made


def _small(epochs: int) -> list[str]:
    """The published settings at a width that two cores train in minutes."""
    keys = {"model.hidden": HIDDEN, "training.epochs": epochs, "propagation.dtype": "float16"}
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def needed_disk(scale: float, memory: int) -> int:
    """Bytes at the fullest moment: the graph, the hops of features, and those of labels twice, or a state."""
    nodes, labelled = NODES * scale, (TRAIN + VALID + TEST) * scale
    graph = nodes * (2 * FEATURES + 8 + 5) + 2 * EDGES * scale * 4
    features, labels = labelled * (HOPS + 1) * FEATURES * 2, labelled * (LABEL_HOPS + 1) * CLASSES * 2
    return round(graph + features + labels + max(labels, memory / 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="Of papers100M's nodes and edges.")
    parser.add_argument("--memory", help="Budget of propagation. (default: 18 GiB times the scale)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--kill", type=float, help="Seconds after which propagation, and later training, is killed.")
    parser.add_argument("--work", type=Path, default=Path("build/papers100m"), help="Kept while steps are missing.")
    parser.add_argument("--out", type=Path, default=RESULTS, help="Folder of the page and of papers100m/steps.json.")
    parser.add_argument("--keep", action="store_true", help="Keep graph, hops and runs afterwards.")
    parser.add_argument("--page", action="store_true", help="Write the page from what was measured, and stop.")
    given = parser.parse_args()
    record = given.out / "papers100m" / "steps.json"
    if not given.page:
        run(given, record)
    papers100m_page.write(given.out)


def run(given: argparse.Namespace, record: Path) -> None:
    """Every step that is missing; what it took is written when it ends."""
    memory = parse_size(given.memory) if given.memory else max(400 << 20, int((18 << 30) * given.scale))
    scale, work = given.scale, given.work
    for folder in (work, record.parent):
        folder.mkdir(parents=True, exist_ok=True)
    results = json.loads(record.read_text()) if record.exists() else {}
    run = results.setdefault(f"{scale:g}", {"steps": {}})
    free, need = shutil.disk_usage(work).free + _size(work), needed_disk(scale, memory)
    tell(f"disk: {format_size(need)} needed, {format_size(free)} free")
    if need > free:
        most = scale * free / need * 0.95
        sys.exit(f"Too little disk for scale {scale:g}; the largest that fits is about --scale {most:.2f}.")
    kill = given.kill if given.kill is not None else 600 * scale if scale >= 0.05 else None
    run |= {"scale": scale, "memory": memory, "machine": describe(), "versions": versions(), "needed disk": need}
    run |= {"cores": usable_cores(), "date": time.strftime("%Y-%m-%d"), "epochs": given.epochs}
    for step in steps(work, scale, memory, given.epochs, kill):
        if step.name == "propagate" and "products" not in run.get("rates", {}):
            run["facts"] = facts(work)
            run["rates"] = rates(work, run["facts"]["nodes"])
            write_text(record, json.dumps(results, indent=1) + "\n")
        if not (step.made.exists() and step.name in run["steps"]):
            run["steps"][step.name] = measured(step, work)
            run["disk"] = max(go["disk"] for one in run["steps"].values() for go in one["goes"])
            run["sizes"] = {"graph": _size(work / "graph"), "hops": _size(work / "hops")}
            run["facts"] = facts(work)
            write_text(record, json.dumps(results, indent=1) + "\n")
            goes_of(step, work).unlink()
    if not given.keep:
        shutil.rmtree(work)


def goes_of(step: Step, work: Path) -> Path:
    """Where goes of a step that is not finished are noted."""
    return work / f"{step.name}.goes.json"


def measured(step: Step, work: Path) -> dict[str, Any]:
    """Runs a step to its end, killed once where it is to be; the goes are added up.

    They are noted as they end, and the one that is under way every few seconds: where this process ended before the
    step did, the next has what it took so far.
    """
    noted, journal = goes_of(step, work), work / f"{step.name}.go.json"
    goes: list[dict[str, Any]] = json.loads(noted.read_text()) if noted.exists() else []
    if journal.exists():
        goes.append({**json.loads(journal.read_text()), "killed": True})
        write_text(noted, json.dumps(goes))
        journal.unlink()
    kill = None if any(go["killed"] for go in goes) else step.kill
    while True:
        words = [*GAMLP, *step.words, *(step.again if goes else [])]
        tell(f"{step.name}: gamlp {' '.join(step.words)}")
        found: Watched = watch(words, work, kill, step.said, journal=journal)
        goes.append(vars(found))
        write_text(noted, json.dumps(goes))
        journal.unlink(missing_ok=True)
        tell(f"{step.name}: {found.seconds:.0f} s{', killed' if found.killed else ''}")
        if found.killed:
            kill = None
            continue
        if found.code != 0:
            sys.exit(f"{step.name} failed: {found.said}")
        return {"goes": [{name: value for name, value in go.items() if name != "said"} for go in goes]}


def rates(work: Path, nodes: int) -> dict[str, float | None]:
    """What the machine can do at most, measured right before the step that needs it most.

    A large state is read in windows, and lines of a window come faster than those of the whole: both are measured.
    """
    tell("rates of memory, disk and products")
    write, read = disk(work)
    state, window = nodes * LINE, min(nodes * LINE, WINDOW)
    lines = {"lines": random_lines(state), "window lines": random_lines(window)}
    return {"memory": state, "window": window, **lines, "write": write, "read": read, "products": products()}


def facts(work: Path) -> dict[str, Any]:
    """What was made: nodes, entries, scores."""
    found: dict[str, Any] = {}
    if (work / "graph" / "graph.json").exists():
        graph = Graph.open(work / "graph")
        found |= {"nodes": graph.nodes.count, "entries": graph.relation.entries, "source": graph.source}
    for attention in ("jk", "recursive"):
        scores = work / f"{attention}.json"
        if scores.exists():
            said = json.loads(scores.read_text())
            found[attention] = {"rows": said["rows"], "score": said["mean"]["score"], "base": said["base"]["score"]}
            found[attention]["weights"] = weights_of(work / attention / "bundle.safetensors")
    return found


def weights_of(bundle: Path) -> int:
    """Of all matrices of a model; every row is multiplied with each."""
    with safe_open(bundle, "numpy") as tensors:
        shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
    return sum(math.prod(shape) for shape in shapes if len(shape) == 2)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0


def tell(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


if __name__ == "__main__":
    main()
