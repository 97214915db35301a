"""What source document 1 says, and the rest of source document 2: one test for each claim, named by it.

A1 to A50 follow the text of source document 1, B1 to B20 that of source document 2 (most of B is in
test_generators_axes.py). Loose claims, (a) to (m), hold in a narrower sense than they are told.
"""

import inspect
import math

import numpy as np
import pytest

import pe
from pe import classify, generators, transport
from pe.generators import alibi, conjugate, decay, direct_sum, encoding, fade, nope, rope, slide, turn

RNG = np.random.default_rng(0)
CLOCK = [(5, 4, 9), (7, 8, 3), (7, 5, 0)]


def rope_score(t, s, dim=16):
    """Score of two vectors whose planes are all (1, 0)."""
    x = np.tile([1.0, 0.0], (1, dim // 2))
    return (pe.apply_rope(x, positions=[t]) @ pe.apply_rope(x, positions=[s]).T).item()


# Words without order, groups, translations


def test_claim_A1_and_loose_c_attention_is_blind_to_order_until_something_tells_positions_apart():
    x = RNG.standard_normal((5, 16))
    order = [4, 3, 2, 1, 0]
    plain = pe.attention(x, x, x)
    assert np.abs(pe.attention(x[order], x[order], x[order]) - plain[order]).max() < 1e-14
    for told in ({"rope": pe.Rope(16)}, {"causal": True}):  # a mask is a kind of position, too
        plain = pe.attention(x, x, x, **told)
        assert np.abs(pe.attention(x[order], x[order], x[order], **told) - plain[order]).max() > 0.1


@pytest.mark.parametrize(("a", "b", "c"), CLOCK)
def test_claim_A2_the_clock_is_a_group(a, b, c):
    report = pe.check_group_axioms(range(12), lambda x, y: (x + y) % 12)
    assert report.is_group and report.exhaustive and report.size**2 == 144 and report.size**3 == 1728
    assert (a + b) % 12 == c


def test_claim_A3_more_groups():
    quarter = [np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), n) for n in range(4)]
    assert pe.check_group_axioms(quarter, np.matmul).is_group
    slides = [transport(slide(), t) for t in (-3.0, -1.5, 0.0, 1.5, 2.5, 3.0, 4.0)]
    report = pe.check_group_axioms(slides, np.matmul, contains=lambda A: A[1, 0] == 0, inverse=np.linalg.inv)
    assert report.is_group and report.commutative
    assert np.array_equal(slides[4] @ slides[3], slides[6])  # 2.5 + 1.5 = 4
    assert np.array_equal(slides[0] @ slides[5], np.eye(2))


def test_claim_A4_what_is_no_group():
    numbers = pe.check_group_axioms(range(1, 6), np.add, contains=lambda n: n >= 1)
    assert sorted(numbers.witness) == ["identity", "inverses"]
    matrices = pe.check_group_axioms([np.eye(2), np.diag([1.0, 0.0])], np.matmul,
                                     contains=lambda A: np.shape(A) == (2, 2), inverse=np.linalg.inv)
    assert list(matrices.witness) == ["inverses"]


DOUBLE, QUARTER, SQUASH = 2 * np.eye(2), np.array([[0, -1], [1, 0]]), np.diag([1, 0])


@pytest.mark.parametrize(("A", "X", "det"), [
    (DOUBLE, math.log(2) * np.eye(2), 4), (QUARTER, turn(math.pi / 2), 1), (np.eye(2), nope(2), 1),
])  # fmt: skip
def test_claim_A5_a_verb_that_can_be_undone_has_a_generator(A, X, det):
    assert np.allclose(pe.generators.generator_of(A), X, rtol=0, atol=1e-15)
    assert np.allclose(transport(X, 1.0), A, rtol=0, atol=1e-15)
    assert np.linalg.det(A) == pytest.approx(det) == math.exp(np.trace(X))
    assert np.allclose(transport(X, -1.0) @ A, np.eye(2), rtol=0, atol=1e-15)


def test_claim_A5_a_squash_cannot_be_undone():
    assert np.array_equal(SQUASH @ [[5, 5], [3, 99]], [[5, 5], [0, 0]])  # (5, 3) and (5, 99) become (5, 0)
    with pytest.raises(ValueError, match="singular: it squashes"):
        pe.generators.generator_of(SQUASH)
    assert np.linalg.cond(transport(np.diag([0.0, -1.0]), 30.0)) > 1e12  # a fade only comes close to it


