"""What a new user gets, beside what anybody could do: presets of `gamlp run` and simple contestants, same splits.

    python benchmarks/defaults.py --data-dir FOLDER                          # all but `best`; hours
    python benchmarks/defaults.py --sets cora photo --contestants default lr-hops
    python benchmarks/defaults.py --contestants best --time-limit 5m
    python benchmarks/defaults.py --page-only                                # write the page again

Every answer is a line of --record: run again, only what is missing is measured (--again: all that is named, anew; the
last line counts). The page is made of the record. Every contestant hands in probabilities of all nodes, and one
function scores them; validation rows alone choose anything. Test rows are read once for each answer.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import contestants
import defaults_page
from gamlp.graph import Graph, Labels, Split
from gamlp.graph.datasets import data_folder, load
from gamlp.graph.ingest import ingest
from gamlp.graph.splits import per_class_split
from gamlp.peers import labelled
from gamlp.training import report_of
from machine import describe, versions

ROOT = Path(__file__).parents[1]
PLAN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
RESULTS = ROOT / "docs" / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for what in ("sets", "contestants"):
        listed = [name for name, about in PLAN[what].items() if about.get("listed", True)]
        parser.add_argument(f"--{what}", nargs="+", default=listed, choices=PLAN[what], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=defaults_page.RUNS, help="Or splits, where a set draws them.")
    parser.add_argument("--time-limit", default="5m", help="Of the contestant `best`.")
    parser.add_argument("--again", action="store_true", help="Measure anew what is in the record.")
    parser.add_argument("--page-only", action="store_true", help="Measure nothing: write the page of the record.")
    parser.add_argument("--data-dir", type=Path, default=None, help="Raw files. (default: GAMLP_DATA)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", type=Path, default=RESULTS / "defaults.jsonl")
    parser.add_argument("--out", type=Path, default=RESULTS / "defaults.md")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    os.environ["OMP_NUM_THREADS"] = str(given.threads)  # of the commands that are run
    failed = 0 if given.page_only else measure(given)
    given.out.write_text(defaults_page.page(read_record(given.record), PLAN))
    sys.exit(1 if failed else 0)


def measure(given: argparse.Namespace) -> int:
    """Every answer that the record lacks; how many could not be had."""
    failed = 0
    for name in given.sets:
        with tempfile.TemporaryDirectory(prefix="gamlp-defaults-") as work:  # hops of a set go when it is done
            for seed, missing in wanted(given, name):
                graph = graph_of(name, seed, data_folder(given.data_dir), Path(work))
                case = Case(graph, PLAN["sets"][name], seed, Path(work), given.threads, given.time_limit)
                for contestant in missing:
                    try:
                        line = case.measured(contestant)
                    except Exception as error:  # the others still want to be measured
                        print(f"{name} {contestant} seed {seed}: failed: {error}", file=sys.stderr, flush=True)
                        failed += 1
                        continue
                    append(given.record, {"set": name, "contestant": contestant, "seed": seed, **line})
                    told = f"{100 * line['score']:.2f} (valid {100 * line['valid']:.2f}), {line['seconds']:.0f} s"
                    print(f"{name} {contestant} seed {seed}: {told}, {line['chosen']}", flush=True)
    return failed


def wanted(given: argparse.Namespace, name: str) -> Iterator[tuple[int, list[str]]]:
    """Seeds of a set with the contestants that are to be measured.

    A contestant without chance answers the same for all seeds of a given split: once is enough.
    """
    about = PLAN["sets"][name]
    known = set() if given.again else {(line["set"], line["contestant"], line["seed"]) for line in read(given.record)}
    for seed in range(given.seeds):
        found = [
            one
            for one in given.contestants
            if (name, one, seed) not in known
            and (seed == 0 or defaults_page.has_chance(about, PLAN["contestants"][one]))
            and not (one == "shipped" and "shipped" not in about)
        ]
        if found:
            yield seed, found


@dataclass
class Case:
    """A graph with a split, and all that contestants share."""

    graph: Graph
    about: dict[str, Any]
    seed: int
    work: Path
    threads: int
    time_limit: str

    @property
    def metric(self) -> str:
        return str(self.about.get("metric", "accuracy"))

    def score(self, probabilities: Any, part: str) -> dict[str, float]:
        """Of the labelled rows of a part."""
        labels, rows = self.graph.nodes.labels, labelled(self.graph, part)
        assert labels is not None
        return report_of(np.asarray(probabilities)[rows], labels.values[rows])

    def valid_score(self, probabilities: Any) -> float:
        """What contestants may choose by."""
        return self.score(probabilities, "valid")[self.key]

    @property
    def key(self) -> str:
        return "roc_auc" if self.metric == "roc_auc" else "score"

    def measured(self, contestant: str) -> dict[str, Any]:
        """A line of the record. Seconds are of the processor: the machine may have other work."""
        commit, begun = _commit(), _processor_seconds()
        tried: list[Any] = []  # of a portfolio: name, validation, test, state
        if PLAN["contestants"][contestant]["role"] == "ours":
            probabilities, chosen, tried = self._by_command(contestant)
        else:
            probabilities, chosen = contestants.answer(contestant, self)
        seconds = _processor_seconds() - begun
        test = self.score(probabilities, "test")
        return {
            "metric": self.metric,
            "score": test[self.key],
            "valid": self.valid_score(probabilities),
            "seconds": round(seconds, 2),
            "chosen": chosen,
            **({"tried": tried} if tried else {}),
            "test": {name: round(value, 6) for name, value in test.items()},
            "date": time.strftime("%Y-%m-%d %H:%M"),
            "commit": commit,
            "machine": describe(),
            "versions": ", ".join([versions(), *(f"{name} {version(name)}" for name in ("scikit-learn", "lightgbm"))]),
        }

    def _by_command(self, preset: str) -> tuple[Any, str, list[Any]]:
        """`gamlp run` as a person types it, on a folder: nothing in it tells which dataset this is."""
        import pyarrow.parquet

        folder, out = self.work / f"graph-{self.seed}", self.work / f"{preset}-{self.seed}"
        if not folder.exists():
            self.graph.save(folder)
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "gamlp.cli.main", "run", str(folder), "--out", str(out), "--preset", preset]
        command += ["--seed", str(self.seed), "--threads", str(self.threads), "--json"]
        command += ["--metric", self.metric] if "metric" in self.about else []
        command += ["--time-limit", self.time_limit] if preset == "best" else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-2000:])
        table = pyarrow.parquet.read_table(out / "predictions.parquet")
        columns = [name for name in table.column_names if name.startswith("p_")]
        probabilities = np.stack([table[name].to_numpy() for name in columns], 1)
        chosen, tried = "one model", []
        if (file := out / "leaderboard.json").exists():
            board = json.loads(file.read_text())
            chosen = board["chosen"]
            tried = [[row[key] for key in ("name", "valid", "test", "state")] for row in board["rows"]]
        shutil.rmtree(out)
        return probabilities, chosen, tried


def graph_of(name: str, seed: int, data_dir: Path | None, work: Path) -> Graph:
    """A set's graph with the split of a seed, where it draws one."""
    about = PLAN["sets"][name]
    if "tables" in about:
        folder = work / name
        if not folder.exists():
            assert data_dir is not None, "tables are looked for in --data-dir"
            tables = data_dir / about["tables"]
            ingest(tables / "edges.csv.gz", tables / "nodes.csv.gz", folder)
        return Graph.open(folder)
    if "side_by_side" in about:
        return side_by_side(about["side_by_side"], data_dir)
    graph = load(about["dataset"], data_dir, seed=seed if about.get("drawn") == "split" else 0)
    labels = graph.nodes.labels
    assert labels is not None
    if "per_class" in about:
        return graph.with_targets(split=per_class_split(labels, *about["per_class"], seed=seed))
    if "thinned" in about:
        assert graph.nodes.split is not None
        return graph.with_targets(split=thinned(labels, graph.nodes.split, *about["thinned"], seed=seed))
    return graph


