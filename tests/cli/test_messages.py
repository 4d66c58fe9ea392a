"""Every `--option` that a text of the code names exists on each verb that can print the text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import gamlp
from gamlp.cli.main import app

SOURCE = Path(gamlp.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
EVERYWHERE = {"--help", "--version"}

TABLES = ("ingest", "run")
SPARK = ("run", "ingest", "propagate", "train", "predict")
PROPAGATING = ("run", "train", "tune", "propagate")
WRITING = (*SPARK, "tune", "explain", "datasets", "export", "card")
TRAINED = ("evaluate", "predict", "explain")
# Who prints the texts of a module or room: the longest path counts. A text that names its verb ("gamlp train … --set")
# needs no entry. A module that is not here may name no option by itself.
PRINTED_BY: dict[str, tuple[str, ...]] = {
    "bench": ("bench run",),
    "bench/search": ("search.py",),
    "cli/generate.py": ("generate communities", "generate short-video", "generate mag-like"),
    "cli/bench.py": ("bench run", "bench show"),
    "cli/spark.py": ("spark pack",),
    "cli/options/choice.py": ("run",),
    "cli/options/engine.py": SPARK,
    "cli/options/named.py": TABLES,
    "cli/options/recipe.py": ("run",),  # the only one that passes on --model
    "cli/options/tables.py": TABLES,
    "cli/show/columns.py": TABLES,
    "explanation": ("explain",),
    "export": ("export",),
    "graph/datasets": ("datasets",),
    "graph/features/encoders": TABLES,
    "graph/frames.py": TABLES,  # it puts what is said of options into the words of Python
    "graph/growth": ("predict",),
    "graph/ingest": TABLES,
    "graph/relations.py": TABLES,
    "graph/shared_folder.py": SPARK,
    "io/files.py": WRITING,
    "io/locks.py": (*SPARK, "tune"),
    "io/trust.py": (*PROPAGATING, *TRAINED, "recipes", "export", "card", "serve", "refresh"),
    "models/blend.py": ("run",),
    "peers": ("run",),
    "peers/registry.py": PROPAGATING,
    "propagation/blocks": SPARK,
    "propagation/local": ("run", "train", "propagate", "predict"),
    "propagation/local/slabs.py": (*PROPAGATING, *TRAINED),
    "propagation/passes.py": (*PROPAGATING, *TRAINED, "plan"),
    "propagation/plan.py": ("propagate",),  # other verbs choose rows of their own, which are there
    "propagation/store/writer.py": ("propagate", "run", "train", "predict"),
    "recipe/settings_file.py": PROPAGATING,
    "recipe/space.py": ("tune",),
    "run/decision.py": ("predict",),
    "run/engine.py": ("run", "train"),
    "run/evaluation.py": ("evaluate",),
    "run/newcomers.py": ("predict",),
    "run/prediction_table.py": ("predict",),
    "run/schemas.py": TABLES,
    "run/tables.py": ("run",),
    "run/trained.py": TRAINED,
    "run/training.py": ("run", "train"),
    "serve/http/keys.py": ("serve",),
    "serve/http/listening.py": ("serve",),
    "serve/http/running.py": ("serve",),
    "sizing": ("plan",),
    "sizing/spark_run.py": ("run",),  # what a person pastes after it
    "spark": SPARK,
    "spark/engine.py": ("run", "train"),
    "spark/served.py": ("run", "train"),
    "spark/ingest": TABLES,
    "spark/packing.py": ("spark pack",),
    "spark/prediction.py": ("predict",),
    "spark/training.py": ("run", "train"),
    "training/batches.py": ("run", "train"),
    "training/checks.py": ("run", "train", "tune"),
    "training/loop.py": ("run", "train"),
    "training/ranks": ("run", "train"),
    "training/run_folder.py": ("run", "train"),
    "training/server": ("run", "train"),
    "training/solved.py": ("run", "train", "tune"),
    "training/trackers.py": ("train",),
    "training/warm.py": ("run",),
    "tune": ("tune",),
    "tune/choosing.py": ("run",),
}
# cli/main.py looks at the options of the verb itself before it names one.
OF_ANY_VERB = "cli/main.py"


def options_by_verb() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}

    def add(name: str, command: Any) -> None:
        for inner, one in getattr(command, "commands", {}).items():
            add(f"{name} {inner}".strip(), one)
        if not hasattr(command, "commands"):
            found[name] = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | EVERYWHERE

    add("", typer.main.get_command(app))
    return found


VERBS = options_by_verb()
_NAMES = "|".join(sorted(VERBS, key=len, reverse=True))
VERB = re.compile(rf"gamlp ({_NAMES})\b|\b({_NAMES})(?: it| them)? with\b")  # "gamlp train", "train it with"


# What prints the texts of gamlp.bench.search is a script, with options of its own.
SCRIPT = "search.py"
VERBS[SCRIPT] = {*re.findall(r'add_argument\("(--[a-z-]+)"', (SOURCE.parents[1] / "benchmarks" / SCRIPT).read_text())}


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of every string that is no docstring; what an f-string fills in is left out."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            inner.add(id(body[0].value))
        if isinstance(node, ast.List):
            words = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.elts]
            if words[:1] == ["gamlp"]:  # a command
                inner |= {id(part) for part in node.elts}
                yield node.lineno, " ".join(words)
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def printers(module: str) -> tuple[str, ...] | None:
    """Verbs that print the texts of a module."""
    own = re.fullmatch(r"cli/([a-z]+)\.py", module)
    if own and own[1] in VERBS:
        return (own[1],)
    found = [path for path in PRINTED_BY if module == path or module.startswith(f"{path}/")]
    return PRINTED_BY[max(found, key=len)] if found else None


def wrong(module: str, source: str) -> list[str]:
    """What is wrong with the options that the texts of a module name."""
    told = []
    for line, text in texts(ast.parse(source)):
        for option in OPTION.finditer(text):
            named = [found[1] or found[2] for found in VERB.finditer(text[: option.start()])]
            verbs = (named[-1],) if named else printers(module)
            if module == OF_ANY_VERB and not named:
                verbs = next(((verb,) for verb, options in VERBS.items() if option[0] in options), ())
            where = f"{module}:{line}: '{text.strip()[:80]}' names {option[0]}"
            if not verbs:
                told.append(f"{where}, and nobody says which verb prints it")
            told += [f"{where}, which gamlp {verb} has not" for verb in verbs or () if option[0] not in VERBS[verb]]
    return told


def modules() -> dict[str, Path]:
    return {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}


def test_every_option_that_is_named_exists_where_it_is_named() -> None:
    assert [one for module, path in modules().items() for one in wrong(module, path.read_text())] == []


def test_every_entry_is_of_something() -> None:
    found = modules()
    assert [path for path in PRINTED_BY if path not in found and not (SOURCE / path).is_dir()] == []
    assert {verb for verbs in PRINTED_BY.values() for verb in verbs} <= set(VERBS)


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("graph/ingest/x.py", 'raise GamlpError(f"{a}: bad", hint="give --max-rows")', 0),
        ("graph/ingest/x.py", 'raise GamlpError("bad", hint="give --max-lines")', 2),
        ("graph/ingest/x.py", 'raise GamlpError(f"{a} --resum{b} c")', 2),
        ("graph/x.py", 'warn("gamlp train --resume goes on")', 0),
        ("graph/x.py", 'warn("gamlp run --resume goes on")', 1),
        ("graph/x.py", 'warn("--resume goes on")', 1),
        ("graph/x.py", 'warn("train it with --resume")', 0),
        ("graph/x.py", 'warn("predict with --resume")', 1),
        ("graph/x.py", '"""--resume in a docstring."""', 0),
        ("cli/train.py", 'say("--resume goes on")', 0),
        ("cli/run.py", 'say("--resume goes on")', 1),
        ("cli/run.py", 'say(["gamlp", "train", str(place), "--resume"])', 0),
        ("cli/run.py", 'say(["gamlp", "train", place, "--resume"])', 0),
    ],
)
def test_what_the_walk_finds(module: str, source: str, expected: int) -> None:
    assert len(wrong(module, source)) == expected