def test_claim_A6_invertible_matrices_are_a_group_and_the_order_matters():
    shear = np.array([[1, 1], [0, 1]])
    sample = [np.eye(2), DOUBLE, QUARTER, shear, np.array([[2, 1], [1, 1]])]
    report = pe.check_group_axioms(sample, np.matmul, contains=lambda A: abs(np.linalg.det(A)) > 1e-12,
                                   identity=np.eye(2), inverse=np.linalg.inv)
    assert report.is_group and not report.commutative
    assert not pe.check_group_axioms([*sample, SQUASH], np.matmul, contains=lambda A: np.shape(A) == (2, 2),
                                     identity=np.eye(2), inverse=np.linalg.inv).inverses
    # AB is "B, then A": (1, 2) turned to (-2, 1) and then sheared; the other way (3, 2) turned to (-2, 3).
    assert (shear @ QUARTER @ [1, 2]).tolist() == [-1, 1] and (QUARTER @ shear @ [1, 2]).tolist() == [-2, 3]


def test_claims_A7_A8_translations_respect_combining():
    defect = pe.homomorphism_defect
    assert defect(np.log, 2.0, 3.0, op_in=np.multiply, op_out=np.add) < 1e-15
    assert defect(np.exp, 2.0, 3.0, op_in=np.add, op_out=np.multiply) < 1e-13
    assert defect(np.square, 2.0, 3.0) == 12.0


# One-parameter groups


def test_claim_A9_the_group_law_and_a_fake():
    ts = np.linspace(-3, 3, 13)
    assert pe.group_law_residual(lambda t: transport(rope(8), t), ts) < 1e-15
    fake = pe.group_law_residual(lambda t: transport(turn(1.0), 0.01 * t * t), ts)
    assert fake == pytest.approx(0.18, abs=0.005)


@pytest.mark.parametrize(("X", "expected"), [
    (turn(1.0), [[math.cos(5), -math.sin(5)], [math.sin(5), math.cos(5)]]), (fade(0.1), [[math.exp(-0.5)]]),
    (slide(), [[1, 5], [0, 1]]),
])  # fmt: skip
def test_claims_A10_A11_A12_the_three_pictures(X, expected):
    assert np.allclose(transport(X, 5.0), expected, rtol=0, atol=1e-15)
    assert np.allclose(transport(X, 2.0) @ transport(X, 3.0), expected, rtol=0, atol=1e-15)


def test_claim_A14_the_series_of_a_slide_ends():
    t, partial, term = 3.0, np.eye(2), np.eye(2)
    for k in range(1, 4):
        term = term @ (t * slide()) / k
        partial = partial + term
        assert np.array_equal(partial, transport(slide(), t))
    partial, term, misses = np.eye(2), np.eye(2), []
    for k in range(1, 20):
        term = term @ turn(1.0) / k
        partial = partial + term
        misses.append(np.abs(partial - transport(turn(1.0), 1.0)).max())
    assert misses[2] > 1e-2 and misses[-1] < 1e-15


def test_claim_A15_and_loose_l_without_continuity_there_are_monsters():
    def value(t):  # t = (m, n) stands for m + n sqrt 2, and A(t) = e^m
        return math.exp(t[0])

    for a, b in (((2, 3), (-5, 1)), ((7, -4), (3, 3))):
        law = pe.homomorphism_defect(value, np.array(a), np.array(b), op_out=np.multiply)
        assert law < 1e-12 * value(np.add(a, b))
    near_zero = (239, -169)
    assert abs(near_zero[0] + near_zero[1] * math.sqrt(2)) < 0.0022 and value(near_zero) > 1e103
    assert not pe.check_encoding(lambda q, k, t, s: q @ k * math.exp(math.floor(t - s))).continuous


def test_claim_A16_query_and_key_map_meet_in_the_gap():
    for X in (rope(4), slide(), RNG.standard_normal((5, 5))):
        maps = encoding(X)
        for t, s in ((2.0, 5.0), (3.5, -1.0)):
            assert np.allclose(maps.query_map(t).T @ maps.key_map(s), transport(X, t - s), atol=1e-11)


def test_claims_A17_A18_one_matrix_for_each_gap():
    maps, t = encoding(rope(8)), np.arange(3)
    table = np.swapaxes(maps.query_map(t), -1, -2)[:, None] @ maps.key_map(t)[None, :]
    assert len(np.unique(table.reshape(9, -1).round(12), axis=0)) == 5
    t = np.arange(1000)
    assert len(np.unique(t[:, None] - t[None, :])) == 1999
    M = [maps.query_map(t).T @ maps.key_map(s) for t, s in ((5, 2), (9, 6), (100, 97))]
    assert max(np.abs(A - transport(rope(8), 3.0)).max() for A in M) < 1e-13


