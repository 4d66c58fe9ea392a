from __future__ import annotations

import pytest

from gamlp.propagation import Engine
from tests.conformance.engines import ENGINES


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]()
