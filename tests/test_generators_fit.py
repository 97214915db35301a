"""The way back: generators from a transport matrix and from scores."""

import pickle

import numpy as np
import pytest

import pe
from pe.generators import (
    alibi,
    conjugate,
    damped_rope,
    decay,
    direct_sum,
    fit_generator,
    generator_of,
    jordan_rope,
    llama,
    nope,
    rope,
    slide,
    transport,
    turn,
)

U = np.arange(64)
W16 = 10000.0 ** (-np.arange(8) / 8)
ROPE = np.cos(np.outer(U, W16)).sum(axis=1)


# generator_of


@pytest.mark.parametrize("X", [rope(16), llama(64), alibi(0.5, 2), decay([0.1, 0.3]), damped_rope(8, 0.1),
                               jordan_rope(0.5, 0.1, 3), nope(3), np.zeros((0, 0))])  # fmt: skip
@pytest.mark.parametrize("step", [1.0, 0.5, 3.0])
def test_claim_A13_the_generator_is_unique(X, step):
    assert np.allclose(generator_of(transport(X, step), step), X, rtol=0, atol=5e-15)
    assert np.allclose(generator_of(lambda t: transport(X, t), step), X, rtol=0, atol=1e-13)


def test_it_finds_generators_in_any_basis():
    P = np.random.default_rng(0).standard_normal((6, 6))
    X = conjugate(direct_sum(rope(4), slide()), P)
    assert np.allclose(generator_of(transport(X, 1.0)), X, rtol=0, atol=1e-11)


def test_claim_2_8_a_turn_is_known_up_to_whole_turns():
    seen = generator_of(transport(turn(7.0), 1.0))[1, 0]
    assert seen == pytest.approx(7 - 2 * np.pi)
    assert np.allclose(np.cos(7.0 * U), np.cos(seen * U), atol=1e-12)
    assert np.abs(generator_of(transport(rope(16), 4.0), 4.0) - rope(16)).max() > 1  # 4 > pi
    assert np.allclose(generator_of(lambda t: transport(turn(7.0), t), 4.0), turn(7.0), atol=1e-12)


def test_claim_B13_a_flip_is_for_integers_only():
    with pytest.raises(ValueError, match="flip, integers only"):
        generator_of(np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match="half a turn"):
        generator_of(-np.eye(2))


@pytest.mark.parametrize(("A", "named"), [
    (np.diag([1.0, 0.0]), "singular"), (slide(), "singular"), (np.ones((2, 3)), "square"),
    (lambda t: 2 * np.eye(2), r"A\(0\)"), (lambda t: transport(turn(1.0), 0.01 * t * t), "group law"),
    (lambda t: transport(turn(1.0), np.floor(t)), "jumps"),
])  # fmt: skip
def test_what_is_no_exponential_is_refused(A, named):
    with pytest.raises(ValueError, match=named):
        generator_of(A)


@pytest.mark.parametrize("step", [0, -1, np.inf])
def test_step_is_positive(step):
    with pytest.raises(ValueError, match="step"):
        generator_of(np.eye(2), step)
    with pytest.raises(TypeError, match="step"):
        generator_of(np.eye(2), "one")


# fit_generator


@pytest.mark.parametrize(("scores", "kinds", "order"), [
    (-0.5 * U, {"slide": 1}, 2), (np.exp(-0.1 * U), {"fade": 1}, 1), (np.cos(0.3 * U), {"turn": 1}, 2),
    (np.exp(-0.1 * U) * np.cos(0.5 * U), {"turn+fade": 1}, 2), (U * np.exp(-0.1 * U), {"fading slide": 1}, 2),
    (U * np.cos(1.0 * U), {"rotating slide": 1}, 4), (U**2, {"slide": 1}, 3),
    (np.ones(64), {"nothing": 1}, 1),
    (np.exp(-0.05 * U) * np.cos(0.5 * U) + 0.3 * np.cos(0.9 * U) - 0.02 * U,
     {"turn+fade": 1, "turn": 1, "slide": 1}, 6), (np.zeros(8), {"nothing": 1}, 1),
])  # fmt: skip
def test_scores_of_the_family_are_recognised(scores, kinds, order):
    fit = fit_generator(scores)
    assert fit.inside and fit.order == order and dict(fit.classification.kinds) == kinds
    assert fit.residual < 1e-12
    again = [fit.query @ A @ fit.key for A in transport(fit.generator, np.arange(len(scores)))]
    assert np.allclose(again, scores, rtol=0, atol=1e-9 * max(1, np.abs(scores).max()))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_scale_does_not_matter(size):
    fit = fit_generator(size * np.cos(0.3 * U))
    assert fit.inside and dict(fit.classification.kinds) == {"turn": 1}
    assert fit.query @ transport(fit.generator, 5.0) @ fit.key == pytest.approx(size * np.cos(1.5), rel=1e-12)


def test_rates_and_frequencies_come_back():
    (block,) = fit_generator(np.exp(-0.1 * U) * np.cos(0.5 * U)).classification.blocks
    assert (block.gamma, block.theta) == pytest.approx((0.1, 0.5), abs=1e-12)


