"""pe.generators: constructors, signs and published constants."""

import numpy as np
import pytest

import pe
from pe import classify, encoding, generators, transport
from pe.generators import conjugate, direct_sum


def test_the_pictures():
    assert np.array_equal(generators.turn(2), [[0, -2], [2, 0]])
    assert np.array_equal(generators.fade(0.1), [[-0.1]])
    assert np.array_equal(generators.slide(), [[0, 1], [0, 0]])
    assert np.array_equal(generators.turn([1, 0])[2:, 2:], np.zeros((2, 2)))


def test_the_ops_turn_the_other_way():
    assert np.array_equal(generators.rope(2), -generators.turn())
    R = pe.Rope(8)
    np.testing.assert_allclose(generators.rope(8), R.generator(), rtol=1e-15)
    np.testing.assert_allclose(transport(generators.rope(8), 5), R.matrix(5).T, atol=1e-15)


@pytest.mark.parametrize(
    "X, row, size",
    [
        (generators.sinusoidal(64), "turn", 64),
        (generators.llama(), "turn", 128),
        (generators.llama(base=10000.0), "turn", 128),
        (generators.qwen(), "turn", 128),
        (generators.mistral(), "turn", 128),
        (generators.bloom(3), "slide", 130),
        (generators.mpt(31), "slide", 130),
        (generators.retnet(0), "turn+fade", 256),
        (generators.retnet(7, dim=32), "turn+fade", 32),
        (generators.mamba3([1.0, 0.3], 0.05), "turn+fade", 4),
        (generators.grape(*np.random.default_rng(0).standard_normal((2, 6, 1))), "turn", 6),
        (generators.forgetting(), "slide", 2),
        (generators.nope(4), "nothing", 4),
        (generators.decay([0.1, 0.2], dim=3), "fade", 6),
        (generators.damped_rope(8, 0.1), "turn+fade", 8),
        (generators.alibi([0.5, 0.25], dim=2), "slide", 6),
        (generators.jordan_rope(0.5), "beyond", 4),
    ],
)
def test_published_systems_have_their_rows(X, row, size):
    answer = classify(X)
    assert answer.row == row and not answer.ambiguous
    assert X.shape == (size, size)


@pytest.mark.parametrize("condition", [10, 1e3, 1e4])
def test_published_systems_in_another_basis(condition):
    rng = np.random.default_rng(int(condition))
    systems = [
        (generators.llama(64, 10000.0), {"turn": 32}),
        (generators.retnet(2, dim=16), {"turn+fade": 8}),
        (generators.alibi(0.5, dim=6), {"slide": 1, "nothing": 6}),
        (direct_sum(generators.rope(8), generators.alibi(0.25)), {"turn": 4, "slide": 1}),
        (generators.damped_rope(8, [0.1, 0.2, 0.3, 0.4]), {"turn+fade": 4}),
    ]
    for X, expected in systems:
        n = len(X)
        U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        answer = classify(conjugate(X, U @ np.diag(np.geomspace(1, 1 / condition, n)) @ V))
        assert answer.kinds == expected
        assert not answer.ambiguous or condition > 1e3


def test_A31_wavelengths_from_six_to_sixty_thousand():
    for dim, slowest in ((16, 19869), (64, 47117), (128, 54410), (256, 58470)):
        blocks = classify(generators.rope(dim)).blocks
        assert blocks[0].wavelength == pytest.approx(2 * np.pi, rel=1e-15)
        assert blocks[-1].wavelength == pytest.approx(slowest, abs=0.6)


def test_A34_level_one_has_256_nonzero_entries():
    A = transport(generators.rope(128), 1)
    assert A.size == 16384 and np.count_nonzero(A) == 256
    assert np.count_nonzero(transport(generators.rope(128), 0)) == 128
    x = np.random.default_rng(34).standard_normal(128)
    np.testing.assert_allclose(A.T @ x, pe.apply_rope(x, positions=[1]), rtol=1e-13)


