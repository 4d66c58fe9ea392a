"""What answers cost: a new node in the process and over HTTP, known nodes, memory, and the same from peers.

    python benchmarks/serving.py                       # products' shape; about 12 GB of disk, half an hour
    python benchmarks/serving.py --scale 0.01 --quick  # small and soon over
    python benchmarks/serving.py --parts http memory   # some parts anew, beside what was measured before

trains GAMLP(R) by ogbn-products' published settings (one epoch: answers cost the same) on a generated graph of its
shape, keeps hops of all nodes in float16, serves them with `gamlp serve` on one core and asks from the other. Loads are
bounded in count and time and go to this machine alone. It writes docs/results/serving.json and docs/results/serving.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from machine import describe, versions

NODES, EDGES, FEATURES, CLASSES, HEARD = 2_449_029, 61_859_140, 100, 47, 50
RESULTS = Path(__file__).parents[1] / "docs" / "results"
HERE = Path(__file__).parent
GAMLP = [sys.executable, "-m", "gamlp.cli.main"]
PARTS = ("process", "http", "known", "memory", "pyg", "tenth", "mlflow")
MOST_MEMORY = 16_000_000_000  # of a peer, bytes that are its own
LIMITS = {  # (part, value): (limit, whether more is better, what it is)
    ("process", "p50"): (3.0, False, "one new node with 50 neighbours, in the process, p50, ms"),
    ("process", "p99"): (10.0, False, "the same, p99, ms"),
    ("http", "p99"): (15.0, False, "the same over HTTP at 200 requests a second, p99, ms"),
    ("known", "rows a second"): (20_000.0, True, "1,000 known ids a request, rows a second"),
    ("memory", "growth"): (1.1, False, "anonymous memory after all requests ÷ after the first tenth"),
    ("http", "difference"): (1e-6, False, "answers under load, largest difference from the same asked alone"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="Of products' nodes and edges.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="Few requests, for a look at whether it runs.")
    parser.add_argument("--work", type=Path, default=Path("build/serving"), help="Graph and run; kept for next time.")
    parser.add_argument("--out", type=Path, default=RESULTS / "serving.json")
    parser.add_argument("--page", action="store_true", help="Write the page from what was measured, and stop.")
    given = parser.parse_args()
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    if not given.page:
        run = prepared(given)
        results |= {"machine": describe(), "versions": versions("fastapi", "uvicorn"), "scale": given.scale}
        measure = Measure(run, given.work, given.quick, given.scale)
        for part in given.parts:
            tell(part)
            found = getattr(measure, part)()
            results.setdefault("parts", {})[part] = found | {"date": time.strftime("%Y-%m-%d")}
            results["facts"] = measure.facts
            given.out.write_text(json.dumps(results, indent=1) + "\n")
    given.out.with_suffix(".md").write_text(page(results))
    print(given.out.with_suffix(".md").read_text())


def prepared(given: argparse.Namespace) -> Path:
    """The run, made where it is not there."""
    work = given.work
    work.mkdir(parents=True, exist_ok=True)
    graph, run = work / "graph", work / "run"
    if not (graph / "graph.json").exists():
        tell("generate")
        call(
            "generate", "communities", "--nodes", round(NODES * given.scale), "--edges", round(EDGES * given.scale),
            "--features", FEATURES, "--classes", CLASSES, "--dtype", "float16", "--labelled", 0.08, "--out", graph,
        )  # fmt: skip
    if not (run / "bundle.safetensors").exists():
        tell("train")
        shutil.rmtree(run, ignore_errors=True)
        sets = ("training.epochs=1", "training.batch_size=10000", "propagation.dtype=float16", "propagation.rows=all")
        words = [word for one in sets for word in ("--set", one)]
        call("train", graph, "--recipe", "ogbn-products-recursive", *words, "--out", run)
    return run


class Measure:
    """Every part; questions are the same for all of them."""

    def __init__(self, run: Path, work: Path, quick: bool, scale: float) -> None:
        import torch

        from gamlp.serve import Ends, NewNode, Question, ServedRun

        torch.set_num_threads(1)
        self.run, self.work, self.quick, self.scale = run, work, quick, scale
        begun = time.perf_counter()
        self.served = ServedRun.open(run, read_only=True)
        self.opening = time.perf_counter() - begun
        count = self.served.graph.nodes.count
        about = self.served.about()
        self.facts = {
            "nodes": count, "entries": self.served.graph.relation.entries, "features": FEATURES, "hops": about["hops"],
            "classes": len(about["classes"]), "opening": self.opening, "neighbours": HEARD,
            "label hops": self.served.bundle.recipe.propagation.label_hops,
        }  # fmt: skip
        random = np.random.default_rng(0)
        self.nodes = [
            (random.normal(size=FEATURES).round(4).tolist(), random.integers(0, count, HEARD).tolist())
            for _ in range(200 if quick else 2000)
        ]
        self.questions = [
            Question(nodes=(NewNode(features=tuple(features), hears={None: Ends(tuple(heard))}),))
            for features, heard in self.nodes
        ]
        self.ids = [random.integers(0, count, 1000).tolist() for _ in range(50)]
        self.bodies = work / "bodies.jsonl"
        lines = [json.dumps({"nodes": [{"features": one, "neighbours": heard}]}) for one, heard in self.nodes]
        self.bodies.write_text("\n".join(lines) + "\n")

    def process(self) -> dict[str, Any]:
        """One new node after the other."""
        for question in self.questions[: len(self.questions) // 4]:
            self.served.answer([question])
        taken = []
        for question in self.questions:
            begun = time.perf_counter()
            [answer] = self.served.answer([question])
            taken.append(time.perf_counter() - begun)
            assert len(answer.ids) == 1  # type: ignore[union-attr]
        return percentiles(taken)

    def http(self) -> dict[str, Any]:
        """The same at 200 requests a second, the server on one core; answers are compared with those asked alone."""
        said = self.work / "answers.jsonl"
        with server([*GAMLP, "serve", str(self.run), "--port", "0", "--threads", "1", "--json"]) as (port, process):
            self._warm(port)
            found = self._load(port, rate=200, count=400 if self.quick else 12_000, answers=said)
            memory = anonymous(process.pid)
        classes = self.served.bundle.classes
        worst = 0.0
        for line, question in zip(said.read_text().splitlines(), self.questions):
            [alone] = self.served.answer([question])
            told = json.loads(line)["predictions"][0]["probabilities"]
            values = np.asarray([told[name] for name in classes])
            worst = max(worst, float(np.abs(values - alone.probabilities[0]).max()))  # type: ignore[union-attr]
        return found | {"difference": worst, "anonymous": memory}

    def memory(self) -> dict[str, Any]:
        """As many requests as come through, one kind after the other; what the process holds meanwhile."""
        total, parts = (2_000, 10) if self.quick else (100_000, 20)
        mixed = self.work / "mixed.jsonl"
        lines = self.bodies.read_text().splitlines()
        ids = [json.dumps({"ids": some[:20]}) for some in self.ids]
        mixed.write_text("\n".join(line for pair in zip(lines, ids * (len(lines) // len(ids))) for line in pair) + "\n")
        held, statuses = [], {}
        begun = time.perf_counter()
        with server([*GAMLP, "serve", str(self.run), "--port", "0", "--threads", "1", "--json"]) as (port, process):
            self._warm(port)
            for _ in range(parts):
                found = self._load(port, rate=0, count=total // parts, bodies=mixed, connections=4)
                for status, count in found["statuses"].items():
                    statuses[status] = statuses.get(status, 0) + count
                held.append(anonymous(process.pid))
        seconds = time.perf_counter() - begun
        return {
            "requests": total, "held": held, "growth": max(held[parts // 10 :]) / max(held[: parts // 10]),
            "statuses": statuses, "seconds": seconds,
        }  # fmt: skip

    def pyg(self) -> dict[str, Any]:
        """The whole neighbourhood at every request, a few of them; or what it held when it was ended."""
        command = [sys.executable, str(HERE / "serving_pyg.py"), str(self.run)]
        with server(command, core=None, plain=True) as (port, process), watched(process, MOST_MEMORY) as peak:
            found = self._load(port, rate=0, count=3, connections=1, answers=self.work / "pyg.jsonl", seconds=900)
        if set(found["statuses"]) != {"200"}:
            return {"failed": f"it held {max(peak) / 1e9:.1f} GB and was ended there, before its first answer"}
        drift = 0.0
        for line, question in zip((self.work / "pyg.jsonl").read_text().splitlines(), self.questions):
            [frozen] = self.served.answer([question])
            whole = np.asarray(json.loads(line)["probabilities"][0])
            drift = max(drift, float(np.abs(whole - frozen.probabilities[0]).max()))  # type: ignore[union-attr]
        return found | {"resident": max(peak), "drift": drift}

    def tenth(self) -> dict[str, Any]:
        """Ours in the process and PyG's service on a tenth of the graph, where both have room."""
        run = prepared(argparse.Namespace(work=self.work / "tenth", scale=self.scale / 10))
        small = Measure(run, self.work / "tenth", self.quick, self.scale / 10)
        return {"ours": small.process(), "pyg": small.pyg(), "nodes": small.facts["nodes"]}

    def mlflow(self) -> dict[str, Any]:
        """MLflow's own scoring server with the exported model, where it starts."""
        model = self.work / "mlflow"
        shutil.rmtree(model, ignore_errors=True)
        done = subprocess.run(
            [*GAMLP, "export", str(self.run), "--to", "mlflow", "--out", str(model)], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            return {"failed": done.stderr.strip().splitlines()[-1][:300]}
        bodies = self.work / "mlflow.jsonl"
        columns = ["features", "neighbours"]
        lines = [json.dumps({"dataframe_split": {"columns": columns, "data": [list(one)]}}) for one in self.nodes[:200]]
        bodies.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(model), "--env-manager", "local"]
        try:
            with server([*command, "--port", "5055", "--host", "127.0.0.1"], port=5055) as (port, _):
                return self._load(port, rate=0, count=200, connections=1, bodies=bodies, path="/invocations")
        except RuntimeError as error:
            return {"failed": str(error)}

    def known(self) -> dict[str, Any]:
        """1,000 ids a request; the server has all cores, as a person would leave them to it."""
        bodies = self.work / "known.jsonl"
        lines = [json.dumps({"ids": some, "probabilities": False}) for some in self.ids]
        bodies.write_text("\n".join(lines) + "\n")
        with server([*GAMLP, "serve", str(self.run), "--port", "0", "--json"], core=None) as (port, _):
            self._load(port, rate=0, count=len(self.ids), bodies=bodies, connections=2)
            found = self._load(port, rate=0, count=20 if self.quick else 400, bodies=bodies, connections=2)
        return found | {"rows a second": 1000 * found["count"] / found["seconds"]}

    def _warm(self, port: int) -> None:
        self._load(port, rate=0, count=min(500, len(self.nodes)), connections=2)

    def _load(
        self,
        port: int,
        *,
        rate: float,
        count: int,
        bodies: Path | None = None,
        connections: int = 32,
        answers: Path | None = None,
        path: str = "/predict",
        seconds: float = 600,
    ) -> dict[str, Any]:
        words = [
            *("--port", str(port), "--path", path, "--bodies", str(bodies or self.bodies), "--rate", str(rate)),
            *("--count", str(count), "--connections", str(connections), "--seconds", str(seconds)),
            *(["--answers", str(answers)] if answers else []),
        ]
        last = len(os.sched_getaffinity(0)) - 1
        done = subprocess.run(
            on_core(last, [sys.executable, str(HERE / "serving_load.py"), *words]), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@contextmanager
def server(
    command: list[str], *, core: int | None = 0, port: int | None = None, plain: bool = False
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server on one core for as long as it is asked, and its port: its first line tells it, unless it is known."""
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if core is None:
        environment.pop("OMP_NUM_THREADS", None)
    else:
        environment["OMP_NUM_THREADS"] = "1"
    words = command if core is None else on_core(core, command)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            if port is None:
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError(f"{command[2]} did not start")
                port = int(line) if plain else int(json.loads(line)["port"])
            else:
                _await(port, process)
            yield port, process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def watched(process: subprocess.Popen[str], most: int) -> Iterator[list[int]]:
    """Bytes of its own that a process holds, looked at ten times a second; one that holds more than `most` is ended."""
    held, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            try:
                held.append(anonymous(process.pid))
            except (OSError, StopIteration):  # it has ended
                return
            if held[-1] > most:
                process.kill()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield held
    finally:
        ended.set()
        thread.join()


def _await(port: int, process: subprocess.Popen[str]) -> None:
    """Until it answers a ping, for two minutes."""
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("it did not start" if process.poll() is None else f"it ended with code {process.returncode}")


def on_core(core: int, command: list[str]) -> list[str]:
    """The command on one core alone, where the system has a way."""
    return ["taskset", "-c", str(core), *command] if shutil.which("taskset") else command


def call(*words: object) -> None:
    subprocess.run([*GAMLP, *map(str, words)], check=True)


def percentiles(seconds: list[float]) -> dict[str, Any]:
    p50, p90, p99, worst = (float(np.percentile(seconds, p)) * 1e3 for p in (50, 90, 99, 100))
    return {"count": len(seconds), "p50": p50, "p90": p90, "p99": p99, "max": worst}


def anonymous(pid: int) -> int:
    return _status(pid, "RssAnon")


def _status(pid: int, name: str) -> int:
    """Of a process, or of the one that it became: taskset is replaced by what it starts."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def page(results: dict[str, Any]) -> str:
    """Markdown of what was measured; what was not is left out."""
    facts, parts = results["facts"], results["parts"]
    labels = f", {facts['label hops']} of labels of {facts['classes']} classes" if facts.get("label hops") else ""
    lines = [
        "# What answers cost",
        "",
        f"A generated graph of ogbn-products' shape at scale {results['scale']:g}: {facts['nodes']:,} nodes, "
        f"{facts['entries']:,} entries, {facts['hops']} hops of {facts['features']} features{labels}; GAMLP(R) by the",
        "published settings. Hops are float16 and mapped; the server of new nodes has one core, who asks the other.",
        f"New nodes have {facts['neighbours']} neighbours at random. Written by `python benchmarks/serving.py`.",
        "",
        f"{results['machine']}; {results['versions']}.",
        "",
        "| | expected | measured | |",
        "|---|---|---|---|",
    ]
    for (part, name), (limit, more, text) in LIMITS.items():
        value = parts.get(part, {}).get(name)
        if value is not None:
            verdict = "met" if (value >= limit if more else value <= limit) else "**missed**"
            lines.append(f"| {text} | {'≥' if more else '≤'} {limit:g} | {value:.3g} | {verdict} |")
    lines += ["", "| | requests | p50, ms | p90 | p99 | longest |", "|---|---|---|---|---|---|"]
    for part, title in TITLES.items():
        found = parts.get(part, {})
        if "p50" in found:
            times = " | ".join(f"{found[name]:.4g}" for name in ("p50", "p90", "p99", "max"))
            lines.append(f"| {title} | {found['count']:,} | {times} |")
    if tenth := parts.get("tenth"):
        for name, title in (
            ("ours", "a new node, in the process"),
            ("pyg", "a new node: PyG, the whole neighbourhood"),
        ):
            if "p50" in (found := tenth[name]):
                times = " | ".join(f"{found[value]:.4g}" for value in ("p50", "p90", "p99", "max"))
                lines.append(f"| on {tenth['nodes']:,} nodes: {title} | {found['count']:,} | {times} |")
    lines += ["", *(_sentences(results))]
    return "\n".join(lines).rstrip() + "\n"


TITLES = {
    "process": "a new node, in the process",
    "http": "a new node over HTTP, 200 a second",
    "known": "1,000 known ids over HTTP, without a probability of each class",
    "pyg": "a new node: PyG, the whole neighbourhood at every request",
    "mlflow": "a new node: the exported model in MLflow's scoring server",
}


def _sentences(results: dict[str, Any]) -> list[str]:
    parts, said = results["parts"], []
    said.append(f"- Opening the run took {results['facts']['opening']:.1f} s.")
    if memory := parts.get("memory"):
        first, last = memory["held"][0] / 1e6, memory["held"][-1] / 1e6
        statuses = ", ".join(f"{count:,} with status {status}" for status, count in memory["statuses"].items())
        said.append(
            f"- {memory['requests']:,} requests as fast as answers came, new nodes and known ids in turn ({statuses}): "
            f"{memory['requests'] / memory['seconds']:.0f} a second; {first:.0f} MB of anonymous memory after the "
            f"first of {len(memory['held'])} parts, {last:.0f} MB after the last."
        )
    if "failed" in (pyg := parts.get("pyg", {})):
        said.append(f"- PyG's service, the whole neighbourhood at every request: {pyg['failed']}.")
    for title, found in (("", pyg), (" on a tenth of the graph", parts.get("tenth", {}).get("pyg", {}))):
        if "resident" in found:
            said.append(
                f"- PyG's service{title} holds {found['resident'] / 1e9:.1f} GB. In its answers neighbours hear the "
                f"new node too; the largest difference of a probability from ours is {found['drift']:.2g}."
            )
    if "failed" in (mlflow := parts.get("mlflow", {})):
        said.append(f"- MLflow's scoring server was not measured: {mlflow['failed']}.")
    dates = sorted({part["date"] for part in parts.values()})
    said.append(f"- Measured on {' and '.join(dates)}.")
    return said


def tell(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


if __name__ == "__main__":
    main()
