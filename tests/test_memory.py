"""What an op takes of memory, and that it touches nothing beyond its arrays."""

import inspect
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from guard_pages import DTYPES, OPS
from isas import ISAS
from processes import output

import pe

# Growth of the process during a call, in MiB: the kernel's own high-water mark, begun anew before the call.
GROWTH = """
    import numpy as np, pe
    def status(key):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key + ":")) / 1024
    def growth(call):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = status("VmRSS")
        call()
        return status("VmHWM") - before
    rng = np.random.default_rng(0)
    normal = lambda *shape, dtype=np.float32: rng.normal(size=shape).astype(dtype)
"""

# No M x N array for any keyword of attention. Scores of all queries would take 1 GiB, and of 64 a STRIP;
# `diagonal(a)` is a true M x N operand without M x N memory, each row the one above it moved by one element.
STRIP = 64 * 16384 * 4 / 2**20
ATTENTION = GROWTH + """
    import ctypes
    trim = getattr(ctypes.CDLL(None), "malloc_trim", int)   # what one call left must serve no other
    N = 16384
    M = N if pe.isa() != "scalar" else 1024
    q, k, v, out = normal(1, M, 8), normal(1, N, 8), normal(1, N, 8), np.ones((1, M, 8), np.float32)
    axes = pe.Rope(8, freqs=np.ones((2, 4)))
    diagonal = lambda a: np.lib.stride_tricks.sliding_window_view(a, N)[:M][::-1]
    def grown(q=q, k=k, v=v, out=out, **options):
        few = (a[..., -512:, :] for a in (q, k, v))
        rope = pe.Rope(8) if "rope" in options else None
        pe.attention(*few, alibi_slopes=0.1, bias=np.zeros(512, q.dtype), rope=rope)
        trim(0)
        print(growth(lambda: pe.attention(q, k, v, out=out, **options)))
"""
KEYWORDS = {
    "scale": "grown(scale=0.3)",
    "causal": "grown(causal=True)",
    "window": "grown(window=9000, causal=True); grown(window=(None, 100))",
    "mask": "grown(mask=diagonal(rng.random(N + M) < 0.5))",
    "bias": "grown(bias=diagonal(normal(N + M)))",
    "alibi_slopes": "grown(alibi_slopes=0.01)",
    "decay_rate": "grown(decay_rate=[0.01], causal=True)",
    "clock": "grown(clock=rng.random(N).cumsum(), causal=True);"
             "grown(clock=(np.arange(M), np.arange(N) / 9))",
    "softcap": "grown(softcap=2.0)",
    "sinks": "grown(sinks=[0.5])",
    "segments": "grown(segments=(np.arange(M) // 9000, np.arange(N) // 9000))",
    "kv_lengths": "grown(kv_lengths=N - 5, causal=True)",
    "rope": "grown(rope=pe.Rope(8)); grown(rope=axes, q_positions=normal(M, 2), k_positions=normal(N, 2))",
    "q_positions": "grown(q_positions=rng.permutation(M) * 1.0, causal=True)",
    "k_positions": "grown(k_positions=rng.permutation(N), causal=True, alibi_slopes=0.01)",
    "return_lse": "grown(return_lse=True)",
    "out": "grown(q, k, v, out=q)",
    "num_threads": "grown(num_threads=1)",
}


def test_every_keyword_of_attention_has_its_memory_test():
    assert set(KEYWORDS) == set(inspect.signature(pe.attention).parameters) - {"q", "k", "v"}


@pytest.fixture(scope="module")
def growths():
    """For each keyword, what its calls grew a process by in which they follow each other."""
    lines = [line for keyword, calls in KEYWORDS.items() for line in (f"print({keyword!r})", calls)]
    found, keyword = {}, None
    for word in output(ATTENTION + "".join(f"    {line}\n" for line in lines)).split():
        if word in KEYWORDS:
            keyword = word
            found[keyword] = []
        else:
            found[keyword].append(float(word))
    return found


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_attention_grows_by_no_scores(growths, keyword):
    assert len(growths[keyword]) == KEYWORDS[keyword].count("grown(")
    assert max(growths[keyword]) < STRIP


