"""Angles that a thread keeps between rotations: none is ever that of other operands.

A thread that has just begun keeps nothing, so its results are what every call must give, bit for bit.
"""

import ctypes
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from isas import NAMES, each_isa
from processes import output

import pe
from pe import _core

RNG = np.random.default_rng(31)
TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
FREQS = 10000.0 ** (-np.arange(16) / 16)


def bits(call):
    """What is as good as the bytes of a result, and short where a test fails."""
    return hashlib.sha256(call().tobytes()).hexdigest()


def anew(call):
    """The bits of a call in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(bits(call)))
    thread.start()
    thread.join()
    return found[0]


def values(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


X = values(2, 8, 64)


@each_isa
@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: np.dtype(d).name)
def test_arrays_changed_in_place(dtype, isa):
    """One entry at a time, the last as well as the first, and back."""
    x, freqs, positions = X.astype(dtype), FREQS.copy(), np.arange(8) + 5.0
    call = lambda: pe.apply_rope(x, positions=positions, freqs=freqs)  # noqa: E731
    first = bits(call)
    assert bits(call) == first == anew(call)
    for array, other in (positions, 70.5), (freqs, 2.0), (freqs, 0.0):
        for i in {0, 3, len(array) - 1} if array is positions else {0}:
            kept, array[i] = array[i], other
            assert bits(call) == anew(call) != first
            array[i] = kept
            assert bits(call) == first
    freqs[-1] = 0.0
    assert bits(call) == anew(call) != first
    points = np.stack([positions] * 3, -1)
    call = lambda: pe.apply_rope_nd(x, points, np.stack([freqs] * 3))  # noqa: E731
    first = bits(call)
    points[7, 2] += 1
    assert bits(call) == anew(call) != first


def turned(dtype=np.float32, rows=8, heads=2, **keywords):
    x = np.resize(X, (heads, rows, 64)).astype(dtype)
    positions = keywords.pop("positions", np.arange(rows))
    return lambda: pe.apply_rope(x, positions=positions, **keywords)


def alike():
    """Calls that differ in one operand; bytes of frequencies and positions are often the same."""
    once, twice, line, x = FREQS, np.resize(FREQS, 32), np.arange(8.0), X[:, :4]
    axes = np.array([[1, 0], [0, 1]]).repeat(16, 1) * twice  # as those of apply_rope_2d
    points, rounded = np.stack([line, line // 2], -1), X.astype(ml_dtypes.bfloat16)
    calls = [turned(freqs=once), turned(freqs=once, inverse=True)]
    calls += [turned(freqs=freqs) for freqs in (once[:8], once * 2)]
    calls += [turned(freqs=once, positions=p) for p in (np.arange(8)[::-1], np.arange(1, 9))]
    calls += [turned(rope=pe.Rope(64, freqs=twice / 2, amplitude=amplitude)) for amplitude in (1, 1.25)]
    sizes = (300, 3), (7, 2), (300, 40), (2000, 2), (1, 2)
    calls += [turned(rows=rows, heads=heads, freqs=once) for rows, heads in sizes]
    calls += [
        lambda: pe.apply_rope_nd(x, line.reshape(4, 2), once.reshape(2, 8)),
        lambda: pe.apply_rope_nd(x, line.reshape(4, 2), once.reshape(2, 8), rate=np.full((2, 8), 0.1)),
        lambda: pe.apply_rope_nd(X[None], line[:, None], np.stack([once, once / 2])[None]),
        lambda: pe.apply_rope_nd(rounded, points, axes, layout="half"),
        lambda: pe.attention(X, X, X, rope=pe.Rope(64)),
        lambda: pe.apply_rope(X, np.cos(X[0, :, :9]), X[0, :, :9]),
    ]
    grids = [(X, points, None), (X, points[:, ::-1], None), (X, points, "half"), (rounded, points, "half")]
    calls += [lambda x=x, p=p, y=y: pe.apply_rope_2d(x, p[:, 0], p[:, 1], layout=y) for x, p, y in grids]
    return calls + [turned(dtype, layout=layout) for dtype in TYPES for layout in ("interleaved", "half")]


@each_isa
def test_calls_that_are_nearly_alike_in_any_order(isa):
    calls = alike()
    expected = [anew(call) for call in calls]
    assert len(set(expected)) == len(calls)
    for i in range(len(calls)):
        for j in range(len(calls)):
            assert bits(calls[i]) == expected[i], (i, j)
            assert bits(calls[j]) == expected[j], (i, j)
            assert bits(calls[j]) == expected[j], (i, j)


@each_isa
def test_threads_keep_angles_of_their_own(isa):
    calls = [turned(rows=rows, heads=24, freqs=FREQS * (i + 1)) for i in range(6) for rows in (8, 480)]
    expected = [anew(call) for call in calls]

    def work(seed):
        order = np.random.default_rng(seed).integers(0, len(calls), 120)
        return all(bits(calls[i]) == expected[i] for i in order)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_one_call_of_several_threads():
    """Who makes which block differs from call to call."""
    for i in range(60):
        positions = np.arange(500) + i % 3 * 7
        calls = [turned(rows=500, heads=16, positions=positions, num_threads=n) for n in (1, 2)]
        expected = anew(calls[0])
        assert all(bits(call) == expected for call in calls * 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_frequencies_that_the_call_itself_overwrites(threads):
    """They lie where out does, which many tasks write: each turns by what stood there before the call."""
    freqs, positions = np.linspace(1, 0.01, 32), np.arange(1, 257)
    x = values(64, 256, 64)
    expected = pe.apply_rope(x, positions=positions, freqs=freqs)
    out = np.empty_like(x)
    inside = out.reshape(-1)[:64].view(np.float64)
    inside[:] = freqs
    pe.apply_rope(x, positions=positions, freqs=inside, out=out, num_threads=threads)
    assert out.tobytes() == expected.tobytes()
    x = values(64, 256, 64, dtype=np.float64)
    x.reshape(-1)[:32] = freqs
    expected = pe.apply_rope(x, positions=positions, freqs=freqs)
    pe.apply_rope(x, positions=positions, freqs=x.reshape(-1)[:32], out=x, num_threads=threads)
    assert x.tobytes() == expected.tobytes()


@pytest.mark.skipif(_core.config()["best_isa"] == "scalar", reason="one instruction set is all there is")
def test_instruction_sets_take_no_angles_from_each_other():
    call, before, expected = turned(np.float64, rows=40), pe.isa(), {}
    isas = NAMES[:NAMES.index(_core.config()["best_isa"]) + 1]  # whichever of them PE_ISA forces
    try:
        for isa in isas:
            _core._set_isa(isa)
            expected[isa] = anew(call)
        for isa in isas * 3 + isas[::-1] * 2:
            _core._set_isa(isa)
            assert bits(call) == expected[isa]
    finally:
        _core._set_isa(before)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the modes of this processor are named otherwise")
def test_angles_of_another_rounding_mode_are_not_kept():
    call, mode = turned(np.float64, rows=64), ctypes.CDLL("libm.so.6").fesetround
    nearest, downward = 0, 0x400

    def down():
        mode(downward)
        return call()

    expected = [anew(call), anew(down)]
    assert expected[0] != expected[1] and bits(call) == expected[0]
    try:
        found = bits(down)
    finally:
        mode(nearest)
    assert [bits(call), found] == expected


def test_a_handler_may_turn_by_other_angles_amid_a_call():
    report = output("""
        import signal
        import numpy as np, pe
        q = np.random.default_rng(1).normal(size=(8, 700, 64)).astype(np.float32)
        turn = lambda freqs: pe.apply_rope(q[0, :2], positions=np.arange(2), freqs=freqs).tobytes()
        calls = [lambda f=f: turn([f, 0.2]) for f in (0.3, 0.5)]
        long = lambda: pe.attention(q, q, q, rope=pe.Rope(64), num_threads=1).tobytes()
        wanted, attended, heard = [call() for call in calls], long(), []
        signal.signal(signal.SIGALRM, lambda *_: heard.append([call() for call in calls] == wanted))
        signal.setitimer(signal.ITIMER_REAL, 0.06, 0.06)
        same = [long() == attended and [call() for call in calls] == wanted for _ in range(8)]
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(all(same), len(heard) > 0, all(heard))
    """, PE_ISA="scalar")
    assert report.split() == ["True", "True", "True"]


def test_a_forked_child_goes_on_with_what_its_parent_kept():
    report = output("""
        import os
        import numpy as np, pe
        x, freqs = np.ones((2, 40, 64), np.float32), np.linspace(1, 0.1, 32)
        call = lambda: pe.apply_rope(x, positions=np.arange(40), freqs=freqs)
        first = call().tobytes()
        child = os.fork()
        freqs *= 2 if child else 3
        other = call().tobytes()
        freqs /= 2 if child else 3
        if not child:
            os._exit(7 if call().tobytes() == first != other else 3)
        print(call().tobytes() == first != other, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert report.split() == ["True", "7"]
