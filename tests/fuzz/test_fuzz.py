"""A fixed budget of the fuzzer, about two minutes; `make fuzz MINUTES=30` draws on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.families import FAMILIES, run_one

pytestmark = pytest.mark.slow
_AT_ONCE = 10


@pytest.mark.parametrize(
    ("family", "first"),
    [(name, first) for name, one in FAMILIES.items() for first in range(0, one.fixed, _AT_ONCE)],
)
def test_each_case_is_refused_in_a_sentence_or_right(family: str, first: int) -> None:
    stop = min(first + _AT_ONCE, FAMILIES[family].fixed)
    verdicts = [run_one(f"{family}:{number}", seed=0) for number in range(first, stop)]
    bad = [
        f"{one.name}: {one.verdict}: {one.why}\n  gamlp {' '.join(one.arguments)}" for one in verdicts if not one.good
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("family", ["tables", "folders"])
def test_the_same_draw_makes_the_same_files(family: str, tmp_path: Path) -> None:
    """Or a failure could not be looked at."""

    def files(folder: Path) -> dict[str, bytes]:
        run_one(f"{family}:3", seed=0, keep=folder)
        found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        drawn = (".csv", ".npy", ".tsv", ".txt", ".psv", ".jsonl", ".sqlite", ".gz", ".zst", ".parquet", ".arrow")
        return {name: path.read_bytes() for name, path in found.items() if "out" not in name and path.suffix in drawn}

    assert files(tmp_path / "one") == files(tmp_path / "two") != {}