@pytest.mark.parametrize("X", [rope(8), decay(0.1), alibi(0.5), turn(1.0) - 0.1 * np.eye(2)])
def test_claim_A19_a_time_machine(X):
    n = np.eye(len(X))
    assert np.array_equal(transport(X, 0.0), n)
    assert np.allclose(transport(X, 2.0) @ transport(X, 3.0), transport(X, 5.0), rtol=0, atol=1e-15)
    assert np.allclose(transport(X, 3.0) @ transport(X, -3.0), n, rtol=0, atol=1e-15)


def test_claim_A20_and_loose_b_a_change_of_basis_does_not_count_where_weights_can_absorb_it():
    X, P = rope(64), np.linalg.qr(RNG.standard_normal((64, 64)))[0] @ np.diag(np.geomspace(1, 1e3, 64))
    assert classify(conjugate(X, P)).kinds == classify(X).kinds == {"turn": 32}
    q, k = RNG.standard_normal((2, 64))
    absorbed = encoding(X).score(P.T @ q, np.linalg.solve(P, k), 5, 2)
    assert encoding(conjugate(X, P)).score(q, k, 5, 2) == pytest.approx(absorbed, rel=1e-9)

    def unit(v):  # queries and keys that are normalised cannot absorb it
        return v / np.linalg.norm(v)

    normalised = encoding(X).score(unit(P.T @ q), unit(np.linalg.solve(P, k)), 5, 2)
    assert abs(normalised - encoding(conjugate(X, P)).score(unit(q), unit(k), 5, 2)) > 1e-3


# Fates and rhythms


def test_claim_A21_the_real_part_is_fate_the_imaginary_part_rhythm():
    for real in (-0.2, 0.0, 0.2):
        for imag in (0.0, 1.5):
            X = np.array([[real, -imag], [imag, real]])
            (block, *_) = classify(X).blocks
            assert (block.gamma, block.theta) == (-real, imag)
            assert np.linalg.norm(transport(X, 10.0), 2) == pytest.approx(math.exp(10 * real))


@pytest.mark.parametrize(("gap", "left"), [
    (0, "1.000"), (5, "0.607"), (10, "0.368"), (25, "0.082"), (50, "0.0067"), (100, "0.000045")])  # fmt: skip
def test_claim_A22_the_fade_table(gap, left):
    digits = len(left.split(".")[1])
    assert f"{transport(fade(0.1), gap).item():.{digits}f}" == left
    logarithm = pe.decay_bias([gap], [0], rate=0.1).item()
    assert math.exp(logarithm) == pytest.approx(transport(fade(0.1), gap).item())


def test_claims_A23_A24_half_life_and_the_three_signs():
    assert classify(fade(0.1)).blocks[0].half_life == pytest.approx(6.931471805599453, rel=1e-15)
    assert [classify(fade(rate)).row for rate in (0.1, 0.0, -0.1)] == ["fade", "nothing", "explode"]
    assert classify(fade(-0.1)).forbidden and not classify(fade(0.1)).forbidden


def test_claim_A25_a_key_ahead_explodes():
    assert transport(fade(0.1), -50.0).item() == pytest.approx(148.4131591025766, rel=1e-14)
    assert "explodes" in classify(fade(0.1)).summary()
    assert pe.decay_bias([0], [50], rate=0.1).item() == -np.inf  # hidden


def test_claim_A26_and_loose_i_gates_move_the_clock_not_the_generator():
    log_gates = np.log(RNG.uniform(0.5, 1.0, 20))
    clock = pe.clock(log_gates)
    product = np.exp(log_gates[8:16].sum())
    assert transport(fade(1.0), clock[15] - clock[7]).item() == pytest.approx(product, rel=1e-14)
    bias = pe.decay_bias(20, clock=clock)
    assert bias[15, 7] == pytest.approx(log_gates[8:16].sum(), rel=1e-13)
    # Seen as a score of positions it is not relative: the data is in the clock.
    assert bias[15, 7] != pytest.approx(bias[16, 8], rel=1e-3)


