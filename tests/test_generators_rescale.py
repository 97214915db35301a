"""Context extension on a generator: the published formulas, in any basis."""

import math

import numpy as np
import pytest

import pe
from pe.generators import alibi, classify, conjugate, damped_rope, direct_sum, fade, nope, rescale, rope, turn


def freqs(X):
    even = np.arange(0, len(X), 2)
    return X[even, even + 1]


def published_yarn(dim, base, factor, context, fast=32.0, slow=1.0):
    """The code of the YaRN paper, retyped from its formulas."""
    w = base ** (-np.arange(0, dim, 2) / dim)

    def coordinate(turns):
        return dim * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(coordinate(fast)), 0), min(math.ceil(coordinate(slow)), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / ((high - low) or 0.001), 0, 1)
    return w / factor * ramp + w * (1 - ramp)


def test_claim_A32_pi_divides_every_frequency():
    assert np.array_equal(rescale.pi(rope(64), 4), rope(64) / 4)


def test_claim_A32_ntk_is_another_base():
    X, base = rescale.ntk(rope(128), 8), 10000 * 8 ** (128 / 126)
    assert base == pytest.approx(82684.62, abs=5e-3)
    assert np.allclose(freqs(X), base ** (-np.arange(64) / 64), rtol=2e-15, atol=0)
    ratio = freqs(X) / freqs(rope(128))
    assert ratio[0] == 1 and ratio[-1] == pytest.approx(0.125, rel=1e-15)


@pytest.mark.parametrize(("dim", "base", "factor", "context"), [
    (128, 1e4, 8, 4096), (64, 5e5, 4, 8192), (16, 1e4, 4, 64), (128, 1e6, 4, 32768), (16, 1e4, 4, 2048),
])  # fmt: skip
def test_claim_A32_yarn_is_the_published_ramp(dim, base, factor, context):
    X = rescale.yarn(rope(dim, base), factor, context=context)
    assert np.allclose(freqs(X), published_yarn(dim, base, factor, context), rtol=1e-15, atol=0)


@pytest.mark.parametrize(("dim", "base"), [(64, 1e4), (64, 5e5), (16, 1e4)])
@pytest.mark.parametrize(("ours", "theirs"), [
    (lambda X: rescale.pi(X, 4), pe.scaling.linear(4)), (lambda X: rescale.ntk(X, 8), pe.scaling.ntk(8)),
    (lambda X: rescale.yarn(X, 4, context=4096), pe.scaling.yarn(4, 4096)),
    (lambda X: rescale.yarn(X, 40, context=4096, beta_fast=16, beta_slow=2),
     pe.scaling.yarn(40, 4096, beta_fast=16, beta_slow=2)),
], ids=["pi", "ntk", "yarn", "yarn 40"])  # fmt: skip
def test_claim_A32_the_turns_are_those_of_a_scaled_rope(ours, theirs, dim, base):
    scaled = pe.Rope(dim, base, scaling=theirs)
    assert np.allclose(freqs(ours(rope(dim, base))), scaled.freqs[0], rtol=1e-14, atol=0)
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((dim, dim)))[0]
    thetas = [b.theta for b in classify(ours(Q @ rope(dim, base) @ Q.T)).blocks]
    assert np.allclose(thetas, scaled.freqs[0], rtol=0, atol=1e-14)


