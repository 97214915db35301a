"""joint_spectrum, is_injective and position_of: the planes of a commuting family."""

import pickle

import numpy as np
import pytest

import pe
from pe.generators import (
    axial,
    commute,
    conjugate,
    is_injective,
    joint_spectrum,
    position_of,
    quaternion_matrix,
    relativity_residual,
    slide,
    transport,
    turn,
)


def orthogonal(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def family(freqs, odd=False, seed=0):
    """Commuting skew generators with these frequencies (n_axes, L), in a random orthogonal basis."""
    blocks = [turn(row) for row in freqs]
    if odd:
        blocks = [np.pad(B, ((0, 1), (0, 1))) for B in blocks]
    Q = orthogonal(len(blocks[0]), seed)
    return np.array([Q @ B @ Q.T for B in blocks])


def as_columns(freqs):
    """Planes as a set: columns up to sign, sorted."""
    freqs = np.array(freqs, dtype=float)
    signs = [np.sign(column[np.argmax(np.abs(column) > 1e-9)]) or 1 for column in freqs.T]
    return np.array(sorted((freqs * signs).T.round(9).tolist()))


@pytest.mark.parametrize("freqs", [
    [[1.0, 0.3, 0.01]],
    [[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]],
    [[1.0, 1.0, 1.0], [1.0, -1.0, 2.0]],
    [[2.0, 2.0, 0.0], [1.0, 1.0, 0.0]],
    np.random.default_rng(5).standard_normal((3, 8)),
])  # fmt: skip
@pytest.mark.parametrize("odd", [False, True])
def test_planes_and_frequencies_come_back(freqs, odd):
    Bs = family(freqs, odd)
    joint = joint_spectrum(Bs)
    assert joint.residual < 1e-13 and np.allclose(joint.basis.T @ joint.basis, np.eye(len(joint.basis)))
    assert np.allclose(as_columns(joint.freqs), as_columns(freqs), atol=1e-9)
    for B, row in zip(Bs, joint.freqs, strict=True):
        inner = np.zeros_like(B)
        inner[: 2 * len(row), : 2 * len(row)] = turn(row)
        assert np.allclose(joint.basis @ inner @ joint.basis.T, B, atol=1e-12)
    lengths = np.linalg.norm(joint.freqs, axis=0)
    assert np.all(np.diff(lengths) <= 1e-12)


def test_case_48_pairs_that_lose_a_coordinate_or_are_not_relative():
    J = turn(1.0)
    lossy = joint_spectrum([J, J])
    assert lossy.rank == 1 and not is_injective([J, J])
    assert relativity_residual([J, J]) < 1e-15
    _, i, j, _ = quaternion_matrix(np.eye(4))
    assert relativity_residual([i, j], at=[(1, 2), (3, 5)]) == pytest.approx(0.162, abs=5e-4)
    rng = np.random.default_rng(48)
    skews = [A - A.T for A in rng.standard_normal((2, 8, 8))]
    assert commute(skews) > 0.1 and relativity_residual(skews) > 0.1


def test_case_47_the_solution_of_source_document_2_is_a_rotated_copy():
    b, c, f = 0.3, 0.5, 2.0
    B1 = np.array([[0, -1, -b, 0], [1, 0, -c, 0], [b, c, 0, 0], [0, 0, 0, 0]])
    d, e = c * f, -b * f
    B2 = np.array([[0, 0, 0, -d], [0, 0, 0, -e], [0, 0, 0, -f], [d, e, f, 0]])
    joint = joint_spectrum([B1, B2])
    assert np.allclose(np.sort(joint.freqs.max(axis=1)), [1.15758369, 2.31516738], atol=1e-8)
    assert np.count_nonzero(joint.freqs) == 2 and joint.rank == 2 and is_injective([B1, B2])


def test_it_runs_on_apply_rope_nd():
    rng = np.random.default_rng(2)
    Bs = family(rng.standard_normal((3, 4)))
    joint = joint_spectrum(Bs)
    q, k = rng.standard_normal((2, 5, 8))
    t, s = rng.uniform(-4, 4, (2, 5, 3))
    turned = [pe.apply_rope_nd(x @ joint.basis, p, joint.freqs) for x, p in ((q, t), (k, s))]
    scores = turned[0] @ turned[1].T
    for i, j in np.ndindex(5, 5):
        gap = np.tensordot(s[j] - t[i], Bs, axes=1)
        assert scores[i, j] == pytest.approx(q[i] @ transport(gap, 1.0) @ k[j], abs=1e-12)


def test_left_and_right_quaternions_commute():
    left = quaternion_matrix([0.0, 1.0, 0.0, 0.0])
    right = np.array([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0]])
    joint = joint_spectrum([left, right])
    assert joint.residual < 1e-15 and joint.freqs.tolist() == [[1.0, 1.0], [1.0, -1.0]]


def test_a_family_that_does_not_commute_says_so():
    i, j = quaternion_matrix(np.eye(4))[1:3]
    joint = joint_spectrum([i, j])
    assert joint.residual > 0.5 and "do not commute" in str(joint)
    assert not is_injective([i, 2 * i]) and is_injective([i, j])
    with pytest.raises(ValueError, match="do not commute"):
        is_injective([i, j], "integer")