def test_claims_A27_A28_a_complex_pair_turns_and_fades():
    X = np.array([[-0.1, -1.0], [1.0, -0.1]])
    assert classify(X).row == "turn+fade"
    angle = {t: math.atan2(*transport(X, t)[::-1, 0]) for t in (0.5, 2.0)}
    assert angle == pytest.approx({0.5: 0.5, 2.0: 2.0})
    assert np.linalg.norm(transport(X, 2.0)[:, 0]) == pytest.approx(math.exp(-0.2))
    alpha, beta, theta = 0.3, 1.1, 0.7
    q, k = (np.array([[math.cos(a), math.sin(a)]]) for a in (alpha, beta))
    for t, s in ((3, 1), (5, 9)):
        a, b = (pe.apply_rope(x, positions=[p], freqs=[theta]) for x, p in ((q, t), (k, s)))
        assert (a @ b.T).item() == pytest.approx(math.cos(alpha - beta + theta * (t - s)))
        assert np.linalg.norm(a) == pytest.approx(1, rel=1e-15)


def test_claim_A29_turning_takes_a_plane():
    B = RNG.standard_normal((7, 7))
    assert classify(B - B.T).kinds == {"turn": 3, "nothing": 1}
    with pytest.raises(ValueError, match="plane"):
        rope(7)


def test_claim_A30_one_hand_wraps_a_bank_of_them_does_not():
    hands = turn([2 * math.pi / 60, 2 * math.pi / 3600, 2 * math.pi / 43200])  # second, minute, hour
    times = [36005, 39605, 36055]  # 10:00:05, 11:00:05, 10:00:55
    at = transport(hands, times)
    assert np.allclose(at[0, :4, :4], at[1, :4, :4], atol=1e-11)  # same second and minute hand
    assert np.abs(at[0, 4:, 4:] - at[1, 4:, 4:]).max() > 0.1
    assert np.abs(at[0, :2, :2] - at[2, :2, :2]).max() > 0.1


@pytest.mark.parametrize(("dim", "base", "slowest"), [
    (16, 1e4, 19869), (64, 1e4, 47117), (128, 1e4, 54410), (256, 1e4, 58470),
    (128, 1e2, 585), (128, 1e3, 5640), (128, 5e5, 2.559e6), (128, 1e6, 5.063e6)])  # fmt: skip
def test_claims_A31_A40_the_base_moves_the_slowest_hand(dim, base, slowest):
    wavelengths = pe.Rope(dim, base).wavelengths
    assert wavelengths.min() == pytest.approx(2 * math.pi, rel=1e-15)
    assert wavelengths.max() == pytest.approx(slowest, rel=6e-4)


def test_claim_A33_base_and_frequencies_are_two_words():
    for function in (pe.Rope, pe.apply_rope, rope):
        assert {"base", "freqs"} <= set(inspect.signature(function).parameters)
    with pytest.raises(TypeError, match="base"):
        pe.Rope(4, base=100.0, freqs=[1.0, 0.1])


# Three levels of RoPE


def test_claims_A34_A35_three_levels_agree():
    dense = pe.Rope(128).matrix(3.0)
    assert dense.size == 16384 and np.count_nonzero(dense) == 256
    assert np.count_nonzero(pe.Rope(128).matrix(0.0)) == 128
    x = RNG.standard_normal((1, 128))
    dials = [pe.Rope(2, freqs=[w]).matrix(3.0) for w in pe.Rope(128).freqs[0]]
    level2 = np.concatenate([R @ pair for R, pair in zip(dials, x.reshape(-1, 2), strict=True)])
    level3 = pe.apply_rope(x, positions=[3])[0]
    assert np.allclose(dense @ x[0], level3, atol=1e-14) and np.allclose(level2, level3, atol=1e-14)
    multiplications = np.count_nonzero(dials[0])
    assert (multiplications, multiplications - len(dials[0])) == (4, 2)  # a pair: 4 products, 2 sums


def test_claim_A36_the_table_of_eight_hands():
    shown = [1, 0.316, 0.1, 0.032, 0.01, 0.0032, 0.001, 0.00032]
    turns = [6.283, 19.869, 62.83, 198.7, 628.3, 1986.9, 6283.2, 19869]
    assert pe.Rope(16).freqs[0] == pytest.approx(shown, rel=0.015)
    assert pe.Rope(16).wavelengths.ravel() == pytest.approx(turns, rel=5e-5)


def test_claims_A37_A38_and_loose_h_the_gap_alone_counts_and_near_is_not_always_more():
    for t, s in ((5, 2), (13, 10), (103, 100)):
        assert rope_score(t, s) == pytest.approx(5.543101061304944, rel=1e-13)
    assert rope_score(7, 0) == pytest.approx(5.892185987417895, rel=1e-13)
    assert rope_score(7, 0) > rope_score(3, 0)


