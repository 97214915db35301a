"""convert_layout: permutations bit for bit, equal scores, the golden weights, and what it refuses."""

import ml_dtypes
import numpy as np
import pytest
from golden_cases import rope_cases

import pe

GOLDEN = dict(rope_cases("rope_layout"))
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.uint64}


def same_bits(a, b):
    view = BITS[a.dtype.itemsize]
    return a.dtype == b.dtype and np.array_equal(np.ascontiguousarray(a).view(view),
                                                 np.ascontiguousarray(b).view(view))


# The rule itself, retyped as loops over planes


def by_hand(head, width, offset):
    """Where each coordinate of a half head comes from in an interleaved one."""
    order = list(range(head))
    for plane in range(width // 2):
        order[offset + plane] = offset + 2 * plane
        order[offset + width // 2 + plane] = offset + 2 * plane + 1
    return order


@pytest.mark.parametrize(("head", "width", "offset"), [
    (2, 2, 0), (8, 8, 0), (12, 8, 0), (12, 4, 8), (9, 6, 2), (64, 64, 0), (6, 0, 0),
])
def test_coordinates_go_where_the_planes_say(head, width, offset):
    x = np.arange(3 * head).reshape(3, head)
    half = pe.convert_layout(x, "interleaved", "half", rotary_dim=width, rotary_offset=offset)
    np.testing.assert_array_equal(half, x[:, by_hand(head, width, offset)])
    back = pe.convert_layout(half, "half", "interleaved", rotary_dim=width, rotary_offset=offset)
    np.testing.assert_array_equal(back, x)


def test_the_rest_of_the_head_is_turned_by_default():
    x = np.arange(10)
    np.testing.assert_array_equal(pe.convert_layout(x, "interleaved", "half", rotary_offset=4),
                                  [0, 1, 2, 3, 4, 6, 8, 5, 7, 9])


@pytest.mark.parametrize("dtype", [
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64, ">f4", ">f8", np.int8, np.uint16, np.int64, bool,
    np.complex128,
])
def test_round_trips_keep_every_bit(dtype):
    size = np.dtype(dtype).itemsize
    raw = np.random.default_rng(1).integers(0, 256, size=(2, 5, 24 * size), dtype=np.uint8)
    a = (raw % 2 == 0)[..., :24] if dtype is bool else raw.view(dtype)      # NaN payloads and all
    half = pe.convert_layout(a, "interleaved", "half", head_dim=12, rotary_dim=8)
    assert half.dtype == a.dtype and not same_bits(half, a)
    assert same_bits(pe.convert_layout(half, "half", "interleaved", head_dim=12, rotary_dim=8), a)


@pytest.mark.parametrize("view", [
    lambda a: a, lambda a: a[::-1, :, ::-1], lambda a: np.asfortranarray(a), lambda a: a.swapaxes(0, 1),
    lambda a: a[:, ::2], lambda a: np.broadcast_to(a[:1], a.shape), lambda a: a[:0],
])
@pytest.mark.parametrize("pair", [("half", "interleaved"), ("neox", "rotate_half")])
def test_the_result_is_new_and_contiguous_whatever_the_strides(view, pair):
    a = view(np.random.default_rng(2).normal(size=(4, 6, 8)))
    a.flags.writeable = False
    out = pe.convert_layout(a, *pair)
    assert out.flags.c_contiguous and out.flags.writeable and not np.shares_memory(out, a)
    np.testing.assert_array_equal(out, pe.convert_layout(a.copy(), *pair))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_any_axis(axis):
    a = np.random.default_rng(3).normal(size=(8, 8, 8))
    moved = pe.convert_layout(np.moveaxis(a, axis, -1), "half", "interleaved", head_dim=4)
    np.testing.assert_array_equal(pe.convert_layout(a, "half", "interleaved", axis=axis, head_dim=4),
                                  np.moveaxis(moved, -1, axis))


@pytest.mark.parametrize("shape", [(0, 8), (3, 0)])
def test_empty_arrays(shape):
    assert pe.convert_layout(np.empty(shape), "half", "interleaved").shape == shape


# What it is for


@pytest.mark.parametrize("part", [{}, {"rotary_dim": 8}])
def test_scores_are_equal_before_and_after(part):
    rng = np.random.default_rng(4)
    q, k = rng.normal(size=(2, 3, 5, 16))
    positions = np.array([0, 1, 7, 100, 131071])

    def scores(layout):
        turned = [pe.apply_rope(pe.convert_layout(x, "interleaved", layout, **part), positions=positions,
                                layout=layout, **part) for x in (q, k)]
        return turned[0] @ turned[1].swapaxes(-1, -2)

    np.testing.assert_allclose(scores("half"), scores("interleaved"), rtol=0, atol=1e-13)
    mixed = pe.apply_rope(q, positions=positions, layout="half", **part) @ pe.apply_rope(
        k, positions=positions, layout="interleaved", **part).swapaxes(-1, -2)
    assert np.abs(mixed - scores("half")).max() > 1


def test_a_turned_cache_changes_layout_as_it_is():
    k = np.random.default_rng(5).normal(size=(2, 7, 12))
    cache = pe.apply_rope(k, positions=np.arange(7), rotary_dim=8)
    half = pe.apply_rope(pe.convert_layout(k, "interleaved", "half", rotary_dim=8), positions=np.arange(7),
                         rotary_dim=8, layout="half")
    converted = pe.convert_layout(cache, "interleaved", "half", rotary_dim=8)
    np.testing.assert_allclose(converted, half, rtol=0, atol=1e-15)


def test_gains_of_a_norm_go_with_the_projection():
    """QK-norm: a gain for each coordinate, shared by the heads."""
    rng = np.random.default_rng(6)
    weight, gain, x = rng.normal(size=(24, 10)), rng.normal(size=12), rng.normal(size=(6, 10))

    def queries(weight, gain):
        heads = (x @ weight.T).reshape(6, 2, 12)
        return heads / np.sqrt(np.mean(heads**2, axis=-1, keepdims=True)) * gain

    converted = queries(pe.convert_layout(weight, "interleaved", "half", axis=0, head_dim=12),
                        pe.convert_layout(gain, "interleaved", "half"))
    np.testing.assert_allclose(converted, pe.convert_layout(queries(weight, gain), "interleaved", "half"),
                               rtol=1e-14)


# Golden weights of transformers and the GGUF reader


@pytest.mark.parametrize("name", ["Wq", "Wk", "bq", "bk"])
def test_golden_llama_weights(name):
    case = GOLDEN["llama_permute"]
    interleaved, half = getattr(case, f"{name}_interleaved"), getattr(case, f"{name}_half")
    heads = {"axis": 0, "head_dim": case.head_dim}
    assert same_bits(pe.convert_layout(interleaved, "interleaved", "half", **heads), half)
    assert same_bits(pe.convert_layout(half, "half", "interleaved", **heads), interleaved)


@pytest.mark.parametrize("name", ["q", "k", "q_rot", "k_rot"])
def test_golden_llama_activations(name):
    case = GOLDEN["llama_permute"]
    interleaved, half = getattr(case, f"{name}_interleaved"), getattr(case, f"{name}_half")
    converted = pe.convert_layout(interleaved, "interleaved", "half")
    np.testing.assert_allclose(converted, half, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(pe.convert_layout(np.arange(12), "interleaved", "half"), case.permutation)


def test_golden_scores():
    case = GOLDEN["llama_permute"]
    rope = pe.Rope(case.head_dim, layout="half")
    turned = [rope.apply(pe.convert_layout(x, "interleaved", "half"), case.positions)
              for x in (case.q_interleaved, case.k_interleaved)]
    scores = turned[0] @ turned[1].swapaxes(-1, -2)
    np.testing.assert_allclose(scores, case.scores, rtol=0, atol=1e-10)
    assert np.abs(case.scores_mixed - case.scores).max() > 100


def test_golden_partial_weights():
    case = GOLDEN["partial_permute"]
    half = pe.convert_layout(case.Wq_interleaved, "interleaved", "half", axis=0, head_dim=12,
                             rotary_dim=case.rotary_dim)
    assert same_bits(half, case.Wq_half)
    np.testing.assert_array_equal(
        pe.convert_layout(np.arange(12), "interleaved", "half", rotary_dim=case.rotary_dim), case.permutation)
    np.testing.assert_allclose(
        pe.convert_layout(case.q_rot_interleaved, "interleaved", "half", rotary_dim=case.rotary_dim),
        case.q_rot_half, rtol=0, atol=1e-12)


def test_golden_grouped_keys():
    """Two key heads: the GGUF reader is right, a conversion by the query heads' count is not."""
    case = GOLDEN["grouped_keys"]
    half = pe.convert_layout(case.Wk_interleaved, "interleaved", "half", axis=0, head_dim=case.head_dim)
    assert same_bits(half, case.Wk_half) and same_bits(half, case.gguf_reader)
    assert not same_bits(half, case.Wk_half_transformers)


# What it refuses


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda x: pe.convert_layout(x, "interleaved", "halves"), ValueError,
     "dst: layout 'halves' is unknown; did you mean \"half\"?"),
    (lambda x: pe.convert_layout(x, "Llama", "half"), ValueError,
     "src: layout 'Llama' is unknown; Hugging Face's Llama is \"half\", Meta's own checkpoints"),
    (lambda x: pe.convert_layout(x, True, "half"), TypeError, "src: layout must be a string"),
    (lambda x: pe.convert_layout(x, "half", None), TypeError, "dst is None"),
    (lambda x: pe.convert_layout(x, "half", "half", axis=2), ValueError, "axis is 2 and a has 2 axes"),
    (lambda x: pe.convert_layout(x, "half", "half", axis=-3), ValueError, "axis must be at least -2; got -3"),
    (lambda x: pe.convert_layout(x, "half", "half", axis=1.0), TypeError, "axis must be an integer"),
    (lambda x: pe.convert_layout(x, "half", "half", axis=0), ValueError,
     "axis 0 of a has 4 coordinates .* pass head_dim=, .*head_dim=4 if it is one"),
    (lambda x: pe.convert_layout(x, "half", "half", head_dim=5), ValueError,
     "axis -1 of a has 12 coordinates .*, which is no multiple of head_dim=5; is axis= right"),
    (lambda x: pe.convert_layout(x, "half", "half", head_dim=0), ValueError, "head_dim must be at least 1"),
    (lambda x: pe.convert_layout(x, "half", "half", head_dim="12"), TypeError, "head_dim must be an integer"),
    (lambda x: pe.convert_layout(x, "half", "half", rotary_dim=7), ValueError, "rotary_dim must be even.*7"),
    (lambda x: pe.convert_layout(x, "half", "half", rotary_dim=14), ValueError,
     "rotary_dim=14 reaches past the axis of a = 12"),
    (lambda x: pe.convert_layout(x, "half", "half", head_dim=6, rotary_dim=4, rotary_offset=4), ValueError,
     "rotary_dim=4 after rotary_offset=4 reaches past head_dim = 6"),
    (lambda x: pe.convert_layout(x, "half", "half", rotary_offset=13), ValueError, "rotary_offset must"),
    (lambda x: pe.convert_layout(x, "half", "half", rotary_offset=3), ValueError,
     "the axis of a = 12 less rotary_offset = 3 is odd.*pass rotary_dim="),
    (lambda x: pe.convert_layout(x[:, :11], "half", "interleaved"), ValueError, "the axis of a = 11 is odd"),
    (lambda x: pe.convert_layout(x, "half", "half", head_dim=3), ValueError, "head_dim = 3 is odd"),
    (lambda x: pe.convert_layout(1.0, "half", "interleaved"), ValueError, "a is 1.0; expected an array"),
    (lambda x: pe.convert_layout({"w": x}, "half", "interleaved"), ValueError, "a is {.w.*expected an array"),
    (lambda x: pe.convert_layout(None, "half", "interleaved"), TypeError, "a is None"),
    (lambda x: pe.convert_layout(np.ma.array(x), "half", "interleaved"), TypeError, "a is a masked array"),
])
def test_bad_calls_say_what_is_wrong(call, error, text):
    with pytest.raises(error, match=text):
        call(np.zeros((4, 12)))
