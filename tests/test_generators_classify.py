"""pe.classify: names, structure, evidence and honesty.

Oracles: matrices built from known blocks, textbook matrices, and the exact numbers of the source documents.
"""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import block_diag, companion

import pe
from pe import classify, generators
from pe.generators import ROWS, conjugate, direct_sum


def jordan(value, size):
    return value * np.eye(size) + np.eye(size, k=1)


def spiral(gamma, theta, size=1):
    cell = np.array([[-gamma, -theta], [theta, -gamma]])
    return np.kron(np.eye(size), cell) + np.kron(np.eye(size, k=1), np.eye(2))


def orthogonal(n, rng):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def basis(n, condition, rng):
    return orthogonal(n, rng) @ np.diag(np.geomspace(1, 1 / condition, n)) @ orthogonal(n, rng)


def kinds(X, **options):
    return dict(classify(X, **options).kinds)


def assert_certain(answer):
    assert not answer.ambiguous and all(block.certain for block in answer.blocks)


MIXTURE = direct_sum([[0]], [[-0.1]], spiral(0, 1), spiral(0.2, 0.3), jordan(0, 2))
MIXED_KINDS = {"nothing": 1, "fade": 1, "turn": 1, "turn+fade": 1, "slide": 1}
MOLER = [[-64, 82, 21], [144, -178, -46], [-771, 962, 248]]


# The six rows


@pytest.mark.parametrize(
    "X, row",
    [
        ([[0.1]], "explode"),
        (generators.nope(3), "nothing"),
        (generators.fade(0.1), "fade"),
        (generators.turn(1.0), "turn"),
        ([[-0.1, -1.0], [1.0, -0.1]], "turn+fade"),
        (generators.slide(), "slide"),
    ],
)
def test_A44_the_six_rows(X, row):
    answer = classify(X)
    assert answer.row == row
    assert set(answer.kinds) == {row}
    assert answer.shipped_in == ROWS[row].shipped_in
    assert_certain(answer)


def test_row_leaves_plain_coordinates_out_and_says_mixed_and_beyond():
    assert classify(generators.alibi(0.5, dim=8)).row == "slide"
    assert classify(np.zeros((4, 4))).row == "nothing"
    assert classify(jordan(-0.1, 2)).row == "beyond"
    assert classify(spiral(0, 1, 2)).row == "beyond"
    assert classify(MIXTURE).row == "mixed"
    assert classify(jordan(0.5, 2)).row == "explode"


def test_A21_the_half_plane_decides_fate_and_rhythm():
    rng = np.random.default_rng(21)
    for gamma, theta in rng.uniform(0.01, 2, (20, 2)):
        for sign, kind in ((1, "turn+fade"), (-1, "turn+explode")):
            block = classify(spiral(sign * gamma, theta)).blocks[0]
            assert block.kind == kind
            assert block.eigenvalue == pytest.approx(complex(-sign * gamma, theta), rel=1e-14)


def test_A23_half_life():
    assert classify([[-0.1]]).blocks[0].half_life == pytest.approx(6.931471805599453, rel=1e-15)
    assert classify(generators.nope(1)).blocks[0].half_life == np.inf


def test_A24_decay_nope_forbidden():
    assert [classify([[x]]).kinds.popitem()[0] for x in (-0.1, 0.0, 0.1)] == ["fade", "nothing", "explode"]
    assert classify([[0.1]]).forbidden and not classify([[-0.1]]).forbidden


def test_A29_and_case_23_an_odd_skew_matrix_has_a_coordinate_that_does_nothing():
    rng = np.random.default_rng(29)
    for n, expected in ((6, {"turn": 3}), (7, {"turn": 3, "nothing": 1}), (64, {"turn": 32})):
        A = rng.standard_normal((n, n))
        answer = classify(A - A.T)
        assert answer.kinds == expected and answer.row == "turn"
        assert answer.is_skew and answer.is_normal
        assert_certain(answer)


def test_A41_defective_zero_twice_and_one_eigenvector():
    answer = classify([[0, 1], [0, 0]])
    assert answer.segre == (2,) and answer.is_defective and not answer.is_normal
    assert answer.blocks[0].eigenvalue == 0
    assert np.array_equal(answer.basis, np.eye(2)) and np.array_equal(answer.jordan, [[0, 1], [0, 0]])


