"""How much memory there is: of the machine, or of the control groups around this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gamlp.io import memory

GIB = 1 << 30


def group(folder: Path, limit: tuple[str, object], used: tuple[str, int], stat: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / limit[0]).write_text(f"{limit[1]}\n")
    (folder / used[0]).write_text(f"{used[1]}\n")
    (folder / "memory.stat").write_text(stat)


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 64 GiB free and no groups yet; `own` says which one this process is in."""
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_OWN_GROUP", tmp_path / "own")
    monkeypatch.setattr(memory, "_meminfo", lambda: 64 * GIB)
    return tmp_path


def test_without_groups_it_is_the_machines(groups: Path) -> None:
    assert memory.available_memory() == 64 * GIB


@pytest.mark.parametrize("path", ["/", "/session.slice/run", "/elsewhere/not/mounted"])
def test_version_2_own_group_or_the_nearest_around_it(groups: Path, path: str) -> None:
    (groups / "own").write_text(f"0::{path}\n")
    group(groups / "groups", ("memory.max", 8 * GIB), ("memory.current", GIB))
    group(groups / "groups/session.slice", ("memory.max", 4 * GIB), ("memory.current", GIB))
    group(groups / "groups/session.slice/run", ("memory.max", "max"), ("memory.current", GIB))
    assert memory.available_memory() == (3 * GIB if "session" in path else 7 * GIB)


def test_version_1_own_group(groups: Path) -> None:
    (groups / "own").write_text("5:cpu,cpuacct:/\n4:memory:/job\n0::/\n")
    names = "memory.limit_in_bytes", "memory.usage_in_bytes"
    group(groups / "groups/memory", (names[0], 2**63 - 4096), (names[1], 9 * GIB))
    group(groups / "groups/memory/job", (names[0], 2 * GIB), (names[1], GIB // 2))
    assert memory.available_memory() == 3 * GIB // 2


@pytest.mark.parametrize("prefix", ["", "total_"])
def test_the_page_cache_of_a_group_is_free_for_use(groups: Path, prefix: str) -> None:
    stat = f"anon 5\n{prefix}active_file {GIB}\n{prefix}inactive_file {2 * GIB}\n"
    group(groups / "groups", ("memory.max", 4 * GIB), ("memory.current", 4 * GIB), stat)
    assert memory.available_memory() == 3 * GIB


def test_anonymous_memory_grows_with_what_is_touched() -> None:
    # In a process of its own: what the collector frees in this one while it is measured is not known.
    code = "from gamlp.io import memory; before = memory.anonymous_memory(); held = bytearray(b'x') * (64 << 20); "
    code += "print(memory.anonymous_memory() - before)"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert 60 << 20 < int(said) < 80 << 20


def test_this_machine_has_some() -> None:
    assert 0 < memory.available_memory() < 1 << 50