def test_what_the_ops_compute_is_in_the_family():
    bias = pe.alibi_bias([63], 64, slopes=0.25)[0, ::-1]  # by gap
    assert dict(fit_generator(bias).classification.kinds) == {"slide": 1}
    q = k = np.tile([1.0, 0.0], (64, 8))
    scores = pe.apply_rope(q, positions=U) @ pe.apply_rope(k, positions=U).T
    fit = fit_generator(scores[:, 0])
    assert fit.inside and np.allclose(scores[:, 0], ROPE, atol=1e-12)


def test_slow_planes_are_invisible_until_the_window_sees_them():
    orders = []
    for n in (64, 256, 1024):
        fit = fit_generator(np.cos(np.outer(np.arange(n), W16)).sum(axis=1))
        assert fit.inside and set(fit.classification.kinds) <= {"turn", "nothing", "slide"}
        orders.append(fit.order)
    assert orders == sorted(orders) and orders[0] == 10 and orders[-1] <= 16


def t5_buckets(u, values):
    far = 16 + (np.log(np.maximum(u, 1) / 16) / np.log(128 / 16) * 16).astype(int)
    return values[np.where(u < 16, u, np.minimum(far, 31))]


NOISE = np.random.default_rng(0).standard_normal((2, 256))


@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.parametrize("curve", [
    lambda u: -np.log1p(u), lambda u: 1 / (1 + u), lambda u: -np.sqrt(u), lambda u: -0.5 * np.log1p(0.3 * u),
    lambda u: t5_buckets(u, NOISE[0]), lambda u: (u < 10) * 1.0, lambda u: NOISE[1, : len(u)],
    lambda u: np.cos(0.3 * u) + 0.1 * NOISE[0, : len(u)], lambda u: np.exp(-((u / 20) ** 2)),
], ids=["log", "inverse", "root", "kerple", "t5", "step", "noise", "noisy sinusoid", "gauss"])  # fmt: skip
def test_claim_A46_outside_the_family(curve, n):
    fit = fit_generator(curve(np.arange(n)))
    assert not fit.inside and fit.reason and fit.residual > 0
    assert "outside the family" in str(fit)


@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.parametrize("curve", [
    lambda u: -np.log1p(0.01 * u), lambda u: 1 / (1 + 0.01 * u), lambda u: -np.sqrt(1 + 0.01 * u),
    lambda u: -3 * np.log1p(0.02 * u),
], ids=["log", "inverse", "root", "kerple"])  # fmt: skip
def test_claim_A46_gentle_curves_are_outside_though_few_terms_come_close(curve, n):
    fit = fit_generator(curve(np.arange(n)))
    assert not fit.inside and "without end" in fit.reason and 1e-9 < fit.residual < 0.1


def test_mixtures_are_not_taken_for_such_curves():
    rng = np.random.default_rng(0)
    for terms in (1, 2, 3, 4):
        for rates, turns in ((rng.uniform(0.01, 0.5, terms), np.zeros(terms)),
                             (np.zeros(terms), 10 ** rng.uniform(-3, 0.4, terms)),
                             (rng.uniform(0, 0.2, terms), rng.uniform(0.01, 3, terms))):  # fmt: skip
            scores = (np.exp(-np.outer(U, rates)) * np.cos(np.outer(U, turns))) @ rng.uniform(0.5, 2, terms)
            assert fit_generator(scores).inside


def test_a_gaussian_and_log_distance_have_a_best_approximation():
    rough = fit_generator(-np.log1p(U), order=2)
    fine = fit_generator(-np.log1p(U), order=6)
    assert not rough.inside and 1e-3 < rough.residual < 1 and fine.residual < rough.residual / 50


def test_alternation_is_a_flip():
    fit = fit_generator((-1.0) ** U)
    assert not fit.inside and fit.generator is None and "flip" in fit.reason


@pytest.mark.parametrize("noise", [1e-10, 1e-8, 1e-6])
@pytest.mark.parametrize(("scores", "kind"), [(np.cos(0.3 * U), "turn"), (-0.5 * U, "slide"),
                                              (np.exp(-0.1 * U), "fade")])  # fmt: skip
def test_small_noise_is_seen_and_allowed_for(scores, kind, noise):
    fit = fit_generator(scores + noise * NOISE[0, :64])
    assert fit.inside and list(fit.classification.kinds) == [kind]
    assert noise / 100 < fit.residual < 100 * noise


@pytest.mark.parametrize(("scores", "options", "error", "named"), [
    ([1.0, 2.0], {}, ValueError, "N >= 4"), (np.ones((4, 4)), {}, ValueError, r"\(4, 4\)"),
    ([1.0, np.nan, 0, 0], {}, ValueError, r"scores\[1\]"), (["a"] * 4, {}, TypeError, "real numbers"),
    (np.ones(8), {"order": 5}, ValueError, "1 to 4"), (np.ones(8), {"order": 0}, ValueError, "order"),
    (np.ones(8), {"order": 1.0}, TypeError, "integer"),
])  # fmt: skip
def test_bad_input_is_named(scores, options, error, named):
    with pytest.raises(error, match=named):
        fit_generator(scores, **options)


def test_fit_pickles():
    fit = fit_generator(np.cos(0.3 * U))
    assert repr(fit).startswith("<Fit inside the family: order 2, residual ")
    copy = pickle.loads(pickle.dumps(fit))
    assert np.array_equal(copy.generator, fit.generator) and copy.classification.row == "turn"
