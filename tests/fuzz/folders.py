"""Verbs on graph folders, hop stores, run folders and bundles that were changed: refused, or the same answers."""

from __future__ import annotations

import atexit
import io
import json
import random
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from gamlp.training.checkpoint import with_digest
from tests.forked import Done, gamlp
from tests.fuzz.harness import Case
from tests.fuzz.mutation import damage_bytes, damage_json, strange_json
from tests.sealing import seal_graph, seal_store, write_sealed

_SMALL = ["--set", "training.epochs=2", "--set", "model.hidden=8", "--set", "propagation.hops=2"]


@dataclass(frozen=True)
class Base:
    """Sound folders: graph, hops, run; `answers` of each verb on them."""

    folder: Path
    answers: dict[str, Any]


@cache
def base() -> Base:
    """Made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="gamlp-fuzz-base-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    draw = random.Random(0)
    classes = ["x", "y", "a very long name of a class"]
    nodes = [f"n{i},{draw.gauss(0, 1)},{draw.gauss(5, 100)},{classes[i % 3] if i % 5 else ''}" for i in range(60)]
    edges = [f"n{draw.randrange(60)},n{draw.randrange(60)},{abs(draw.gauss(1, 1))}" for _ in range(200)]
    (folder / "nodes.csv").write_text("\n".join(["id,a,b,label", *nodes]))
    (folder / "edges.csv").write_text("\n".join(["src,dst,weight", *edges]))
    for command in (
        ["ingest", "--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph"],
        ["propagate", "graph", "--out", "hops", "--hops", "2"],
        ["train", "graph", "--out", "run", *_SMALL],
    ):
        _well(gamlp(*command, folder=folder, OMP_NUM_THREADS="1"))
    answers = {}
    for verb in VERBS:
        with tempfile.TemporaryDirectory() as place:
            copy = copied(folder, Path(place))
            done = gamlp(*_arguments(verb, copy), folder=copy, OMP_NUM_THREADS="1")
            answers[verb] = VERBS[verb](copy, _well(done))
    return Base(folder, answers)


def _well(done: Done) -> Done:
    assert done.returncode == 0, done.stderr
    return done


def copied(sound: Path, folder: Path) -> Path:
    """The sound folders in a new place; the run names its graph and store by their paths."""
    for name in ("graph", "hops", "run"):
        shutil.copytree(sound / name, folder / name)
    record = folder / "run" / "run.json"
    write_sealed(record, json.loads(record.read_text().replace(str(sound), str(folder))))
    return folder


# --- verbs, and what of their answers must stay the same ---


def _arguments(verb: str, folder: Path) -> list[str]:
    out, bundle = str(folder / "out"), str(folder / "run" / "bundle.safetensors")
    return {
        "info graph": ["info", str(folder / "graph")],
        "info hops": ["info", str(folder / "hops")],
        "propagate": ["propagate", str(folder / "graph"), "--out", out, "--hops", "2"],
        "train graph": ["train", str(folder / "graph"), "--out", out, *_SMALL],
        "train hops": ["train", str(folder / "hops"), "--out", out, *_SMALL],
        "predict": ["predict", str(folder / "run"), "--out", f"{out}.csv"],
        "predict graph": ["predict", str(folder / "run"), "--graph", str(folder / "graph"), "--out", f"{out}.csv"],
        "predict bundle": ["predict", bundle, "--graph", str(folder / "graph"), "--out", f"{out}.csv"],
        "evaluate": ["evaluate", str(folder / "run"), "--json"],
        "explain": ["explain", str(folder / "run"), "--nodes", "n1,n2", "--out", f"{out}.csv"],
    }[verb]  # fmt: skip


def _nothing(folder: Path, done: Done) -> Any:
    return None


def _shards(folder: Path, done: Done) -> Any:
    return {str(path.relative_to(folder / "out")): path.read_bytes() for path in (folder / "out").rglob("*.npy")}


def _weights(folder: Path, done: Done) -> Any:
    return {
        name: value.numpy().tobytes() for name, value in load_file(folder / "out" / "seeds" / "0.safetensors").items()
    }


def _table(folder: Path, done: Done) -> Any:
    return pandas.read_csv(folder / "out.csv").to_csv(index=False)


def _scores(folder: Path, done: Done) -> Any:
    report = json.loads(done.stdout.splitlines()[-1])
    return report["rows"], report["seeds"]


VERBS = {
    "info graph": _nothing,
    "info hops": _nothing,
    "propagate": _shards,
    "train graph": _weights,
    "train hops": _weights,
    "predict": _table,
    "predict graph": _table,
    "predict bundle": _table,
    "evaluate": _scores,
    "explain": _table,
}
_READS = {
    "graph": [verb for verb in VERBS if "hops" not in verb],
    "hops": ["info hops", "train hops"],
    "run": ["predict", "predict graph", "predict bundle", "evaluate", "explain"],
}


# --- damage ---


def spoil_file(draw: random.Random, file: Path) -> None:
    """Other bytes, other JSON, another sort of file, or none."""
    way = draw.random()
    if way < 0.04:
        file.unlink()
    elif way < 0.06:
        file.unlink()
        file.mkdir()
    elif way < 0.08:
        file.unlink()
        file.symlink_to("/nowhere/at-all")
    elif way < 0.10:
        file.write_bytes(b"")
    elif file.suffix == ".npy" and way < 0.25:
        file.write_bytes(_other_array(draw, file))
    elif file.suffix in (".json", ".jsonl"):
        lines = file.read_bytes().splitlines() if file.suffix == ".jsonl" else [file.read_bytes()]
        at = draw.randrange(len(lines)) if lines else 0
        if way < 0.2 or not lines:
            file.write_bytes(strange_json(draw))
        else:
            lines[at] = damage_json(draw, lines[at])
            file.write_bytes(b"\n".join(lines))
    else:
        file.write_bytes(damage_bytes(draw, file.read_bytes()))


def _other_array(draw: random.Random, file: Path) -> bytes:
    values, sink = np.load(file), io.BytesIO()
    way = draw.randrange(6)
    if way == 0:
        with zipfile.ZipFile(sink, "w") as archive:
            archive.writestr("values.npy", file.read_bytes())
    elif way == 1:
        np.save(sink, np.zeros(len(values), [("a", "i4"), ("b", "f4")]))
    elif way == 2:
        np.save(sink, np.asfortranarray(np.stack([values, values], -1)))
    elif way == 3:
        np.save(sink, values[: len(values) // 2])
    elif way == 4:
        np.save(sink, values.astype(np.complex128))
    else:
        np.save(sink, values + np.ones(1, values.dtype))
    return sink.getvalue()


def folders(draw: random.Random, folder: Path) -> Case:
    """One file of a folder is changed; a verb that reads the folder is asked."""
    sound = base()
    copied(sound.folder, folder)
    part = draw.choice(["graph", "graph", "hops", "run"])
    files = sorted(path for path in (folder / part).rglob("*") if path.is_file() and path.name != ".lock")
    file = draw.choice(files)
    spoil_file(draw, file)
    forged = draw.random() < 0.4 and _forge(folder / part, file)
    return _case(draw.choice(_READS[part]), sound, folder, same=not forged)


def _forge(folder: Path, file: Path) -> bool:
    """Whether checksums and digests fit again: then other answers are right, and what lies behind them is reached."""
    if not file.is_file():
        return False
    try:
        if file.suffix == ".json":
            write_sealed(file, json.loads(file.read_bytes()))
            return True
        if folder.name in ("graph", "hops"):
            (seal_graph if folder.name == "graph" else seal_store)(folder)
            return True
    except (ValueError, AttributeError, KeyError, TypeError, OSError):
        pass  # so spoiled that nothing could be sealed
    return False


def bundles(draw: random.Random, folder: Path) -> Case:
    """A bundle whose header, description or tensors were changed; some get a digest that fits, as a forger would."""
    sound = base()
    copied(sound.folder, folder)
    file = folder / "run" / "bundle.safetensors"
    if draw.random() < 0.5:
        with safe_open(file, "pt") as bundle:
            text = bundle.metadata()["gamlp"].partition(" ")[2]
        tensors = load_file(file)
        if draw.random() < 0.7:
            text = damage_json(draw, text.encode()).decode(errors="replace")
        else:
            _other_tensors(draw, tensors)
        save_file(tensors, file, with_digest(text, tensors))
        return _case("predict bundle", sound, folder, same=False)
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + size], data[8 + size :]
    if draw.random() < 0.5:
        header = damage_json(draw, header)
        data = len(header).to_bytes(8, "little") + header + rest
    else:
        data = damage_bytes(draw, data)
    file.write_bytes(data)
    return _case("predict bundle", sound, folder)


def _other_tensors(draw: random.Random, tensors: dict[str, torch.Tensor]) -> None:
    name = draw.choice(sorted(tensors))
    way = draw.randrange(5)
    if way == 0:
        del tensors[name]
    elif way == 1:
        tensors[draw.choice(["statistics.mean", "statistics.more", "other.x", "model.more", "plain"])] = torch.ones(3)
    elif way == 2:
        tensors[name] = tensors[name].double()
    elif way == 3:
        tensors[name] = torch.full_like(tensors[name], float("nan"))
    else:
        tensors[name] = tensors[name].flatten()[:1].clone()


def _case(verb: str, sound: Base, folder: Path, same: bool = True) -> Case:
    def check(done: Done) -> str | None:
        return None if not same or VERBS[verb](folder, done) == sound.answers[verb] else f"{verb}: other answers"

    out = (folder / "out", folder / "out.csv")
    return Case(_arguments(verb, folder), check, out, resumable=verb.startswith(("train", "propagate")))
