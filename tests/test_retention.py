"""retention: golden numbers, its twin, one state for all ways to cut a call.

Layouts, outs, threads and sizes about the edges of vectors and chunks are in `test_matrix`.
"""

import pickle
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from golden_cases import op_cases
from isas import each_isa
from processes import output

import pe
from pe import reference

BF16 = np.dtype(ml_dtypes.bfloat16)
TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}     # of the largest


def normal(*shape, dtype="f8", seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def qkv(T, D=8, V=6, heads=4, key_heads=2, dtype="f8"):
    return (normal(2, heads, T, D, dtype=dtype), normal(2, key_heads, T, D, dtype=dtype, seed=1),
            normal(1, key_heads, T, V, dtype=dtype, seed=2))


def close(got, want, tolerance):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.max(np.abs(want), initial=1e-300))


# Golden numbers


FILES = {"retention_core": (11, 11), "retention_peers": (7, 7), "retention_fla": (2, 4)}
FORWARD = {"retention", "retention_vjp"}        # the gradients' cases hold results of the op, too
CASES = [case for file in FILES for case in op_cases(file) if case.op in FORWARD]


def call_golden(ops, case, dtype):
    a, keywords = dict(case.args), dict(case.kwargs)
    q, k, v = (a.pop(name).astype(dtype) for name in "qkv")
    if "rope_freqs" in a:
        keywords["rope"] = pe.Rope(q.shape[-1], freqs=a.pop("rope_freqs"), layout=keywords.pop("rope_layout"))
    if "q_positions" in a:
        keywords["positions"] = a.pop("q_positions")
    if "state" in a:
        keywords["state"] = pe.RetentionState(a.pop("state"))
    assert set(a) - {"dout", "dstate_out"} == {"rate"}
    return ops.retention(q, k, v, rate=a["rate"], return_state=True, **keywords)