# Injective


@pytest.mark.parametrize(("freqs", "expected"), [
    ([[1.0]], True), ([[2 * np.pi / 8]], False), ([[2 * np.pi / 1009]], False), ([[0.0]], False),
    ([[2 * np.pi / 8, 1.0]], True), ([[2 * np.pi / 8, 2 * np.pi / 12]], False),
    ([[1.0], [1.0]], False), ([[1.0], [2**0.5]], True), ([[1.0], [0.5]], False),
    ([[1.0, 0.0], [0.0, 1.0]], True), ([[1.0, 0.0], [0.0, 2 * np.pi / 7]], False),
    ([[0.3, 0.1], [0.5, 0.2], [0.1, 0.1]], False), ([[1.0, 2**0.5], [3**0.5, 5**0.5], [7**0.5, 0.1]], True),
    ([10000.0 ** (-np.arange(8) / 8)], True),
])  # fmt: skip
def test_injective_over_the_integers(freqs, expected):
    assert is_injective(family(freqs), "integer") is expected
    if not expected:  # some small vector of integers is a period of every plane, to rounding
        freqs = np.array(freqs)
        reach = range(-1009 if len(freqs) == 1 else -40, 1010 if len(freqs) == 1 else 41)
        points = np.stack(np.meshgrid(*[reach] * len(freqs)), axis=-1).reshape(-1, len(freqs))
        turns = points @ freqs / (2 * np.pi)
        whole = np.abs(turns - np.round(turns)).max(axis=1) < 1e-12
        assert np.count_nonzero(whole) > 1


def test_claim_2_9_a_period_brings_the_matrix_back():
    assert np.linalg.norm(transport(turn(2 * np.pi / 8), 8.0) - np.eye(2)) < 1e-14


def test_loose_claim_e_two_by_two_has_one_parameter():
    axes = [turn(1.0), turn(2**0.5)]
    assert not is_injective(axes) and is_injective(axes, "integer")
    x, y = 2**0.5, -1.0  # two real positions, one matrix
    assert np.allclose(transport(x * axes[0] + y * axes[1], 1), np.eye(2), atol=1e-15)


def test_injective_over_the_reals_takes_any_generators():
    assert is_injective([slide()]) and not is_injective([slide(), 2 * slide()])
    assert is_injective([np.diag([-1.0, 0.0]), np.diag([0.0, -1.0])])
    assert not is_injective([np.zeros((2, 2))])
    # Axes in units that differ by 1e12 are still two axes.
    assert is_injective([axial(2)[0] * 1e12, axial(2)[1]])


# Position


@pytest.mark.parametrize(("freqs", "reach"), [
    ([[1.0]], 3.1), ([[1.0, 0.1, 0.01]], 310), ([[1.0, 0.1, 0.0, 0.0], [0.0, 0.0, 1.0, 0.1]], 31),
    ([[0.02, 0.3, 0.01], [0.01, -0.2, 0.03]], 30),
])  # fmt: skip
def test_claim_B4_the_position_comes_back(freqs, reach):
    Bs = family(freqs)
    for p in np.random.default_rng(0).uniform(-reach, reach, (20, len(Bs))):
        assert np.allclose(position_of(transport(np.tensordot(p, Bs, axes=1), 1.0), Bs), p, atol=1e-9)


def test_a_wrapped_hand_gives_a_position_of_the_same_matrix():
    R = transport(turn(1.0), 7.0)
    assert position_of(R, [turn(1.0)])[0] == pytest.approx(7.0 - 2 * np.pi)


@pytest.mark.parametrize(("call", "named"), [
    (lambda: position_of(np.eye(2), [turn(1.0), turn(1.0)]), "position is lost"),
    (lambda: position_of(np.diag([1.0, -1.0]), [turn(1.0)]), "no position found"),
    (lambda: position_of(np.eye(3), [turn(1.0)]), "R has shape"),
    (lambda: position_of(np.eye(2), [slide()]), r"Bs\[0\] is not skew"),
    (lambda: position_of(np.eye(4), quaternion_matrix(np.eye(4))[1:3]), "do not commute"),
    (lambda: joint_spectrum(np.zeros((0, 2, 2))), "empty"),
    (lambda: is_injective([turn(1.0)], "rational"), "'rational'"),
    (lambda: is_injective([slide()], "integer"), "not skew"),
])  # fmt: skip
def test_bad_input_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()


def test_joint_spectrum_prints_and_pickles():
    joint = joint_spectrum(axial(2))
    assert str(joint).startswith("2 planes, 2 axes, rank 2\n")
    assert repr(joint) == "<JointSpectrum 2 planes, 2 axes, rank 2>"
    copy = pickle.loads(pickle.dumps(joint))
    assert np.array_equal(copy.freqs, joint.freqs) and np.array_equal(copy.basis, joint.basis)


def test_bases_that_are_not_orthogonal_are_refused():
    skewed = conjugate(turn(1.0), [[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(ValueError, match="not skew"):
        joint_spectrum([skewed])
