"""Recipes, studies and options of the command line as nobody should write them."""

from __future__ import annotations

import random
import shutil
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.forked import Done, gamlp
from tests.fuzz.folders import base, copied
from tests.fuzz.harness import Case
from tests.fuzz.mutation import STRANGE_NUMBERS, STRANGE_TEXTS, damage_bytes, strange_json

_STRANGE: list[Any] = [
    None, True, False, -1, 0, 1, 2, 0.5, -0.5, 1e308, 10**30, float("nan"), float("inf"), "", "x", [], [1], {},
    {"a": 1}, "1", "os:system", "pydoc:pipepager", "../x", "\x1b[31m", [[[]]], "auto", "none",
]  # fmt: skip
_SECTIONS = {
    "propagation": ["hops", "r", "also_r", "loops", "scaling", "dtype", "label_hops", "label_r", "folds", "rows"],
    "relations": ["subsets", "count", "seed", "separate_types", "reduce", "missing", "dimension"],
    "model": ["name", "attention", "hidden", "layers", "jk_layers", "activation", "dropout", "beta", "options"],
    "training": ["setting", "epochs", "patience", "monitor", "batch_size", "optimizer", "learning_rate", "seeds"],
}  # fmt: skip

# Values of the right type, at the ends of what they may be and beyond.
_EXTREME: dict[str, list[Any]] = {
    "propagation.hops": [0, 1, 40, 1001],
    "propagation.r": [0.0, 1.0, -1.0, 2.0],
    "propagation.also_r": [[0.0], [0.5, 1.0], [3.0]],
    "propagation.loops": [False],
    "propagation.scaling": ["l2", "standard", "row"],
    "propagation.dtype": ["float16", "bfloat16"],
    "propagation.label_hops": [0, 1, 30],
    "propagation.folds": [1, 2, 100],
    "propagation.rows": ["train", "train+valid", "test", "split+train"],
    "model.name": ["sign", "sgc", "mlp", "label-propagation", "gcn", "nowhere"],
    "model.attention": ["jk", "recursive", "average", "gate"],
    "model.hidden": [1, 512],
    "model.layers": [0, 1, 12],
    "model.dropout": [0.0, 0.999, 1.0],
    "model.attention_dropout": [1.0],
    "model.beta": [0.0, 1e30, -1.0],
    "model.options": [{"heads": 2}, {"x" * 100: 1}],
    "training.setting": ["inductive"],
    "training.patience": [0, 1],
    "training.monitor": ["loss", "both"],
    "training.batch_size": [1, 10**9],
    "training.learning_rate": [0.0, 1e-30, 1e30],
    "training.weight_decay": [1e30],
    "training.seeds": [[0, 1], [], [2**31], [2**64]],
    "training.optimizer": ["sgd", "adamw"],
}


def _nothing(_: Done) -> str | None:
    return None


def recipes(draw: random.Random, folder: Path) -> Case:
    """A recipe with strange values, keys or bytes, given to a verb that reads one."""
    copied(base().folder, folder)
    content: dict[str, Any] = {"training": {"epochs": 1}, "model": {"hidden": 8}, "propagation": {"hops": 1}}
    for _ in range(draw.choice([1, 1, 2])):
        if draw.random() < 0.6:
            name = draw.choice(list(_EXTREME))
            section, _, key = name.partition(".")
            value = draw.choice(_EXTREME[name])
        else:
            section = draw.choice(list(_SECTIONS))
            key = draw.choice([*_SECTIONS[section], "unheard_of"])
            value = draw.choice(_STRANGE)
        if draw.random() < 0.1:
            content[section] = value
        elif isinstance(content.setdefault(section, {}), dict):
            content[section][key] = value
    if isinstance(content.get("training"), dict) and isinstance(content["training"].get("epochs"), int | float):
        content["training"]["epochs"] = min(content["training"]["epochs"], 3)  # a long training is no hang
    data = yaml.safe_dump(content, allow_unicode=True).encode()
    damaged = draw.random() < 0.1
    if damaged:
        data = damage_bytes(draw, data)
    if draw.random() < 0.05:
        data = draw.choice(
            [b"a: &a [1]\nb: [*a, *a]\n", b"!!python/object/apply:os.system ['id']", b"[" * 2000, b"- 1", b"\xff\xfe"]
        )
    (folder / "recipe.yaml").write_bytes(data)
    out = folder / "out"
    verb = draw.choice(["train", "train", "propagate"])
    arguments = [verb, str(folder / "graph"), "--recipe", str(folder / "recipe.yaml"), "--out", str(out)]
    arguments += ["--set", "training.epochs=2"] if damaged else []  # the epochs may be among what is lost
    return Case(arguments, _nothing, (out,), resumable=True)