def by_query_head(S, heads):
    return np.repeat(S, heads // S.shape[-3], axis=-3)


@pytest.mark.parametrize("file", FILES)
def test_every_golden_case_runs(file):
    everything = list(op_cases(file))
    assert (sum(case.op in FORWARD for case in everything), len(everything)) == FILES[file]
    assert {case.op for case in everything} <= FORWARD | {"attention"}


@each_isa
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden(case, isa, dtype):
    out, state = call_golden(pe, case, dtype)
    tolerance = TOLERANCE[np.dtype(dtype).name]
    close(out, case.expect["out"], tolerance)
    close(by_query_head(state.S, out.shape[-3]), case.expect["state_out"], tolerance)
    assert out.dtype == state.S.dtype == dtype
    for name, peer in case.peer_out.items():                # float32 inside
        ours = by_query_head(state.S, out.shape[-3]) if "state" in name else out
        close(ours, by_query_head(peer, out.shape[-3]), 1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_of_the_twin(case):
    out, state = call_golden(reference, case, "f8")
    close(out, case.expect["out"], 1e-13)
    close(by_query_head(state.S, out.shape[-3]), case.expect["state_out"], 1e-13)


def test_a_golden_state_is_the_next_call():
    """MiniMax: 13 tokens into a cache, then eight single steps."""
    cases = {case.name: case for case in CASES}
    first, after = cases["minimax_first_13"], cases["minimax_next_8"]
    _, state = call_golden(pe, first, "f8")
    for i in range(8):
        row = [after.args[name][..., i:i + 1, :].astype("f8") for name in "qkv"]
        out, state = pe.retention(*row, rate=after.args["rate"], scale=1.0, state=state, return_state=True)
        close(out, after.expect["out"][..., i:i + 1, :], 1e-13)
    assert state.position == 20
    close(state.S, after.expect["state_out"], 1e-13)


# The twin, over keywords drawn at random


def drawn(seed):
    """Operands and keywords of a call, and a dtype."""
    rng = np.random.default_rng(seed)
    T, D, V = int(rng.integers(1, 150)), 2 * int(rng.integers(2, 20)), int(rng.integers(1, 140))
    key_heads = int(rng.integers(1, 4))
    heads, dtype = key_heads * int(rng.integers(1, 4)), rng.choice(["f8", "f4", "f2", "bf16"])
    dtype = BF16 if dtype == "bf16" else np.dtype(dtype)
    batch = [(2,), (1,), ()][rng.integers(3)]
    q = rng.normal(size=(*batch, heads, T, D)).astype(dtype)
    k, v = (rng.normal(size=(2, key_heads, T, n)).astype(dtype) for n in (D, V))
    keywords = {"return_state": bool(rng.integers(2))}
    rates = rng.choice([1e-3, 0.03, 0.5, 4.0], [(), (key_heads,), (heads,)][rng.integers(3)])
    keywords |= [{"rate": rates}, {"multiplier": np.exp(-rates)}][rng.integers(2)]
    if rng.integers(3) == 0:
        clock = np.cumsum(rng.exponential(size=[(T,), (2, 1, T), (1, heads, T)][rng.integers(3)]), axis=-1)
        keywords["clock"] = clock
        if rng.integers(2):
            del keywords["rate" if "rate" in keywords else "multiplier"]
    axes = int(rng.integers(3))
    if axes:
        freqs = -np.sort(-rng.exponential(size=(axes, int(rng.integers(1, D // 2 + 1)))))
        keywords["rope"] = pe.Rope(D, freqs=freqs, layout=str(rng.choice(["half", "interleaved"])))
    if axes == 2 or rng.integers(2):
        lead = [(), (2, 1), (1, key_heads)][rng.integers(3)]
        p = np.cumsum(rng.exponential(size=(*lead, T)), axis=-1)
        keywords["positions"] = np.stack([p, rng.normal(size=p.shape)], -1) if axes == 2 else p
    if rng.integers(2):
        S = rng.normal(size=(int(rng.integers(1, 3)), [key_heads, heads][rng.integers(2)], D, V))
        position = [-1, -3.5, rng.uniform(-2, 0, (2, 1))][rng.integers(3)]
        keywords["state"] = pe.RetentionState(S, position, *([-0.5] if "clock" in keywords else []))
    if rng.integers(2):
        keywords["scale"] = -0.3
    return (q, k, v), keywords, dtype


@each_isa
@pytest.mark.parametrize("seed", range(60))
def test_twin(seed, isa):
    values, keywords, dtype = drawn(seed)
    got, want = pe.retention(*values, **keywords), reference.retention(*values, **keywords)
    if keywords["return_state"]:
        (got, state), (want, twin) = got, want
        assert state.S.dtype == twin.S.dtype == ("f8" if dtype == "f8" else "f4")
        close(state.S, twin.S, 1e-13 if dtype == "f8" else 2e-6)
        np.testing.assert_array_equal(state.position, twin.position)
        assert (state.clock is None) == (twin.clock is None)
        if state.clock is not None:
            np.testing.assert_array_equal(state.clock, twin.clock)
    assert got.dtype == want.dtype == dtype
    close(got, want, TOLERANCE[dtype.name])


@each_isa
def test_accuracy_in_float32(isa):
    """As good as the float32 textbook formula on the same inputs."""
    q, k, v = (normal(1, 2, 512, 64, dtype="f4", seed=i) for i in range(3))
    rate = np.array([0.0, 0.05])
    exact = reference.retention(*(a.astype("f8") for a in (q, k, v)), rate=rate)
    gap = np.subtract.outer(np.arange(512), np.arange(512))
    fade = np.where(gap >= 0, np.exp(-rate[:, None, None] * np.maximum(gap, 0)), 0).astype("f4")
    textbook = (q @ k.swapaxes(-1, -2) * np.float32(0.125) * fade) @ v
    ours, theirs = (np.abs(a - exact).max() for a in (pe.retention(q, k, v, rate=rate), textbook))
    assert ours <= 1.5 * theirs


# One state, however a call is cut


@each_isa
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("cuts", [[0, 200], [0, 64, 128, 200], [0, 1, 2, 63, 66, 199, 200], range(201)],
                         ids=len)
@pytest.mark.parametrize("kind", ["plain", "rope", "clock", "positions", "equal rates", "two axes"])
def test_chunks_and_steps_agree_with_the_whole(kind, cuts, dtype, isa):
    q, k, v = qkv(200, dtype=dtype)
    rate = np.array([0.1, 0.1, 0.02, 0.02] if kind == "equal rates" else [0.0, 0.02, 0.3, 2.0])
    every = {"plain": {}, "equal rates": {}, "rope": {"rope": pe.Rope(8)},
             "clock": {"clock": np.cumsum(abs(normal(2, 4, 200)), -1), "rope": pe.Rope(8)},
             "positions": {"positions": np.cumsum(abs(normal(2, 1, 200)), -1), "rope": pe.Rope(8)},
             "two axes": {"positions": normal(200, 2), "rope": pe.Rope(8, freqs=normal(2, 4))}}[kind]
    whole, end = pe.retention(q, k, v, rate=rate, return_state=True, **every)
    parts, state = [], None
    for a, b in pairwise(cuts):
        some = {name: value if name == "rope" else value[a:b] if kind == "two axes" else value[..., a:b]
                for name, value in every.items()}
        part, state = pe.retention(*(x[..., a:b, :] for x in (q, k, v)), rate=rate, state=state,
                                   return_state=True, **some)
        parts.append(part)
    tolerance = 1e-13 if dtype == "f8" else 3e-6
    close(np.concatenate(parts, axis=-2), whole, tolerance)
    close(state.S, end.S, tolerance)
    assert state.S.shape == (2, 2 if kind == "equal rates" else 4, 8, 6)
    np.testing.assert_array_equal(state.position, end.position)
    if kind in ("plain", "rope"):
        assert state.position == 199 and type(state.position) is int
    if kind == "clock":
        np.testing.assert_array_equal(state.clock, every["clock"][..., -1])


@each_isa
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("V", [1, 5, 32, 67, 130])
def test_one_row_after_a_state_is_the_last_of_two(V, dtype, isa):
    """One row walks the state where it stands, two go by tiles."""
    q, k, v = qkv(3, D=10, V=V, dtype=BF16 if dtype == "bfloat16" else dtype)
    turning = {"rate": np.array([0.3, 0.3, 0.0, 0.0]), "rope": pe.Rope(10)}

    def retain(a, b, **keywords):
        return pe.retention(q[:, :, a:b], k[:, :, a:b], v[:, :, a:b], **keywords, **turning)

    _, start = retain(0, 1, return_state=True)
    held = start.S.copy()
    both, end = retain(1, 3, state=start, return_state=True)
    row, state = retain(1, 2, state=start, return_state=True)
    alone = retain(2, 3, state=state)
    last, state = retain(2, 3, state=state, return_state=True)
    close(np.concatenate([row, last], axis=-2), both, TOLERANCE[dtype])
    close(state.S, end.S, TOLERANCE["float64" if dtype == "float64" else "float32"])
    assert alone.tobytes() == last.tobytes() and start.S.tobytes() == held.tobytes()


def test_a_state_of_key_heads_serves_rates_that_differ():
    q, k, v = qkv(5)
    _, state = pe.retention(q, k, v, rate=0.5, return_state=True)
    assert state.S.shape == (2, 2, 8, 6)
    rates = [0.5, 0.1, 0.2, 0.5]
    wanted = pe.retention(q, k, v, rate=rates, state=state._replace(S=np.repeat(state.S, 2, axis=1)))
    np.testing.assert_array_equal(pe.retention(q, k, v, rate=rates, state=state), wanted)


def test_a_state_is_not_written():
    q, k, v = qkv(9)
    state = pe.RetentionState(normal(2, 2, 8, 6))
    before = state.S.copy()
    _, after = pe.retention(q, k, v, rate=0.1, state=state, return_state=True)
    np.testing.assert_array_equal(state.S, before)
    assert not np.may_share_memory(after.S, state.S)


@pytest.mark.parametrize("dtype", ["f2", BF16, "f4", "f8"], ids=str)
def test_a_state_keeps_the_compute_type(dtype):
    """16-bit values: steps lose no more than the rounding of each row."""
    q, k, v = qkv(300, dtype=dtype)
    state, rows = None, []
    for i in range(300):
        row = [a[..., i:i + 1, :] for a in (q, k, v)]
        row, state = pe.retention(*row, rate=0.01, state=state, return_state=True)
        rows.append(row)
    assert rows[0].dtype == dtype and state.S.dtype == ("f8" if dtype == "f8" else "f4")
    wanted = reference.retention(q, k, v, rate=0.01)
    close(np.concatenate(rows, axis=-2), wanted, TOLERANCE[np.dtype(dtype).name])
    strange = pe.retention(q, k, v, rate=0.01, state=pe.RetentionState(np.ones((1, 2, 8, 6), ">f8")))
    assert strange.dtype == dtype


def test_states_pickle_with_equal_bytes():
    q, k, v = qkv(9)
    _, state = pe.retention(q, k, v, rate=0.1, return_state=True)
    again = pickle.loads(pickle.dumps(state))
    assert type(again) is pe.RetentionState and again.position == 8
    assert pickle.dumps(again) == pickle.dumps(state)
    np.testing.assert_array_equal(again.S, state.S)


# What decays, and what does not


def test_rate_0_is_linear_attention():
    q, k, v = (normal(1, 1, 300, 4, seed=i) for i in range(3))
    sums = np.cumsum(k[..., :, None] * v[..., None, :], axis=-3)
    wanted = (q[..., None, :] @ sums)[..., 0, :] / 2
    close(pe.retention(q, k, v, rate=0), wanted, 1e-13)


@each_isa
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("rate", [700.0, 1e30, 1e300, np.finfo("f8").max])
def test_large_rates_leave_the_own_row_and_nothing_overflows(rate, dtype, isa):
    q, k, v = qkv(200, dtype=dtype)
    out, state = pe.retention(q, k, v, rate=rate, return_state=True)
    k, v = (np.repeat(a.astype("f8"), 2, axis=1) for a in (k, v))
    own = (q.astype("f8") * k).sum(-1, keepdims=True) * v / np.sqrt(8)
    close(out, own, TOLERANCE[np.dtype(dtype).name])
    close(state.S, k[:, ::2, -1, :, None] * v[:, ::2, -1, None, :], 1e-6)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_far_rows_underflow_to_nothing(dtype):
    """0.96875^n is subnormal in float32 from n = 2751 on and 0 from 3275: the sum does not notice."""
    ones = np.ones((4000, 1), dtype)
    out = pe.retention(ones, ones, ones, multiplier=0.96875)
    close(out[-1], [32.0], 1e-6)
    gaps = pe.retention(ones, ones, ones, rate=1.0, positions=1e12 * np.arange(4000))
    np.testing.assert_array_equal(gaps, ones)


def test_retnet_rates_beyond_float32():
    """1 - 2^-25 is 1 in float32; the rate is not 0."""
    q, k, v = (np.ones((1, 2000, 1)) for _ in range(3))
    rate = -np.log1p(-2.0**-25)
    wanted = -np.expm1(-2000 * rate) / -np.expm1(-rate)
    close(pe.retention(q, k, v, rate=rate)[0, -1], [wanted], 1e-12)
    close(pe.retention(q, k, v, multiplier=1 - 2.0**-25)[0, -1], [wanted], 1e-9)


def test_it_is_the_decay_bias_without_a_softmax():
    q, k, v = (normal(1, 50, 8, seed=i) for i in range(3))
    fade = np.exp(pe.decay_bias(50, rate=0.1))
    close(pe.retention(q, k, v, rate=0.1), (q @ k.swapaxes(-1, -2) * fade) @ v / np.sqrt(8), 1e-13)


def test_equal_clocks_and_positions_go_by_the_order_of_rows():
    """Rows at one position: each sees itself and those before it, as in single steps."""
    q, k, v = (np.ones((6, 1)) for _ in range(3))
    at = [0, 0, 0, 1, 1, 1]
    for steer in ({"positions": at}, {"clock": at}):
        got = pe.retention(q, k, v, rate=np.log(2), **steer).ravel()
        np.testing.assert_allclose(got, [1, 2, 3, 2.5, 3.5, 4.5], rtol=1e-15)


def test_scores_depend_on_gaps_alone():
    """Far positions lose nothing to float32."""
    q, k, v = qkv(100, dtype="f4")
    rope = pe.Rope(8)
    near, far = (pe.retention(q, k, v, rate=0.1, rope=rope, positions=p + np.arange(100)) for p in (0, 2**40))
    close(far, near, 2e-5)
    plain, shifted = (pe.retention(q, k, v, rate=0.1, positions=p + np.arange(100)) for p in (0, 2**40))
    np.testing.assert_array_equal(plain, shifted)


# The future, NaN and infinity


@each_isa
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 1, 17, 40, 63, 64, 100, 129])
def test_nothing_leaks_from_the_future(row, value, dtype, isa):
    q, k, v = qkv(130, V=70, dtype=dtype)
    wanted = pe.retention(q, k, v, rate=0.1)
    for name in "kv":
        spoilt = {"q": q.copy(), "k": k.copy(), "v": v.copy()}
        spoilt[name][..., 0, row, 1] = value
        out = pe.retention(**spoilt, rate=0.1)
        np.testing.assert_array_equal(out[..., :row, :], wanted[..., :row, :])
        np.testing.assert_array_equal(out[:, 2:], wanted[:, 2:])            # the other key head
        own = out[:, :2, row:] if name == "k" else out[:, :2, row:, 1]
        assert not np.isfinite(own).any()
    q = q.copy()
    q[:, 1, row, 0] = np.nan
    out = pe.retention(q, k, v, rate=0.1)
    nan = np.zeros(out.shape, bool)
    nan[:, 1, row] = True
    np.testing.assert_array_equal(np.isnan(out), nan)
    np.testing.assert_array_equal(out[~nan], wanted[~nan])


# Shapes


def test_one_head_of_two_axes():
    q, k, v = (normal(70, n, seed=n) for n in (8, 8, 5))
    k = normal(70, 8, seed=9)
    out, state = pe.retention(q, k, v, rate=[0.1], return_state=True)
    assert out.shape == (70, 5) and state.S.shape == (8, 5)
    many, _ = pe.retention(q[None], k, v, rate=0.1, return_state=True)
    np.testing.assert_array_equal(many[0], out)
    more, state = pe.retention(q, k, v, rate=0.1, state=state, return_state=True)
    twin, _ = reference.retention(q, k, v, rate=0.1, state=pe.RetentionState(
        reference.retention(q, k, v, rate=0.1, return_state=True)[1].S, 69), return_state=True)
    close(more, twin, 1e-13)
    assert state.position == 139


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_empty_axes(dtype):
    z = np.zeros
    for q, k, v in [((2, 4, 0, 8), (2, 2, 0, 8), (2, 2, 0, 6)), ((0, 4, 5, 8), (0, 2, 5, 8), (0, 2, 5, 6)),
                    ((2, 0, 5, 8), (2, 0, 5, 8), (2, 0, 5, 6)), ((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 0))]:
        out, state = pe.retention(z(q, dtype), z(k, dtype), z(v, dtype), rate=0.1, return_state=True)
        assert out.shape == (*q[:-1], v[-1]) and state.S.shape == (*k[:-2], q[-1], v[-1])
        assert state.position == q[2] - 1
    no_width = pe.retention(z((5, 0), dtype), z((5, 0), dtype), np.ones((5, 3), dtype), rate=0.1, scale=1.0)
    np.testing.assert_array_equal(no_width, z((5, 3)))
    S = normal(2, 2, 8, 6, dtype=dtype)
    nothing = (z((2, 4, 0, 8), dtype), z((2, 2, 0, 8), dtype), z((2, 2, 0, 6), dtype))
    _, state = pe.retention(*nothing, rate=0.1, state=pe.RetentionState(S, 7), return_state=True)
    np.testing.assert_array_equal(state.S, S)
    assert state.position == 7


def test_integers_and_lists_are_float64():
    out = pe.retention([[1], [1]], [[1], [1]], [[1], [1]], multiplier=0.5)
    assert out.dtype == np.float64 and out.tolist() == [[1.0], [1.5]]


# Memory


def test_memory_does_not_grow_with_the_square_of_rows():
    """Beside its output a call takes scratch alone: below 1 MiB a thread up to D + V = 1024."""
    scratch = output("""
        import numpy as np, pe
        from pe import _core
        for D, V, dtype in ((960, 64, "f4"), (1000, 24, "f8"), (8, 1016, "f4"), (1022, 2, "f2")):
            x, v = np.ones((100, D), dtype), np.ones((100, V), dtype)
            pe.retention(x, x, v, rate=0.1, rope=pe.Rope(D))
        print(_core.config()["scratch_bytes"])
    """)
    assert 0 < int(scratch) < 1 << 20
    grown = output("""
        import numpy as np, pe
        def status(key):
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) for line in file if line.startswith(key + ":")) / 1024
        x, out = np.ones((1, 32768, 16), np.float32), np.ones((1, 32768, 16), np.float32)
        pe.retention(x[:, :99], x[:, :99], x[:, :99], rate=0.1, rope=pe.Rope(16))
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = status("VmRSS")
        pe.retention(x, x, x, rate=0.1, rope=pe.Rope(16), out=out)
        print(status("VmHWM") - before)
    """)
    assert float(grown) < 8