def test_eigenvalues_are_not_the_only_part_that_is_real():
    nothing, slide = np.zeros((2, 2)), np.array([[0, 1], [0, 0]])
    assert np.array_equal(np.linalg.eigvals(nothing), np.linalg.eigvals(slide))
    assert kinds(nothing) == {"nothing": 2} and kinds(slide) == {"slide": 1}


@pytest.mark.parametrize(
    "X, stability, bounded, preserving",
    [
        (generators.turn([1.0, 0.0]), "bounded both ways", True, True),
        (direct_sum(generators.turn(1.0), [[-0.1]]), "bounded forward", True, False),
        (jordan(-0.1, 3), "bounded forward", True, False),
        (generators.slide(), "polynomial growth", False, False),
        (spiral(0, 1, 2), "polynomial growth", False, False),
        (spiral(-0.1, 1), "exponential growth", False, True),
        (jordan(0.1, 2), "exponential growth", False, True),
    ],
)
def test_A45_only_turns_and_nothing_are_bounded_and_keep_everything(X, stability, bounded, preserving):
    answer = classify(X)
    assert (answer.stability, answer.bounded, answer.information_preserving) == (
        stability,
        bounded,
        preserving,
    )
    singular = np.linalg.svd(pe.transport(X, np.linspace(0, 400, 41)), compute_uv=False)
    assert bounded == (singular.max() < 100)
    assert preserving == (singular.min() > 0.01)


def test_B12_every_skew_matrix_turns():
    rng = np.random.default_rng(12)
    A = rng.standard_normal((64, 64))
    answer = classify(A - A.T)
    expected = np.sort(np.linalg.eigvals(A - A.T).imag)[::-1][:32]
    assert answer.kinds == {"turn": 32}
    np.testing.assert_allclose([b.theta for b in answer.blocks], expected, rtol=1e-11)


def test_explosion_and_fade_are_spelt_out_in_the_summary():
    assert "warning: explodes forward, by exp(0.1 u)" in classify([[0.1]]).summary()
    assert "negative gap" in classify([[-0.1]]).summary()
    assert "warning" not in classify(generators.turn(1.0)).summary()


# The list of cases: matrix, kinds, Segre characteristic


