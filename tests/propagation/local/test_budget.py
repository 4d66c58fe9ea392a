"""Memory budgets, sampled and enforced by the system; disks that fill up."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph, Split
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan

MB = 10**6
FIXED_COST = 220 * MB  # the interpreter and libraries (125 MB here), buffers
BUDGETS = [100, 150]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from"),
]
STACKS = 8 * 8 * MB  # of eight threads, eight megabytes each, of which pages are touched
WORDS = ["--hops", "2", "--rows", "train+valid", "--label-folds", "3", "--threads", "2"]


def fingerprints(store: Path) -> dict[str, str]:
    return {
        path.relative_to(store).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def propagate(graph: Path, out: Path, *words: str, before: Callable[[], None] | None = None) -> tuple[int, str, int]:
    """(exit code, what was said, peak RssAnon sampled every 5 ms)."""
    command = [sys.executable, "-m", "gamlp.cli.main", "propagate", str(graph), "--out", str(out), *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=before)
    peak = 0
    while process.poll() is None:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        peak = max(peak, int(found[1]) * 1024 if found else 0)
        time.sleep(0.005)
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    return process.returncode, said, peak


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """150,000 nodes with 154 MB of features, and the store of a run that held everything in memory."""
    folder = tmp_path_factory.mktemp("large")
    communities(folder / "graph", nodes=150_000, edges=1_000_000, features=256)
    code, said, peak = propagate(folder / "graph", folder / "in memory", *WORDS, "--memory", "4GB")
    assert code == 0, said
    assert peak > BUDGETS[-1] * MB + FIXED_COST, "without a budget it takes more, or budgets show nothing"
    yield folder
    shutil.rmtree(folder)


def test_the_default_budget_gives_the_same_bytes(large: Path, tmp_path: Path) -> None:
    code, said, _ = propagate(large / "graph", tmp_path / "store", *WORDS)
    assert code == 0, said
    assert fingerprints(tmp_path / "store") == fingerprints(large / "in memory")


def test_all_rows_in_half_precision_and_scaled_stay_within_the_budget(large: Path, tmp_path: Path) -> None:
    words = ["--hops", "2", "--dtype", "float16", "--scaling", "standard", "--memory", "100MB"]
    code, said, peak = propagate(large / "graph", tmp_path / "store", *words)
    assert code == 0, said
    assert peak <= 100 * MB + FIXED_COST


@pytest.mark.parametrize("budget", BUDGETS)
def test_memory_stays_within_the_budget_where_the_system_allows_no_more_and_the_bytes_are_the_same(
    large: Path, tmp_path: Path, budget: int
) -> None:
    """RLIMIT_DATA counts all private memory that may be written, stacks of threads and what allocators reserve too."""

    def limit() -> None:
        most = budget * MB + FIXED_COST + STACKS
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    words = [*WORDS, "--memory", f"{budget}MB"]
    code, said, peak = propagate(large / "graph", tmp_path / "store", *words, before=limit)
    assert code == 0, said
    assert peak <= budget * MB + FIXED_COST
    assert fingerprints(tmp_path / "store") == fingerprints(large / "in memory")


def test_memory_that_the_system_refuses_is_told(large: Path, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (350 * MB, 350 * MB))

    code, said, _ = propagate(large / "graph", tmp_path / "store", *WORDS, "--memory", "4GB", before=limit)
    assert code == 2
    assert said.startswith("gamlp: ") and said.count("\n") == 1
    assert "the system refuses" in said and "give a smaller --memory" in said


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """A group with a limit inside the one that GAMLP_TEST_CGROUP names; gone afterwards."""
    given = os.environ.get("GAMLP_TEST_CGROUP")
    if not given:
        pytest.skip("set GAMLP_TEST_CGROUP to a memory control group in which tests may make groups")
    group = Path(given) / f"gamlp-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made in {given} ({error.strerror})")
    try:
        name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
        (group / name).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


@pytest.mark.parametrize("budget", BUDGETS)
def test_it_runs_in_a_control_group_of_that_size(large: Path, tmp_path: Path, budget: int) -> None:
    with control_group(budget * MB + FIXED_COST) as group:
        words = [*WORDS, "--memory", f"{budget}MB"]
        enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        code, said, _ = propagate(large / "graph", tmp_path / "store", *words, before=enter)
        assert code == 0, said
    assert fingerprints(tmp_path / "store") == fingerprints(large / "in memory")


def test_a_budget_that_is_too_small_names_the_least_that_would_do(large: Path, tmp_path: Path) -> None:
    words = ["--hops", "1", "--label-hops", "0", "--rows", "train"]
    code, said, _ = propagate(large / "graph", tmp_path / "store", *words, "--memory", "30MB")
    assert code == 2 and said.count("\n") == 1
    found = re.search(
        r"a memory budget of 28.6 MiB is too small for 150,000 nodes; give --memory (\d+)MiB or more", said
    )
    assert found, said
    code, _, _ = propagate(large / "graph", tmp_path / "store", *words, "--memory", f"{int(found[1]) - 1}MiB")
    assert code == 2
    code, said, peak = propagate(large / "graph", tmp_path / "store", *words, "--memory", f"{found[1]}MiB")
    assert code == 0, said
    assert peak <= int(found[1]) * 2**20 + FIXED_COST


# Runs with a small file system of its own that nobody else sees and that ends with it.
_ON_A_SMALL_DISK = """
import subprocess, sys
from pathlib import Path
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan

graph, disk, kept, memory = sys.argv[1:]
size = 1 << 20
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
store = Path(disk) / "store"
ran = subprocess.run(
    [sys.executable, "-m", "gamlp.cli.main", "propagate", graph, "--out", str(store), "--hops", "3", "--rows", "split",
     "--label-hops", "2", "--label-folds", "2"],
    capture_output=True, text=True,
)
print(ran.returncode, ran.stderr, end="")
plan = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2, folds=2), rows="split")
failed = 0
while True:
    try:
        LocalPropagator(memory=int(memory), threads=2).propagate(Graph.open(graph), plan, store)
        break
    except GamlpError as error:
        assert "no space left on the device; free some space" in str(error), error
        failed += 1
    size += 12 << 10
    subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)
print(failed)
subprocess.run(["cp", "-r", str(store), kept], check=True)
"""


@pytest.mark.parametrize("columns", [64, 16], ids=["in memory", "out of core"])
def test_a_full_disk_is_told_and_with_more_room_the_run_goes_on_to_the_same_bytes(tmp_path: Path, columns: int) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    (tmp_path / "disk").mkdir()
    try:
        tried = subprocess.run(
            [*alone, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "disk")],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if tried.returncode:
        pytest.skip(f"no file system can be mounted: {tried.stderr.strip()}")
    count, random = 3000, np.random.default_rng(0)
    split = Split.of(count, train=np.arange(900), valid=np.arange(900, 1500), test=np.arange(1500, 2900))
    graph = Graph.from_arrays(
        random.integers(0, count, (2, 9000)),
        random.normal(size=(count, 32)),
        random.integers(0, 5, count),
        split=split,
        name="small",
    ).save(tmp_path / "graph")
    plan = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2, folds=2), rows="split")
    LocalPropagator().propagate(graph, plan, tmp_path / "unbroken")
    memory = (64 << 20) + 20 * count + 2 * count * 4 * columns
    words = [str(tmp_path / "graph"), str(tmp_path / "disk"), str(tmp_path / "kept"), str(memory)]
    ran = subprocess.run(
        [*alone, sys.executable, "-c", _ON_A_SMALL_DISK, *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told, failed = ran.stdout.splitlines()
    assert re.fullmatch(r"2 gamlp: \S+store: no space left on the device; free some space or write .*\.", told)
    assert int(failed) > 20, "full at many moments"
    assert fingerprints(tmp_path / "kept") == fingerprints(tmp_path / "unbroken")