@pytest.mark.parametrize(("gap", "score"), [(0, 8.0), (5, 6.137040), (10, 3.646309), (63, 5.840419)])
def test_claim_A39_the_closed_form(gap, score):
    assert rope_score(gap, 0) == pytest.approx(score, abs=5e-7)
    assert rope_score(gap, 0) == pytest.approx(np.cos(pe.Rope(16).freqs[0] * gap).sum(), abs=1e-13)


# Slides, the list, the fence


def test_claim_A41_and_loose_a_defective_and_why_eigenvalues_are_not_all():
    answer = classify(slide())
    assert answer.is_defective and answer.segre == (2,) and not np.any(slide() @ slide())
    assert np.array_equal(np.linalg.eigvals(slide()), np.linalg.eigvals(nope(2)))
    assert answer.row == "slide" and classify(nope(2)).row == "nothing"


@pytest.mark.parametrize(("gap", "added"), [(-2, -1.0), (0, 0.0), (3, 1.5), (100, 50.0)])
def test_claim_A42_alibi_from_two_spare_slots(gap, added):
    assert encoding(slide()).score([0.5, 0], [0, 1], gap, 0) == added
    if gap >= 0:
        bias = pe.alibi_bias([gap], [0], slopes=0.5).item()
        assert encoding(alibi(0.5)).score([1, 0], [0, 1], gap, 0) == bias


def test_claim_A43_alibi_is_the_slide_of_bloom_and_mpt():
    assert classify(slide()).shipped_in == ("BLOOM", "MPT")
    for system in (generators.bloom(head=3), generators.mpt(head=3)):
        assert classify(system).row == "slide" and system.shape == (130, 130)


@pytest.mark.parametrize(("X", "row", "name"), [
    (fade(-0.1), "explode", "forbidden"), (nope(1), "nothing", "NoPE"), (fade(0.1), "fade", "decay"),
    (turn(1.0), "turn", "RoPE"), (turn(1.0) - 0.1 * np.eye(2), "turn+fade", "damped RoPE"),
    (slide(), "slide", "ALiBi")])  # fmt: skip
def test_claim_A44_the_six_rows(X, row, name):
    assert classify(X).row == row and generators.ROWS[row].encoding == name and len(generators.ROWS) == 6


