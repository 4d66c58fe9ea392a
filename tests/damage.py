"""Files of a graph, a store and a run, damaged one at a time; every verb refuses in a sentence or answers as before.

    python -m tests.damage FOLDER CASES SEED

makes the folders, then writes a line of JSON for every command. It is a process of its own: a crash ends it, and the
last line names the damage that did.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.graph import Graph, Ids
from tests.training.small import make_graph, with_nodes

SMALL = [
    "--set",
    "model.hidden=8",
    "--set",
    "model.layers=2",
    "--set",
    "training.epochs=3",
    "--set",
    "training.batch_size=16",
    "--set",
    "propagation.hops=2",
    "--set",
    "propagation.label_hops=2",
    "--threads",
    "1",
]
HOPS = ["--hops", "2", "--label-hops", "2", "--threads", "1"]
# What reads which folder; {} is a fresh place for results.
VERBS: dict[str, list[list[str]]] = {
    "graph": [
        ["info", "graph", "--json"],
        ["propagate", "graph", "--out", "{}/store", *HOPS],
        ["predict", "run", "--out", "{}/table.csv"],
        ["evaluate", "run", "--json"],
        ["explain", "run", "--nodes", "node 7", "--out", "{}/why.json"],
    ],
    "store": [["info", "store", "--json"], ["train", "store", "--out", "{}/run", *SMALL]],
    "run": [
        ["predict", "run", "--out", "{}/table.csv"],
        ["evaluate", "run", "--json"],
        ["explain", "run", "--nodes", "node 7", "--out", "{}/why.json"],
        ["train", "graph", "--out", "run", "--resume", *SMALL],
    ],
    "typed": [
        ["info", "typed", "--json"],
        ["propagate", "typed", "--out", "{}/store", "--hops", "1", "--label-hops", "1", "--threads", "1"],
    ],
}
_TIMES = ("seconds", "evaluation", "report")


def make_folders() -> None:
    """The folders, here."""
    graph = make_graph()
    graph = with_nodes(graph, ids=Ids(graph.nodes.count, pa.array([f"node {i}" for i in range(graph.nodes.count)])))
    graph.save("graph")
    from tests.propagation.typed import typed_graph

    typed_graph(width=5).save("typed")
    for line in (
        ["propagate", "graph", "--out", "store", *HOPS],
        ["train", "graph", "--out", "run", *SMALL],
        ["evaluate", "run"],
    ):
        code, text = called(line)
        assert code == 0, text


def called(line: list[str]) -> tuple[int | str, str]:
    """Exit code (or a traceback) of a command in this process, and what it said on stderr; stdout where it is JSON."""
    from gamlp.cli.main import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["gamlp", *line]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        return "traceback", traceback.format_exc()
    return code, err.getvalue() if code else out.getvalue()


def answers(line: list[str], fresh: Path) -> tuple[int | str, Any]:
    """How a command ends, and what it answers."""
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    code, text = called([part.replace("{}", str(fresh)) for part in line])
    if code != 0:
        return code, text
    found: dict[str, Any] = {}
    if "--json" in line:
        shown = json.loads(text.splitlines()[-1]) if text.strip().count("\n") == 0 else json.loads(text)
        found["shown"] = {key: value for key, value in shown.items() if key not in _TIMES}
    names = ("*.npy", "*.csv", "why.json", "bundle.safetensors", "seeds/*.safetensors")
    for path in sorted(path for name in names for path in fresh.rglob(name)):
        found[path.relative_to(fresh).as_posix()] = path.read_bytes().hex()
    if "--resume" in line:
        found["bundle"] = Path("run/bundle.safetensors").read_bytes().hex()
    return 0, found


def like(found: Any, other: Any = None) -> Any:
    """Answers, without words about neighbours where it is said that these (or those of `other`) were not looked at."""
    shown = (found if other is None else other).get("shown", {})
    if not any("neighbours were not looked at" in note for note in shown.get("notes", [])):
        return found
    return {**found, "shown": {name: value for name, value in found["shown"].items() if name not in ("notes", "words")}}


def flip(data: bytes, random: np.random.Generator) -> bytes:
    """One bit."""
    changed, at = bytearray(data), int(random.integers(len(data) * 8))
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def cut(data: bytes, random: np.random.Generator) -> bytes:
    return data[: int(random.integers(len(data)))]


def wipe(data: bytes, random: np.random.Generator) -> bytes:
    """A stretch of zeros, as a disk leaves them."""
    first = int(random.integers(len(data)))
    size = min(len(data) - first, int(random.integers(1, 600)))
    return data[:first] + bytes(size) + data[first + size :]


def number(data: bytes, random: np.random.Generator) -> bytes:
    """Eight bytes that are far away as a number."""
    at = int(random.integers(max(1, len(data) // 8))) * 8
    value = [-1, 1 << 62, 1 << 31, -(1 << 31), 10**6][int(random.integers(5))]
    return (data[:at] + value.to_bytes(8, "little", signed=True) + data[at + 8 :])[: len(data)]


def other_array(data: bytes, random: np.random.Generator) -> bytes:
    """Another array, or an archive of some, of the same size where it can be."""
    made = io.BytesIO()
    kind = int(random.integers(3))
    if kind == 0:
        np.save(made, np.asfortranarray(np.ones((60, 6), np.float32)))
    elif kind == 1:
        np.save(made, np.zeros(60, [("a", "i4"), ("b", "f4")]))
    else:
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("a.npy", b"")
    return made.getvalue().ljust(len(data), b"\0")[: len(data)]


def other_json(data: bytes, random: np.random.Generator) -> bytes:
    """Other content in JSON, and in lines of it."""
    texts = [b"[]", b"null", b"NaN", b"{}", b'{"seed": "0", "epoch": 1}', b'{"epoch": 1e999, "seed": 0}', b"1" * 5000,
             b'{"preparation": [1], "evaluation": "x", "peak_memory": null}', b'{"seed": 0, "epoch": NaN}',
             b'{"seed": 0}', b"[" * 3000, b'{"seed": 0, "epoch": 99999999999999999999}', b"\xff\xfe\x00"]  # fmt: skip
    return texts[int(random.integers(len(texts)))]


def draw(random: np.random.Generator) -> tuple[str, Path, Callable[[bytes, np.random.Generator], bytes]]:
    """A folder, one of its files, and a kind of damage."""
    folder = str(random.choice(["graph", "graph", "store", "run", "run", "typed"]))
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size)
    files = [path for path in files if path.suffix not in (".html", ".lock", ".log")]
    path = files[int(random.integers(len(files)))]
    kinds: list[Callable[[bytes, np.random.Generator], bytes]] = [flip, flip, flip, flip, cut, wipe, number]
    kinds += [other_array] if path.suffix == ".npy" else []
    kinds += [other_json, other_json] if path.suffix in (".json", ".jsonl") else []
    return folder, path, kinds[int(random.integers(len(kinds)))]


def main(folder: str, cases: int, seed: int) -> None:
    os.chdir(folder)
    make_folders()
    fresh = Path("fresh").absolute()
    right = {json.dumps(line): answers(line, fresh)[1] for lines in VERBS.values() for line in lines}
    graph = Graph.open("graph")  # the folders are whole before anything is damaged
    assert graph.nodes.count == 60 and not any(isinstance(value, str) for value in right.values()), right
    kept = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    for case in range(cases):
        random = np.random.default_rng([seed, case])
        where, path, kind = draw(random)
        whole = path.read_bytes()
        path.write_bytes(changed := kind(whole, random))
        for line in VERBS[where]:
            about = {"case": case, "file": str(path), "damage": kind.__name__, "verb": line[0]}
            print(json.dumps({**about, "begun": True}), flush=True)
            code, found = answers(line, fresh)
            same = code == 0 and like(found) == like(right[json.dumps(line)], found)
            text = found if isinstance(found, str) else ""
            print(
                json.dumps({**about, "code": code, "same": same, "text": text, "changed": changed != whole}), flush=True
            )
            path.write_bytes(changed)  # evaluate writes its own files anew
        path.write_bytes(whole)
        if where in ("run", "graph"):
            for file, data in kept.items():
                file.write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
