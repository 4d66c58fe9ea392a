"""The hot loops: one hop, rows between storage types, edge list → CSR. In C++ where it could be built, else torch.

Ids → rows are in `gamlp.kernel.ids`, which needs Arrow; propagation does not.
"""

from gamlp.kernel.csr import add_up, build_csr
from gamlp.kernel.dtypes import NUMPY, scale
from gamlp.kernel.hop import LANES, HopTask, hop, instructions

__all__ = ["LANES", "NUMPY", "HopTask", "add_up", "build_csr", "hop", "instructions", "scale"]
