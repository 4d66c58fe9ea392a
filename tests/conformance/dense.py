"""The oracle: the operator and its powers written out with dense float64 matrices."""

from __future__ import annotations

import numpy as np


def adjacency(count: int, edges: list[tuple[int, int]], weights: list[float] | None, *, directed: bool) -> np.ndarray:
    """A[target, source]: loops dropped, unweighted duplicates merged, weighted ones added up."""
    matrix = np.zeros((count, count))
    for position, (source, target) in enumerate(edges):
        if source == target:
            continue
        for row, column in [(target, source)] if directed else [(target, source), (source, target)]:
            if weights is None:
                matrix[row, column] = 1.0
            else:
                matrix[row, column] += weights[position]
    return matrix


def operator(matrix: np.ndarray, r: float, loops: bool) -> np.ndarray:
    """Â = D_r^(r-1) Ã D_c^(-r), Ã = A + I with loops; a zero sum gives a zero factor."""
    tilde = matrix + np.eye(len(matrix)) if loops else matrix
    left = np.array([total ** (r - 1) if total > 0 else 0.0 for total in tilde.sum(1)])
    right = np.array([total ** (-r) if total > 0 else 0.0 for total in tilde.sum(0)])
    return np.diag(left) @ tilde @ np.diag(right)


def hops(matrix: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
    """[n, count + 1, d]: first, Â first, Â² first, …"""
    found = [first.astype(np.float64)]
    for _ in range(count):
        found.append(matrix @ found[-1])
    return np.stack(found, axis=1)
