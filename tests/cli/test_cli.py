"""`gamlp` as people type it: help, errors, progress, interruption."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from gamlp.cli import verbs
from gamlp.cli.verbs import FIRST_LINES, Verbs
from gamlp.graph import Graph, Split
from gamlp.propagation import HopStore
from tests.forked import gamlp

GAMLP = [sys.executable, "-m", "gamlp.cli.main"]
VERBS = ["run", "ingest", "train", "evaluate", "predict", "tune", "propagate", "info"]
VERBS += ["recipes", "datasets", "generate"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `graph` (labels and split), `plain` (features alone) and `store`."""
    place = tmp_path_factory.mktemp("place")
    random = np.random.default_rng(0)
    edges, x, labels = random.integers(0, 50, (2, 200)), random.normal(size=(50, 7)), random.integers(0, 3, 50)
    split = Split.of(50, train=np.arange(20), valid=np.arange(20, 30), test=np.arange(30, 40))
    Graph.from_arrays(edges, x, labels, split=split, name="small").save(place / "graph")
    Graph.from_arrays(edges, x, name="plain").save(place / "plain")
    assert gamlp("propagate", "graph", "--out", "store", "--hops", "2", folder=place).returncode == 0
    return place


def test_the_first_help_lists_every_verb(tmp_path: Path) -> None:
    ran = gamlp("--help", folder=tmp_path, COLUMNS="100")
    assert ran.returncode == 0
    assert all(re.search(rf"^\W*{verb} ", ran.stdout, re.MULTILINE) for verb in VERBS)
    assert "gamlp train graph --out run" in ran.stdout and "gamlp predict run --out predictions.parquet" in ran.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_teaches_with_an_example(verb: str, tmp_path: Path) -> None:
    ran = gamlp(verb, "--help", folder=tmp_path, COLUMNS="120")
    assert ran.returncode == 0 and ran.stderr == ""
    assert re.search(rf"^\W*gamlp {verb} [\w-]", ran.stdout, re.MULTILINE)


def test_version(tmp_path: Path) -> None:
    ran = gamlp("--version", folder=tmp_path)
    assert ran.returncode == 0 and re.fullmatch(r"gamlp \d+\.\d+\.\d+\n", ran.stdout)


@pytest.mark.parametrize("words", [("propagat",), ("propagate", "graph", "--out", "x", "--hop", "3"), ("propagate",)])
def test_an_unknown_word_is_told_with_exit_code_2(words: tuple[str, ...], place: Path) -> None:
    ran = gamlp(*words, folder=place)
    assert ran.returncode == 2 and ran.stdout == ""
    assert "Traceback" not in ran.stderr
    assert re.search("No such command|No such option|Missing argument", ran.stderr)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("propagate ./missing --out x", "'./missing' is neither a dataset nor a graph folder"),
        ("propagate folder/graph --out x", "folder/graph: there is no such graph folder."),
        ("propagate digitz --out x", "did you mean digits"),
        ("propagate graph --out x --memory lots", "'lots' is not a size; write a number with a unit, such as 4GiB"),
        (
            "propagate graph --out x --memory 1MB",
            "a memory budget of 976.6 KiB is too small for 50 nodes; give --memory",
        ),
        ("propagate graph --out x --rows most", "unknown rows 'most'; choose from all, labelled, split"),
        ("propagate plain --out x --rows split", "graph 'plain' has no split"),
        ("propagate plain --out x --label-hops 3", "graph 'plain' has no labels; propagate features alone"),
        ("propagate graph --out x --label-folds 50", "50 folds for 20 training rows; use fewer folds."),
        ("propagate graph --out store --r 0.25", "store: holds features with operator.r 0.5 where 0.25 is asked for"),
        ("propagate graph --out graph", "graph: is not empty and not a store"),
        ("propagate store --out x", "store: not a graph folder (no graph.json)"),
        ("info nowhere", "nowhere: not a store"),
    ],
)
def test_an_error_is_one_line_with_exit_code_2(words: str, told: str, place: Path) -> None:
    ran = gamlp(*words.split(), folder=place)
    assert ran.returncode == 2 and ran.stdout == ""
    assert ran.stderr.startswith("gamlp: ") and told in ran.stderr
    assert ran.stderr.count("\n") == 1 and ran.stderr.endswith(".\n")
    assert not (place / "x").exists() and not (place / "graph" / ".lock").exists()


