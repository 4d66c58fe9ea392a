from __future__ import annotations

import pytest

from gamlp.propagation import Propagator
from tests.conformance.engines import ENGINES


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Propagator:
    return ENGINES[request.param]()