_VALUES = [
    *STRANGE_NUMBERS, *STRANGE_TEXTS, "-1", "1e9", "1GiB", "0GiB", "64MiB", "abc", "10" * 12, "1,2,3", "0.5,0.5", "a=b",
    "=", ":", "/nowhere/at/all", "http://127.0.0.1:1/x", "ftp://127.0.0.1/x", "s3:///", "file:///etc/passwd", "--", "'",
    "*", "?",
]  # fmt: skip
_OPTIONS = {
    "ingest": ["--memory", "--on-bad", "--src", "--dst", "--weight", "--relation", "--id", "--label", "--many-labels",
               "--split", "--features", "--split-fractions", "--seed", "--dtype", "--join", "--target",
               "--engine", "--blocks"],
    "propagate": ["--hops", "--label-hops", "--memory", "--threads", "--set", "--recipe", "--label-folds"],
    "train": ["--set", "--seeds", "--memory", "--threads", "--device", "--recipe", "--valid", "--seed"],
    "predict": ["--graph", "--memory", "--threads", "--device", "--rows", "--batch-size", "--trust"],
    "evaluate": ["--graph", "--memory", "--threads", "--device", "--seed", "--trust"],
    "explain": ["--nodes", "--nodes-file", "--graph", "--out", "--memory", "--threads"],
    "info": ["--verify"],
    "generate": ["--seed", "--classes"],
    "recipes": ["--keys"],
    "run": ["--edges", "--nodes", "--set", "--recipe", "--seeds", "--memory", "--threads", "--model", "--preset",
            "--time-limit", "--metric"],
}  # fmt: skip


def options(draw: random.Random, folder: Path) -> Case:
    """A verb with one or two options of any value."""
    copied(base().folder, folder)
    for name in ("nodes.csv", "edges.csv"):
        shutil.copy(base().folder / name, folder)
    verb = draw.choice(list(_OPTIONS))
    out = folder / "out"
    start = {
        "ingest": ["--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "out"],
        "propagate": ["graph", "--out", "out"],
        "train": ["graph", "--out", "out", "--set", "training.epochs=1"],
        "predict": ["run", "--out", "out.csv"],
        "evaluate": ["run"],
        "explain": ["run"],
        "info": [draw.choice(["graph", "hops", "run", "nodes.csv", "nowhere"])],
        "generate": ["communities", "--nodes", "100", "--edges", "300", "--out", "out"],
        "recipes": [],
        "run": ["graph", "--out", "out", "--set", "training.epochs=1"],
    }[verb]
    arguments = [verb, *start]
    for _ in range(draw.choice([1, 1, 2])):
        arguments += [draw.choice(_OPTIONS[verb]), draw.choice(_VALUES).replace("\x00", "")]
    return Case(arguments, _nothing, (out, folder / "out.csv"), resumable=verb in ("train", "run", "propagate"))


def studies(draw: random.Random, folder: Path) -> Case:
    """`gamlp tune` on a study whose file was changed, in its bytes or in its rows."""
    sound = _study()
    copied(base().folder, folder)
    shutil.copytree(sound, folder / "study")
    shutil.copy(sound.parent / "space.yaml", folder)
    file = folder / "study" / "study.db"
    if draw.random() < 0.5:
        file.write_bytes(damage_bytes(draw, file.read_bytes()))
    else:
        with sqlite3.connect(file) as study:
            tables = [name for (name,) in study.execute("select name from sqlite_master where type = 'table'")]
            table = draw.choice(sorted(tables))
            columns = [row[1] for row in study.execute(f"pragma table_info({table})")]
            value = draw.choice([strange_json(draw).decode(), None, -1, "x", '{"model.name": "pydoc:pipepager"}'])
            try:
                study.execute(f"update {table} set {draw.choice(columns)} = ?", (value,))
            except sqlite3.IntegrityError:
                study.execute(f"drop table {table}")
        study.close()
    return Case(_tuning(folder), _nothing, (folder / "out.yaml",), resumable=True)


def _tuning(folder: Path) -> list[str]:
    return [
        "tune", str(folder / "graph"), "--out", str(folder / "out.yaml"), "--study", str(folder / "study"),
        "--space", str(folder / "space.yaml"), "--trials", "2", "--seeds", "1", "--confirm", "1",
        "--confirm-seeds", "1", "--set", "training.epochs=2",
    ]  # fmt: skip


@cache
def _study() -> Path:
    """A sound study, made once a process."""
    folder = base().folder
    (folder / "space.yaml").write_text("training.learning_rate: {choices: [0.01, 0.1]}\n")
    done = gamlp(*_tuning(folder), folder=folder, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return folder / "study"