def test_attention_grows_by_no_scores_in_any_dtype():
    report = output(ATTENTION + """
    import ml_dtypes
    for dtype in np.float16, np.float64, ml_dtypes.bfloat16:
        grown(*(a.astype(dtype) for a in (q, k, v, out)), causal=True)
    """)
    assert len(report.split()) == 3 and max(map(float, report.split())) < STRIP


def test_a_bias_by_a_clock_grows_by_no_second_array():
    report = output(GROWTH + """
    times, out = rng.random(4096).cumsum(), np.ones((4096, 4096), np.float32)   # 64 MiB, 16 MiB of bool
    pe.decay_bias(64, clock=times[:64])
    print(growth(lambda: pe.decay_bias(4096, clock=times, out=out)))
    """)
    assert float(report) < 8


def test_attention_weights_grow_by_their_result_alone():
    """Of 64 MiB, or 32 in 16 bits, whose scores are float32."""
    report = output(GROWTH + """
    for dtype in np.float32, np.float16:
        q, k = normal(8, 1024, 8, dtype=dtype), normal(8, 2048, 8, dtype=dtype)
        for stage in "scores", "biased", "weights":
            more = dict(stage=stage, causal=True, alibi_slopes=0.1, rope=pe.Rope(8))
            call = lambda: pe.attention_weights(q, k, **more)
            call()
            print(growth(call) - 2**24 * q.itemsize / 2**20)
    """)
    assert len(report.split()) == 6 and max(map(float, report.split())) < 8


def test_the_measure_sees_an_array_of_scores():
    """Dense attention on a few of the rows must grow the process by what its scores take."""
    grown = float(output(ATTENTION + "    print(growth(lambda: pe.reference.attention(q[:, :256], k, v)))"))
    assert grown > 256 * 16384 * 4 / 2**20


# No copy of a whole operand: each of x, k, v here takes 32 MiB or more.
WHOLE = GROWTH + """
    import ml_dtypes
    def layouts(dtype, *shape):
        heads, rows, width = shape
        plain = lambda *shape: np.ones(shape, dtype)
        odd = np.zeros(heads * rows * width * dtype.itemsize + 1, np.uint8)[1:].view(dtype).reshape(shape)
        odd[...] = 1
        return {
            "C order": plain(*shape),
            "positions before heads": plain(rows, heads, width).transpose(1, 0, 2),
            "negative steps": plain(*shape)[::-1, ::-1],
            "every second row": plain(heads, 2 * rows, width)[:, ::2],
            "part of a wider row": plain(heads, rows, width + 3)[..., :width],
            "unaligned": odd,
        }
"""


@pytest.mark.parametrize("dtype", ["np.float16", "ml_dtypes.bfloat16", "np.float32", "np.float64"])
def test_no_layout_grows_by_a_copy(dtype):
    report = output(WHOLE + f"""
    dtype = np.dtype({dtype})
    rows = 2**25 // (4 * 64 * dtype.itemsize)
    positions, points = np.arange(rows), np.arange(rows)[:, None] * [[1.0, 0.5]]
    cos, sin = pe.build_rope_cache(rows, 64)
    q, freqs, rate = np.ones((4, 4, 64), dtype), np.ones((2, 4, 30)), np.full((2, 30), 1 / rows)
    few, into, bias = np.empty_like(q), np.ones((4, rows, 64), dtype), np.ones((4, rows), dtype)
    pe.retention(q, q, q, rate=0.1)
    pe.attention(q, q, q, rope=pe.Rope(64)), pe.apply_rope(into[:, :64], cos[:64], sin[:64])
    for name, x in layouts(dtype, 4, rows, 64).items():
        for op, call in {{
            "apply_rope": lambda: pe.apply_rope(x, positions=positions, out=into),
            "apply_rope tables": lambda: pe.apply_rope(x, cos, sin, out=into),
            "apply_rope_2d": lambda: pe.apply_rope_2d(x, positions, positions, out=into),
            "apply_rope_nd": lambda: pe.apply_rope_nd(x, points, freqs, rate=rate, out=into),
            "apply_rope from the layout into it": lambda: pe.apply_rope(x, positions=positions, out=x),
            "apply_rope into the layout": lambda: pe.apply_rope(into, positions=positions, out=x),
            "attention": lambda: pe.attention(q, x, x, causal=True, out=few),
            "attention rope": lambda: pe.attention(q, x, x, rope=pe.Rope(64), out=few),
            "retention": lambda: pe.retention(x, x, x, rate=0.1, out=into),
        }}.items():
            print(round(growth(call), 1), name, op, sep=", ")
    """)
    copied = [line for line in report.splitlines() if float(line.split(",")[0]) >= 8]
    assert len(report.splitlines()) == 54 and copied == []


