"""Faults that other libraries have had with strides, dtypes, out and threads, in every op. (C64 to C84)

`test_cases_arrays` has the numbers of the reports; here each kind of fault meets each op and each argument.
"""

import warnings

import numpy as np
import pytest
from good_calls import OPS, VALUES, WITH_OUT, good_calls, run, same, to

ROPES = ["positions", "tables", "2d", "nd"]
LAYOUTS = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "step 2": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "rows backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "inside a larger array": lambda a: np.pad(a, 1)[(slice(1, -1),) * a.ndim],
    "read-only": lambda a: np.lib.stride_tricks.as_strided(a.copy(), a.shape, a.strides, writeable=False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPS)
def test_c64_c65_c68_layouts_of_each_argument_and_of_all(name, layout):
    change, wanted = LAYOUTS[layout], run(name)
    for argument in good_calls()[name][1]:
        same(run(name, lambda key, a, argument=argument: change(a) if key == argument else a), wanted)
    same(run(name, lambda key, a: change(a)), wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ROPES)
def test_c69_rotations_in_place(name, dtype):
    wanted, x = run(name, to(dtype)), good_calls()[name][1]["x"].astype(dtype)
    assert run(name, to(dtype), x=x, out=x) is x
    same(x, wanted)


@pytest.mark.parametrize("name, argument", [(name, argument) for name in WITH_OUT
                                            for argument, value in good_calls()[name][1].items()
                                            if isinstance(value, np.ndarray) and value.dtype == np.float64])
def test_c69_out_over_any_argument(name, argument):
    """A result laid over its own input, from its first element on, is that of no overlap."""
    op, arguments = good_calls()[name]
    wanted, given = run(name), arguments[argument]
    buffer = np.zeros(max(given.size, wanted.size))
    arguments[argument] = buffer[:given.size].reshape(given.shape)
    arguments[argument][...] = given
    out = buffer[:wanted.size].reshape(wanted.shape)
    assert op(**arguments, out=out) is out
    same(out, wanted)


@pytest.mark.parametrize("name", WITH_OUT)
def test_c71_strided_out_and_its_gaps(name):
    wanted = run(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer = np.full((*wanted.shape[:-1], 2 * wanted.shape[-1]), 7.0)
        assert run(name, out=buffer[..., ::2]) is not None
    np.testing.assert_array_equal(buffer[..., ::2], wanted)
    assert (buffer[..., 1::2] == 7).all()
    single = np.empty(wanted.shape, np.float32)
    assert run(name, out=single) is single
    np.testing.assert_array_equal(single, wanted.astype(np.float32))


@pytest.mark.parametrize("name", [name for name in OPS if name not in ("decay", "clock", "alibi")])
def test_c74_an_empty_batch(name):
    """No batch rows: an empty result, whatever else is given."""
    def emptied(key, a):
        batch = a.ndim > 2 and a.shape[0] == 2 and key not in ("freqs", "rate") or key == "kv_lengths"
        return a[:0] if batch else a

    result = run(name, emptied)
    assert result.size == 0 and result.shape[1:] == run(name).shape[1:]


@pytest.mark.parametrize("name", OPS)
def test_c76_integers_and_lists(name):
    whole = run(name, lambda key, a: np.trunc(a) if key in VALUES else a)
    for kind in (lambda a: a.astype(np.int8), lambda a: a.astype(np.int64), lambda a: np.trunc(a).tolist()):
        same(run(name, lambda key, a, kind=kind: kind(a) if key in VALUES else a), whole)
    same(run(name, lambda key, a: a.tolist()), run(name))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("name", OPS)
def test_c78_subclasses(name):
    class Named(np.ndarray):
        pass

    same(run(name, lambda key, a: a.view(Named)), run(name))
    same(run(name, lambda key, a: np.asmatrix(a) if a.ndim == 2 else a), run(name))
    for argument, value in good_calls()[name][1].items():
        if isinstance(value, np.ndarray):
            with pytest.raises(TypeError, match=f"{argument} is a masked array"):
                run(name, **{argument: np.ma.array(value)})


@pytest.mark.parametrize("name", WITH_OUT)
def test_c84_same_bits_for_any_threads_and_run(name):
    """Large enough for a team."""
    op, arguments = good_calls()[name]
    if name in ROPES:
        arguments["x"] = np.tile(arguments["x"], (999, 1, 1, 1))
    elif name in ("decay", "alibi", "clock"):
        arguments |= {"q_positions": np.arange(900.0), "k_positions": np.arange(900.0)}
        arguments |= {"clock": np.linspace(0.0, 9.0, 900)} if name == "clock" else {}
    elif name == "retention":
        arguments = {key: np.tile(arguments[key], (8, 1, 60, 1)) for key in "qkv"} | {"rate": [0.1, 0.2]}
    else:
        arguments = {key: np.tile(arguments[key], (8, 1, 60, 1)) for key in "qkv"} | {
            "causal": True, "window": 99, "sinks": np.zeros(4), "clock": np.linspace(0.0, 9.0, 300)}
    assert len({op(**arguments, num_threads=n).tobytes() for n in (1, 2, 3, None) for _ in range(3)}) == 1
