"""Positions in any order: attention walks queries and keys by position, and gives what the formula gives."""

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa

import pe
import pe.reference

B, K, GROUP, M, N, D = 2, 2, 3, 90, 150, 24  # 270 queries of a key head: enough to be worth an order
H = K * GROUP
random = np.random.default_rng(5)


def shuffled(*lead, n):
    """Fractional positions 0.25, 1.25, ... in an order of its own for every row."""
    return random.permuted(np.broadcast_to(np.arange(n) + 0.25, (*lead, n)), axis=-1)


q = random.standard_normal((B, H, M, D))
k, v = random.standard_normal((2, B, K, N, D))
POSITIONS = {
    "shared": (shuffled(n=M) + 40, shuffled(n=N)),
    "keys alone": (None, shuffled(n=N)),
    "queries alone": (shuffled(n=M) + 40, None),
    "a batch": (shuffled(B, 1, n=M) + 40, shuffled(B, 1, n=N)),
    "a head": (shuffled(1, H, n=M) + 40, shuffled(1, K, n=N)),
    "a row": (shuffled(B, H, n=M) + 40, shuffled(B, K, n=N)),
    "equal ones": (np.sort(random.integers(0, 30, M))[::-1] * 4.0, random.integers(0, 40, N) * 4.0),
}
KEYWORDS = {
    "causal": {"causal": True},
    "window": {"causal": True, "window": 33},
    "both sides": {"window": (10, 20)},
    "mask": {"causal": True, "mask": random.random((B, H, M, N)) < 0.6},
    "bias": {"causal": True, "bias": random.standard_normal((H, M, N)), "softcap": 5.0},
    "distance": {"causal": True, "alibi_slopes": random.random(H), "decay_rate": random.random(H) / 9},
    "lengths": {"causal": True, "kv_lengths": [97, 1]},
    "segments": {"causal": True, "segments": (np.arange(M) // 30, np.arange(N) // 60)},
    "clock": {"causal": True, "clock": tuple(random.random((1, H, n)).cumsum(-1) for n in (M, N))},
    "rope": {"causal": True, "rope": pe.Rope(D, rotary_dim=16), "sinks": random.standard_normal(H)},
    "nothing": {},
}


@pytest.mark.parametrize("keywords", KEYWORDS)
@pytest.mark.parametrize("positions", POSITIONS)
@each_isa
def test_float64(positions, keywords, isa):
    t, s = POSITIONS[positions]
    given = {"q_positions": t, "k_positions": s, "return_lse": True, **KEYWORDS[keywords]}
    exact = pe.reference.attention(q, k, v, **given)
    for actual, wanted in zip(pe.attention(q, k, v, **given), exact, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=4e-14)


@pytest.mark.parametrize("dtype, bound", [(np.float32, 3e-6), (np.float16, 4e-3), (ml_dtypes.bfloat16, 3e-2)])
@pytest.mark.parametrize("keywords", ["causal", "window", "rope"])
@each_isa
def test_other_dtypes(keywords, dtype, bound, isa):
    t, s = POSITIONS["shared"]
    given = {"q_positions": t, "k_positions": s, **KEYWORDS[keywords]}
    arrays = [a.astype(dtype) for a in (q, k, v)]
    wanted = pe.reference.attention(*(a.astype(float) for a in arrays), **given)
    assert abs(pe.attention(*arrays, **given).astype(float) - wanted).max() <= bound


@pytest.mark.parametrize("n", [64, 1500])
def test_shuffling_and_back(n):
    """Queries and keys that are shuffled with their positions: rows come out shuffled, otherwise the same."""
    x, y, z = random.standard_normal((3, 2, n, 16)).astype(np.float32)
    there, from_there = random.permutation(n), random.permutation(n)
    plain = pe.attention(x, y, z, causal=True, window=100)
    moved = pe.attention(x[:, there], y[:, from_there], z[:, from_there], causal=True, window=100,
                         q_positions=there, k_positions=from_there)
    assert abs(moved - plain[:, there]).max() <= 1e-6


def test_same_bits_for_any_number_of_threads():
    x, y, z = random.standard_normal((3, 1, 2000, 32)).astype(np.float32)
    s = random.permutation(2000)
    given = {"causal": True, "q_positions": s, "k_positions": s}
    one, two = (pe.attention(x, y, z, num_threads=n, **given) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_a_zero_keeps_its_sign_beside_a_hidden_nan():
    """Sums that underflow to -0 stay so, whatever stands in a hidden row."""
    q, k, v = (np.full((20, 2), x, np.float32) for x in (1, -50, -0.0))
    k[:2], v[0], mask = [[0], [10]], -1e-45, np.ones((20, 20), bool)
    mask[:, 19] = False
    wanted = pe.attention(q, k, v, mask=mask)
    v[19] = np.nan
    assert (wanted == 0).all() and pe.attention(q, k, v, mask=mask).tobytes() == wanted.tobytes()


def test_what_is_hidden_may_be_anything():
    """A NaN at a later position touches no earlier query, wherever it lies."""
    s = random.permutation(N)
    values = v.copy()
    values[..., s == N - 1, :] = np.nan
    t = random.permutation(N - 1)[:M]
    wanted = pe.attention(q, k, v, causal=True, q_positions=t, k_positions=s)
    actual = pe.attention(q, k, values, causal=True, q_positions=t, k_positions=s)
    assert actual.tobytes() == wanted.tobytes()