def test_shared_heads_and_broadcast_operands_grow_by_no_copy():
    report = output(GROWTH + """
    x = normal(1, 1, 2**17, 64)  # 32 MiB, 512 MiB if it were expanded
    pe.attention(x[:, :, :64], x[:, :, :64], x[:, :, :64])
    wide, q = np.broadcast_to(x, (4, 4, 2**17, 64)), normal(4, 4, 2, 64)
    print(growth(lambda: pe.attention(q, wide, wide)), growth(lambda: pe.attention(q, x, x)))
    mask, bias = np.ones((1, 1, 1, 2**17), bool), np.zeros((4, 1, 1, 2**17))
    print(growth(lambda: pe.attention(q, x, x, mask=mask, bias=np.broadcast_to(bias, (4, 4, 2, 2**17)))))
    """)
    assert max(map(float, report.split())) < 8


def test_scratch_stays_under_1_MiB_a_thread():
    report = output("""
        import ml_dtypes
        import numpy as np, pe
        for d in (2, 16, 128, 512, 896, 1008, 1022):
            for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
                width = 1024 - d
                q, k, v = np.ones((300, d), dtype), np.ones((520, d), dtype), np.ones((520, width), dtype)
                for rope in (None, pe.Rope(d), pe.Rope(d, layout="half")):
                    everything = dict(causal=True, rope=rope, alibi_slopes=0.1, mask=np.ones(520, bool),
                                      bias=np.zeros(520), window=400, clock=np.arange(520), softcap=2.0,
                                      sinks=0.5, segments=(np.zeros(300, int), np.zeros(520, int)),
                                      kv_lengths=480)
                    pe.attention(q, k, v, **everything)
                    pe.attention(q[:1], k, v, rope=rope)
                    pe.attention(q[:1], k, v, **everything | {"segments": ([0], np.zeros(520, int))})
                axes = pe.Rope(d, freqs=np.ones((8, d // 2)))
                points = {"q_positions": np.ones((300, 8)), "k_positions": np.ones((520, 8))}
                pe.attention(q, k, v, rope=axes, **points)
                pe.retention(k, k, v, rate=0.1, rope=pe.Rope(d), clock=np.arange(520))
                pe.apply_rope(k, positions=np.arange(520))
                pe.apply_rope_2d(v[:, : width // 4 * 4], np.arange(520), np.arange(520))
                pe.apply_rope_nd(k, np.ones((520, 8)), np.ones((8, d // 2)), rate=np.zeros((8, d // 2)))
                pe.alibi_bias(520, slopes=0.1, dtype=dtype)
        print(pe._core.config()["scratch_bytes"])
    """)
    assert 0 < int(report) < 2**20


# Leaks


