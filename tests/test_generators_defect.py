"""How far from defective: an upper bound with known values."""

import numpy as np
import pytest

from pe.generators import classify, conjugate, damped_rope, direct_sum, fade, rope, slide, turn


@pytest.mark.parametrize(("X", "distance"), [
    ([[-1, 1], [0, -1 - 1e-5]], 2.5e-11), ([[-64, 82, 21], [144, -178, -46], [-771, 962, 248]], 3.75e-4),
    (turn(1.0), 1.0), (np.diag([1.0, 2.0]), 0.5), (slide(), 0.0), (np.eye(3), 0.0), ([[3.0]], np.inf),
    (fade([0.1, 0.4, 1.0]), 0.15), (rope(4), 0.01), (np.zeros((0, 0)), np.inf),
])  # fmt: skip
def test_cases_16_and_34_known_distances(X, distance):
    assert classify(X).distance_to_defective == pytest.approx(distance, rel=1e-3, abs=1e-16)


def test_it_is_attained_from_above():
    """A perturbation of that size in the direction of the singular vectors makes a double eigenvalue."""
    X = np.array([[-1.0, 1.0], [0.0, -1.0 - 1e-2]])
    distance = classify(X).distance_to_defective
    middle = -1.005
    U, sigma, Vh = np.linalg.svd(X - middle * np.eye(2))
    near = X - sigma[-1] * np.outer(U[:, -1], Vh[-1])
    assert sigma[-1] == pytest.approx(distance, rel=1e-6)
    assert np.ptp(np.linalg.eigvals(near)) < 0.1 * np.ptp(np.linalg.eigvals(X))


def test_orthogonal_bases_and_scale():
    X = damped_rope(6, 0.1)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    distance = classify(X).distance_to_defective
    assert classify(conjugate(X, Q)).distance_to_defective == pytest.approx(distance, rel=1e-6)
    for scale in (1e-300, 1e-100, 1e307):
        assert classify(scale * X).distance_to_defective == pytest.approx(scale * distance, rel=1e-6)
    assert classify(np.diag([1e308, -1e308])).distance_to_defective == pytest.approx(1e308, rel=1e-6)


def test_an_ill_conditioned_basis_is_near_a_defective_one():
    X = direct_sum(fade([0.1, 0.2]), turn(1.0))
    P = np.eye(4)
    P[0, 1] = 1e4
    assert classify(conjugate(X, P)).distance_to_defective < 1e-3 * classify(X).distance_to_defective
