"""Arrays of other libraries, files and buffers: taken as they are, and results that go anywhere."""

import array
import ctypes
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest
from good_calls import OPS, VALUES, WITH_OUT, good_calls, run, same, to
from processes import output
from threadpoolctl import threadpool_info, threadpool_limits

import pe

BF16 = np.dtype(ml_dtypes.bfloat16)


def normal(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


# torch


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed; no test here depends on it otherwise")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", OPS)
def test_torch_tensors_are_read_in_every_argument(torch, name, dtype):
    steps = to(dtype)
    same(run(name, lambda key, a: torch.from_numpy(steps(key, a))), run(name, steps))


@pytest.mark.parametrize("name", OPS)
def test_a_transposed_tensor_is_read_by_its_strides(torch, name):
    def convert(key, a):
        tensor = torch.from_numpy(a)
        return tensor.transpose(0, -1).contiguous().transpose(0, -1) if a.ndim > 1 else tensor

    same(run(name, convert), run(name))


def test_results_and_tensors_share_memory(torch):
    x, out = torch.from_numpy(normal(3, 8)), torch.zeros(3, 8, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"out has type Tensor.*ndarray of shape \(3, 8\): out.numpy\(\)"):
        pe.apply_rope(x, positions=np.arange(3), out=out)
    assert not out.any()
    result = pe.apply_rope(x, positions=np.arange(3), out=out.numpy())
    same(out.numpy(), pe.apply_rope(x, positions=np.arange(3)))
    assert torch.equal(torch.from_numpy(result), out)
    result[0, 0] = 7
    assert out[0, 0] == 7


def test_bfloat16_tensors_come_through_their_bits(torch):
    x = torch.from_numpy(normal(3, 8)).bfloat16()
    with pytest.raises(TypeError, match=r"NumPy cannot read x, of type Tensor.* x.view\(torch.uint16\)"):
        pe.apply_rope(x, positions=np.arange(3))
    with pytest.raises(TypeError, match=r"x has dtype uint16.*view\(ml_dtypes.bfloat16\)"):
        pe.apply_rope(x.view(torch.uint16), positions=np.arange(3))
    result = pe.apply_rope(x.view(torch.uint16).numpy().view(BF16), positions=np.arange(3))
    wide = pe.apply_rope(x.float(), positions=np.arange(3))
    same(result, wide.astype(BF16))
    back = torch.from_numpy(result.view(np.uint16)).view(torch.bfloat16)
    assert torch.equal(back, torch.from_numpy(wide).bfloat16())


@pytest.mark.parametrize("spoil", ["requires_grad_", "to_sparse", "meta"])
@pytest.mark.parametrize("argument", ["q", "k", "v", "bias"])
def test_tensors_without_numbers_to_read_are_refused_by_name(torch, argument, spoil):
    tensor = torch.from_numpy(good_calls()["attention"][1][argument])
    tensor = tensor.to("meta") if spoil == "meta" else getattr(tensor, spoil)()
    with pytest.raises(TypeError, match=f"NumPy cannot read {argument}, of type Tensor: "):
        run("attention", **{argument: tensor})