def test_a_round_of_small_calls_grows_by_less_than_fifty_bytes():
    report = output(GROWTH + """
    x, big = normal(2, 5, 8), normal(2, 2048, 8)
    cos, sin = pe.build_rope_cache(5, 8)
    rope, gaps, refused = pe.Rope(8), np.zeros((2, 5, 9), np.float32), [0]
    calls = [
        lambda: pe.apply_rope(x, cos, sin),
        lambda: pe.apply_rope(x, positions=np.arange(5), inverse=True),
        lambda: pe.apply_rope(x, positions=[1, 2, 3, 4, 5.5], layout="half", out=x.copy()),
        lambda: pe.apply_rope_2d(x, np.arange(5), np.arange(5)),
        lambda: pe.apply_rope_nd(x, np.ones((5, 3)), np.ones((3, 2, 4)), rate=np.ones((3, 4))),
        lambda: pe.merge_attention(x[None], np.zeros((1, 2, 5))),
        lambda: pe.alibi_bias(5, slopes=[1, 2]),
        lambda: pe.decay_bias(np.arange(5), rate=0.5, dtype=np.float32),
        lambda: pe.attention(x, x, x, rope=rope, causal=True, return_lse=True),
        lambda: pe.attention(big[:, :1], big, big),                   # parts
        lambda: pe.attention(x, x, x, window=(2, 1), softcap=2.0, sinks=[0, 1], segments=[0, 0, 1, 1, 1],
                             clock=np.arange(5), kv_lengths=4, rope=rope, causal=True),
        lambda: pe.attention(x.astype(np.float16), x, x, mask=[True] * 5, decay_rate=0.1),
        lambda: pe.attention(x, x, x, out=gaps[..., 1:]),
        lambda: pe.retention(x, x, x, rate=0.1, rope=rope, return_state=True),
        lambda: pe.attention(x, x[..., :4], x),                       # refused
        lambda: pe.apply_rope(x, positions=[np.nan] * 5),
        lambda: pe.alibi_bias(5, slopes=[-1, 2]),
        lambda: pe.attention(x, x, x, clock=[3, 2, 1, 0, 0]),
    ]
    def run(times):
        for _ in range(times):
            for call in calls:
                try:
                    call()
                except ValueError:
                    refused[0] += 1
    run(1000)
    print(growth(lambda: run(2500)) * 2**20 / 2500, refused[0])
    """)
    grown, refused = report.split()
    assert float(grown) < 50
    assert int(refused) == 4 * 3500


@pytest.mark.parametrize("out", [False, True])
def test_calls_keep_no_reference_to_their_operands(out):
    x, positions, mask, rope = np.ones((2, 5, 8)), np.arange(5.0), np.ones(5, bool), pe.Rope(8)
    into, numbers = np.empty_like(x) if out else None, np.arange(5)
    held = x, positions, mask, numbers, rope, rope.freqs, into
    before = [sys.getrefcount(a) for a in held[:-1]]
    for _ in range(50):
        pe.attention(x, x, x, mask=mask, q_positions=positions, k_positions=positions, rope=rope, out=into)
        pe.attention(x, x, x, clock=positions, sinks=positions[:2], segments=(numbers, numbers), out=into)
        pe.apply_rope(x, positions=positions, out=into)
        pe.apply_rope(x, *rope.cache(5), out=into)
        pe.alibi_bias(positions, slopes=1.0)
        with pytest.raises(ValueError):
            pe.attention(x, x, x, mask=mask, q_positions=positions[:3], rope=rope, out=into)
    assert [sys.getrefcount(a) for a in held[:-1]] == before


# Nothing beyond the arrays


def on_guard_pages(*arguments):
    script = Path(__file__).with_name("guard_pages.py")
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op", OPS)
def test_no_byte_beyond_an_array_is_touched(op, isa):
    process = on_guard_pages(isa, op)
    said = process.stdout.splitlines()
    assert process.returncode == 0, f"ended with status {process.returncode} at {said[-1:]}\n{process.stderr}"
    assert [line for line in said if line in DTYPES] == list(DTYPES) and said[-1] not in DTYPES


def test_a_step_onto_a_guard_page_ends_the_process():
    process = on_guard_pages("scalar", "overrun")
    assert process.stdout == "one element beyond\n"
    assert process.returncode in (-signal.SIGSEGV, 1)  # 1 under a sanitizer, which catches the signal
