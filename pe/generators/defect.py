"""How far a matrix is from having too few eigenvectors."""

from __future__ import annotations

import numpy as np
from scipy.linalg import schur
from scipy.optimize import minimize_scalar

NEIGHBOURS = 4
"""Pairs looked at for each eigenvalue of a large matrix: those that could meet first."""

POINTS = np.linspace(0.0, 1.0, 17)[1:-1]


def distance_to_defective(X: np.ndarray) -> float:
    """Upper bound on the least ||E|| (spectral norm) for which X + E is defective.

    Notes
    -----
    The distance is the level at which two components of the pseudospectrum of X first touch. Two
    eigenvalues are joined by a straight line here; the true saddle lies beside it, at that height or below.
    The midpoint alone can be far too low, where a third eigenvalue sits on it.

    References
    ----------
    Alam, Bora, Byers and Overton (2011), Characterization and construction of the nearest defective matrix
    via coalescence of pseudospectral components.
    """
    n = len(X)
    if n < 2:
        return np.inf
    exponent = int(np.frexp(np.max(np.abs(X)))[1])  # so that the gaps of 1e308 do not overflow
    T = schur(np.ldexp(X, -exponent).astype(complex), output="complex")[0]
    eigenvalues = T.diagonal()
    gaps = np.abs(eigenvalues[:, None] - eigenvalues[None, :])
    nearest = np.argsort(gaps, axis=1)[:, 1 : 1 + (n if n <= 16 else NEIGHBOURS)]
    pairs = sorted({(min(i, int(j)), max(i, int(j))) for i in range(n) for j in nearest[i]})

    def height(i, j, x):
        z = eigenvalues[i] + np.multiply.outer(x, eigenvalues[j] - eigenvalues[i])
        return np.linalg.svd(T - z[..., None, None] * np.eye(n), compute_uv=False)[..., -1]

    # Along a line sigma_min rises and falls; coarse tops first, exact ones for the lowest of them.
    tops = sorted(
        (float(np.max(samples := height(i, j, POINTS))), i, j, int(np.argmax(samples))) for i, j in pairs
    )
    best = np.inf
    for coarse, i, j, at in tops:
        if coarse >= best:
            break
        around = (max(POINTS[at] - 1 / 16, 0.0), min(POINTS[at] + 1 / 16, 1.0))
        top = minimize_scalar(lambda x, i=i, j=j: -height(i, j, x), bounds=around, method="bounded")
        best = min(best, max(coarse, -float(top.fun)))
    return float(np.ldexp(best, exponent))