def thinned(labels: Labels, split: Split, train: int, valid: int, seed: int) -> Split:
    """So many rows of each class, drawn from those that train and from those that validate; test rows stay."""
    generator = np.random.default_rng(seed)
    kept = {}
    for part, count in (("train", train), ("valid", valid)):
        rows = generator.permutation(split.rows(part))
        classes = labels.values[rows]
        kept[part] = np.concatenate([rows[classes == one][:count] for one in range(len(labels.classes))])
    return Split.of(len(split.roles), train=kept["train"], valid=kept["valid"], test=split.test)


def side_by_side(parts: dict[str, list[str]], data_dir: Path | None) -> Graph:
    """Several graphs as one without edges between them: whole graphs train, validate and test."""
    edges, features, values, roles, at = [], [], [], {"train": [], "valid": [], "test": []}, 0
    for part, names in parts.items():
        for name in names:
            graph = load(name, data_dir)
            nodes = graph.nodes
            assert nodes.features is not None and nodes.labels is not None
            edges += [np.stack([near, rows]) + at for rows, near, _ in graph.relation.edges()]
            features.append(nodes.features.read(slice(None)))
            values.append(nodes.labels.values)
            roles[part].append(at + np.arange(nodes.count))
            at += nodes.count
    labels = Labels(np.concatenate(values), nodes.labels.classes)
    split = Split.of(at, **{part: np.concatenate(rows) for part, rows in roles.items()})
    return Graph.from_arrays(np.concatenate(edges, 1), np.concatenate(features), labels, split=split, name="graph")


def append(record: Path, line: dict[str, Any]) -> None:
    """After a line that was cut by a kill, on a line of its own."""
    known = record.read_bytes() if record.exists() else b""
    cut = bool(known) and not known.endswith(b"\n")
    with record.open("a") as file:
        file.write(("\n" if cut else "") + json.dumps(line) + "\n")


def read(record: Path) -> list[dict[str, Any]]:
    """Lines of the record; one that was cut by a kill is left aside."""
    found = []
    for text in record.read_text().splitlines() if record.exists() else ():
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found


def read_record(record: Path) -> list[dict[str, Any]]:
    """The last line of every set, contestant and seed."""
    last = {(line["set"], line["contestant"], line["seed"]): line for line in read(record)}
    return list(last.values())


def _commit() -> str:
    """Of the code that answers; empty outside of a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
