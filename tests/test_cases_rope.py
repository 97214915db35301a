"""Faults that other libraries have had: frequency scaling and how a Rope is described. (C11 to C36)

Each was reported in public; the numbers are worked out here by hand or to 50 digits. `test_cases` has those
about layouts, positions and precision of the ops themselves.
"""

import ml_dtypes
import numpy as np
import pytest

import pe
from pe import Rope, scaling

BF16 = np.dtype(ml_dtypes.bfloat16)
LISTS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 4.0, 8.0, 32.0],
         "original_max_position_embeddings": 4096, "factor": 32.0}
GPT_OSS = {"model_type": "gpt_oss", "head_dim": 64, "rope_theta": 150000, "max_position_embeddings": 131072}
LLAMA = {"model_type": "llama", "head_dim": 128, "rope_theta": 500000.0, "max_position_embeddings": 131072}


def planes(rope, wanted):
    """The frequencies of these planes, to the nine digits they are written with."""
    np.testing.assert_allclose(rope.freqs[0, [*wanted]], [*wanted.values()], rtol=5e-9)


# Precision, seen through a scaled Rope


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_c11_positions_past_256_and_2048_keep_their_neighbours_apart(dtype):
    rope, x = Rope(2, scaling=scaling.linear(1)), np.array([[1, 0]] * 2, dtype)
    for pair, wanted in (((256, 257), (-0.039791, 0.819306)), ((2048, 2049), (0.949734, 0.776572))):
        got = rope.apply(x, [*pair])[:, 0].astype(float)
        np.testing.assert_allclose(got, wanted, atol=2.0**-11 if dtype == np.float16 else 2.0**-8)


def test_c14_a_gap_scores_the_same_wherever_it_lies_under_yarn():
    rope, x = Rope(16, scaling=scaling.yarn(4.0, 4096)), np.tile([1.0, 0.0], (1, 8))
    want = rope.amplitude**2 * np.cos(3 * rope.freqs).sum()
    for t in (3, 13, 103, 10**6 + 3, 10**9 + 3):
        for dtype, tolerance in ((np.float64, 1e-6), (np.float32, 7e-6)):
            q, k = (rope.apply(x.astype(dtype), [p]) for p in (t, t - 3))
            assert (q @ k.T).item() == pytest.approx(want, abs=tolerance)


# Frequency scaling


@pytest.mark.parametrize("truncate, wanted", [
    (True, {9: 0.0316207523, 12: 0.00701571391, 17: 0.000227947796}),
    (False, {9: 0.0317056962, 12: 0.00679495949, 17: 0.000129318701})])
def test_c25_ends_of_the_yarn_ramp_rounded_or_not(truncate, wanted):
    both = {0: 1.0, 8: 0.0508132748, 31: 3.02351143e-7}
    planes(Rope(64, 150000, scaling=scaling.yarn(32, 4096, truncate=truncate)), wanted | both)
    given = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096,
             "truncate": truncate}
    planes(Rope.from_hf({**GPT_OSS, "rope_scaling": given}), wanted | both)
    nested = {"full_attention": given}                      # obeyed inside a layer type, too
    planes(Rope.from_hf({**GPT_OSS, "rope_parameters": nested}, layer_type="full_attention"), wanted | both)


def test_c27_the_factor_divides_and_is_no_part_of_the_power():
    planes(Rope(128, scaling=scaling.yarn(4, 4096)),
           {20: 0.0562341325, 30: 0.00948851788, 45: 0.000429402589, 63: 2.88695496e-5})


def test_c28_yarn_amplitude_once_on_queries_and_once_on_keys():
    for s, wanted in ((4, 1.138629436), (16, 1.277258872), (32, 1.346573590), (40, 1.368887945), (1, 1)):
        assert scaling.yarn(s, 4096).amplitude == pytest.approx(wanted, abs=5e-10)
    given = scaling.yarn(40, 4096, mscale=0.707, mscale_all_dim=0.707)
    assert given.softmax_scale == pytest.approx(1.589626165, abs=5e-10)
    assert scaling.yarn(40, 4096, attention_factor=1.5).amplitude == 1.5

    rope, x = Rope(64, scaling=scaling.yarn(4, 4096)), np.random.default_rng(0).normal(size=(2, 1, 64))
    q, k = x
    plain = (q @ k.T).item()                                # at gap 0 the logits gain the square, no more
    assert (rope.apply(q, [9]) @ rope.apply(k, [9]).T).item() / plain == pytest.approx(1.296476993)
    scores = pe.attention_weights(q, k, rope=rope, scale=1.0, stage="scores").item()
    assert scores / plain == pytest.approx(1.296476993)
    cos, sin = rope.cache(4)
    np.testing.assert_allclose(cos**2 + sin**2, 1.296476993, rtol=5e-10)
    np.testing.assert_allclose(rope.shift(rope.apply(q, [4]), 5), rope.apply(q, [9]), atol=1e-13)


