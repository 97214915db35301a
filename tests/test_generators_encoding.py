"""pe.encoding: query map, key map and score, against the numbers of source document 1 and pe's own ops."""

import pickle

import numpy as np
import pytest

import pe
from pe import encoding, generators


def random_generator(n, seed):
    return np.random.default_rng(seed).standard_normal((n, n)) / np.sqrt(n)


@pytest.mark.parametrize(
    "X",
    [
        generators.rope(8),
        generators.slide(),
        np.eye(3, k=1) - 0.1 * np.eye(3),
        random_generator(5, 0),
        [[-0.1]],
    ],
    ids=["rope", "slide", "fading slide", "random", "fade"],
)
@pytest.mark.parametrize("origin", [0, 2.5])
def test_A16_the_factors_give_the_transport_of_the_gap(X, origin):
    split = encoding(X, origin=origin)
    t, s = np.array([0, 1.5, 4])[:, None], np.array([-1.0, 0, 2, 4])
    product = np.swapaxes(split.query_map(t), -1, -2) @ split.key_map(s)
    np.testing.assert_allclose(product, pe.transport(X, t - s), atol=1e-12, rtol=1e-12)


def test_A17_nine_cells_and_five_matrices():
    X = generators.rope(6)
    t = np.arange(3)
    table = pe.transport(X, t[:, None] - t)
    assert table.shape == (3, 3, 6, 6)
    assert len({cell.tobytes() for cell in table.reshape(9, -1)}) == 5
    assert all(np.array_equal(table[i + 1, j + 1], table[i, j]) for i in range(2) for j in range(2))
    t = np.arange(1000)
    assert len(np.unique(t[:, None] - t)) == 1999


def test_A18_the_same_gap_has_the_same_matrix():
    split = encoding(generators.rope(16))
    M = [split.query_map(t).T @ split.key_map(s) for t, s in ((5, 2), (9, 6), (100, 97))]
    np.testing.assert_allclose(M[1], M[0], atol=1e-14)
    np.testing.assert_allclose(M[2], M[0], atol=3e-14)
    scores = encoding(generators.rope(16)).score(np.ones(16), np.ones(16), [5, 9, 100], [2, 6, 97])
    assert scores[0] == scores[1] == scores[2]


def test_A25_a_fading_key_ahead_of_the_query_explodes():
    fade = encoding(generators.decay(0.1))
    assert fade.score([1], [1], 0, 50) == pytest.approx(148.4131591025766, rel=1e-14)
    assert fade.score([1], [1], 50, 0) == pytest.approx(np.exp(-5), rel=1e-14)


def test_A26_a_gate_moves_the_clock_and_not_the_generator():
    gates = np.random.default_rng(26).uniform(0.5, 1, 20)
    clock = np.concatenate([[0], -np.cumsum(np.log(gates))])
    scores = encoding(generators.decay(1.0)).score(np.ones((20, 1)), np.ones((20, 1)), clock[1:], clock[0])
    np.testing.assert_allclose(scores, np.cumprod(gates), rtol=1e-14)


def test_A28_rotation_shifts_the_angle_and_keeps_the_lengths():
    theta, alpha, beta, t, s = 0.7, 0.4, -1.1, 9.0, 2.0
    q, k = np.array([np.cos(alpha), np.sin(alpha)]), 2 * np.array([np.cos(beta), np.sin(beta)])
    split = encoding(generators.rope(2, freqs=[theta]))
    qt, ks = split.query_map(t) @ q, split.key_map(s) @ k
    assert np.linalg.norm(qt) == pytest.approx(1, rel=1e-15) and np.linalg.norm(ks) == pytest.approx(
        2, rel=1e-15
    )
    assert np.arctan2(qt[1], qt[0]) == pytest.approx((alpha + theta * t + np.pi) % (2 * np.pi) - np.pi)
    assert qt @ ks == pytest.approx(2 * np.cos(alpha - beta + theta * (t - s)), rel=1e-13)


