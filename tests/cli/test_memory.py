"""When memory ends, every verb says so in a sentence with an option of its own; training keeps to --memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

# One process imports everything and makes the folders; each command then runs in a fork of it with little room.
LIMITED = """
    import io, json, os, resource, sys, traceback
    from contextlib import redirect_stderr, redirect_stdout
    import numpy as np, torch, torch._dynamo, pyarrow.parquet, pyarrow.csv, sklearn.metrics
    import gamlp.cli.main, gamlp.run, gamlp.graph.ingest, gamlp.report
    from gamlp.graph import Graph, Labels, Split

    NODES = 60_000
    random = np.random.default_rng(0)
    edges = random.integers(0, NODES, (2, 4 * NODES))
    labels = Labels(random.integers(0, 3, NODES).astype(np.int32), ("a", "b", "c"))
    roles = Split(random.integers(1, 4, NODES).astype(np.int8))
    Graph.from_arrays(edges, random.normal(size=(NODES, 64)).astype(np.float32), labels, split=roles).save("graph")
    with open("edges.csv", "w") as file:
        file.write("src,dst\\n" + "\\n".join(f"{a},{b}" for a, b in edges.T))
    with open("nodes.csv", "w") as file:
        file.write("id,x\\n" + "\\n".join(f"{i},{i % 7}" for i in range(NODES)))
    SMALL = "--set model.hidden=64 --set training.epochs=1 --set propagation.hops=2 --threads 1".split()

    def status(name):
        return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name + ":"))

    def call(line, room):
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            out, err, code = io.StringIO(), io.StringIO(), 0
            sys.argv = ["gamlp", *line]
            if room is not None:
                resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + room, resource.RLIM_INFINITY))
            try:
                with redirect_stdout(out), redirect_stderr(err):
                    gamlp.cli.main.main()
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException:
                code = "traceback"
                err.write(traceback.format_exc()[-1500:])
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            os.write(write, json.dumps([code, err.getvalue()[-3000:]]).encode())
            os._exit(0)
        os.close(write)
        found = os.fdopen(read).read()
        os.waitpid(child, 0)
        return json.loads(found) if found else ["killed", ""]

    made = call(["train", "graph", "--out", "run", *SMALL], None)
    assert made[0] == 0, made
    ROOM = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 8 << 20
    lines = {
        "ingest": ["--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "made"],
        "propagate": ["graph", "--out", "store", "--threads", "1"],
        "train": ["run/hops", "--out", "other", *SMALL],
        "predict": ["run", "--out", "table.csv", "--threads", "1", "--batch-size", "60000"],
    }
    found = {verb: call([verb, *line], ROOM) for verb, line in lines.items()}
    print(json.dumps({"ended": found, "left": sorted(os.listdir("."))}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space")
def test_where_memory_ends_a_sentence_names_an_option_of_the_verb(tmp_path: Path) -> None:
    found = _python(tmp_path, LIMITED)
    options = {
        "ingest": ["--memory"],
        "propagate": ["--memory", "--threads"],
        "train": ["--memory", "--set training.batch_size=…", "--threads", "--processes"],
        "predict": ["--memory", "--batch-size", "--threads"],
    }
    for verb, (code, text) in found["ended"].items():
        assert code == 2 and text.startswith("gamlp: there is no more memory; give "), (verb, code, text)
        assert text.count("\n") == 1 and [name for name in text[:-2].replace(",", "").split() if name[:2] == "--"] == [
            name.split()[0] for name in options[verb]
        ], text
    assert not {"made", "table.csv"} & set(found["left"]), "nothing is left half-written"


KEPT = """
    import json, sys, threading, time
    import numpy as np, torch
    from gamlp.graph import Graph, Labels, Split
    from gamlp.io import anonymous_memory
    from gamlp.run import Resources, train

    NODES, memory = 150_000, int(sys.argv[1])
    random = np.random.default_rng(0)
    labels = Labels(random.integers(0, 3, NODES).astype(np.int32), ("a", "b", "c"))
    roles = Split(np.where(np.arange(NODES) % 5, 1, 2).astype(np.int8))
    graph = Graph.from_arrays(random.integers(0, NODES, (2, NODES)), random.normal(size=(NODES, 64)).astype(np.float32),
                              labels, split=roles).save("graph")
    RECIPE = {"propagation": {"hops": 2}, "model": {"hidden": 8, "layers": 1, "beta": 0},
              "training": {"epochs": 1, "batch_size": 2000}}
    # The libraries, and what they load when first used, belong to Python itself.
    train("karate", RECIPE, "first")
    store = train(graph, RECIPE, "made").run.store_path()
    del graph, labels, roles
    import ctypes, gc
    gc.collect(), ctypes.CDLL(None).malloc_trim(0)
    before, peak, done = anonymous_memory(), 0, threading.Event()

    def watch():
        global peak
        while not done.is_set():
            peak = max(peak, anonymous_memory())
            time.sleep(0.002)

    watching = threading.Thread(target=watch)
    watching.start()
    train(store, RECIPE, "run", resources=Resources(memory=memory, threads=1))
    done.set(), watching.join()
    print(json.dumps({"taken": peak - before}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RssAnon")
@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(60 << 20, id="60MiB", marks=pytest.mark.long),
        pytest.param(95 << 20, id="95MiB", marks=pytest.mark.long),
        pytest.param(160 << 20, id="160MiB"),
    ],
)
def test_training_keeps_to_its_memory(tmp_path: Path, memory: int) -> None:
    """120,000 training rows of 768 bytes are 88 MiB.

    Anonymous memory is counted (RssAnon). Mapped files are not: the system takes their pages back when it needs them.
    """
    taken = _python(tmp_path, KEPT, str(memory))["taken"]
    assert taken < memory, f"{taken / 2**20:.0f} of {memory / 2**20:.0f} MiB"
    if memory > 150 << 20:
        assert taken > 80 << 20, "with room enough hops are held"


def _python(folder: Path, code: str, *arguments: str) -> Any:
    line, environment = (
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        {**os.environ, "OMP_NUM_THREADS": "1"},
    )
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
