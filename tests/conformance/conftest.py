from __future__ import annotations

import pytest

from gamlp.propagation import Propagator
from tests.conformance.engines import ENGINES

# Those that differ from another one by a number alone.
_SLOW = {"local, one thread", "local, five threads", "blocks, little memory"}


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW)) for name in ENGINES])
def engine(request: pytest.FixtureRequest) -> Propagator:
    return ENGINES[request.param]()