@pytest.mark.parametrize(
    "X, expected, segre",
    [
        pytest.param(np.zeros((4, 4)), {"nothing": 4}, (1,) * 4, id="1"),
        pytest.param(np.eye(3), {"explode": 3}, (1,) * 3, id="2-identity"),
        pytest.param(-0.1 * np.eye(3), {"fade": 3}, (1,) * 3, id="2-fade"),
        pytest.param([[0.0, 0.0], [1.0, 0.0]], {"slide": 1}, (2,), id="3-transposed"),
        pytest.param(np.array([[0, 1], [0, 0]], dtype=np.int8), {"slide": 1}, (2,), id="3-int"),
        pytest.param(jordan(0, 3), {"slide": 1}, (3,), id="4"),
        pytest.param(direct_sum(jordan(0, 2), [[0]]), {"slide": 1, "nothing": 1}, (2, 1), id="5-21"),
        pytest.param(direct_sum(jordan(0, 2), jordan(0, 2)), {"slide": 2}, (2, 2), id="5-22"),
        pytest.param(direct_sum([[0]], jordan(0, 3)), {"slide": 1, "nothing": 1}, (3, 1), id="5-31"),
        pytest.param(spiral(0, 1), {"turn": 1}, (1,), id="6"),
        pytest.param(spiral(-0.1, 1), {"turn+explode": 1}, (1,), id="7"),
        pytest.param(jordan(-0.1, 2), {"fading slide": 1}, (2,), id="8"),
        pytest.param(spiral(0, 1, 2), {"rotating slide": 1}, (2,), id="9"),
        pytest.param(spiral(0.1, 0.5, 2), {"damped rotating slide": 1}, (2,), id="10"),
        pytest.param(MIXTURE, MIXED_KINDS, (1, 1, 2, 1, 1), id="11"),
        pytest.param([[0, 1], [1e-3, 0]], {"fade": 1, "explode": 1}, (1, 1), id="12-1e-3"),
        pytest.param([[0, 1], [1e-8, 0]], {"fade": 1, "explode": 1}, (1, 1), id="12-1e-8"),
        pytest.param([[0, 1], [-1e-8, 0]], {"turn": 1}, (1,), id="12-turn"),
        pytest.param([[-1, 1e-20], [0, -1]], {"fade": 2}, (1, 1), id="15"),
        pytest.param([[-1, 1], [0, -1 - 1e-5]], {"fade": 2}, (1, 1), id="16"),
        pytest.param(1e-200 * jordan(0, 2), {"slide": 1}, (2,), id="17-tiny"),
        pytest.param(1e200 * spiral(0, 1), {"turn": 1}, (1,), id="17-huge"),
        pytest.param(direct_sum(spiral(0, 1), spiral(0, 1e-12)), {"turn": 2}, (1, 1), id="18"),
        pytest.param(generators.rope(64), {"turn": 32}, (1,) * 32, id="19-64"),
        pytest.param(generators.rope(128, 5e5), {"turn": 64}, (1,) * 64, id="19-128"),
        pytest.param(companion([1, 3, 3, 1]), {"fading slide": 1}, (3,), id="24"),
        pytest.param(companion([1, 0, 2, 0, 1]), {"rotating slide": 1}, (2,), id="25"),
        pytest.param(companion([1, 0, 0, 0, 0, 0]), {"slide": 1}, (5,), id="26"),
        pytest.param(
            companion([1, 0, 0, 0, -1]), {"turn": 1, "fade": 1, "explode": 1}, (1,) * 3, id="26-roots-of-1"
        ),
        pytest.param(
            [[1, 1, 1, 0], [-2, -1, 0, -1], [0, 0, -1, -1], [0, 0, 2, 1]],
            {"rotating slide": 1},
            (2,),
            id="28",
        ),
        pytest.param([[-3, 1, 2], [1, -1, 0], [1, 0, -2]], {"fade": 3}, (1,) * 3, id="29"),
        pytest.param(MOLER, {"explode": 3}, (1,) * 3, id="34"),
        pytest.param(
            direct_sum(generators.rope(8), jordan(0, 2)), {"turn": 4, "slide": 1}, (1, 1, 1, 1, 2), id="37"
        ),
        pytest.param(
            [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]],
            {"turn": 2},
            (1, 1),
            id="38-quaternion-i",
        ),
        pytest.param(np.diag([-1, -1 - 1e-15]), {"fade": 2}, (1, 1), id="40"),
        pytest.param([[-3.0]], {"fade": 1}, (1,), id="43-1x1"),
        pytest.param(np.zeros((0, 0)), {}, (), id="43-0x0"),
        pytest.param(
            generators.rope(16, freqs=[1, 0.5, 0.25, 0.1, 0.05, 0.01, 0, 0]),
            {"turn": 6, "nothing": 4},
            (1,) * 10,
            id="46-p-rope",
        ),
    ],
)
def test_cases(X, expected, segre):
    answer = classify(X)
    assert dict(answer.kinds) == expected
    assert answer.segre == segre
    assert answer.backward_error <= 1e-15 * max(1, len(X))
    assert_certain(answer)


def test_case_11_conjugated():
    answer = classify(conjugate(MIXTURE, basis(8, 1e3, np.random.default_rng(11))))
    assert answer.kinds == MIXED_KINDS
    assert_certain(answer)


def test_case_13_a_slide_that_another_scaling_takes_apart():
    answer = classify([[0, 1], [1e-15, 0]])
    assert answer.kinds == {"slide": 1}
    assert answer.backward_error == pytest.approx(1e-15)
    assert answer.scaling_sensitive and answer.ambiguous
    assert answer.blocks[0].alternatives == ("explode", "fade")


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-8, 1e-10])
def test_case_14_the_tolerance_is_a_backward_error(delta):
    X = [[0, 1], [delta, 0]]
    assert kinds(X, rtol=2 * delta) == {"slide": 1}
    assert kinds(X, rtol=delta / 2) == {"explode": 1, "fade": 1}


def test_case_18_a_turn_below_rounding_is_not_silently_nothing():
    answer = classify(direct_sum(spiral(0, 1), spiral(0, 1e-18)))
    assert answer.kinds == {"turn": 1, "nothing": 2}
    assert [b.certain for b in answer.blocks] == [True, False, False]
    assert all("turn" in b.alternatives for b in answer.blocks if not b.certain)


