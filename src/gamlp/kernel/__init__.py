"""The hot loops, in C++ where it could be built, else in torch and numpy."""

# Checksums
from gamlp.kernel.checksums import crc32

# Edge list → CSR; sums by place; the most nodes that int32 neighbours can name
from gamlp.kernel.csr import MOST_NODES, add_up, build_csr

# Storage types: their names, numpy's types for them, values from one to another
from gamlp.kernel.dtypes import NUMPY_DTYPES, FloatName, cannot_hold, scale, store_as, too_large

# One hop over a range of rows; columns come in multiples of LANES
from gamlp.kernel.hop_task import LANES, HopTask, hop, instructions

# Ids → rows
from gamlp.kernel.ids import UNKNOWN_ROW, IdTable, id_table

__all__ = [
    "LANES",
    "MOST_NODES",
    "NUMPY_DTYPES",
    "UNKNOWN_ROW",
    "FloatName",
    "HopTask",
    "IdTable",
    "add_up",
    "build_csr",
    "cannot_hold",
    "crc32",
    "hop",
    "id_table",
    "instructions",
    "scale",
    "store_as",
    "too_large",
]
