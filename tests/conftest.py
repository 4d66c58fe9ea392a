"""What all tests share: the raw files of real datasets, and a cache of their own; no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[2] / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of Spark go first, to two processes: one keeps a session, the other starts clusters and drivers."""
    of_spark = {item: group for item in items if (group := _group(item.nodeid))}
    for item, group in of_spark.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items[:] = [*of_spark, *(item for item in items if item not in of_spark)]


def _group(test: str) -> str | None:
    if any(
        name in test
        for name in ("test_clusters.py", "test_faults.py", "test_docs.py::test_a_page_does_what_it_says[spark")
    ):
        return "spark: clusters"
    return "spark: one session" if "tests/spark/" in test else None


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Raw files in PyG's layout: GAMLP_DATA, or ../shared/data beside the repository."""
    given = os.environ.get("GAMLP_DATA")
    place = Path(given) if given else _BESIDE
    if not place.is_dir():
        pytest.skip(f"no raw datasets: set GAMLP_DATA or put them into {_BESIDE}")
    return place


@pytest.fixture(scope="session")
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache_and_no_network(_session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets are converted once a session; nothing of the user's own cache is read or written."""
    monkeypatch.setenv("GAMLP_CACHE", str(_session_cache))
    monkeypatch.setenv("GAMLP_OFFLINE", "1")