def test_planes_may_come_in_any_order_and_more_than_once():
    X = direct_sum(*(turn(w) for w in (0.01, 1.0, 0.1, 1.0)))
    expected = pe.scaling.ntk(4).scale(np.array([1.0, 0.1, 0.01]), 1e3)[[2, 0, 1, 0]]
    assert np.allclose(-freqs(rescale.ntk(X, 4)), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("rungs", [(1.0, 0.01), (1.0, 0.1, 0.01)])
@pytest.mark.parametrize("apart", [0, 5.4e-10, -5.4e-10, 1e-13])
def test_planes_that_rounding_tells_apart_stand_on_one_rung(rungs, apart):
    X = direct_sum(turn(rungs), turn(rungs[-1] * (1 - apart)))
    for method in (lambda X: rescale.yarn(X, 8, context=2000), lambda X: rescale.ntk(X, 8)):
        once = freqs(method(turn(rungs)))
        assert np.allclose(freqs(method(X)), [*once, once[-1]], rtol=1e-9, atol=0)


def test_yarn_keeps_21_planes_blends_25_and_interpolates_18():
    slower = freqs(rope(128)) / freqs(rescale.yarn(rope(128), 8, context=4096))
    assert np.sum(slower == 1) == 21 and np.sum(slower == 8) == 18


def test_only_imaginary_parts_change_and_only_they():
    X = direct_sum(damped_rope(8, [0.1, 0.2, 0.3, 0.4]), alibi(0.5), fade(0.7), nope(1))
    Y = rescale.ntk(X, 4)
    assert np.array_equal(Y.diagonal(), X.diagonal()) and np.array_equal(Y[8:, 8:], X[8:, 8:])
    before, after = classify(X), classify(Y)
    assert before.kinds == after.kinds
    assert sorted(b.gamma for b in before.blocks) == pytest.approx(sorted(b.gamma for b in after.blocks))


@pytest.mark.parametrize("method", [lambda X: rescale.pi(X, 3), lambda X: rescale.ntk(X, 3),
                                    lambda X: rescale.yarn(X, 3, context=100)])  # fmt: skip
def test_the_basis_does_not_matter(method):
    rng = np.random.default_rng(0)
    P, Q = (np.linalg.qr(rng.standard_normal((10, 10)))[0] for _ in range(2))
    P = P @ np.diag(np.geomspace(1, 100, 10)) @ Q
    X = direct_sum(rope(8), alibi(0.5))
    assert np.allclose(method(conjugate(X, P)), conjugate(method(X), P), rtol=0, atol=1e-9)


def test_turns_of_unequal_axes_keep_their_shape():
    ellipse = np.array([[0.1, 2.0], [-0.5, 0.1]])  # theta 1
    assert np.allclose(rescale.pi(ellipse, 4), [[0.1, 0.5], [-0.125, 0.1]], rtol=1e-15)
    assert np.array_equal(rescale.pi(turn(-2.0), 4), turn(-0.5))
    assert np.array_equal(rescale.pi(nope(3), 2), nope(3))
    assert np.array_equal(rescale.ntk(fade([0.1, 0.2]), 2), fade([0.1, 0.2]))


@pytest.mark.parametrize(("call", "error", "named"), [
    (lambda: rescale.pi(rope(4), 0.5), ValueError, "factor"),
    (lambda: rescale.pi(rope(4), True), TypeError, "factor"),
    (lambda: rescale.pi([[1.0, 2.0]], 2), ValueError, "square"),
    (lambda: rescale.ntk(turn(1.0), 2), ValueError, "one frequency"),
    (lambda: rescale.ntk(turn([1.0, 1 - 1e-12]), 2), ValueError, "one frequency"),
    (lambda: rescale.ntk(turn([1.0, 0.9, 0.1]), 2), ValueError, "constant ratio"),
    (lambda: rescale.ntk(turn([1.0, 0.1, 0.001]), 2), ValueError, "constant ratio"),
    (lambda: rescale.yarn(rope(8), 2, context=0), ValueError, "original_max_position_embeddings"),
    (lambda: rescale.yarn(rope(8), 2, context=64, beta_slow=33), ValueError, "beta_fast"),
    (lambda: rescale.yarn(turn([1.0, 0.9, 0.1]), 2, context=64), ValueError, "constant ratio"),
    (lambda: rescale.yarn(turn([0.5, 0.05]), 2, context=64), ValueError, "fastest is 1"),
])  # fmt: skip
def test_bad_input_is_named(call, error, named):
    with pytest.raises(error, match=named):
        call()


def test_input_is_not_modified():
    X = rope(8)
    before = X.copy()
    rescale.ntk(X, 4)
    assert np.array_equal(X, before)
