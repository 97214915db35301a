"""The plain path of every op gives the bits of the checked path, and leaves it what is wrong with a call."""

import importlib

import ml_dtypes
import numpy as np
import pytest

import pe
from pe import _core

BF16 = ml_dtypes.bfloat16
NAN = float("nan")
RNG = np.random.default_rng(0)


class Reluctant:
    """The core with no plain path: it refuses the first call, and so hears the second from the checks."""

    def __init__(self):
        self.asked = False

    def __getattr__(self, name):
        def call(*arguments):
            if self.asked:
                return getattr(_core, name)(*arguments)
            self.asked = True
            return NotImplemented

        call.__name__ = name
        return call


def outcome(op, arguments, keywords):
    """What comes back, as dtypes, shapes and bytes, or the error."""
    try:
        result = op(*arguments, **keywords)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    parts = result if isinstance(result, tuple) else (result,)
    flat = [np.asarray(each) for part in parts for each in (part if isinstance(part, tuple) else (part,))]
    return [(each.dtype, each.shape, each.tobytes()) for each in flat]


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def rising(*shape, dtype=np.float64):
    return np.cumsum(RNG.random(shape) * 3, axis=-1).astype(dtype)


H, M, N, D = 2, 3, 5, 4
TIMES = [rising(N), rising(N, dtype=np.float32), np.arange(N), np.arange(N, dtype=np.int32), rising(H, N),
         rising(1, N), rising(M), -rising(N), rising(N + 1), rising(1), np.full(N, NAN), np.array(1.0),
         rising(1, H, N), [0, 1, 2, 3, 4], None]
PAIRS = [(rising(M), rising(N)), (rising(H, M), rising(H, N)), (rising(N), rising(M)), (None, rising(N)),
         (rising(M), None), (rising(M),), (np.arange(M), np.arange(N)), (-rising(M), rising(N))]
POINTS = [np.arange(N) - 2, np.arange(N) / 2, np.arange(N, dtype=np.int16), np.arange(N)[None, :],
          np.arange(H * N).reshape(H, N), np.array([2**53 + 1] * N), np.arange(M),
          [3, 1, 2, 0, 0], [0.5, 2, np.float64(1), 2**53, -1.0], [True] * N, [2**53 + 1] * N, [NAN] * N, [],
          [[0, 1, 2, 3, 4]], [0, 1, 2, 3, "4"], (0, 1, 2, 3, 4), 5, NAN, None]
NUMBERS = [0.5, 2, 0, -1.0, NAN, np.inf, 1e-320, True, "2", np.float32(0.5), np.float64(0.25), None]
HEADS = [np.array([0.5, 0.25]), np.array([0.5, 0.25], np.float32), np.array([1.0, 0.5], np.float16),
         np.array([0.5, 1.0], BF16), np.array([-0.5, 1.0]), np.array([0.5]), np.array(0.5), np.ones(H + 1),
         np.array([1, 2]), [0.5, 0.25], [1, 2], [1, 0.5], [0.5], [0.5, -1], [0.5, True], [0.5, 2**70],
         [np.float32(0.5), 0.1], [NAN, 1], [], (0.5, 0.25), np.array([[0.5, 0.25]]), np.array([NAN, 1.0])]
DTYPES = [np.float32, "float64", BF16, np.float16, ">f4", int, "nonsense", None]
ROPES = [pe.Rope(D), pe.Rope(D, layout="half", amplitude=1.5), pe.Rope(6), "half", None,
         pe.Rope(D, freqs=[[1.0, 0.0], [0.0, 0.5]])]
FLAGS = [True, False, np.bool_(True), 1, None]
THREADS = [1, None, 2, 0, True, 2**40]
COUNTS = [N, M, 0, -1, True, np.int64(N), 2**60]
Q, K, V = normal(1, H, M, D), normal(1, H, N, D), normal(1, H, N, 3)
ROWS = normal(1, H, N, D)
TABLES = [normal(N, 2, dtype=float), normal(N, 2), normal(1, H, N, 2), normal(1, 1, 1, 2), normal(N, D),
          normal(N, 1), normal(N + 1, 2), normal(1, 2), normal(2), normal(N, 4)[:, ::2],
          normal(N, 2, dtype=np.float16), normal(N, 2).tolist(), np.ones((N, 2), int), np.array(1.0), "no",
          None]


