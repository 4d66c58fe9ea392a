"""What all tests share: the raw files of real datasets, and a cache of their own; no network."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import cleanup, object_store

# The same draws on every machine and every day; `make fuzz` draws anew and remembers what failed.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("fuzz", deadline=None, print_blob=True)
settings.load_profile("fixed")

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # tests import onnxruntime by themselves
# On some virtual machines with AMX, oneDNN cannot make its code for bfloat16, and after that none for anything else.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("GAMLP_PROGRESS", "off")  # a slow machine would tell of its progress among what is compared

_BESIDE = Path(__file__).parents[2] / "shared" / "data"


# What goes to one process together, the longest first: one keeps a session of Spark, one starts clusters and drivers.
_GROUPS = {
    "test_clusters.py": "spark: clusters",
    "test_faults.py": "spark: clusters",
    "test_docs.py::test_a_page_does_what_it_says[spark": "spark: clusters",
    "tests/spark/": "spark: one session",
    "test_processes.py": "processes",
    "test_world.py": "ranks",
}


def _group(test: str) -> str:
    """Tests of other files go by their file, so that what a module makes for its tests is made once."""
    return next((group for part, group in _GROUPS.items() if part in test), test.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups first; what needs Java is slow."""
    for item in items:
        if "tests/spark/" in item.nodeid:
            item.add_marker(pytest.mark.slow)
    order = {group: number for number, group in enumerate(dict.fromkeys(_GROUPS.values()))}
    items.sort(key=lambda item: order.get(_group(item.nodeid), len(order)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups by a function: marks are no way, since pytest 9.2 does not let xdist 3.8 change the names of tests."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    config.option.loadscopereorder = False  # the order above, not by the number of tests
    return ByGroup(config, log)


_WATCHER = pytest.StashKey[Any]()


def pytest_configure(config: pytest.Config) -> None:
    """One watcher a run: of pytest itself, not of the processes that xdist starts."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.stash[_WATCHER] = cleanup.start(uuid.uuid4().hex)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _WATCHER in config.stash:
        cleanup.stop(config.stash[_WATCHER])


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Raw files in PyG's layout: GAMLP_DATA, or ../shared/data beside the repository."""
    given = os.environ.get("GAMLP_DATA")
    place = Path(given) if given else _BESIDE
    if not place.is_dir():
        pytest.skip(f"no raw datasets: set GAMLP_DATA or put them into {_BESIDE}")
    return place


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """The address of an object store on loopback; None where its libraries are absent.

    One a process: clients of fsspec are kept, and would go on asking the first of two.
    """
    if object_store.absent():
        yield None
        return
    with object_store.running(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture(scope="module")
def s3_bucket(s3_endpoint: str | None) -> str:
    """The URL of an empty bucket, one for each file of tests."""
    if s3_endpoint is None:
        pytest.skip(f"no object store: {object_store.absent()}")
    return object_store.new_bucket()


@pytest.fixture(scope="session")
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache_and_no_network(_session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets are converted once a session; nothing of the user's own cache is read or written."""
    monkeypatch.setenv("GAMLP_CACHE", str(_session_cache))
    monkeypatch.setenv("GAMLP_OFFLINE", "1")