def test_propagate_as_json(place: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "store")
    ran = gamlp("propagate", "graph", "--out", out, "--hops", "2", "--label-hops", "4", "--json", folder=place)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert ran.stdout.count("\n") == 1 and result["nodes"] == 50 and result["seconds"] > 0
    assert {name: (one["hops"], one["width"]) for name, one in result["signals"].items()} == {
        "features": (2, 7),
        "labels": (4, 3),
    }
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    stages = {line["stage"] for line in lines if line["done"] == line["total"]}
    assert stages == {*(f"hop {k} of 4" for k in range(1, 5)), "all hops", "write features", "write labels"}


def test_nothing_is_drawn_where_there_is_no_terminal(place: Path, tmp_path: Path) -> None:
    ran = gamlp("propagate", "digits", "--out", str(tmp_path / "store"), "--hops", "3", folder=place)
    assert ran.returncode == 0 and ran.stderr == ""
    assert "\x1b" not in ran.stdout and "hops of graph 'digits', 1,797 nodes" in ran.stdout


def test_a_second_run_returns_at_once_with_the_same_table(place: Path, tmp_path: Path) -> None:
    words = ("propagate", "graph", "--out", str(tmp_path / "store"), "--label-folds", "2", "--rows", "split")
    first, second = (gamlp(*words, folder=place) for _ in range(2))
    assert first.returncode == second.returncode == 0
    assert first.stdout.splitlines()[:-1] == second.stdout.splitlines()[:-1]
    assert [line.split()[0] for line in second.stdout.splitlines()[1:4]] == ["features", "labels", "crossfit"]


def on_terminal(words: list[str], folder: Path) -> tuple[int, str]:
    """Run with a pseudo-terminal for all three streams; returns exit code and what was drawn."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [*GAMLP, *words], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    ) as process:
        os.close(theirs)
        drawn = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            drawn += part
        os.close(ours)
        return process.wait(60), drawn.decode()


def test_progress_is_drawn_on_a_terminal(tmp_path: Path) -> None:
    code, drawn = on_terminal(["propagate", "digits", "--out", "store", "--hops", "4"], tmp_path)
    assert code == 0, drawn
    assert "\x1b[" in drawn
    assert "hop 4 of 4" in drawn and "write features" in drawn and "100 %" in drawn


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose propagation over many hops takes seconds."""
    folder = tmp_path_factory.mktemp("large")
    random = np.random.default_rng(1)
    edges, x = random.integers(0, 100_000, (2, 1_000_000)), random.normal(size=(100_000, 32)).astype(np.float32)
    Graph.from_arrays(edges, x).save(folder / "graph")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "word", "code"), [(signal.SIGINT, "interrupted", 130), (signal.SIGTERM, "terminated", 143)]
)
def test_a_stop_is_one_line_with_a_code_of_its_own_and_the_same_command_then_finishes(
    large: Path, stop: signal.Signals, word: str, code: int
) -> None:
    store = f"store-{word}"
    words = [*GAMLP, "propagate", "graph", "--out", store, "--hops", "24", "--json"]
    # A suite that a script runs in the background was told to ignore Ctrl-C, and its children would be too.
    listens = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=large, stdout=pipe, stderr=pipe, text=True, preexec_fn=listens) as process:
        assert process.stderr is not None and process.stdout is not None
        assert "hop 1 of 24" in process.stderr.readline()
        process.send_signal(stop)
        told = [line for line in process.stderr if not line.startswith("{")]
        assert process.wait(60) == code
        assert process.stdout.read() == ""
    assert len(told) == 1 and told[0].startswith(f"gamlp: {word}; run the same command again")
    ran = gamlp("info", store, folder=large)
    assert ran.returncode == 2 and "the store is unfinished" in ran.stderr
    assert gamlp(*words[3:], folder=large).returncode == 0
    assert HopStore.open(large / store).damaged() == []


