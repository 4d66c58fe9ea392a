"""The hot loops, in C++ where it could be built, else in torch and numpy."""

# Checksums
from gamlp.kernel.checksums import crc32

# Edge list → CSR; edges by range of rows; sums by place; the most nodes that int32 neighbours can name
from gamlp.kernel.csr import MOST_NODES, add_up, build_csr, spread_rows

# Storage types: their names, numpy's types for them, values from one to another; rows as they are
from gamlp.kernel.dtypes import NUMPY_DTYPES, FloatName, cannot_hold, copy_rows, not_held, scale, store_as

# Random graphs row by row, and noise; permutations that can be computed both ways
from gamlp.kernel.generate import (
    MOST_STUBS,
    NOISE,
    WHOLE,
    Matching,
    Rows,
    matched_rows,
    mix_keys,
    noisy_rows,
    permutations,
    permuted_range,
)

# One hop over a range of rows; columns come in multiples of LANES. Rows in pieces of BLOCK entries; some rows alone;
# which rows hold anything; bytes of a window of a large state, and how its rows fall into windows
from gamlp.kernel.hop_task import (
    BLOCK,
    LANES,
    WINDOW,
    HopTask,
    cut_rows,
    gather_rows,
    hop,
    instructions,
    nonzero_rows,
    window_bits,
)

# Ids → rows
from gamlp.kernel.ids import UNKNOWN_ROW, IdTable, id_table

__all__ = [
    "BLOCK",
    "LANES",
    "MOST_NODES",
    "MOST_STUBS",
    "NOISE",
    "NUMPY_DTYPES",
    "UNKNOWN_ROW",
    "WHOLE",
    "WINDOW",
    "FloatName",
    "HopTask",
    "IdTable",
    "Matching",
    "Rows",
    "add_up",
    "build_csr",
    "cannot_hold",
    "copy_rows",
    "crc32",
    "cut_rows",
    "gather_rows",
    "hop",
    "id_table",
    "instructions",
    "matched_rows",
    "mix_keys",
    "noisy_rows",
    "nonzero_rows",
    "not_held",
    "permutations",
    "permuted_range",
    "scale",
    "spread_rows",
    "store_as",
    "window_bits",
]