def test_claim_A45_and_loose_g_rotation_keeps_all_and_stays_bounded():
    rows = [classify(X) for X in (turn(1.0), fade(0.1), slide(), fade(-0.1), turn(1.0) - 0.1 * np.eye(2))]
    assert [answer.row for answer in rows if answer.bounded and answer.information_preserving] == ["turn"]
    for X in (fade(0.1), slide()):  # in the other sense nothing is ever lost: each can be undone
        assert np.allclose(transport(X, -30.0) @ transport(X, 30.0), np.eye(len(X)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_claim_A47_the_sample_code_scores_gaps(dtype):
    q, k = RNG.standard_normal((2, 1, 8)).astype(dtype)
    cos, sin = pe.build_rope_cache(64, 8)

    def score(t, s):
        a, b = (pe.apply_rope(x, cos[p : p + 1], sin[p : p + 1]) for x, p in ((q, t), (k, s)))
        return (a @ b.T).item()

    assert score(13, 10) == pytest.approx(score(3, 0), abs=2e-6) == pytest.approx(score(43, 40), abs=4e-6)
    assert abs(score(5, 0) - score(3, 0)) > 1e-3


def test_claim_A48_scale_mask_softmax():
    q, k, v = RNG.standard_normal((3, 6, 8))
    scores = q @ k.T / np.sqrt(8) + np.triu(np.full((6, 6), -np.inf), 1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ v
    assert np.allclose(pe.attention(q, k, v, causal=True), expected, atol=1e-14)


def test_claim_A49_angles_stay_exact_in_short_numbers():
    x = np.tile([1.0, 0.0], (1, 8))
    for dtype in (np.float16, np.float32):
        at = [pe.apply_rope(x.astype(dtype), positions=[p]).astype(float) for p in (10003, 10000)]
        assert (at[0] @ at[1].T).item() == pytest.approx(5.543101, abs=32 * float(np.finfo(dtype).eps))
    angles = (np.array([10003, 10000], dtype=np.float16)[:, None] * pe.Rope(16).freqs[0].astype(np.float16))
    careless = np.cos(angles[0].astype(float) - angles[1].astype(float)).sum()
    assert abs(careless - 5.543101) > 0.3


@pytest.mark.parametrize(("word", "documented"), [
    ("group axioms", pe.check_group_axioms), ("identity", pe.check_group_axioms),
    ("invertible", generators.conjugate), ("homomorphism", pe.homomorphism_defect),
    ("one-parameter group", pe.group_law_residual), ("generator", classify), ("exp(tX)", transport),
    ("eigenvalue", classify), ("eigenvectors", generators.Classification.is_defective),
    ("ALiBi", alibi), ("RoPE", rope), ("No positional encoding", nope),
])  # fmt: skip
def test_claim_A50_docstrings_use_the_words_of_the_glossary(word, documented):
    assert word in inspect.getdoc(documented)


def test_claim_A50_and_the_words_mean_what_it_says():
    tick = 2.0**-20
    hand, once = transport(turn(1.0), tick), transport(turn(1.0), 1.0)
    assert np.allclose((hand - np.eye(2)) / tick, turn(1.0), atol=1e-6)  # generator: one infinitesimal tick
    assert np.allclose(np.linalg.matrix_power(hand, 2**20), once, atol=1e-9)  # exponential: any duration
    X = np.array([[-1.0, 1.0], [0.0, -3.0]])
    P = classify(X).basis  # eigenvalue: stretch factor along an unmixed direction
    assert np.allclose(X @ P, P * [-b.gamma for b in classify(X).blocks], atol=1e-15)
    for Y in (X, turn(1.0), slide(), np.eye(3, k=1)):  # defective: too few eigenvectors to diagonalise
        vectors = np.linalg.matrix_rank(np.linalg.eig(Y)[1], tol=1e-8)
        assert classify(Y).is_defective == (vectors < len(Y))
    rows = [generators.ROWS[classify(Y).row].encoding for Y in (nope(2), rope(2), alibi(1.0))]
    assert rows == ["NoPE", "RoPE", "ALiBi"]


# The rest of source document 2, and loose claims


def test_claims_B11_B12_every_skew_generator_rotates():
    n, theta = 5.0, 0.3
    expected = [[math.cos(n * theta), -math.sin(n * theta)], [math.sin(n * theta), math.cos(n * theta)]]
    assert np.allclose(transport(theta * np.array([[0, -1], [1, 0]]), n), expected, atol=1e-15)
    B = RNG.standard_normal((64, 64))
    B = B - B.T
    assert classify(B).kinds == {"turn": 32}
    R = transport(B, [2.0, 5.0, 3.0])
    assert np.allclose(R[0].T @ R[1], R[2], atol=1e-12) and np.allclose(R[0].T @ R[0], np.eye(64), atol=1e-13)


def test_claim_B20_scipy_computes_the_same():
    from scipy.linalg import expm

    for X in (rope(8), slide(), decay([0.1, 0.2]), RNG.standard_normal((5, 5))):
        assert np.allclose(transport(X, 1.5), expm(1.5 * X), rtol=0, atol=1e-12)


def test_loose_claim_f_three_things_are_called_fade():
    q, k, gap, rate = np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]]), 5.0, 0.1  # a negative score
    multiplied = encoding(decay(rate, 2)).score(q[0], k[0], gap, 0)
    added = (q @ k.T).item() + pe.decay_bias([gap], [0], rate=rate).item()
    pair = ((q, gap, rate), (k, 0.0, -rate))
    planes = [pe.apply_rope_nd(x, [[p]], [[0.0]], rate=[[r]]) for x, p, r in pair]
    damped = (planes[0] @ planes[1].T).item()
    assert multiplied == pytest.approx(-math.exp(-0.5)) and added == pytest.approx(-1.5)
    assert damped == pytest.approx(multiplied) and damped > (q @ k.T).item()  # it grew: nothing is forgotten


def test_loose_claim_k_the_generator_of_the_op_is_the_transpose():
    R = pe.Rope(8).matrix(3.0)
    assert np.allclose(transport(pe.Rope(8).generator(), 3.0), R.T, atol=1e-15)
    assert np.allclose(transport(turn(pe.Rope(8).freqs[0]), 3.0), R, atol=1e-15)


def test_loose_claim_m_reports_are_called_reports():
    assert "report about models, not a theorem" in " ".join(generators.__doc__.split())


def test_mixtures_exist_as_well():
    answer = classify(direct_sum(rope(4), alibi(0.5), decay(0.1)))
    assert answer.row == "mixed" and answer.kinds == {"turn": 2, "slide": 1, "fade": 1}