@pytest.mark.parametrize(
    ("X", "options"),
    [
        (generators.decay(0.1, 8), {"rate": 0.1}),
        (generators.damped_rope(8, 0.05), {"rate": 0.05, "rope": pe.Rope(8)}),
        (
            generators.retnet(2, dim=8),
            {"rate": -np.log1p(-(2.0**-7)), "rope": pe.Rope(8, freqs=10000.0 ** -np.linspace(0, 1, 4))},
        ),
    ],
    ids=["decay", "damped rope", "retnet"],
)
def test_retention_is_the_score_of_its_generator(X, options):
    q, k = np.random.default_rng(0).standard_normal((2, 1, 12, 8))
    t = np.arange(12)
    scores = pe.retention(q, k, np.eye(12)[None], scale=1.0, positions=t, **options)[0]
    expected = np.tril(encoding(X).score(q[0][:, None], k[0], t[:, None], t))
    np.testing.assert_allclose(scores, expected, atol=1e-12)


ONES = np.tile([1.0, 0.0], 8)


def test_A37_score_at_gap_three():
    scores = encoding(generators.rope(16)).score(ONES, ONES, [5, 13, 103], [2, 10, 100])
    np.testing.assert_allclose(scores, 5.543101061304944, rtol=1e-15)


def test_A38_gap_seven_is_different_and_larger():
    scores = encoding(generators.rope(16)).score(ONES, ONES, [3, 7], 0)
    assert scores[1] == pytest.approx(5.892185987417895, rel=1e-15)
    assert scores[1] > scores[0]


def test_A39_closed_form():
    gaps = np.array([0, 5, 10, 63])
    scores = encoding(generators.rope(16)).score(ONES, ONES, gaps, 0)
    np.testing.assert_allclose(scores, [8, 6.137040, 3.646309, 5.840419], atol=5e-7)
    w = 10000.0 ** (-np.arange(8) / 8)
    np.testing.assert_allclose(scores, np.cos(np.outer(gaps, w)).sum(1), rtol=1e-14)


def test_A42_alibi_from_the_slide_in_spare_slots():
    scores = encoding(generators.slide()).score([-0.5, 0], [0, 1], [0, 0, 3, 100], [2, 0, 0, 0])
    assert np.array_equal(scores, [1, 0, -1.5, -50])


def test_A42_alibi_equals_alibi_bias_exactly():
    slopes = pe.alibi_slopes(8)
    t, s = np.arange(3.0, 9.0), np.arange(9.0)
    for slope in slopes:
        scores = encoding(generators.alibi(slope)).score([1, 0], [0, 1], t[:, None], s)
        bias = pe.alibi_bias(t, s, slopes=slope, causal=True)
        visible = np.isfinite(bias)
        assert np.array_equal(scores[visible], bias[visible])


def test_A47_the_score_depends_on_content_and_gap_only():
    rng = np.random.default_rng(47)
    q, k = rng.standard_normal((2, 8))
    scores = encoding(generators.rope(8)).score(q, k, [3, 13, 43, 5], [0, 10, 40, 0])
    assert scores[0] == scores[1] == scores[2] != scores[3]


def test_rope_score_is_the_score_of_apply_rope():
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal((5, 16)), rng.standard_normal((7, 16))
    t, s = np.array([0, 3, 8.5, 100, -4]), np.arange(7.0)
    ours = pe.apply_rope(q, positions=t) @ pe.apply_rope(k, positions=s).T
    theirs = encoding(generators.rope(16)).score(q[:, None], k, t[:, None], s)
    np.testing.assert_allclose(theirs, ours, atol=1e-12)


MIXTURE = generators.direct_sum(
    generators.damped_rope(4, 0.05), generators.decay(0.1), generators.alibi(0.5),
    generators.jordan_rope(0.3), np.eye(3, k=1), generators.nope(1),
)  # fmt: skip