def test_A36_the_table_for_sixteen_coordinates():
    blocks = classify(generators.rope(16)).blocks
    np.testing.assert_allclose(
        [b.theta for b in blocks],
        [1, 0.316228, 0.1, 0.0316228, 0.01, 0.00316228, 0.001, 0.000316228],
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        [b.wavelength for b in blocks], [6.283, 19.869, 62.83, 198.7, 628.3, 1986.9, 6283.2, 19869], rtol=1e-4
    )


def test_A40_the_base_moves_only_the_slowest_hand():
    for base, slowest in ((1e2, 585), (1e3, 5640), (1e4, 54410), (5e5, 2.559e6), (1e6, 5.063e6)):
        blocks = classify(generators.rope(128, base)).blocks
        assert blocks[0].theta == 1.0
        assert blocks[-1].wavelength == pytest.approx(slowest, rel=1e-3)


def test_A43_alibi_is_the_hockey_puck():
    slope = pe.alibi_slopes(112)[3]
    X = generators.bloom(3)
    assert X[128, 129] == -slope and np.count_nonzero(X) == 1
    q, k = np.zeros(130), np.zeros(130)
    q[128] = k[129] = 1
    assert encoding(X).score(q, k, 10, 3) == -slope * 7


def test_sinusoidal_rows_are_carried_by_their_own_rotation():
    dim, p, u = 16, 37.0, 11.5
    w = 10000.0 ** (-np.arange(dim // 2) / (dim // 2))

    def table(p):
        return np.column_stack([np.sin(p * w), np.cos(p * w)]).ravel()

    carried = transport(generators.sinusoidal(dim), u) @ table(p)
    np.testing.assert_allclose(carried, table(p + u), atol=1e-13)


def test_retnet_multipliers():
    for head in range(8):
        blocks = classify(generators.retnet(head, dim=8)).blocks
        assert {b.gamma for b in blocks} == {blocks[0].gamma}
        assert np.exp(-blocks[0].gamma) == pytest.approx(1 - 2.0 ** (-5 - head), rel=1e-15)
    assert classify(generators.retnet(0, dim=8)).blocks[0].half_life == pytest.approx(21.83, abs=0.01)


@pytest.mark.parametrize("closed", [False, True], ids=["open", "one closed"])
def test_forgetting_gates_are_a_slide_on_a_clock_and_decay_bias_is_its_score(closed):
    """Forgetting Transformer adds log prod f to the score: products of gates, formed one by one."""
    gates = np.random.default_rng(15).uniform(0.4, 1.0, (3, 12))
    gates[:, 5] *= not closed
    with np.errstate(divide="ignore"):
        clock = pe.clock(np.log(gates))
    bias, multiplier = pe.decay_bias(12, clock=clock), generators.decay(1.0)
    for head in range(3):
        t = clock[head]
        added = encoding(generators.forgetting()).score([1, 0], [0, 1], t[:, None], t)
        left = encoding(multiplier).score([1], [1], t[:, None], t)
        for i in range(12):
            for j in range(i + 1):
                product = np.prod(gates[head, j + 1 : i + 1])
                assert bias[head, i, j] == pytest.approx(added[i, j], rel=1e-15)
                assert np.exp(bias[head, i, j]) == pytest.approx(product, rel=1e-12)
                assert left[i, j] == pytest.approx(product, rel=1e-12)


def test_plane_turns_at_the_area_of_its_vectors():
    a, b = np.random.default_rng(5).standard_normal((2, 7))
    answer = classify(generators.plane(a, b))
    assert answer.kinds == {"turn": 1, "nothing": 5} and not answer.ambiguous
    assert answer.blocks[0].theta == pytest.approx(np.sqrt((a @ a) * (b @ b) - (a @ b) ** 2), rel=1e-13)
    assert np.array_equal(generators.plane(a, b), generators.grape(a[:, None], b[:, None]))


def test_jordan_rope_scores_a_sliding_cosine():
    q, k = np.array([1.0, 0, 0, 0]), np.array([0.0, 0, 1, 0])
    u = np.array([0.0, 1, 5, 20])
    scores = encoding(generators.jordan_rope(0.5, 0.1)).score(q, k, u, 0)
    np.testing.assert_allclose(scores, u * np.exp(-0.1 * u) * np.cos(0.5 * u), atol=1e-13)


def rotary_2d(theta=1.0):
    zero = np.zeros((2, 2))
    return direct_sum(generators.turn(theta), zero), direct_sum(zero, generators.turn(theta))


def test_B2_the_two_dimensional_block_matrix():
    B1, B2 = rotary_2d(0.3)
    x, y = 4.0, -7.0
    R = transport(x * B1 + y * B2, 1)
    v = np.random.default_rng(2).standard_normal(4)
    rotated = pe.apply_rope_2d(v, [x], [y], freqs=[0.3])
    np.testing.assert_allclose(R @ v, rotated, atol=1e-15)


def test_B3_relativity_in_two_dimensions():
    B1, B2 = rotary_2d()

    def R(x, y):
        return transport(x * B1 + y * B2, 1)

    np.testing.assert_allclose(R(1, 2).T @ R(3, 5), R(2, 3), atol=4e-16)


def test_B5_one_plane_for_two_axes_forgets_where():
    J = generators.turn(0.3)
    assert np.array_equal(transport(1 * J + 2 * J, 1), transport(2 * J + 1 * J, 1))


def test_B17_two_dials():
    B1, B2 = rotary_2d()
    answer = classify(2 * B1 + 3 * B2)
    assert [b.theta for b in answer.blocks] == [3, 2]
    assert not (B1 @ B2 - B2 @ B1).any()


def test_B18_three_dials_for_three_axes():
    zero = np.zeros((2, 2))
    axes = [direct_sum(*(generators.turn() if i == k else zero for i in range(3))) for k in range(3)]
    R = [
        transport(sum(p * B for p, B in zip(at, axes, strict=True)), 1)
        for at in ((1, 2, 3), (5, 1, 4), (4, -1, 1))
    ]
    np.testing.assert_allclose(R[0].T @ R[1], R[2], atol=5e-16)


def test_conjugate_and_direct_sum():
    P = np.array([[1.0, 2], [0, 1]])
    np.testing.assert_allclose(conjugate(generators.slide(), P) @ P, P @ generators.slide())
    assert direct_sum().shape == (0, 0)
    assert direct_sum(np.zeros((0, 0)), [[1]]).shape == (1, 1)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: generators.rope(7), ValueError, "dim is 7; expected an even number"),
        (lambda: generators.rope(8.0), TypeError, "dim is 8.0"),
        (lambda: generators.rope(8, base=0), ValueError, "base is 0"),
        (lambda: generators.rope(8, freqs=[1, 2]), ValueError, "freqs has 2 entries; expected 4"),
        (lambda: generators.turn(np.nan), ValueError, "theta"),
        (lambda: generators.turn("fast"), TypeError, "theta is 'fast'; expected one finite number"),
        (lambda: generators.fade([[1]]), ValueError, "rate"),
        (lambda: generators.bloom(112), ValueError, "head is 112; expected 0 to 111"),
        (lambda: generators.bloom("a"), TypeError, "head is 'a'; expected an integer"),
        (lambda: generators.mpt(0.5), TypeError, "head is 0.5; expected an integer"),
        (lambda: generators.retnet(-3), ValueError, "head is -3; expected 0 or more"),
        (lambda: generators.retnet(-5), ValueError, "head is -5; expected 0 or more"),
        (lambda: generators.retnet("a"), TypeError, "head is 'a'; expected an integer"),
        (lambda: generators.plane([1, 2], [1]), ValueError, "a and b"),
        (lambda: generators.direct_sum([[1]], [1, 2]), ValueError, r"generators\[1\]"),
        (lambda: conjugate(np.eye(2), np.eye(3)), ValueError, "P has shape"),
        (lambda: conjugate(np.eye(2), np.ones((2, 2))), ValueError, "P is singular"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