def test_import_is_fast_and_light() -> None:
    code = (
        "import sys, time; begun = time.process_time(); import gamlp; taken = time.process_time() - begun\n"
        "print(taken, [name for name in ('torch', 'pyarrow', 'pandas', 'scipy', 'numpy') if name in sys.modules])"
    )
    seconds, loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split(maxsplit=1)
    assert float(seconds) < 1.5
    assert loaded.strip() == "[]"


HEAVY = ("torch", "numpy", "scipy", "pyarrow", "pydantic", "yaml", "pandas", "sklearn", "fsspec", "torch_geometric")


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_help_is_shown_without_anything_heavy_and_without_a_verb(words: list[str]) -> None:
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['gamlp', *{words}]\n"
        "try: runpy.run_module('gamlp.cli.main', run_name='__main__')\n"
        "except SystemExit: pass\n"
        f"heavy = [name for name in {HEAVY} if name in sys.modules]\n"
        "from gamlp.cli.verbs import FIRST_LINES\n"
        "print('imported:', heavy, [name for name in FIRST_LINES if f'gamlp.cli.{name}' in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "imported: [] []"


@pytest.mark.parametrize("verb", FIRST_LINES)
def test_a_verb_is_listed_with_the_first_line_of_its_own_help(verb: str) -> None:
    command = Verbs()[verb]
    assert command.name == verb
    assert " ".join((command.help or "").split("\n\n")[0].split()) == FIRST_LINES[verb]