@pytest.mark.parametrize("basis", [None, 0], ids=["blocks", "another basis"])
def test_scores_of_many_pairs_are_those_of_the_matrices(basis):
    n, rng = len(MIXTURE), np.random.default_rng(2)
    X = MIXTURE
    if basis is not None:
        X = generators.conjugate(X, rng.standard_normal((n, n)) + 4 * np.eye(n))
    q, k = rng.standard_normal((120, n)), rng.standard_normal((150, n))
    t, s = rng.integers(0, 30, 120) / 2, rng.integers(0, 10, 150)
    scores = encoding(X).score(q[:, None], k, t[:, None], s)  # more pairs than are worked on at a time
    expected = np.einsum("ti,tsij,sj->ts", q, pe.transport(X, t[:, None] - s), k)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_nearly_dependent_eigenvectors_are_said_and_scored():
    X = [[-1, 1e5, 0], [0, -1 - 1e-3, 1e5], [0, 0, -2]]
    split = encoding(X)
    with pytest.warns(RuntimeWarning, match="nearly dependent"):
        scores = split.score(np.eye(3)[:, None], np.eye(3), [[1.0]] * 3, 0.5)
    with pytest.warns(RuntimeWarning, match="nearly dependent"):
        np.testing.assert_allclose(scores, pe.transport(X, 0.5), rtol=1e-12)


def test_equal_encodings_pickle_to_equal_bytes():
    first, second = encoding(MIXTURE, origin=2), encoding(MIXTURE, origin=2)
    first.query_map(3.0)
    assert pickle.dumps(first) == pickle.dumps(second)
    copy = pickle.loads(pickle.dumps(first))
    assert copy.origin == 2 and np.array_equal(copy.key_map(1.5), first.key_map(1.5))


def test_a_fade_multiplies_and_decay_bias_adds():
    multiplied = encoding(generators.decay(0.1)).score([2.0], [3.0], 10, 0)
    added = 6.0 + pe.decay_bias([10.0], [0.0], rate=0.1)[0, 0]
    assert multiplied == pytest.approx(6 * np.exp(-1)) and added == pytest.approx(5.0)
    assert encoding(generators.alibi(0.1)).score([1, 0], [0, 1], 10, 0) == pytest.approx(added - 6.0)


@pytest.mark.parametrize("dtype, reach", [(np.float16, 110), (np.float32, 887), (np.float64, 7097)])
def test_reach_of_the_factored_form(dtype, reach):
    fade = encoding(generators.decay(0.1))
    assert int(fade.reach(dtype)) == reach
    with np.errstate(over="ignore"):
        assert np.isfinite(fade.key_map(reach).astype(dtype)).all()
        assert np.isinf(fade.key_map(reach + 2).astype(dtype)).all()
    assert encoding(generators.rope(8)).reach(dtype) == np.inf
    assert encoding(generators.slide()).reach(dtype) == np.inf


def test_the_origin_keeps_the_factors_finite():
    near = encoding(generators.decay(0.1), origin=8000)
    factored = near.query_map(8003)[0, 0] * near.key_map(8000)[0, 0]
    assert factored == pytest.approx(np.exp(-0.3), rel=1e-13)
    assert np.isinf(encoding(generators.decay(0.1)).key_map(8000)).all()


def test_broadcasting_and_empty_axes():
    split = encoding(generators.rope(4))
    assert split.score(np.ones((2, 1, 4)), np.ones((3, 4)), 5, np.arange(3)).shape == (2, 3)
    assert split.score(np.ones((0, 4)), np.ones(4), 1, 0).shape == (0,)
    assert split.score(np.ones(4), np.ones(4), 1, 0).shape == ()
    assert split.query_map([1, 2, 3]).shape == (3, 4, 4)
    nothing = encoding(np.zeros((0, 0)))
    assert np.array_equal(nothing.score(np.zeros((2, 0)), np.zeros(0), [1, 2], 0), [0, 0])
    assert nothing.key_map([1, 2]).shape == (2, 0, 0)


def test_bad_input():
    with pytest.raises(ValueError, match=r"q has shape \(3,\); expected \(..., 2\)"):
        encoding(generators.slide()).score([1, 2, 3], [1, 2], 0, 0)
    with pytest.raises(ValueError, match="origin"):
        encoding(generators.slide(), origin=np.inf)
    with pytest.raises(TypeError, match="origin"):
        encoding(generators.slide(), origin="middle")
    with pytest.raises(ValueError, match="t has NaN"):
        encoding(generators.slide()).score([1, 2], [1, 2], np.nan, 0)
    with pytest.raises(ValueError, match="one square matrix"):
        encoding(np.zeros((2, 2, 2)))