def test_case_19_frequencies_are_exact():
    answer = classify(generators.rope(128, 5e5))
    np.testing.assert_allclose(
        [b.theta for b in answer.blocks], 5e5 ** (-np.arange(64) / 64), rtol=1e-15, atol=0
    )


def test_case_27_wilkinson_companion_is_ambiguous():
    answer = classify(companion(np.poly(range(1, 11))))
    assert answer.ambiguous and answer.scaling_sensitive


def test_case_30_frank():
    i, j = np.indices((9, 9)) + 1
    frank = np.where(j >= i - 1, 9 + 1 - np.maximum(i, j), 0)
    answer = classify(frank)
    assert answer.kinds == {"explode": 9}
    assert min(-b.gamma for b in answer.blocks) == pytest.approx(0.0448, rel=0.01)


def test_case_31_forsythe():
    corner = np.zeros((6, 6))
    corner[5, 0] = 1
    assert classify(jordan(0, 6) + 1e-20 * corner).segre == (6,)
    expected = {"fade": 1, "explode": 1, "turn+fade": 1, "turn+explode": 1}
    assert kinds(jordan(0, 6) + 1e-10 * corner) == expected


def test_case_32_chow():
    answer = classify(np.tri(6, 6, 1))
    assert answer.kinds == {"slide": 1, "explode": 3}
    assert [b.size for b in answer.blocks if b.kind == "slide"] == [3]
    growth = sorted(-b.gamma for b in answer.blocks if b.kind == "explode")
    np.testing.assert_allclose(growth, [2 - 2**0.5, 2, 2 + 2**0.5], rtol=1e-12)


def test_case_33_grcar():
    grcar = -np.eye(8, k=-1) + sum(np.eye(8, k=k) for k in range(4))
    assert kinds(grcar) == {"turn+explode": 4}


def test_case_35_five_vectors_in_a_basis_of_condition_1e4():
    answers = [
        classify(conjugate(jordan(-0.5, 5), basis(5, 1e4, np.random.default_rng(s)))) for s in range(10)
    ]
    certain = [a for a in answers if not a.ambiguous]
    assert len(certain) >= 6
    for answer in certain:
        assert answer.kinds == {"fading slide": 1} and answer.segre == (5,)
        assert answer.blocks[0].gamma == pytest.approx(0.5, abs=1e-9)


def test_case_36_integers_in_a_unimodular_basis():
    rng = np.random.default_rng(36)
    J = direct_sum(jordan(-1, 3), spiral(0, 2, 2), jordan(0, 2), [[0]])
    P = np.tril(rng.integers(-1, 2, (10, 10)), -1) + np.eye(10)
    answer = classify(np.rint(conjugate(J, P)))
    assert answer.kinds == {"fading slide": 1, "rotating slide": 1, "slide": 1, "nothing": 1}
    assert answer.segre == (2, 2, 1, 3)


def test_case_39_units_of_1e12():
    answer = classify([[0, 1e12], [-1e-12, 0]])
    assert answer.kinds == {"slide": 1} and answer.scaling_sensitive and answer.ambiguous
    assert answer.blocks[0].alternatives == ("turn",)


def test_case_41_horizon():
    assert kinds([[1e-16]]) == {"explode": 1}
    answer = classify([[1e-16]], horizon=1e5)
    assert answer.kinds == {"nothing": 1}
    assert_certain(answer)
    assert kinds([[-0.1]], horizon=1e5) == {"fade": 1}


def test_case_42_a_gaussian_matrix_has_no_slide():
    X = np.random.default_rng(42).standard_normal((64, 64))
    answer = classify(X)
    assert not answer.is_defective and sum(len(b.indices) for b in answer.blocks) == 64
    found = [v for b in answer.blocks for v in {b.eigenvalue, b.eigenvalue.conjugate()}]
    order = lambda values: np.array(sorted(values, key=lambda v: (round(v.real, 8), v.imag)))  # noqa: E731
    np.testing.assert_allclose(order(found), order(np.linalg.eigvals(X)), atol=1e-11)
    assert answer.spectral_abscissa == pytest.approx(max(np.linalg.eigvals(X).real))