def test_what_predicting_puts_off_comes_when_it_is_asked_for() -> None:
    code = (
        "import gc, sys; from gamlp.cli.lean import lean_imports\n"
        "with lean_imports(): import numpy, pyarrow, torch\n"
        "assert gc.isenabled()\n"
        "registered = lambda: hasattr(sys.modules['torch._meta_registrations'], 'meta_mm')\n"
        "assert 'pandas' not in sys.modules and not registered()\n"
        "assert pyarrow.table({'a': numpy.arange(3)}).to_pandas()['a'].sum() == 3\n"
        "import torch._dynamo\n"
        "assert registered()\n"
        "assert torch.mm(torch.ones(2, 3, device='meta'), torch.ones(3, 4, device='meta')).shape == (2, 4)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_imports_no_markdown_and_leaves_no_stub_of_it() -> None:
    code = (
        "import sys; sys.argv = ['gamlp', '--help']\n"
        "from gamlp.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'rich.markdown', 'rich.traceback', 'markdown_it', 'pygments'} & set(sys.modules)\n"
        "from rich.markdown import Markdown\n"
        "from rich.traceback import Traceback\n"
        "assert Markdown is not object and Traceback is not object"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gamlp run digits" in ran.stdout


def test_one_prediction_imports_neither_pandas_nor_a_compiler(place: Path, tmp_path: Path) -> None:
    quick = ["--set", "training.epochs=1", "--set", "propagation.hops=1", "--set", "model.hidden=8"]
    assert gamlp("train", "graph", "--out", str(tmp_path / "run"), *quick, folder=place).returncode == 0
    words = ["gamlp", "predict", str(tmp_path / "run"), "--out", str(tmp_path / "one.csv"), "--ids", "3"]
    unwanted = [
        "pandas",
        "sklearn",
        "scipy.sparse",
        "torch._dynamo",
        "torch._decomp",
        "gamlp.explanation",
        "matplotlib",
    ]
    code = (
        "import sys, runpy\n"
        f"sys.argv = {words}\n"
        "try: runpy.run_module('gamlp.cli.main', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"found = [name for name in {unwanted} if name in sys.modules]\n"
        "assert not found, found"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 2


def test_every_verb_is_listed() -> None:
    files = {path.stem for path in Path(verbs.__file__).parent.glob("*.py")}
    assert files - {"__init__", "lean", "main", "verbs"} == set(FIRST_LINES) == set(Verbs())


def test_propagation_with_the_kernel_does_not_import_torch(place: Path, tmp_path: Path) -> None:
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['gamlp', 'propagate', 'graph', '--out', {str(tmp_path / 'store')!r}]\n"
        "try: runpy.run_module('gamlp.cli.main', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def answer(ran: subprocess.CompletedProcess[str]) -> Any:
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_info_of_a_graph(place: Path) -> None:
    shown = answer(gamlp("info", "graph", "--json", folder=place))
    assert shown["nodes"][0] == {
        "type": "node", "nodes": 50, "features": 7, "classes": 3, "train": 20, "valid": 10, "test": 10,
    }  # fmt: skip
    assert shown["relations"][0]["entries"] == Graph.open(place / "graph").relation.entries and shown["verified"]
    ran = gamlp("info", "graph", folder=place)
    assert "graph 'small'" in ran.stdout and "every checksum is right" in ran.stdout


def test_info_of_a_store(place: Path) -> None:
    shown = answer(gamlp("info", "store", "--json", folder=place))
    assert shown["verified"] and shown["graph"] == "small" and set(shown["signals"]) == {"features", "labels"}
    assert shown["bytes"] == sum(file.bytes for _, file in HopStore.open(place / "store").files())
    ran = gamlp("info", "store", folder=place)
    assert "r = 0.5, with self-loops" in ran.stdout and "every checksum is right" in ran.stdout


@pytest.mark.parametrize("kind", ["graph", "store"])
def test_info_finds_damage(kind: str, place: Path, tmp_path: Path) -> None:
    if kind == "graph":
        Graph.open(place / "graph").save(tmp_path / "it")
        path = tmp_path / "it/nodes/node/features.npy"
    else:
        gamlp("propagate", "graph", "--out", str(tmp_path / "it"), folder=place)
        (path,) = (tmp_path / "it").glob("features-*/00000.npy")
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    ran = gamlp("info", "it", folder=tmp_path)
    name = path.relative_to(tmp_path / "it").as_posix()
    assert ran.returncode == 2 and ran.stdout == ""
    assert ran.stderr == f"gamlp: it: 1 damaged: {name}; remove the folder and make it again.\n"
    assert gamlp("info", "it", "--no-verify", folder=tmp_path).returncode == 0


def test_a_closed_pipe_ends_quietly(place: Path) -> None:
    script = " ".join(GAMLP) + " datasets | true; exit ${PIPESTATUS[0]}"
    begun = time.monotonic()
    ran = subprocess.run(["bash", "-c", script], cwd=place, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in ran.stderr and ran.stderr.count("\n") <= 1
    assert time.monotonic() - begun < 120


def test_every_verb_with_threads_refuses_more_than_a_machine_has() -> None:
    from typer.main import get_command

    from gamlp.cli.main import app

    def with_threads(command: Any, *names: str) -> Any:
        for name, inner in getattr(command, "commands", {}).items():
            yield from with_threads(inner, *names, name)
        if any("--threads" in option.opts for option in command.params):
            yield names, command

    found = dict(with_threads(get_command(app)))
    assert {("run",), ("train",), ("tune",), ("predict",), ("bench", "run")} <= set(found)
    for names, command in found.items():
        with pytest.raises(typer.BadParameter, match="equal to 1024"):
            command.make_context(" ".join(names), ["x", "--threads", "100000000000000000000000"])
