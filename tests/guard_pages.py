"""Every op on arrays that touch forbidden memory: run in a process of its own, since a step beyond ends it.

Each operand and each result lies in a mapping of its own that begins or ends exactly at a page that may be
neither read nor written. The results are compared, bit for bit, with those on ordinary arrays.
"""

import ctypes
import itertools
import mmap
import sys

import ml_dtypes
import numpy as np

import pe
from pe import _core

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}


def forbid(address):
    if LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), 0):
        raise OSError(ctypes.get_errno(), "mprotect failed")


def guarded(array, side):
    """Return a copy whose first byte follows, or whose last byte precedes, a forbidden page."""
    inside = max(1, -(-array.nbytes // PAGE)) * PAGE
    pages = mmap.mmap(-1, inside + 2 * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    forbid(start)
    forbid(start + PAGE + inside)
    first = PAGE if side == "start" else PAGE + inside - array.nbytes
    copy = np.frombuffer(pages, np.uint8)[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def compare(cell, op, *operands, **options):
    """Call op on guarded operands and a guarded out, at both ends; name the cell first, for crashes."""
    expected = op(*operands, **options)
    for side in ("start", "end"):
        print(*cell, side, flush=True)
        near = {name: tuple(guarded(part, side) for part in value) if type(value) is tuple
                else guarded(value, side) if isinstance(value, np.ndarray) else value
                for name, value in options.items()}
        out = guarded(np.full_like(expected, 7), side)
        op(*(guarded(value, side) for value in operands), **near, out=out)
        assert out.tobytes() == expected.tobytes(), "the result differs"


def rotations(dtype, rng):
    for rows, planes in itertools.product((1, 3, 17), (1, 2, 3, 7, 8, 9, 17, 32)):
        x = rng.normal(size=(2, rows, 2 * planes)).astype(dtype)
        tables = rng.normal(size=(2, rows, planes))
        for layout in ("interleaved", "half"):
            cell = "apply_rope", layout, x.shape
            compare(cell, pe.apply_rope, x, positions=rng.normal(size=rows), layout=layout)
            compare(cell, pe.apply_rope, x, positions=rng.normal(size=(2, rows)), layout=layout,
                    inverse=True)
            for precision in (np.float32, np.float64):
                compare(cell, pe.apply_rope, x, *tables.astype(precision), layout=layout)
            wide = rng.normal(size=(rows, 2 * planes + 3)).astype(dtype)  # the last three are copied
            compare((*cell, "partial"), pe.apply_rope, wide, layout=layout,
                    positions=np.arange(rows), freqs=np.linspace(1, 0.1, planes))
            if planes % 2 == 0:
                down, up = np.arange(rows)[::-1], np.arange(rows)
                compare(("apply_rope_2d", *cell[1:]), pe.apply_rope_2d, x, up, down, layout=layout)


def biases(dtype, rng):
    for m, n in itertools.product((1, 3), (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 2049)):
        for causal in (True, False):
            t, s = rng.normal(size=m), rng.normal(size=n)
            compare(("alibi_bias", m, n, causal), pe.alibi_bias, t, s, slopes=np.array([0.5, 1.0]),
                    causal=causal, dtype=dtype)
            compare(("decay_bias", m, n, causal), pe.decay_bias, t, s, rate=0.5, causal=causal, dtype=dtype)


def attentions(dtype, rng):
    widths = (1, 1), (9, 2), (34, 17), (64, 65)
    for m, n, (d, width) in itertools.product((1, 5, 65), (1, 7, 63, 64, 65, 130), widths):
        q, k, v = (rng.normal(size=size).astype(dtype) for size in [(4, m, d), (2, n, d), (2, n, width)])
        visible = rng.random(size=(4, m, n)) < 0.8
        visible[..., 0] = True
        full = dict(causal=True, mask=visible, bias=rng.normal(size=(4, m, n)).astype(dtype),
                    alibi_slopes=rng.random(4), q_positions=rng.normal(size=m),
                    k_positions=rng.normal(size=n))
        cell = "attention", m, n, d, width
        compare(cell, pe.attention, q, k, v)
        compare((*cell, "full"), pe.attention, q, k, v, **full)
        times = rng.random((4, m)).cumsum(axis=-1), rng.random((4, n)).cumsum(axis=-1)
        compare((*cell, "cache"), pe.attention, q, k, v, clock=times, sinks=rng.random(4), softcap=2.0,
                window=n, kv_lengths=np.array(n - n // 4),
                segments=(np.arange(m) % 2, np.sort(np.arange(2 * n) % 2).reshape(2, n)))
        compare((*cell, "one row of mask, strip of bias"), pe.attention, q, k, v,
                mask=visible[0, 0], bias=rng.normal(size=(m, 1)))
        if d % 2 == 0:
            for layout in ("interleaved", "half"):
                compare((*cell, "rope", layout), pe.attention, q, k, v,
                        rope=pe.Rope(d, layout=layout))
            compare((*cell, "rope of two axes"), pe.attention, q, k, v,
                    rope=pe.Rope(d, freqs=rng.normal(size=(2, d // 2))),
                    q_positions=rng.normal(size=(4, m, 2)), k_positions=rng.normal(size=(2, n, 2)))
        broken = v.copy()
        broken[:, -1] = np.nan  # hidden from every query: the kernel that steps around it
        compare((*cell, "nan"), pe.attention, q, k, broken, causal=True, q_positions=np.arange(m),
                k_positions=np.append(np.arange(n - 1.0), 1e6))
    split = 8192 + 3  # keys in parts
    q, k = rng.normal(size=(1, 1, 8)).astype(dtype), rng.normal(size=(1, split, 8)).astype(dtype)
    compare(("attention", "split"), pe.attention, q, k, k)


def retentions(dtype, rng):
    widths = (1, 1), (9, 2), (34, 17), (64, 65)
    for rows, (d, width) in itertools.product((1, 5, 16, 31, 64, 65, 130), widths):
        shapes = (4, rows, d), (2, rows, d), (2, rows, width)
        q, k, v = (rng.normal(size=shape).astype(dtype) for shape in shapes)
        cell = "retention", rows, d, width
        compare(cell, pe.retention, q, k, v, rate=np.array([0.5, 0.5, 0.1, 0.1]))
        compare((*cell, "clock"), pe.retention, q, k, v, rate=rng.random(4), clock=np.arange(rows) / 7)
        S = guarded(rng.normal(size=(4, d, width)).astype("f8" if dtype == "f8" else "f4"), "end")
        compare((*cell, "state"), pe.retention, q, k, v, rate=rng.random(4), state=pe.RetentionState(S))
        if d % 2 == 0:
            for layout in ("interleaved", "half"):
                compare((*cell, "rope", layout), pe.retention, q, k, v, rate=0.1,
                        rope=pe.Rope(d, layout=layout), positions=np.arange(float(rows)))


def streams(dtype, rng):
    """Results so large that they are written past the cache, with an end that is no whole line."""
    rows = (33 << 20) // (66 * np.dtype(dtype).itemsize) + 1
    x = np.broadcast_to(rng.normal(size=(1, 66)).astype(dtype), (rows, 66))
    out = guarded(np.zeros((rows, 66), dtype), "end")
    print("apply_rope past the cache", rows, flush=True)
    pe.apply_rope(x, positions=np.arange(rows), out=out)
    assert np.array_equal(out[-1:], pe.apply_rope(x[-1:], positions=[rows - 1]))
    keys = 2**21 // np.dtype(dtype).itemsize + 1
    print("alibi_bias past the cache", keys, flush=True)
    out = guarded(np.zeros((17, keys), dtype), "end")
    pe.alibi_bias(17, keys, slopes=1e-3, out=out)
    assert np.array_equal(out[-2:], pe.alibi_bias(2, keys, slopes=1e-3, dtype=dtype))


OPS = {"rotations": rotations, "biases": biases, "attentions": attentions, "retentions": retentions,
       "streams": streams}


def overrun():
    """Read one element too far, on purpose: must end the process."""
    array = guarded(np.zeros(PAGE // 4, np.float32), "end")
    print("one element beyond", flush=True)
    return np.lib.stride_tricks.as_strided(array, (array.size + 1,))[-1]


if __name__ == "__main__":
    isa, op = sys.argv[1:]
    if op == "overrun":
        overrun()
    _core._set_isa(isa)
    for name, dtype in DTYPES.items():
        print(name, flush=True)
        OPS[op](np.dtype(dtype), np.random.default_rng(0))