@pytest.mark.parametrize(
    "X, error, words",
    [
        ([[1, np.nan], [0, 0]], ValueError, r"X\[0, 1\] is nan"),
        ([[1, 0], [np.inf, 0]], ValueError, r"X\[1, 0\] is inf"),
        (np.zeros((2, 3)), ValueError, r"shape \(2, 3\)"),
        ([1, 2, 3], ValueError, r"shape \(3,\)"),
        ([[1j, 0], [0, 1]], TypeError, "imaginary part"),
        ([["a", "b"], ["c", "d"]], TypeError, "dtype <U1"),
        ([[None, 1], [0, 0]], TypeError, "not real numbers"),
        (np.ma.masked_equal([[0, 1], [0, 0]], 1), TypeError, "masked"),
        ([[0, 1], [0]], ValueError, "X is no matrix, .*inhomogeneous"),
        ("turn", TypeError, r"X is 'turn'; expected a matrix, such as pe.generators.turn\(1.0\)"),
        (generators.turn, TypeError, r"X is a function; expected a matrix"),
        ("0 1; 0 0", TypeError, r"X is '0 1; 0 0'; .*pass \[\[0, 1\], \[0, 0\]\]"),
        ("0 1; 0", TypeError, r"X is '0 1; 0'; .*such as pe.generators.turn"),
        (pe.Rope(4), TypeError, r"X is a Rope; .*generator\(\)"),
    ],
)
def test_case_44_what_is_no_generator(X, error, words):
    with pytest.raises(error, match=words):
        classify(X)


def test_case_44_a_stack_gives_a_stack_of_answers():
    answers = classify(np.array([[generators.slide(), generators.turn(2.0), np.zeros((2, 2))]]))
    assert answers.shape == (1, 3) and answers.dtype == object
    assert [a.row for a in answers[0]] == ["slide", "turn", "nothing"]


