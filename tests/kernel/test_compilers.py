"""The loops as other compilers build them, and on ARM under an emulator: the bytes of the kernel that is installed.

MSVC runs nowhere here. What it would compile, but for its names of instructions, is what GAMLP_PLAIN asks gcc for.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.kernel import BLOCK, NUMPY_DTYPES, HopTask, hop, scale
from gamlp.kernel.dtypes import CODES
from gamlp.kernel.native import native
from tests.kernel.test_hop import STORAGES, long_rows, special_values

Array = np.ndarray[Any, Any]
SOURCE = Path(__file__).with_name("tiles.cpp")
FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
# compiler, what runs its programs, options
WAYS = {
    "clang": ("clang++", [], []),
    "plain C++": ("g++", [], ["-DGAMLP_PLAIN"]),
    "ARM": ("aarch64-linux-gnu-g++", ["qemu-aarch64-static", "qemu-aarch64"], ["-static"]),
}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(native() is None, reason="the C++ kernel was not built")]


@pytest.fixture(scope="module", params=WAYS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that answers questions."""
    compiler, emulators, options = WAYS[request.param]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    emulator = [found for name in emulators if (found := shutil.which(name))][:1]
    if emulators and not emulator:
        pytest.skip(f"{emulators[0]} is not installed")
    built = tmp_path_factory.mktemp("tiles") / "tiles"
    subprocess.run([compiler, *FLAGS, *options, str(SOURCE), "-o", str(built)], check=True)
    return [*emulator, str(built)]


def ask(program: list[str], what: str, head: list[int], *arrays: Array | None) -> tuple[int, bytes]:
    """How many values were lost, and the bytes."""
    question = np.array(head, np.int64).tobytes() + b"".join(a.tobytes() for a in arrays if a is not None)
    answer = subprocess.run([*program, what], input=question, capture_output=True, check=True).stdout
    return int.from_bytes(answer[:8], "little"), answer[8:]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("storage", STORAGES)
def test_a_hop_has_the_same_bytes(program: list[str], storage: str, weighted: bool) -> None:
    task: HopTask = long_rows(storage, weighted, 32, [0, 1, 5, 60, BLOCK - 1, BLOCK, BLOCK + 1, 700], True)
    rows, entries = len(task.src), len(task.neighbours)
    offsets = np.concatenate([task.offsets, np.full(rows + 1 - len(task.offsets), entries)])
    assert task.factors is not None
    arrays = (offsets, task.neighbours, task.weights, task.factors, task.src)
    lost, found = ask(program, "hop", [CODES[storage], rows, entries, weighted], *arrays)
    expected = np.zeros_like(task.dst)
    assert hop(HopTask(*arrays[:4], 0, True, task.src, expected, storage), 0, rows) == lost == 0
    assert found == expected.tobytes()


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_every_value_is_converted_alike(program: list[str], storage: str) -> None:
    for into in (storage, "float32"):
        given = "float32" if into == storage else storage
        values = special_values(given)
        values = values[: len(values) // 13 * 13].reshape(-1, 13)
        expected = np.zeros(values.shape, NUMPY_DTYPES[into])
        lost = scale(values, given, expected, into)
        head = [CODES[storage], *values.shape, into == "float32"]
        assert ask(program, "scale", head, values) == (lost, expected.tobytes())


@pytest.mark.parametrize("options", [[], ["-DGAMLP_PLAIN"]], ids=["128 bits", "plain C++"])
def test_products_have_all_their_bits(options: list[str], tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    program = tmp_path / "products"
    source = SOURCE.with_name("products.cpp")
    subprocess.run(["g++", *FLAGS, *options, str(source), "-o", str(program)], check=True)
    edges = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]
    drawn = np.random.default_rng(0).integers(0, 2**64, 200, np.uint64, endpoint=False).tolist()
    pairs = [(a, b) for a in edges for b in edges] + list(zip(drawn[::2], drawn[1::2]))
    asked = "\n".join(f"{a} {b}" for a, b in pairs)
    told = subprocess.run([str(program)], input=asked, capture_output=True, text=True, check=True).stdout
    found = [tuple(map(int, line.split())) for line in told.splitlines()]
    assert found == [(a * b % 2**64, a * b >> 64) for a, b in pairs]
