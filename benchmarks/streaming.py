"""Memory of evaluation that reads its rows from the store, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_JOB = """
import json, sys, threading, time
from pathlib import Path
import numpy as np, torch
from gamlp.io.memory import anonymous_memory
from gamlp.models import GAMLP, Shape
from gamlp.propagation import HopStore
from gamlp.training.batches import Batches, HopRows
from gamlp.training.scores import evaluate

folder, hops, rows, hidden, layers, batch, threads = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(threads)
store = HopStore.open(Path(folder))
classes, width = len(store.labels.classes), store.manifest.signals["features"].width
model = GAMLP(Shape(width, classes, hops), hidden=hidden, layers=layers, beta=0)
base = peak = anonymous_memory()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous_memory())

watcher = threading.Thread(target=watch)
watcher.start()
begun = time.perf_counter()
evaluate(model, Batches(HopRows(store, np.arange(rows), hops), batch, torch.device("cpu"), memory=0))
seconds = time.perf_counter() - begun
done.set()
watcher.join()
print(json.dumps({"rows": rows, "seconds": seconds, "memory": peak - base}))
"""


def evaluation(
    store: Path, hops: int, rows: int, *, hidden: int, layers: int, batch: int, threads: int
) -> dict[str, Any]:
    """Peak anonymous memory above that of the bare process, of a quarter of the rows and of all."""
    found = []
    for count in (rows // 4, rows):
        numbers = (hops, count, hidden, layers, batch, threads)
        command = [sys.executable, "-c", _JOB, str(store), *map(str, numbers)]
        found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return {"runs": found, "growth": found[1]["memory"] / found[0]["memory"]}
