"""What all tests share: the raw files of real datasets, and a cache of their own; no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[2] / "shared" / "data"


# All tests of a group go to one process, the longest first: one keeps a session of Spark, one starts clusters and
# drivers; what a module makes by several processes that train together is made once.
_GROUPS = {
    "test_clusters.py": "spark: clusters",
    "test_faults.py": "spark: clusters",
    "test_docs.py::test_a_page_does_what_it_says[spark": "spark: clusters",
    "tests/spark/": "spark: one session",
    "test_processes.py": "processes",
    "test_world.py": "ranks",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share something dear go first, each group to one process."""
    names = list(dict.fromkeys(_GROUPS.values()))
    grouped: dict[str, list[pytest.Item]] = {name: [] for name in names}
    others = []
    for item in items:
        group = next((group for part, group in _GROUPS.items() if part in item.nodeid), None)
        if group is None:
            others.append(item)
        else:
            item.add_marker(pytest.mark.xdist_group(group))
            grouped[group].append(item)
    items[:] = [*(item for name in names for item in grouped[name]), *others]


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
