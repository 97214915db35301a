"""The Jordan structure behind pe.classify: any basis, random constructions, honesty, symmetries.

Oracle: the blocks each matrix was built from.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from pe import classify, generators
from pe.generators import conjugate, direct_sum, turn
from pe.generators.jordan import Node, Values, read_clusters, real_schur, spectrum


def jordan(value, size):
    return value * np.eye(size) + np.eye(size, k=1)


def spiral(gamma, theta, size=1):
    cell = np.array([[-gamma, -theta], [theta, -gamma]])
    return np.kron(np.eye(size), cell) + np.kron(np.eye(size, k=1), np.eye(2))


def basis(n, condition, rng):
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return U @ np.diag(np.geomspace(1, 1 / condition, n)) @ V


def assert_certain(answer):
    assert not answer.ambiguous and all(block.certain for block in answer.blocks)


@pytest.mark.parametrize("condition", [1, 1e3, 1e4])
def test_A20_a_change_of_basis_changes_no_name(condition):
    X = conjugate(generators.rope(64), basis(64, condition, np.random.default_rng(20)))
    answer = classify(X)
    assert answer.kinds == {"turn": 32}
    assert_certain(answer)
    expected = 10000.0 ** (-np.arange(32) / 32)
    radii = np.array([b.radius for b in answer.blocks])
    assert np.all(np.abs([b.theta for b in answer.blocks] - expected) <= radii)


@pytest.mark.parametrize("condition, spurious", [(1, 1e-13), (1e3, 1e-9), (1e5, 1e-7)])
def test_case_20_rope_in_a_basis_of_its_own(condition, spurious):
    X = conjugate(generators.rope(64), basis(64, condition, np.random.default_rng(20)))
    answer = classify(X)
    assert answer.kinds == {"turn": 32}
    np.testing.assert_allclose(
        [b.theta for b in answer.blocks], 1e4 ** (-np.arange(32) / 32), rtol=0, atol=spurious
    )
    assert not answer.ambiguous or condition > 1e3


def test_case_21_rope_in_a_gaussian_basis():
    answer = classify(conjugate(generators.rope(64), np.random.default_rng(1).standard_normal((64, 64))))
    assert answer.kinds == {"turn": 32}
    assert_certain(answer)


@pytest.mark.parametrize("condition", [1e6, 1e8, 1e10])
def test_case_22_no_false_certainty_where_nothing_can_be_read(condition):
    answer = classify(conjugate(generators.rope(64), basis(64, condition, np.random.default_rng(2))))
    assert answer.ambiguous
    assert all(block.kind == "turn" for block in answer.blocks if block.certain)
    told = answer.summary()
    assert told.startswith(f"ambiguous, read as {answer.row}") and "shipped" not in told
    if condition == 1e6:
        assert answer.kinds["turn"] > 16


def random_blocks(rng):
    """Blocks of all kinds and, for each, (kind, size)."""
    made, truth = [], Counter()
    for _ in range(rng.integers(1, 8)):
        gamma, theta = 10 ** rng.uniform(-2, 0.3), 10 ** rng.uniform(-2, 0.5)
        choices = [
            ([[0.0]], "nothing", 1),
            ([[-gamma]], "fade", 1),
            (spiral(0, theta), "turn", 1),
            (spiral(gamma, theta), "turn+fade", 1),
            (jordan(0, 2), "slide", 2),
            (jordan(0, 3), "slide", 3),
            (jordan(-gamma, 2), "fading slide", 2),
            (spiral(0, theta, 2), "rotating slide", 2),
            (spiral(gamma, theta, 2), "damped rotating slide", 2),
            ([[gamma]], "explode", 1),
            (spiral(-gamma, theta), "turn+explode", 1),
        ]
        X, kind, size = choices[rng.integers(len(choices))]
        made.append(X)
        truth[kind, size] += 1
    return block_diag(*made), truth


@pytest.mark.parametrize("condition, share", [(1, 0.99), (30, 0.99), (1000, 0.99), (1e4, 0.5)])
def test_random_constructions_are_right_and_certain_and_never_wrong_and_certain(condition, share):
    rng = np.random.default_rng(int(condition))
    certain, trials = 0, 150
    for _ in range(trials):
        J, truth = random_blocks(rng)
        answer = classify(conjugate(J, basis(len(J), condition, rng)))
        right = Counter((b.kind, b.size) for b in answer.blocks) == truth
        assert right or answer.ambiguous
        certain += right and not answer.ambiguous
    assert certain >= share * trials


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_wrong_answer_is_certain_in_any_basis(dtype):
    rng = np.random.default_rng(123)
    for _ in range(300):
        J, truth = random_blocks(rng)
        X = conjugate(J, basis(len(J), 10 ** rng.uniform(0, 6), rng)).astype(dtype)
        answer = classify(X)
        assert answer.ambiguous or Counter((b.kind, b.size) for b in answer.blocks) == truth


def test_in_float32_a_slide_is_told_from_a_slow_turn_only_where_it_is_exact():
    turning = conjugate(turn(1.0), basis(2, 1e5, np.random.default_rng(0))).astype(np.float32)
    assert classify(turning).ambiguous
    assert not classify(np.eye(2, k=1, dtype=np.float32)).ambiguous


@pytest.mark.parametrize("start, stop", [(0, 40), (0, 38), (1, 40), (3, 36), (20, 40)])
@pytest.mark.parametrize("moved", [0, 1e-9, 1e-7])
def test_what_must_be_dropped_from_a_part_is_never_overestimated(start, stop, moved):
    rng = np.random.default_rng(stop)
    T = np.triu(basis(40, 1e10, rng)) + moved * np.eye(40)
    around = Values(0, 40, 0.0, np.linalg.svd(T, compute_uv=False))
    part = T[start:stop, start:stop] - moved * np.eye(stop - start)
    sigma = np.linalg.svd(part, compute_uv=False)
    for tolerance in 10.0 ** np.arange(-9, 0):
        bound = around.dropped_within(Node(start, stop, ()), moved, tolerance)
        assert bound <= np.linalg.norm(sigma[sigma <= tolerance]) + 1e-14
        if (start, stop, moved) == (0, 40, 0):
            assert bound == pytest.approx(np.linalg.norm(sigma[sigma <= tolerance]), rel=0, abs=1e-14)


@pytest.mark.parametrize("noise", [0, 1e-14, 1e-10, 1e-7])
def test_a_matrix_reads_the_same_whatever_was_read_before(noise):
    rng = np.random.default_rng(7)
    J = direct_sum(jordan(0, 5), jordan(-0.5, 3), spiral(0.1, 1, 2), generators.rope(8))
    X = conjugate(J, basis(len(J), 100, rng)) + noise * rng.standard_normal(J.shape)
    tolerances = 10.0 ** rng.permutation(np.arange(-14, -2))
    read = spectrum(*real_schur(X))
    for tolerance in np.tile(tolerances, 2):
        assert read_clusters(read, tolerance) == read_clusters(spectrum(*real_schur(X)), tolerance)


def test_basis_and_jordan_form_reproduce_the_matrix():
    rng = np.random.default_rng(7)
    for _ in range(40):
        J, _ = random_blocks(rng)
        X = conjugate(J, rng.standard_normal(J.shape))
        answer = classify(X)
        scale = np.linalg.norm(X, 2) * np.linalg.norm(answer.basis, 2)
        assert np.linalg.norm(X @ answer.basis - answer.basis @ answer.jordan, 2) <= 1e-12 * scale
        assert answer.residual <= 1e-12
        assert sorted(i for b in answer.blocks for i in b.indices) == list(range(len(J)))
        assert answer.cond == pytest.approx(np.linalg.cond(answer.basis))
        for b in answer.blocks:
            own = answer.jordan[np.ix_(b.indices, b.indices)]
            assert own[0, 0] == -b.gamma and len(own) == b.size * (2 if b.theta else 1)


# Properties


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_similar_transposed_scaled_and_reversed(seed):
    rng = np.random.default_rng(seed)
    J, truth = random_blocks(rng)
    X = conjugate(J, basis(len(J), 10, rng))
    names = lambda X: Counter((b.kind, b.size) for b in classify(X).blocks)  # noqa: E731
    assert names(X) == names(X.T) == names(4 * X) == truth
    mirror = {"fade": "explode", "explode": "fade", "turn+fade": "turn+explode", "turn+explode": "turn+fade"}
    mirror |= {"fading slide": "explode", "damped rotating slide": "turn+explode"}
    assert names(-X) == Counter((mirror.get(kind, kind), size) for kind, size in truth.elements())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_direct_sum_is_the_union(seed):
    rng = np.random.default_rng(seed)
    (A, a), (B, b) = random_blocks(rng), random_blocks(rng)
    answer = classify(direct_sum(A, B))
    assert Counter((block.kind, block.size) for block in answer.blocks) == a + b


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_wider_tolerance_never_sees_more_eigenvalues(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, 5))
    counts = [
        len({(b.gamma, b.theta) for b in classify(X, rtol=rtol).blocks}) for rtol in (1e-12, 1e-6, 1e-3, 1e-1)
    ]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(
    "X",
    [
        np.full((3, 3), 5e-324),
        np.diag([1e308, -1e308]),
        1e-310 * np.eye(3, k=1),
        1e150 * np.eye(4, k=1),
        np.array([[0, 1e-160], [1e-160, 0]]),
        np.eye(60, k=1),
        np.tril(np.ones((12, 12)), -1),
        np.vander(np.arange(6.0)),
        np.array([[2**60, 1], [0, -(2**60)]]),
    ],
    ids=[
        "denormal",
        "huge",
        "tiny slide",
        "huge slide",
        "tiny saddle",
        "long slide",
        "nilpotent",
        "vander",
        "int64",
    ],
)
@pytest.mark.parametrize(
    "options", [{}, {"horizon": 1e5}, {"horizon": 1e-300}, {"rtol": 1e-3}, {"rtol": 0.99}]
)
def test_extremes_are_read_without_a_warning(X, options):
    answer = classify(X, **options)
    assert sum(len(b.indices) for b in answer.blocks) == len(X)
    assert np.isfinite([b.gamma for b in answer.blocks]).all()
    assert str(answer)