def out_of(*shape):
    read_only = np.ones(shape, np.float32)
    read_only.flags.writeable = False
    return [np.full(shape, 7, np.float32), np.full(shape, 7.0), np.full(shape, 7, BF16), read_only,
            np.full((*shape, 2), 7, np.float32)[..., 0], np.ones(shape[1:], np.float32),
            np.ones(shape, int), None]


CALLS = {
    "decay_bias": (([*COUNTS, *POINTS], [*COUNTS, *POINTS]), {
        "rate": [*NUMBERS, *HEADS], "half_life": [*NUMBERS, *HEADS], "multiplier": [*NUMBERS, *HEADS],
        "clock": [*TIMES, *PAIRS], "causal": FLAGS, "dtype": DTYPES, "out": out_of(H, M, N),
        "num_threads": THREADS}),
    "alibi_bias": (([*COUNTS, *POINTS], [*COUNTS, *POINTS]), {
        "slopes": [*NUMBERS, *HEADS, pe.alibi_slopes], "causal": FLAGS, "dtype": DTYPES,
        "out": out_of(H, N, N), "num_threads": THREADS}),
    "attention": (([Q, Q.astype(BF16), normal(H, M, D), normal(2 * H, M, D), normal(M, D)],
                   [K, K.astype(float)], [V, V[..., ::2]]), {
        "scale": NUMBERS, "causal": FLAGS, "softcap": NUMBERS,
        "window": [1, 2, 0, 2.5, (1, 1), (None, 2), (2, None), (NAN, 1), (-1, 1), (1,), [1, 0], np.int64(2),
                   True],
        "alibi_slopes": [*NUMBERS, *HEADS], "decay_rate": [*NUMBERS, *HEADS], "sinks": [*NUMBERS, *HEADS],
        "clock": [*TIMES, *PAIRS], "rope": ROPES,
        "segments": [(np.arange(M) // 2, np.arange(N) // 2), (np.zeros(M, np.int8), [0] * N),
                     np.zeros(N, int), (None, np.zeros(N, int)), (np.zeros(M, int),), (None, None),
                     (np.zeros(M), np.zeros(N)), (np.zeros((1, 1, M), int), np.zeros((1, H, N), int)),
                     ([0, 0, 1], [0, 0, 0, 1, 1]), ([0, 0, 1], [0.0] * N), ([0] * N, [0] * N)],
        "q_positions": [np.arange(M), np.arange(2 * M).reshape(M, 2), np.arange(M) / 2, *POINTS],
        "k_positions": [np.arange(2 * N).reshape(N, 2), *POINTS],
        "kv_lengths": [N, 2, 0, -1, N + 1, np.int64(3), np.array([2]), np.array([2], np.int32), [2],
                       np.array(2), True, 2.0, np.timedelta64(2, "s")],
        "return_lse": FLAGS, "out": out_of(1, H, M, 3), "num_threads": THREADS}),
    "retention": (([ROWS, ROWS.astype(BF16), ROWS[0], normal(N, D), normal(1, 2 * H, N, D)], [ROWS, ROWS[0]],
                   [ROWS[..., :3], ROWS[0]]), {
        "rate": [*NUMBERS, *HEADS], "multiplier": [*NUMBERS, *HEADS], "clock": [*TIMES, *PAIRS],
        "rope": ROPES, "positions": [*TIMES, *POINTS], "scale": NUMBERS, "return_state": FLAGS,
        "out": out_of(1, H, N, 3),
        "state": [pe.RetentionState(normal(1, H, D, 3)), pe.RetentionState(normal(1, H, D, 3), 2.5),
                  pe.RetentionState(normal(H, D, 3), 4, 1.0), pe.RetentionState(normal(1, H, D, 3), NAN),
                  ROWS],
        "num_threads": THREADS}),
    "apply_rope": (([ROWS, ROWS.astype(BF16), ROWS[0], ROWS[..., :3], ROWS[0, 0, 0]],), {
        "positions": [np.arange(2 * N).reshape(N, 2), *POINTS], "rope": ROPES,
        "layout": ["half", "neox", "no", 1, None], "base": [*NUMBERS, 500.0], "inverse": FLAGS,
        "rotary_dim": [2, 4, 0, 1, 3, 6, -2, 2**70, True, 2.0, np.int64(2), None],
        "freqs": [np.array([1.0, 0.1]), np.array([0.5]), np.array([0.5, 0.5]), np.array([0.1, 1.0]),
                  np.array([1.0, 0.1], np.float32), np.array([1.0, NAN]), np.array([NAN, 1.0]), np.array([]),
                  np.array([np.inf, 1.0]), np.ones(3), np.ones((2, 2)), np.array([1, 0]), np.array([1j, 1]),
                  np.array([1.0, 0.5, 0.1])[::2], [1.0, 0.1], [0.5], [1.0, 1], [0.1, 1.0], [1.0, NAN],
                  [NAN, 1.0], [np.float64(1), np.float32(0.1)], [1.0, "1", 0.5], [[1.0, 0.1]], [1.0] * 3, [],
                  (1.0, 0.1), 1.0, "1"],
        "out": out_of(1, H, N, D), "num_threads": THREADS}),
    "apply_rope with tables": (([ROWS, ROWS.astype(BF16), ROWS[0], ROWS[..., :3], ROWS[0, 0, 0]], TABLES,
                                [TABLES[0] - 1, *TABLES]), {
        "layout": ["half", "neox", "no", 1, None], "rotary_dim": [4, 2, 6], "inverse": FLAGS,
        "positions": [np.arange(N), None], "rope": ROPES, "freqs": [[1.0, 0.1], None], "base": [500.0, None],
        "out": out_of(1, H, N, D), "num_threads": THREADS}),
    "apply_rope_2d": (([ROWS, ROWS.astype(float), ROWS[0], ROWS[..., :3], ROWS[0, 0, 0], ROWS[..., :0]],
                       [np.arange(N), *POINTS], [np.arange(N) / 2, *POINTS]), {
        "freqs": [[0.5], np.array([[1.0], [0.5]]), np.ones(2)], "base": [*NUMBERS, 100.0, 1e31, 10**400],
        "layout": ["half", "split", "no", 1, None], "inverse": FLAGS, "out": out_of(1, H, N, D),
        "num_threads": THREADS}),
    "apply_rope_nd": (([ROWS, ROWS.astype(float), ROWS[0], ROWS[0, 0, 0]],
                       [np.arange(2 * N).reshape(N, 2), np.arange(2 * N).reshape(1, 1, N, 2) / 2,
                        np.arange(N)[:, None], np.full((N, 2), NAN), np.full((1, 2), 3),
                        np.ones((1, 1, 2 * N, 1)), *POINTS],
                       [normal(2, 2, dtype=float), normal(2, H, 2, dtype=float), normal(1, 2, dtype=float),
                        normal(2, 2), np.full((2, 2), NAN), np.ones((2, 3))]), {
        "rate": [np.full((2, 2), 0.1), np.full((1, 2), -0.1), np.full((2, 2), 60.0), np.full((2, 2), NAN),
                 np.full((2, 2), np.inf), [[1.0, 0.0], [0.0, 1.0]], np.zeros(2),
                 np.array([[60.0] * 2, [-60.0] * 2]), np.array([[NAN, 0.1], [0.1, 0.1]])],
        "layout": ["half", "neox", None], "inverse": FLAGS, "out": out_of(1, H, N, D),
        "num_threads": THREADS}),
    "merge_attention": (([[Q, Q], (Q, Q + 1, Q), np.stack([Q, Q]), [Q, Q.astype(np.float16)], [Q], [],
                          Q[0, 0, 0], [Q, K], [Q, Q[..., ::2]], [Q, Q.astype(BF16)],
                          [np.asfortranarray(Q)] * 2, 3],
                         [[Q[..., 0]] * 2, np.zeros((2, 1, H, M)), [np.zeros((1, H, M))] * 3, [Q[..., 0]],
                          [np.full((1, H, M), -np.inf)] * 2, [np.full((1, H, M), NAN), Q[..., 0]],
                          [Q[..., 0].astype(np.float16)] * 2, [[[[0] * M] * H]] * 2, (), 3.0]), {}),
}

WORDS = {word: choices for word, choices in CALLS["attention"][1].items()
         if word not in ("return_lse", "out", "num_threads")}
GATES = [-rising(M), -rising(H, N), -normal(2, M) ** 2, -normal(M)[::-1] ** 2, np.full(2, -np.inf),
         np.full((2, 3), NAN), -np.arange(3), normal(2, 3).astype(BF16), -rising(2, dtype=np.float16), -1.0,
         [-0.5, -1], np.zeros((2, 0))]
CALLS |= {
    "attention_weights": (CALLS["attention"][0][:2], WORDS | {
        "stage": ["weights", "biased", "scores", "softcapped", np.str_("biased"), "logits", b"no", None]}),
    "clock": ((GATES, [-1, 0, 1, -2, 5, True, 2**70, np.int64(0), 0.0, None]), {}),
    "positions_from_mask": (([normal(M, N) > 0, (normal(N) > 0)[::-2], (normal(2, 3) > 0).T, np.array(True),
                              [True, False], np.ones(3), np.ones((2, 0), bool), None],), {}),
    "positions_from_lengths": (([np.array([3, 0, 2]), np.array([3, 2], np.int8)[::-1], [3, 2], [3, -1],
                                 [True], [2.0], [], np.array([2**63], np.uint64), np.array([[1]]), 3,
                                 (3, 2)],), {}),
    "sinusoidal": (([*POINTS, normal(2, 3), normal(2, 3).T.astype(float)],
                    [4, 6, 2, 3, 0, 4.0, True, np.int32(4)]), {"base": [*NUMBERS, 100, 10**400]}),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CALLS)
def test_both_paths_agree(monkeypatch, name, seed):
    """Random calls, most with a word or two, good and bad; those that try no plain path say nothing."""
    rng, op = np.random.default_rng(seed), getattr(pe, name.split()[0])
    places, words = CALLS[name]
    taken = refused = 0
    for _ in range(1000):
        arguments = [choices[rng.integers(2) * rng.integers(len(choices))] for choices in places]
        chosen = [word for word in words if rng.random() < 2 / len(words)]
        keywords = {word: words[word][rng.integers(len(words[word]))] for word in chosen}
        if name == "apply_rope":
            keywords.setdefault("positions", np.arange(N))
        plain = outcome(op, arguments, keywords)
        if isinstance(op, _core.Op):
            checked = outcome(op.__wrapped__, arguments, keywords)
        else:
            with monkeypatch.context() as patch:
                patch.setattr(importlib.import_module(op.__module__), "_core", Reluctant())
                try:
                    checked = outcome(op, arguments, keywords)
                except RuntimeError as untried:
                    assert "that pe._check had passed" in str(untried)
                    continue
        assert plain == checked, (name, arguments, keywords)
        taken += isinstance(plain, list)
        refused += isinstance(plain, tuple)
    assert taken > 15 and refused > 15


@pytest.mark.parametrize("rope", ROPES[:2])
def test_a_shift(monkeypatch, rope):
    for k in ROWS, ROWS[0, 0], ROWS[0, 0, 0], ROWS[..., :3], ROWS.astype(BF16):
        for delta in 3, -2.5, 0, 2**53, 2**53 + 1, 10**400, NAN, True, np.float64(3), [1, 2], "3":
            plain = outcome(rope.shift, (k, delta), {})
            with monkeypatch.context() as patch:
                patch.setattr(importlib.import_module("pe.rope.rope"), "_core", Reluctant())
                assert outcome(rope.shift, (k, delta), {}) == plain


# What Python alone makes plain


def test_one_head_of_integers_by_a_clock():
    q, clock = np.arange(24).reshape(6, 4) % 5, np.cumsum(normal(6) ** 2)
    x = q.astype(np.float64)
    result = pe.attention(q, q, q, clock=clock, causal=True)
    np.testing.assert_array_equal(result, pe.attention(x, x, x, clock=clock, causal=True))


def test_a_scale_that_is_an_array_of_no_axes():
    x = normal(3, 4)
    result = pe.attention(x, x, x, scale=np.array(0.3))
    np.testing.assert_array_equal(result, pe.attention(x, x, x, scale=0.3))


def test_one_row_of_tables_turns_one_vector():
    x, tables = normal(8), pe.build_rope_cache(5, 8)
    row = [table[3:4] for table in tables]
    np.testing.assert_array_equal(pe.apply_rope(x, *row), pe.apply_rope(x[None], *row)[0])


def test_frequencies_with_one_row_for_all_heads():
    x, positions, freqs = normal(2, 3, 5, 8), normal(5, 2), normal(2, 1, 4)
    result = pe.apply_rope_nd(x, positions, freqs)
    np.testing.assert_array_equal(result, pe.apply_rope_nd(x, positions, freqs[:, 0]))


def test_two_axes_of_no_coordinates():
    assert pe.apply_rope_2d(np.ones((3, 0)), np.arange(3), np.arange(3), freqs=[]).shape == (3, 0)
