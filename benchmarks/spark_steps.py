"""Every step of the daily job on Spark beside the same command on one machine: what it costs, what the driver holds.

    python benchmarks/spark_steps.py                       # tables of 500,000 nodes, then growth; half an hour
    python benchmarks/spark_steps.py --parts tenth         # a tenth of papers100M's shape, killed once; half an hour
    python benchmarks/spark_steps.py --quick               # small: does it run? its figures mean nothing

A standalone cluster of two workers of one core on loopback. Processor seconds are those of all processes, the cluster's
own with them, as a control group counts them. Runs again where it was; --fresh forgets. It writes
docs/results/spark-steps.json and a page beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.io import write_text
from machine import describe, versions
from papers100m_tables import EDGES, NODES, write_tables
from spark_usage import Peaks

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.spark.standalone import Standalone, standalone  # noqa: E402  (as the tests have it)

OUT = ROOT / "docs" / "results" / "spark-steps.json"
JAVA = "driver's Java"
PARTS = ("steps", "growth", "tenth")
SCALE, LEAST, TENTH = 0.0045, 0.0009, 0.1  # of papers100M: 500 k and 100 k nodes, a tenth
TIMES = (1, 2, 4, 8)
FIXED = 15.0  # processor seconds that a step on Spark may take whatever its size
RECIPE = ["--set", "propagation.hops=3", "--set", "propagation.label_hops=2", "--set", "training.epochs=3",
          "--set", "model.hidden=64", "--set", "training.batch_size=5000"]  # fmt: skip
TENTH_RECIPE = ["--set", "propagation.hops=12", "--set", "propagation.label_hops=10", "--set",
                "propagation.dtype=float16", "--set", "training.epochs=2", "--set", "model.attention=jk", "--set",
                "model.hidden=256", "--set", "training.batch_size=5000"]  # fmt: skip
STEPS = ("ingest", "propagate", "train", "evaluate", "predict")
_LIMITS = {"ingest": 4.0, "predict": 3.0}  # processor beyond FIXED ÷ one machine's, at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", default=["steps", "growth"], choices=PARTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="Forget what was measured before.")
    parser.add_argument("--work", type=Path, help="Folder for tables, graphs and runs (default: a temporary one).")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    about = {"machine": describe(), "versions": f"{versions()}, pyspark {version('pyspark')}", "quick": options.quick}
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() and not options.fresh else {}
    if results.get("quick", options.quick) != options.quick:
        results = {}
    results |= about | {"date": time.strftime("%Y-%m-%d")}
    work = Path(tempfile.mkdtemp(prefix="gamlp-steps-", dir=options.work))
    try:
        with counted() as clock, standalone(work) as cluster:
            bench = Bench(work, cluster, clock, results, options.out, 0.02 if options.quick else 1.0)
            for part in options.parts:
                getattr(bench, part)()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    write_text(options.out.with_suffix(".md"), page(results))
    print(f"written to {options.out} and {options.out.with_suffix('.md').name}")


class Processor:
    """Processor seconds of this process, all it started and all that they did, from a control group."""

    def __init__(self, group: Path) -> None:
        self._file = group / "cpuacct.usage" if (group / "cpuacct.usage").exists() else group / "cpu.stat"

    def __call__(self) -> float:
        text = self._file.read_text()
        if self._file.name == "cpuacct.usage":
            return int(text) / 1e9
        return int(dict(line.split() for line in text.splitlines())["usage_usec"]) / 1e6


@contextmanager
def counted() -> Iterator[Processor]:
    """Puts this process into a control group of its own while it lasts."""
    root = Path("/sys/fs/cgroup/cpuacct")
    root = root if root.exists() else Path("/sys/fs/cgroup")
    group = root / f"gamlp-steps-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield Processor(group)
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(50):
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.2)


class Bench:
    """One cluster, one folder; what is found is written after every step."""

    def __init__(
        self, work: Path, cluster: Standalone, clock: Processor, results: dict[str, Any], out: Path, times: float
    ) -> None:
        self.work, self.cluster, self.clock, self.results, self.out, self.times = (
            work,
            cluster,
            clock,
            results,
            out,
            times,
        )

    def steps(self) -> None:
        found = self.results.setdefault("steps", {})
        for engine in ("local", "spark"):
            self._all_steps(found.setdefault(engine, {}), SCALE * self.times, engine, f"steps-{engine}")

    def growth(self) -> None:
        found = self.results.setdefault("growth", {})
        for times in TIMES:
            self._all_steps(found.setdefault(str(times), {}), LEAST * times * self.times, "spark", f"growth-{times}")

    def tenth(self) -> None:
        """From a generated graph; the driver of propagation is killed once on Spark, and the command given again."""
        found, graph = self.results.setdefault("tenth", {}), self.work / "tenth"
        scale = TENTH * self.times
        wanted = [engine for engine in ("local", "spark") if len(found.get(engine, {})) < len(STEPS) - 1]
        if wanted and not graph.exists():
            shape = ["--nodes", str(round(NODES * scale)), "--edges", str(round(EDGES * scale)), "--features", "128",
                     "--classes", "172", "--labelled", "0.014", "--dtype", "float16"]  # fmt: skip
            self._run(["generate", "communities", "--out", str(graph), *shape])
        for engine in wanted:
            kept = found.setdefault(engine, {})
            for step, words in self._words(graph, self.work / f"tenth-{engine}", engine, TENTH_RECIPE).items():
                if step != "ingest" and step not in kept:
                    self._step(
                        kept, step, words, engine, kill=30.0 if (engine, step) == ("spark", "propagate") else None
                    )

    def _all_steps(self, kept: dict[str, Any], scale: float, engine: str, name: str) -> None:
        if len(kept) == len(STEPS):
            return
        kept.clear()  # later steps need what earlier ones wrote
        tables = self.work / f"tables-{scale:g}"
        write_tables(tables, scale, "strings")
        folder = self.work / name
        for step, words in self._words(folder / "graph", folder, engine, RECIPE, tables).items():
            self._step(kept, step, words, engine)
        shutil.rmtree(folder, ignore_errors=True)

    def _words(
        self, graph: Path, folder: Path, engine: str, recipe: list[str], tables: Path | None = None
    ) -> dict[str, list[str]]:
        hops, run = folder / "hops", folder / "run"
        folder.mkdir(parents=True, exist_ok=True)
        files = [] if tables is None else ["--edges", str(tables / "edges-strings.parquet"),
                                           "--nodes", str(tables / "nodes-strings.parquet")]  # fmt: skip
        several = ["--processes", "2"] if engine == "spark" else []
        rows = ["--rows", "all" if tables else "split"]
        return {
            "ingest": ["ingest", *files, "--out", str(graph)],
            "propagate": ["propagate", str(graph), "--out", str(hops), *recipe, *rows],
            "train": ["train", str(hops), "--out", str(run), "--json", *recipe, *several],
            "evaluate": ["evaluate", str(run)],
            "predict": ["predict", str(run), "--out", str(folder / "predictions.parquet"), *rows],
        }

    def _step(self, kept: dict[str, Any], step: str, words: list[str], engine: str, kill: float | None = None) -> None:
        if engine == "spark":
            words = [*words, "--engine", "spark", "--master", self.cluster.address, "--spark-conf",
                     "spark.executor.memory=700m", "--spark-conf", "spark.driver.memory=700m"]  # fmt: skip
        events = (
            Path(tempfile.mkdtemp(prefix="events-", dir=self.work)) if (engine, step) == ("spark", "train") else None
        )
        if events is not None:  # Spark's own log of when it began which task
            for setting in ("enabled=true", "compress=false", f"dir={events.as_uri()}"):
                words += ["--spark-conf", f"spark.eventLog.{setting}"]
        kept[step] = self._run(words, kill, events)
        print(f"{engine} {step}: {kept[step]}", flush=True)
        write_text(self.out, json.dumps(self.results, indent=1) + "\n")

    def _run(self, words: list[str], kill: float | None = None, events: Path | None = None) -> dict[str, Any]:
        """Wall and processor seconds, and the driver's memory; of training on Spark, when its first epoch ended.

        Since its tasks began, by the `events` that Spark logged, and since its first executor was launched.
        """
        begun, used, killed, epoch = time.perf_counter(), self.clock(), 0, 0.0
        memory = {"driver": 0, JAVA: 0}
        while True:
            with (
                subprocess.Popen(
                    [str(Path(sys.executable).parent / "gamlp"), *words], stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, text=True, start_new_session=True,
                    env={**os.environ, "OMP_NUM_THREADS": "2", "SPARK_LOCAL_IP": "127.0.0.1"},
                ) as process,
                Peaks(process) as peaks,
            ):  # fmt: skip
                epoch, said = self._listen(process, None if killed else kill)
            memory = {role: max(most, peaks.bytes[role]) for role, most in memory.items()}
            if killed or kill is None or process.returncode != -signal.SIGKILL:
                break
            killed = 1
        if process.returncode:
            raise RuntimeError(f"gamlp {words[0]} ended with {process.returncode}: {said}")
        found = {"wall": time.perf_counter() - begun, "cpu": self.clock() - used, "memory": memory, "killed": killed}
        if epoch and events is not None:
            if launched := self._launched():
                found["first epoch"] = epoch - launched
            if (begun_tasks := first_task(events)) is not None:
                found["first epoch of tasks"] = epoch - begun_tasks
        return found

    def _launched(self) -> float:
        """When the master launched the first executor of its last application, to the second."""
        found = re.findall(r"^(\S+ \S+) INFO Master: Launching executor (app-\S+)/0 ", self.cluster.log("master"), re.M)
        return time.mktime(time.strptime(found[-1][0], "%y/%m/%d %H:%M:%S")) if found else 0.0

    @staticmethod
    def _listen(process: subprocess.Popen[str], kill: float | None) -> tuple[float, str]:
        """(when an epoch was first told of, the last of what was said); killed with all it started after so long."""
        assert process.stderr is not None
        begun, epoch, said = time.perf_counter(), 0.0, ""
        for line in process.stderr:
            said = (said + line)[-2000:]
            if '"unit": "epochs"' in line and not epoch:
                epoch = time.time()
            if kill is not None and time.perf_counter() - begun > kill:
                os.killpg(process.pid, signal.SIGKILL)
                kill = None
        return epoch, said


def first_task(events: Path) -> float | None:
    """When Spark began the first task of an application, in seconds since 1970, by the log of its events."""
    lines = (line for file in events.rglob("*") if file.is_file() for line in file.read_text().splitlines())
    told = (json.loads(line) for line in lines if '"SparkListenerTaskStart"' in line)
    return min((one["Task Info"]["Launch Time"] / 1000 for one in told), default=None)


def page(results: dict[str, Any]) -> str:
    lines = [
        "# The daily job on Spark, step by step",
        "",
        f"Written by `python benchmarks/spark_steps.py`, {results['date']}: {results['machine']}; "
        f"{results['versions']}.",
        "",
        "A standalone cluster of two workers of one core on this machine; tables of Parquet with string ids. Processor",
        "seconds are those of all processes, the cluster's own with them. Training: two processes, three epochs.",
        "",
    ]
    if (found := results.get("steps")) and len(found.get("spark", {})) == len(STEPS):
        lines += _of_steps(found, results.get("growth", {}))
    if found := results.get("growth"):
        lines += _of_growth(results)
    if found := results.get("tenth"):
        lines += _of_tenth(found)
    return "\n".join(lines)


def _of_steps(found: dict[str, Any], growth: dict[str, Any]) -> list[str]:
    rows, checks = [], []
    for step in STEPS:
        ours, one = found["spark"][step], found["local"][step]
        beyond = max(0.0, ours["cpu"] - FIXED) / one["cpu"]
        rows.append(
            f"| {step} | {one['wall']:.1f} | {one['cpu']:.1f} | {ours['wall']:.1f} | {ours['cpu']:.1f} | "
            f"{beyond:.2f} | {ours['memory']['driver'] / 1e6:.0f}, {ours['memory'][JAVA] / 1e6:.0f} |"
        )
        if step in _LIMITS:
            checks.append(_check(f"{step}: (processor − {FIXED:.0f} s) ÷ one machine's", _LIMITS[step], beyond))
            if len(growth.get(str(TIMES[-1]), {})) == len(STEPS):
                fixed, _ = line(growth, step, "cpu")
                name = f"the same beyond {fixed:.0f} s, which it takes on this machine whatever the size"
                checks.append(_check(name, _LIMITS[step], max(0.0, ours["cpu"] - fixed) / one["cpu"]))
    train = found["spark"]["train"]
    if (first := train.get("first epoch of tasks")) is not None:
        checks.append(_check("training's first epoch, seconds after its tasks' start", 10.0, first))
    if (first := train.get("first epoch")) is not None:
        checks.append(f"| the same after executors were launched, which start Java first | – | {first:.2f} | |")
    return [
        f"## {round(NODES * SCALE):,} nodes, {round(EDGES * SCALE):,} edges",
        "",
        "| step | one machine, s | processor s | Spark, s | processor s | beyond 15 s ÷ one's | driver, Java, MB |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "| | expected | measured | |",
        "|---|---|---|---|",
        *checks,
        "",
    ]


def _of_growth(results: dict[str, Any]) -> list[str]:
    found = results["growth"]
    sizes = [times for times in map(str, TIMES) if len(found.get(times, {})) == len(STEPS)]
    if len(sizes) < 2:
        return []
    rows, checks = [], []
    for step in STEPS:
        of = [found[times][step] for times in sizes]
        fixed, more = line(found, step, "cpu")
        rows.append(
            f"| {step} | " + " | ".join(f"{one['cpu']:.0f}, {one['memory']['driver'] / 1e6:.0f}" for one in of) + " | "
            f"{fixed:.0f} + {more:.1f} | {of[-1]['memory']['driver'] / of[0]['memory']['driver']:.2f} | "
            f"{of[-1]['memory'][JAVA] / of[0]['memory'][JAVA]:.2f} |"
        )
        ratio = of[-1]["memory"]["driver"] / of[0]["memory"]["driver"]
        checks.append(_check(f"{step}: the driver's memory at × {sizes[-1]} ÷ × 1", 1.10, ratio))
    heads = " | ".join(f"× {times}" for times in sizes)
    rates = plan_rates(results)
    return [
        f"## Growth on Spark: {round(NODES * LEAST):,} nodes, {round(EDGES * LEAST):,} edges, and so many times that",
        "",
        "Processor seconds, and anonymous memory of the driver's Python in MB; the line through the seconds, as those",
        "whatever the size and those for each × 1 of it; then how memory of that and its Java's grew.",
        "",
        f"| step | {heads} | fixed + growing | driver's memory, last ÷ first | its Java's |",
        "|---|" + "---:|" * (len(sizes) + 3),
        *rows,
        "",
        "| | expected | measured | |",
        "|---|---|---|---|",
        *checks,
        "",
        "What `gamlp plan --engine spark` takes from it, by the same lines of wall time, and no faster a core than the",
        f"table of one machine says: a step begins after {rates['spark_start']:.0f} s;",
        f"a core reads {rates['spark_ingest']:,.0f} edges of tables a second, and predicts",
        f"{rates['spark_predict']:,.0f} rows.",
        "",
    ]


def line(growth: dict[str, Any], step: str, what: str) -> tuple[float, float]:
    """Least squares through what a step took at each size: (whatever the size, for each × 1 of it)."""
    sizes = [times for times in TIMES if step in growth.get(str(times), {})]
    more, fixed = np.polyfit(sizes, [growth[str(times)][step][what] for times in sizes], 1)
    return float(fixed), float(more)


def plan_rates(found: dict[str, Any]) -> dict[str, float]:
    """Of `gamlp plan`, under the names of its recorded rates; two cores work.

    What grows is small beside what a start costs, and some of it is done while others start: no core of Spark's is
    taken to be faster than one of the same machine without it.
    """
    growth, alone = found["growth"], found.get("steps", {}).get("local", {})
    fixed = [line(growth, step, "wall")[0] for step in STEPS]
    per = {step: 2 * max(line(growth, step, "wall")[1], 1e-9) for step in ("ingest", "predict")}
    rates = {step: LEAST / seconds for step, seconds in per.items()}
    rates |= {step: min(rate, SCALE / alone[step]["cpu"]) for step, rate in rates.items() if step in alone}
    return {
        "spark_start": sum(fixed) / len(fixed),
        "spark_ingest": EDGES * rates["ingest"],
        "spark_predict": NODES * rates["predict"],
    }


def _of_tenth(found: dict[str, Any]) -> list[str]:
    rows = []
    for step in STEPS[1:]:
        cells = []
        for engine in ("local", "spark"):
            one = found.get(engine, {}).get(step)
            cells += ["–", "–"] if one is None else [f"{one['wall']:.0f}", f"{one['cpu']:.0f}"]
        ours = found.get("spark", {}).get(step)
        cells.append(
            "–" if ours is None else f"{ours['memory']['driver'] / 1e6:.0f}{', killed once' if ours['killed'] else ''}"
        )
        rows.append(f"| {step} | " + " | ".join(cells) + " |")
    return [
        f"## A tenth of papers100M's shape: {round(NODES * TENTH):,} nodes, {round(EDGES * TENTH):,} edges",
        "",
        "Generated; 12 hops of 128 features and 10 of 172 classes in float16 for the rows of the split, GAMLP(JK) of",
        "256 hidden for two epochs. What a kill undid, and starting again, is in the seconds.",
        "",
        "| step | one machine, s | processor s | Spark, s | processor s | driver, MB |",
        "|---|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]


def _check(name: str, limit: float, found: float) -> str:
    return f"| {name} | ≤ {limit:g} | {found:.2f} | {'met' if found <= limit else '**missed**'} |"


if __name__ == "__main__":
    main()
