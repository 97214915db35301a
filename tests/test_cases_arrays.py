"""Faults that other libraries have had: strides, dtypes, out, threads and processes. (C64 to C88)

Each was reported in public; `test_cases` has those about rotations, positions, masks and biases,
`test_parallel` those about forks, threads, the global lock and subnormal numbers (C80, C82, C84, C85, C87).
"""

import ctypes
import shutil
import subprocess
import sysconfig
import warnings
from pathlib import Path

import numpy as np
import pytest
from hand_cases import DTYPES, near, normal
from processes import output

import pe
from pe import _core

# G. Memory layout of arrays


STRIDED = {
    "transposed": lambda a: np.ascontiguousarray(a.swapaxes(0, -2)).swapaxes(0, -2) if a.ndim > 1 else a,
    "fortran": np.asfortranarray, "step 2": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "rows backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1]}


@pytest.mark.parametrize("strided", STRIDED)
def test_c64_c65_strides(strided):
    change = STRIDED[strided]
    operands = {"q": normal(2, 3, 5, 8), "k": normal(2, 3, 5, 8, seed=1), "v": normal(2, 3, 5, 8, seed=2),
                "bias": normal(2, 3, 5, 5, seed=3), "mask": normal(2, 3, 5, 5, seed=4) < 1,
                "q_positions": normal(5), "k_positions": normal(5, seed=5), "alibi_slopes": abs(normal(3))}
    wanted = pe.attention(**operands)
    for name in operands:
        assert np.array_equal(pe.attention(**operands | {name: change(operands[name])}), wanted), name
    assert np.array_equal(pe.attention(**{name: change(a) for name, a in operands.items()}), wanted)

    x, points = operands["q"], operands["q_positions"]
    wanted = pe.apply_rope(x, positions=points)
    assert np.array_equal(pe.apply_rope(change(x), positions=change(points)), wanted)
    out = change(np.zeros_like(x))
    assert pe.apply_rope(x, positions=points, out=out) is out
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_c66_byte_swapped(size):
    x = normal(2, 5, 8, dtype=f"f{size}")
    swapped = x.astype(f">f{size}")
    points, bias = np.arange(5), normal(5, 5, dtype="f4")
    turned = pe.apply_rope(x, positions=points)
    attended = pe.attention(x, x, x, bias=bias)
    result = pe.apply_rope(swapped, positions=points.astype(">i8"))
    assert result.dtype.isnative
    assert np.array_equal(result, turned)
    assert np.array_equal(pe.attention(swapped, swapped, swapped, bias=bias.astype(">f4")), attended)
    out = np.empty_like(swapped)
    assert pe.apply_rope(x, positions=points, out=out) is out
    assert np.array_equal(out, turned)
    assert pe.attention(x, x, x, bias=bias, out=out) is out
    assert np.array_equal(out, attended)


def test_c68_read_only(tmp_path):
    x = normal(2, 5, 8)
    locked = x.copy()
    locked.flags.writeable = False
    (tmp_path / "x").write_bytes(x.tobytes())
    mapped = np.memmap(tmp_path / "x", np.float64, "r", shape=x.shape)
    for call in (lambda x, **out: pe.apply_rope(x, positions=np.arange(5), **out),
                 lambda x, **out: pe.attention(x, x, x, **out)):
        for a in (locked, mapped):
            assert np.array_equal(call(a), call(x))
            for values in (a, x):
                with pytest.raises(ValueError, match="read-only"):
                    call(values, out=a)
            assert np.array_equal(a, x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_c69_in_place(layout, dtype):
    x = np.array([1, 0], dtype)
    assert pe.apply_rope(x, positions=[1], layout=layout, out=x) is x
    near(x, [0.540302, 0.841471], 5e-7)
    for D in (2, 16, 34, 66):
        x = normal(3, 20, D, dtype=dtype)
        wanted = pe.apply_rope(x, positions=np.arange(20), layout=layout)
        pe.apply_rope(x, positions=np.arange(20), layout=layout, out=x)
        assert x.tobytes() == wanted.tobytes()
    for target in range(3):
        values = [normal(2, 70, 8, dtype=dtype, seed=seed) for seed in range(3)]
        wanted = pe.attention(*values, causal=True)
        assert pe.attention(*values, causal=True, out=values[target]) is values[target]
        assert values[target].tobytes() == wanted.tobytes()


def test_c71_strided_and_other_outs():
    x = normal(3, 8)
    calls = [lambda out=None: pe.apply_rope(x, positions=np.arange(3), out=out),
             lambda out=None: pe.attention(x, x, x, out=out),
             lambda out=None: pe.alibi_bias(3, 8, slopes=0.5, out=out)]
    for call in calls:
        wanted = call()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            buffer = np.full((3, 16), 7.0)
            out = buffer[..., ::2]
            assert call(out) is out
        assert np.array_equal(out, wanted)
        assert (buffer[:, 1::2] == 7).all()
        single = np.empty((3, 8), np.float32)
        assert call(single) is single
        near(single, wanted)
        for bad in (np.empty((3, 9)), np.empty((8, 3)), np.empty(24), np.empty((1, 3, 8))):
            with pytest.raises(ValueError, match="out"):
                call(bad)
        for dtype in (np.int64, bool, object):
            with pytest.raises(TypeError, match="out"):
                call(np.empty((3, 8), dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c74_empty(dtype):
    def shape(q, k, v, **keywords):
        return pe.attention(np.ones(q, dtype), np.ones(k, dtype), np.ones(v, dtype), **keywords).shape

    assert shape((0, 4, 3, 8), (0, 2, 5, 8), (0, 2, 5, 6)) == (0, 4, 3, 6)
    assert shape((2, 0, 3, 8), (2, 0, 5, 8), (2, 0, 5, 6)) == (2, 0, 3, 6)
    assert shape((2, 4, 0, 8), (2, 2, 5, 8), (2, 2, 5, 6)) == (2, 4, 0, 6)
    assert shape((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 0)) == (2, 4, 3, 0)
    nothing = pe.attention(np.ones((4, 3, 8), dtype), np.ones((2, 0, 8), dtype), np.ones((2, 0, 6), dtype))
    assert nothing.shape == (4, 3, 6)
    assert not nothing.any()
    with pytest.raises(ValueError, match="scale"):
        shape((3, 0), (5, 0), (5, 2))
    flat = pe.attention(np.ones((3, 0)), np.ones((5, 0)), np.arange(5.0)[:, None], scale=1.0)
    near(flat, np.full((3, 1), 2.0))
    assert pe.apply_rope(np.ones((0, 8), dtype), positions=[]).shape == (0, 8)
    assert pe.apply_rope(np.ones((3, 0), dtype), positions=[1, 2, 3]).shape == (3, 0)
    with pytest.raises(ValueError, match="x "):
        pe.apply_rope(np.array(1.0, dtype), positions=[1])
    with pytest.raises(ValueError, match="q "):
        shape((), (5, 8), (5, 8))


def test_c75_lengths_that_differ():
    good = {"q": (2, 4, 3, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 6), "bias": (3, 5)}
    good = {name: np.ones(shape) for name, shape in good.items()}
    assert pe.attention(**good).shape == (2, 4, 3, 6)
    for name, shape in (("v", (2, 2, 6, 6)), ("k", (2, 2, 5, 7)), ("k", (3, 2, 5, 8)), ("v", (2, 1, 5, 6)),
                        ("v", (2, 4, 5, 6)), ("bias", (3, 6)), ("bias", (4, 5)), ("q", (2, 3, 3, 8))):
        with pytest.raises(ValueError, match=f"\\b{name}\\b"):
            pe.attention(**good | {name: np.ones(shape)})


def test_c76_dtypes():
    for x in ([1, 2, 3, 4], np.array([1, 2, 3, 4]), np.array([1, 2, 3, 4], np.uint8), (1, 2, 3, 4)):
        result = pe.apply_rope(x, positions=[1])
        assert result.dtype == np.float64
        near(result, [-1.142640, 1.922076, 2.959851, 4.029800], 5e-7)
    for dtype in (complex, object, "U3", bool, "S3", "M8[s]"):
        with pytest.raises(TypeError, match="x has dtype"):
            pe.apply_rope(np.zeros((1, 4), dtype), positions=[1])
    if np.dtype(np.longdouble) != np.float64:
        with pytest.raises(TypeError, match="longdouble|float128|float96"):
            pe.apply_rope(np.zeros((1, 4), np.longdouble), positions=[1])
    single, double = np.ones((2, 4), np.float32), np.ones((2, 4))
    assert pe.attention(single, double, single).dtype == np.float64
    assert pe.attention(*(np.ones((2, 4), np.float16),) * 3).dtype == np.float16


def test_c78_subclasses():
    x = normal(2, 4)
    with pytest.raises(TypeError, match="masked"):
        pe.apply_rope(np.ma.masked_array(x, x > 0), positions=[1, 2])
    with pytest.raises(TypeError, match="masked"):
        pe.attention(x, np.ma.masked_array(x), x)
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(x)
    for call in (lambda x: pe.apply_rope(x, positions=[1, 2]), lambda x: pe.attention(x, x, x)):
        assert type(call(matrix)) is np.ndarray
        assert np.array_equal(call(matrix), call(x))


# H. Threads and process


@pytest.mark.parametrize("name", ["libgomp.so.1", "libomp.so.5", "libiomp5.so"])
@pytest.mark.parametrize("first", [True, False])
def test_c81_a_second_openmp_run_time(name, first):
    """Another library brings its own, before or after us: both work, and no switch of theirs is touched."""
    try:
        ctypes.CDLL(name)
    except OSError:
        pytest.skip(f"{name} is not installed")
    load = f"other = ctypes.CDLL({name!r}); assert other.omp_get_max_threads() >= 1"
    assert output(f"""
import ctypes, os
{load if first else ""}
before = dict(os.environ)
import numpy as np, pe
q = np.random.default_rng(0).normal(size=(8, 300, 32))
result = pe.attention(q, q, q)
{"" if first else load}
assert np.array_equal(pe.attention(q, q, q), result)
assert dict(os.environ) == before
print(other.omp_get_max_threads() >= 1)
""") == "True"


def test_c88_a_compiler_without_openmp(capsys, tmp_path):
    """One file knows OpenMP, compiles without it, and the build says which it is."""
    pe.show_config()
    assert ("off (serial)" in capsys.readouterr().out) == (_core.config()["openmp"] == "off")
    sources = Path(__file__).parents[1] / "csrc"
    knowing = {path.name for path in sources.glob("*.[ch]") if "omp_get" in path.read_text()}
    assert knowing == {"parallel.c"}
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(compiler[0]) is None or shutil.which("nm") is None:
        pytest.skip("needs a C compiler and nm")
    built = tmp_path / "parallel.o"
    flags = ["-std=gnu11", "-Werror=implicit-function-declaration", "-c", "-o", built]
    subprocess.run([*compiler, *flags, sources / "parallel.c"], check=True, capture_output=True)
    wanted = subprocess.run(["nm", "-u", built], check=True, capture_output=True, text=True).stdout
    assert "pthread_key_create" in wanted and "omp" not in wanted.lower()