@pytest.mark.parametrize(
    "options", [{"rtol": 0}, {"rtol": 1.0}, {"rtol": np.nan}, {"horizon": 0}, {"horizon": -5}]
)
def test_tolerances_are_positive(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        classify([[0]], **options)
    with pytest.raises(TypeError):
        classify([[0]], rtol="tight")
    with pytest.raises(TypeError, match="exact"):
        classify([[0]], method="exact", rtol=1e-3)
    with pytest.raises(ValueError, match="method is 'symbolic'"):
        classify([[0]], method="symbolic")


def test_case_45_float32_brings_its_own_rounding():
    X = conjugate(MIXTURE, basis(8, 3, np.random.default_rng(45))).astype(np.float32)
    answer = classify(X)
    assert answer.kinds == MIXED_KINDS
    assert answer.rtol >= 80 * np.finfo(np.float32).eps
    assert kinds(X.astype(np.float64)) != MIXED_KINDS


def test_case_47_a_commuting_pair_shares_its_planes():
    b, c, f = 0.3, 0.5, 2.0
    B1 = np.array([[0, -1, -b, 0], [1, 0, -c, 0], [b, c, 0, 0], [0, 0, 0, 0]])
    d, e = c * f, -b * f
    B2 = np.array([[0, 0, 0, -d], [0, 0, 0, -e], [0, 0, 0, -f], [d, e, f, 0]])
    assert np.abs(B1 @ B2 - B2 @ B1).max() < 1e-15
    for B, theta in ((B1, 1.157584), (B2, 2.315168)):
        answer = classify(B)
        assert answer.kinds == {"turn": 1, "nothing": 2}
        assert answer.blocks[0].theta == pytest.approx(theta, rel=1e-6)
        assert_certain(answer)


# Public reports


def test_C89_defective_matrices_are_slides():
    fading = classify([[-2, 1], [-1, 0]])
    assert fading.kinds == {"fading slide": 1} and fading.blocks[0].gamma == pytest.approx(1, rel=1e-14)
    exploding = classify([[3, 1], [-1, 5]])
    assert exploding.kinds == {"explode": 1} and exploding.is_defective and exploding.forbidden
    assert exploding.blocks[0].eigenvalue == pytest.approx(4)
    for answer in (classify([[0, 1], [0, 0]]), fading, exploding):
        assert_certain(answer)


def test_C91_repeated_but_diagonalisable():
    assert kinds(-0.1 * np.eye(3)) == {"fade": 3}
    answer = classify([[-2, 1, 1], [1, -2, 1], [1, 1, -2]])
    assert answer.kinds == {"nothing": 1, "fade": 2} and not answer.is_defective
    np.testing.assert_allclose([b.gamma for b in answer.blocks], [0, 3, 3], rtol=1e-15)
    assert_certain(answer)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_C93_rounded_eigenvalues_are_not_tested_for_zero(scale):
    Q = np.array([[7, -4, -4], [-4, 1, -8], [-4, -8, 1]]) / 9
    X = Q @ block_diag([[0, -1], [1, 0]], [[-2]]) @ Q.T * scale
    answer = classify(X)
    assert answer.kinds == {"turn": 1, "fade": 1} and not answer.forbidden
    assert_certain(answer)
    growing = classify(Q @ block_diag([[1e-9, -1], [1, 1e-9]], [[-2]]) @ Q.T * scale, rtol=1e-11)
    assert growing.kinds == {"turn+explode": 1, "fade": 1}
    assert -growing.blocks[0].gamma == pytest.approx(1e-9 * scale, rel=1e-5)


def test_C97_a_negative_fade_is_called_an_explosion():
    answer = classify([[0.1]])
    assert answer.row == "explode" and answer.forbidden and "forbidden" in str(answer)


# Odds and ends of the contract


def test_input_forms_and_that_input_is_left_alone():
    X = np.asfortranarray(MIXTURE)[::1]
    X.flags.writeable = False
    before = X.copy()
    assert classify(X).kinds == MIXED_KINDS
    assert np.array_equal(X, before)
    assert kinds([[Fraction(-1, 10), 1], [0, Fraction(-1, 10)]]) == {"fading slide": 1}
    assert kinds(np.array([[0j, 1], [0, 0]])) == {"slide": 1}
    assert kinds(MIXTURE.astype(">f8")[::-1, ::-1]) == MIXED_KINDS


def test_numerical_abscissa_shows_the_hump_of_a_fade():
    answer = classify([[-0.1, 10], [0, -0.2]])
    assert answer.kinds == {"fade": 2}
    assert answer.spectral_abscissa == pytest.approx(-0.1)
    assert answer.numerical_abscissa == pytest.approx(4.85, abs=0.01)
    hump = np.linalg.norm(
        pe.transport([[-0.1, 10], [0, -0.2]], np.linspace(0, 40, 4001)), 2, axis=(-2, -1)
    ).max()
    assert hump == pytest.approx(25.0, abs=0.1)


def test_answers_print_and_pickle():
    answer = classify(MIXTURE)
    copy = pickle.loads(pickle.dumps(answer))
    assert copy.blocks == answer.blocks and pickle.dumps(copy) == pickle.dumps(
        pickle.loads(pickle.dumps(copy))
    )
    assert str(answer).splitlines()[0] == "mixed: polynomial growth"
    assert repr(classify(generators.slide())) == "<Classification slide: 1 slide; polynomial growth>"
    assert "<table>" in answer._repr_html_() and "turn+fade" in answer._repr_html_()
    assert str(classify(-0.1 * np.eye(32))).splitlines()[2].split()[:2] == ["32", "fade"]
    assert str(classify(generators.rope(8))).splitlines()[6:8] == [
        "read to 1.8e-14 of ||X||; backward error 0",
        "the nearest defective matrix is at most 0.001 away",
    ]
    assert any("RoFormer" in source for source in classify(generators.turn(1.0)).sources)


def test_large_answers_fit_on_a_screen():
    answer = classify(generators.rope(128))
    assert len(str(answer).splitlines()) <= 24 and answer._repr_html_().count("<tr>") <= 13
    line = str(answer).splitlines()[2].split()
    assert line[:2] == ["64", "turn"] and line[3:6] == ["0.0001155", "to", "1"]
    noise = classify(np.random.default_rng(0).standard_normal((128, 128)))
    counts = [int(line.split()[0]) for line in str(noise).splitlines()[2:] if line.strip()[0].isdigit()]
    assert len(str(noise).splitlines()) <= 24 and sum(counts) == len(noise.blocks)
