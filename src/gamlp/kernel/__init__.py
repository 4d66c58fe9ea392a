"""The hot loops: one hop over a range of rows, and edge list → CSR. In C++ where it could be built, else numpy and torch."""

from gamlp.kernel.csr import build_csr
from gamlp.kernel.hop import HopTask, hop, instructions

__all__ = ["HopTask", "build_csr", "hop", "instructions"]