@pytest.mark.parametrize("width, factor, kept, blended", [
    (128, 8, 29, [0.00216657076, 0.00137189357, 0.000856751413, 0.000524846161, 0.000312693750,
                  0.000178507813]),
    (64, 32, 15, [0.00129054793, 0.000429556797, 9.7082878e-5])])
def test_c29_three_bands_of_llama_3(width, factor, kept, blended):
    given = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 8192}
    rope, w = Rope.from_hf({**LLAMA, "head_dim": width, "rope_scaling": given}), Rope(width, 5e5).freqs[0]
    end = kept + len(blended)
    np.testing.assert_array_equal(rope.freqs[0, :kept], w[:kept])
    np.testing.assert_allclose(rope.freqs[0, kept:end], blended, rtol=5e-9)
    np.testing.assert_allclose(rope.freqs[0, end:], w[end:] / factor, rtol=1e-15)
    assert rope.freqs[0, -1] == pytest.approx({128: 3.06892599e-7, 64: 9.41830673e-8}[width], rel=5e-9)


def test_c30_longrope_is_chosen_once_and_by_name():
    near, far = (Rope(8, scaling=scaling.longrope(**LISTS, seq_len=n)) for n in (4096, 4097))
    assert near.amplitude == far.amplitude == pytest.approx(1.190238071, abs=5e-10)
    k = np.random.default_rng(0).normal(size=(6, 8))
    # keys cached in two overlapping calls agree bit for bit: no call looks at its positions to choose
    first, second = far.apply(k[:4], [0, 1, 2, 3]), far.apply(k[2:], [2, 3, 4, 9000])
    np.testing.assert_array_equal(first[2:], second[:2])
    assert not np.allclose(near.apply(k[:4], [0, 1, 2, 3])[1:], first[1:])
    with pytest.raises(ValueError, match="short_factor has 4 numbers; expected L = 8"):
        Rope(16, scaling=scaling.longrope(**LISTS))


def test_c32_a_declared_scaling_is_never_ignored():
    by_type, by_rope_type = (Rope.from_hf({**LLAMA, "rope_scaling": {key: "linear", "factor": 4.0}})
                             for key in ("type", "rope_type"))
    assert by_type == by_rope_type == Rope(128, 5e5, layout="half", scaling=scaling.linear(4.0))
    for bad, key in (({"rope_type": "yarm", "factor": 4.0}, "yarn"), ({"rope_type": "linear"}, "factor"),
                     ({"rope_type": "linear", "facter": 4.0}, "factor"),
                     ({"rope_type": "linear", "factor": 0.0}, "factor"),
                     ({"rope_type": "linear", "factor": -4.0}, "factor"),
                     ({"rope_type": "linear", "factor": float("nan")}, "factor")):
        with pytest.raises(ValueError, match=key):
            Rope.from_hf({**LLAMA, "rope_scaling": bad})
    plain = Rope(128, 5e5)
    for scaled in (scaling.linear(1), scaling.ntk(1), scaling.yarn(1, 8192), scaling.llama3(1)):
        assert Rope(128, 5e5, scaling=scaled).freqs.tobytes() == plain.freqs.tobytes()


# Offsets, caches


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_c34_decoding_one_by_one_is_the_prefill_bit_for_bit(layout):
    rope = Rope(24, rotary_dim=16, rotary_offset=8, layout=layout, scaling=scaling.yarn(8.0, 64))
    for dtype in (np.float64, np.float32, np.float16, BF16):
        x = np.random.default_rng(0).normal(size=(2, 3, 9, 24)).astype(dtype)
        whole = rope.apply(x, np.arange(9))
        steps = np.concatenate([rope.apply(x[:, :, [i]], [i]) for i in range(9)], axis=2)
        assert steps.tobytes() == whole.tobytes()
        assert rope.apply(x[:, :, 5:], np.arange(5, 9)).tobytes() == whole[:, :, 5:].tobytes()
        assert rope.apply(x[:, :, 5:], np.arange(6, 10)).tobytes() != whole[:, :, 5:].tobytes()


def test_c36_a_left_padded_row_stands_at_positions_of_its_own():
    rope, x = Rope(16, rotary_dim=8, rotary_offset=8), np.random.default_rng(0).normal(size=(1, 2, 3, 16))
    padded = np.concatenate([np.full((1, 2, 2, 16), 7.0), x], axis=2)
    mask = np.array([[False, False, True, True, True]])
    p = pe.positions_from_mask(mask)[:, None]
    q, k = rope.apply(padded, p), rope.apply(x, np.arange(3))
    np.testing.assert_array_equal(q[:, :, 2:], k)
    want = pe.attention(k, k, x, causal=True)
    got = pe.attention(q, q, padded, causal=True, mask=mask[:, None, None])
    np.testing.assert_allclose(got[:, :, 2:], want)