def test_torch_agrees_where_the_conventions_do(torch):
    q, k, v = (torch.from_numpy(normal(2, 4, 9, 8, seed=seed)) for seed in range(3))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    mask = torch.from_numpy(normal(9, 9, seed=3) < 1)
    mask[3] = False                                                     # torch and pe: a row of zeros
    for theirs, ours in ((sdpa(q, k, v), {}), (sdpa(q, k, v, is_causal=True), {"causal": True}),
                         (sdpa(q, k, v, attn_mask=mask), {"mask": mask}),
                         (sdpa(q[:, :, :4], k, v, is_causal=True),      # aligned top-left there
                          {"causal": True, "q_positions": np.arange(4)})):
        queries = q[:, :, :theirs.shape[-2]]
        np.testing.assert_allclose(pe.attention(queries, k, v, **ours), theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize("order", ["import torch, pe", "import pe, torch"])
def test_torch_openblas_and_pe_in_one_process(torch, order):
    """Three libraries with teams of their own, each after each of the others, in either order of import."""
    report = output(f"""
        import os
        before = dict(os.environ)
        {order}
        import numpy as np
        q = np.random.default_rng(0).normal(size=(4, 700, 32)).astype(np.float32)
        tensor = torch.from_numpy(q)
        wide = [np.ones((400, 400)) @ np.ones((400, 400)) for _ in range(2)]
        ours, theirs = [], []
        for turn in range(3):
            ours.append(pe.attention(q, q, q))
            theirs.append(torch.nn.functional.scaled_dot_product_attention(tensor, tensor, tensor).numpy())
            wide.append(np.ones((400, 400)) @ np.ones((400, 400)))
            ours.append(pe.attention(q, q, q, causal=True)[:, -1:])
        assert all(np.array_equal(a, b) for a, b in zip(ours[:2], ours[2:4]))
        assert all(np.abs(a - b).max() < 1e-5 for a, b in zip(ours[::2], theirs))
        assert all((a == 400).all() for a in wide)
        torch.set_num_threads(1)
        assert np.array_equal(pe.attention(q, q, q), ours[0])
        assert 2.2250738585072014e-308 / 2 != 0
        assert "KMP_DUPLICATE_LIB_OK" not in set(os.environ) - set(before)
        print("done")
    """)
    assert report == "done"


# OpenBLAS and threadpoolctl


def test_openblas_and_pe_in_one_process():
    q = normal(4, 300, 32)
    product, attended = q @ q.swapaxes(-1, -2), pe.attention(q, q, q)
    for _ in range(3):
        same(q @ q.swapaxes(-1, -2), product)
        same(pe.attention(q, q, q), attended)


def test_threadpoolctl_sees_and_limits_pe_and_leaves_it_as_it_was():
    if pe._core.config()["openmp"] == "off":
        pytest.skip("built without OpenMP")
    assert any(pool["user_api"] == "openmp" for pool in threadpool_info())
    before, q = pe.get_num_threads(), normal(4, 300, 32)
    wanted = pe.attention(q, q, q)
    with threadpool_limits(1):
        assert pe.get_num_threads() == 1
        same(pe.attention(q, q, q), wanted)
    with threadpool_limits(1, user_api="blas"):
        assert pe.get_num_threads() == before
    assert pe.get_num_threads() == before


# DLPack and the array protocol


class Exchanged:
    """Nothing but DLPack, as a tensor of a library that NumPy has not heard of."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Reluctant(Exchanged):
    """A tensor that will not become an ndarray by itself."""

    def __array__(self, *args, **keywords):
        raise RuntimeError("use from_dlpack")


class Elsewhere(Exchanged):
    """A tensor on a graphics card: its capsule says so, as only that of another device does."""

    def __dlpack__(self, **keywords):
        capsule, pointer = self.values.__dlpack__(), ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        device = pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)     # follows the data pointer
        ctypes.c_int32.from_address(device).value = 2
        return capsule

    def __dlpack_device__(self):
        return 2, 0


@pytest.mark.parametrize("kind", [Exchanged, Reluctant, lambda a: np.from_dlpack(a)])
@pytest.mark.parametrize("name", OPS)
def test_dlpack_is_read_in_every_argument(name, kind):
    same(run(name, lambda key, a: kind(a)), run(name))


@pytest.mark.parametrize("name, argument", [("positions", "x"), ("attention", "k"), ("attention", "mask"),
                                            ("2d", "pos_x"), ("decay", "rate")])
def test_dlpack_on_another_device_is_refused_by_name(name, argument):
    with pytest.raises(TypeError, match=f"{argument}.*Elsewhere.*device"):
        run(name, **{argument: Elsewhere(np.asarray(good_calls()[name][1][argument]))})


def test_buffers_of_the_standard_library():
    single = array.array("f", [1, 2, 3, 4])
    for x in (single, memoryview(single)):
        same(pe.apply_rope(x, positions=array.array("d", [1])),
             pe.apply_rope(np.arange(1, 5).astype(np.float32), positions=[1.0]))
    x = np.ones((3, 4))
    same(pe.apply_rope(x, positions=range(3)), pe.apply_rope(x, positions=[0, 1, 2]))


# Files, bytes and records


@pytest.mark.parametrize("name", WITH_OUT)
def test_memory_mapped_arguments_and_out(name, tmp_path):
    def store(key, a):
        mapped = np.memmap(tmp_path / key, a.dtype, "w+", shape=a.shape)
        mapped[...] = a
        mapped.flush()
        return np.memmap(tmp_path / key, a.dtype, "r", shape=a.shape)

    wanted = run(name)
    same(run(name, store), wanted)
    out = np.memmap(tmp_path / "result", wanted.dtype, "w+", shape=wanted.shape)
    assert run(name, store, out=out) is out
    out.flush()
    assert (tmp_path / "result").read_bytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", WITH_OUT)
def test_big_endian_in_every_argument(name, dtype):
    steps = to(dtype)

    def swapped(key, a):
        a = steps(key, a)
        return a.astype(a.dtype.newbyteorder(">"))

    wanted = run(name, steps)
    result = run(name, swapped)
    assert result.dtype.isnative
    same(result, wanted)
    out = np.zeros(wanted.shape, wanted.dtype.newbyteorder(">"))
    assert run(name, swapped, out=out) is out
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("name", WITH_OUT)
def test_fields_of_records(name, align):
    """A field of a packed record starts at any byte, and its neighbours stay as they are."""
    def field(a, fill):
        record = np.dtype([("tag", "u1"), ("row", a.dtype, a.shape[-1:])], align=align)
        records = np.zeros(a.shape[:-1], record)
        records["tag"], records["row"] = 9, fill
        return records

    wanted = run(name)
    same(run(name, lambda key, a: field(a, a)["row"]), wanted)
    scattered = run(name, lambda key, a: np.rec.fromarrays([a, a], names="here, there").there)
    same(scattered, wanted)
    target = field(wanted, 0)
    assert run(name, out=target["row"]) is not None
    np.testing.assert_array_equal(target["row"], wanted)
    assert (target["tag"] == 9).all()


# bfloat16


def test_bfloat16_works_without_pe_importing_ml_dtypes():
    assert output("""
        import sys
        import numpy as np
        import pe
        x = np.ones((2, 4), np.float16)
        pe.attention(x, x, x)
        try:
            pe.apply_rope(x.view(np.uint16), positions=[0, 1])
        except TypeError as error:
            assert "x.view(ml_dtypes.bfloat16)" in str(error)
        assert "ml_dtypes" not in sys.modules
        import ml_dtypes
        x = x.astype(ml_dtypes.bfloat16)
        print(pe.attention(x, x, x).dtype, pe.apply_rope(x, positions=[0, 1]).dtype,
              pe.decay_bias(2, rate=1.0, dtype=ml_dtypes.bfloat16).dtype)
    """) == "bfloat16 bfloat16 bfloat16"


@pytest.mark.parametrize("name", OPS)
def test_bfloat16_values_give_a_bfloat16_result_of_the_same_numbers(name):
    result = run(name, to(BF16))
    has_values = set(good_calls()[name][1]) & set(VALUES)
    assert result.dtype == (BF16 if has_values else np.float64)
    rounded = run(name, lambda key, a: a.astype(BF16).astype(np.float64) if key in VALUES else a)
    np.testing.assert_allclose(result.astype(float), rounded, rtol=2.0**-8, atol=2.0**-20)


# Results


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
@pytest.mark.parametrize("name", OPS)
def test_results_pickle_save_and_copy(name, dtype, tmp_path):
    result = run(name, to(dtype))
    assert result.flags.c_contiguous and result.flags.owndata and result.flags.writeable
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        packed = pickle.dumps(result, protocol)
        assert packed == pickle.dumps(run(name, to(dtype)), protocol)
        same(pickle.loads(packed), result)
    if result.dtype != BF16:
        np.save(tmp_path / "result.npy", result)
        same(np.load(tmp_path / "result.npy", allow_pickle=False), result)


def test_parts_of_any_library_merge():
    outs, lses = normal(3, 4, 5, 8), normal(3, 4, 5, seed=1)
    wanted = pe.merge_attention(outs, lses)
    for kind in (list, Exchanged, lambda a: [Exchanged(part) for part in a], lambda a: a.astype(">f8")):
        for a, b in zip(pe.merge_attention(kind(outs), kind(lses)), wanted, strict=True):
            same(a, b)


def test_states_of_retention_pickle_and_come_from_anywhere():
    whole, state = run("retention", return_state=True)
    copy = pickle.loads(pickle.dumps(state))
    assert pickle.dumps(copy) == pickle.dumps(state)
    same(copy.S, state.S)
    onwards = {"positions": np.arange(5.0, 10.0)}
    wanted = run("retention", state=state, **onwards)
    for held in (copy, state._replace(S=Exchanged(state.S)), state._replace(S=state.S.astype(">f8"))):
        same(run("retention", state=held, **onwards), wanted)


def test_the_pair_with_lse_pickles():
    pair = run("attention", return_lse=True)
    assert type(pair) is tuple
    for a, b in zip(pickle.loads(pickle.dumps(pair)), pair, strict=True):
        same(a, b)


@pytest.mark.parametrize("name", OPS)
def test_results_are_clean_for_numpy_testing(name):
    """No warning, no floating-point error of NumPy's, no cycle for the collector."""
    with np.errstate(all="raise"):
        result = np.testing.assert_no_warnings(run, name)
        np.testing.assert_array_equal(result, run(name), strict=True)
        np.testing.assert_array_max_ulp(result, run(name), maxulp=0)
    op, arguments = good_calls()[name]
    np.testing.assert_no_gc_cycles(op, **arguments)


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="counts references")
@pytest.mark.parametrize("name", OPS)
def test_arguments_are_released(name):
    op, arguments = good_calls()[name]
    arrays = [value for value in arguments.values() if isinstance(value, np.ndarray)]
    before = [sys.getrefcount(a) for a in arrays]
    for _ in range(3):
        op(**arguments)
    assert [sys.getrefcount(a) for a in arrays] == before
