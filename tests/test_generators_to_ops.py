"""Classification.to_ops: any classified generator runs on the kernels and gives the score of encoding."""

import pickle

import mpmath
import numpy as np
import pytest
from scipy.linalg import block_diag

import pe
from pe import generators
from pe.generators import (
    Ops,
    alibi,
    classify,
    conjugate,
    damped_rope,
    decay,
    direct_sum,
    encoding,
    fade,
    jordan_rope,
    nope,
    rope,
)


def jordan(gamma, theta, size):
    cell = np.array([[-gamma, -theta], [theta, -gamma]]) if theta else np.array([[-gamma]])
    return np.kron(np.eye(size), cell) + np.kron(np.eye(size, k=1), np.eye(len(cell)))


def compare(X, tolerance, reach=10.0):
    rng = np.random.default_rng(len(X))
    q, k = rng.standard_normal((2, 3, 7, len(X)))
    t, s = np.sort(rng.uniform(0, reach, (2, 7)))
    ops = classify(X).to_ops()
    expected = encoding(X).score(q[:, :, None, :], k[:, None, :, :], t[:, None], s[None, :])
    scores = ops.scores(q, k, t, s)
    assert scores.shape == (3, 7, 7)
    assert np.abs(scores - expected).max() <= tolerance * max(1.0, np.abs(expected).max())
    return ops


@pytest.mark.parametrize("X", [
    rope(8), alibi(0.5, 3), decay([0.1, 0.2], 2), damped_rope(8, 0.1), jordan_rope(0.5, 0.1, 3), nope(4),
    fade(-0.1),
    direct_sum(rope(4), decay(0.2), alibi(0.3), nope(1)),
    block_diag(jordan(0.2, 0, 3), jordan(0, 0, 4), jordan(0.1, 0.3, 2)),
])  # fmt: skip
def test_named_systems(X):
    compare(X, 1e-12)


@pytest.mark.parametrize("X", [
    generators.llama(64), generators.qwen(64), generators.mistral(64), generators.sinusoidal(64),
    generators.bloom(3, dim=8), generators.mpt(5, dim=8), generators.forgetting(4),
    generators.retnet(2, dim=16), generators.mamba3([1.0, 0.3], [0.1, 0.05]),
    generators.grape(*np.random.default_rng(0).standard_normal((2, 6, 2))),
    generators.plane([1.0, 2.0, 0.5], [0.3, -1.0, 2.0]),
])  # fmt: skip
def test_published_systems(X):
    compare(X, 1e-12)


@pytest.mark.parametrize("seed", range(25))
def test_random_block_mixtures_in_a_random_basis(seed):
    rng = np.random.default_rng(seed)
    blocks = [jordan(rng.choice([0.0, rng.uniform(0.05, 0.4)]), rng.choice([0.0, rng.uniform(0.1, 2)]),
                     int(rng.integers(1, 4))) for _ in range(rng.integers(1, 4))]  # fmt: skip
    X = block_diag(*blocks)
    Q = np.linalg.qr(rng.standard_normal(X.shape))[0] @ np.diag(np.geomspace(1, 5, len(X)))
    compare(conjugate(X, Q), 1e-11)


def test_attention_runs_on_it():
    X = direct_sum(rope(4), alibi(0.3))
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 6, 6))
    t = np.arange(6.0)
    ops = classify(X).to_ops()
    out = pe.attention(ops.queries(q, t), ops.keys(k, t), v, scale=1.0, causal=True)
    scores = encoding(X).score(q[:, None], k[None], t[:, None], t[None])
    weights = np.exp(scores) * np.tril(np.ones((6, 6)))
    assert np.allclose(out, weights / weights.sum(axis=-1, keepdims=True) @ v, rtol=1e-12)


def test_layout_is_what_apply_rope_nd_takes():
    ops = compare(direct_sum(rope(4), decay(0.2), alibi(0.3), nope(1)), 1e-12)
    assert isinstance(ops, Ops) and ops.width == 2 * 3 + 2 + 1
    assert repr(ops) == "<Ops 8 coordinates in 9: 3 planes, 1 slides>"
    assert ops.freqs.tolist() == [[-1.0, -0.01, 0.0]] and ops.rate.tolist() == [[0.0, 0.0, 0.2]]
    (slots,) = ops.slides
    assert slots.shape == (2, 1) and np.all(slots >= 6)
    t = np.array([2.0, 5.0])
    x = np.random.default_rng(0).standard_normal((2, 8))
    q = x @ ops.query_basis
    q[:, slots[1, 0]] += t * q[:, slots[0, 0]]
    assert np.array_equal(ops.queries(x, t), pe.apply_rope_nd(q, t[:, None], ops.freqs, rate=ops.rate))


def test_positions_are_one_for_each_row():
    ops = classify(rope(4)).to_ops()
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        ops.queries(np.ones((3, 4)), [1.0, 2.0])


def test_what_overflows_is_refused_by_the_kernel():
    ops = classify(fade(1.0)).to_ops()
    with pytest.raises(ValueError, match="rate"):
        ops.keys(np.ones((1, 1)), [800.0])


def test_a_basis_that_cannot_be_read_is_refused():
    answer = classify([[-1, 1e-20], [0, -1]], method="exact")
    assert answer.to_ops().slides  # condition 1e20, and still exact
    broken = object.__new__(type(answer))
    broken.__dict__.update(answer.__dict__ | {"basis": np.full((2, 2), np.nan)})
    with pytest.raises(ValueError, match="not readable"):
        broken.to_ops()


def in_a_basis_of_condition(cond):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((16, 16)))[0] for _ in range(2))
    return conjugate(rope(16), left @ np.diag(np.geomspace(1, cond, 16)) @ right)


def test_a_basis_that_does_not_give_X_back_is_refused():
    with pytest.raises(ValueError, match="miss X by .* condition number"):
        classify(in_a_basis_of_condition(1e7)).to_ops()


def test_a_poor_basis_is_right_to_the_digits_it_leaves():
    X = in_a_basis_of_condition(1e5)
    q, k = np.random.default_rng(1).standard_normal((2, 1, 16))
    with mpmath.workdps(50):  # SciPy's expm is wrong here
        carried = mpmath.expm(mpmath.matrix(X.tolist()) * 3)
        expected = float((mpmath.matrix(q.tolist()) * carried * mpmath.matrix(k.T.tolist()))[0])
    score = classify(X).to_ops().scores(q, k, [3.0], [0.0])
    assert score.item() == pytest.approx(expected, rel=1e-6)


def test_ops_pickle():
    ops = classify(rope(4)).to_ops()
    assert np.array_equal(pickle.loads(pickle.dumps(ops)).freqs, ops.freqs)
