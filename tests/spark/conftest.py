"""One Spark session for all tests of a process; without Java or pyspark they skip, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.spark.engine import LIGHT_JAVA
from gamlp.spark.sessions import SparkSettings, check_java, session
from tests.spark import standalone


@pytest.fixture(scope="session", autouse=True)
def _spark_is_here() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'gamlp[spark]'")
    try:
        check_java()
    except GamlpError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(_spark_is_here: None, s3_endpoint: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores of this machine; what is heavy to start is started once.

    After the object store: tasks know its address by the environment, which they inherit from Java.
    """
    place: Path = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.adaptive.enabled": "true",
        **LIGHT_JAVA,  # small data: to compile it well would take longer than to run it
    }
    with session(SparkSettings("local[2]", conf)) as made:
        yield made


@pytest.fixture(scope="session")
def cluster(_spark_is_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.Standalone]:
    """A master and two workers as processes on loopback, for drivers that are processes too."""
    place: Path = tmp_path_factory.mktemp("cluster")
    hidden = place / "hidden"
    hidden.mkdir()
    with standalone.standalone(place, hidden if standalone.can_mount() else None) as made:
        yield made
