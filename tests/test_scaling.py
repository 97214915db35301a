"""`pe.scaling`: every formula against 50 digits and published numbers, and every bad value."""

import doctest
import pickle

import numpy as np
import pytest
from mpmath import mp, mpf

import pe
from pe import Rope, scaling
from pe.scaling import bands, common, interpolation, lists

L0 = 4096
LISTS = {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [1.0, 4.0, 16.0, 64.0],
         "original_max_position_embeddings": L0}
EVERY = [scaling.linear(4), scaling.ntk(8), scaling.dynamic_ntk(2.0, L0, 10000), scaling.yarn(4, L0),
         scaling.llama3(), scaling.longrope(**LISTS, factor=4), scaling.proportional(0.5, 2.0)]


@pytest.mark.parametrize("module", [scaling, bands, common, interpolation, lists], ids=lambda m: m.__name__)
def test_docstring_examples_run(module):
    result = doctest.testmod(module)
    assert result.failed == 0 and (result.attempted or module is common)


# The formulas, in 50 digits


def spectrum(width, base):
    return [mpf(base) ** (-mpf(2 * plane) / width) for plane in range(width // 2)]


def clamped(x):
    return min(max(x, mpf(0)), mpf(1))


def exact(kind, w, base, s, **given):
    """Frequencies by the definition of each scaling, on mpmath numbers."""
    d, original = 2 * len(w), given.get("original_max_position_embeddings")
    s = mpf(s)
    if kind == "linear":
        return [f / s for f in w]
    if kind == "ntk":
        return spectrum(d, mpf(base) * s ** (mpf(d) / (d - 2)))
    if kind == "dynamic_ntk":
        longest = given["max_position_embeddings"]
        growth = s * max(given["seq_len"], longest) / longest - (s - 1)
        return spectrum(d, mpf(base) * growth ** (mpf(d) / (d - 2)))
    if kind == "yarn":
        lo, hi = (d * mp.log(original / (2 * mp.pi * given[turns])) / (2 * mp.log(base))
                  for turns in ("beta_fast", "beta_slow"))
        if given["truncate"]:
            lo, hi = mp.floor(lo), mp.ceil(hi)
        lo, hi = max(lo, 0), min(hi, d - 1)
        hi += mpf("0.001") if lo == hi else 0
        ramp = [clamped((plane - lo) / (hi - lo)) for plane in range(d // 2)]
        return [f * (1 - r) + f / s * r for f, r in zip(w, ramp, strict=True)]
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    scaled = []
    for f in w:
        wavelength = 2 * mp.pi / f
        if wavelength < original / mpf(high):
            scaled.append(f)
        elif wavelength > original / mpf(low):
            scaled.append(f / s)
        else:
            g = (original / wavelength - low) / (high - low)
            scaled.append((1 - g) * f / s + g * f)
    return scaled


@pytest.mark.parametrize("width, base, s", [(128, 1e4, 4), (64, 5e5, 32), (96, 150000.0, 7.5), (4, 1e4, 1)])
@pytest.mark.parametrize("kind, given", [
    ("linear", {}), ("ntk", {}),
    ("dynamic_ntk", {"max_position_embeddings": 2048, "seq_len": 16384}),
    ("dynamic_ntk", {"max_position_embeddings": 2048, "seq_len": 1000}),
    ("yarn", {"original_max_position_embeddings": L0, "beta_fast": 32, "beta_slow": 1, "truncate": True}),
    ("yarn", {"original_max_position_embeddings": L0, "beta_fast": 32, "beta_slow": 1, "truncate": False}),
    ("yarn", {"original_max_position_embeddings": 64, "beta_fast": 9.5, "beta_slow": 2.25,
              "truncate": False}),
    ("yarn", {"original_max_position_embeddings": L0, "beta_fast": 2, "beta_slow": 2, "truncate": False}),
    ("llama3", {"low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}),
    ("llama3", {"low_freq_factor": 1, "high_freq_factor": 1, "original_max_position_embeddings": 8192}),
    ("llama3", {"low_freq_factor": 0.5, "high_freq_factor": 30, "original_max_position_embeddings": 500}),
], ids=str)
def test_against_mpmath(kind, given, width, base, s):
    rope = Rope(width, base, scaling=getattr(scaling, kind)(s, **given))
    with mp.workdps(50):
        w = spectrum(width, base)
        want = [float(f) for f in exact(kind, w, base, s, **given)]
    np.testing.assert_allclose(rope.freqs[0], want, rtol=1e-14)
    np.testing.assert_allclose(rope.unscaled[0], [float(f) for f in w], rtol=1e-14)


@pytest.mark.parametrize("scaled, base, numbers", [
    (scaling.yarn(10, 2048), 1e4, {17: 8.3479e-2, 18: 6.9590e-2, 40: 4.3007e-4, 41: 2.7384e-4}),
    (scaling.llama3(10, 1, 4, 2048), 1e4, {31: 1.0730e-2, 32: 7.7785e-3, 40: 3.4539e-4}),
    (scaling.dynamic_ntk(10, 2048, 16384), 1e4, {1: 8.0931e-1, 63: 1.6265e-6}),
])
def test_numbers_of_the_tests_of_transformers(scaled, base, numbers):
    """Five digits for a head of 128, as its own test suite prints them."""
    freqs = Rope(128, base, scaling=scaled).freqs[0]
    for plane, want in numbers.items():
        assert float(f"{freqs[plane]:.4e}") == pytest.approx(want, rel=2e-5)


def test_ntk_keeps_the_fastest_and_divides_the_slowest_by_s():
    before, after = Rope(128, 5e5), Rope(128, 5e5, scaling=scaling.ntk(8))
    ratio = before.freqs[0] / after.freqs[0]
    assert ratio[0] == 1 and ratio[-1] == pytest.approx(8, rel=1e-14) and (np.diff(ratio) > 0).all()


def test_a_factor_of_one_changes_no_bit():
    plain = Rope(64)
    for scaled in (scaling.linear(1), scaling.ntk(1), scaling.dynamic_ntk(4, 2048),
                   scaling.dynamic_ntk(4, 2048, 2048), scaling.yarn(1, 2048), scaling.llama3(1),
                   scaling.proportional()):
        rope = Rope(64, scaling=scaled)
        assert rope == plain and rope.freqs.tobytes() == plain.freqs.tobytes(), scaled
        assert rope.amplitude == rope.softmax_scale == 1


def test_longrope_divides_by_the_list_that_seq_len_chooses():
    w = Rope(8).freqs[0]
    for seq_len, name in ((None, "short_factor"), (L0, "short_factor"), (L0 + 1, "long_factor")):
        scaled = scaling.longrope(**LISTS, factor=2, seq_len=seq_len)
        np.testing.assert_allclose(Rope(8, scaling=scaled).freqs[0], w / LISTS[name], rtol=1e-15)
        assert scaled.long == (name == "long_factor")


def test_proportional_counts_over_the_whole_head():
    rope = Rope(32, scaling=scaling.proportional(0.3, 8))
    np.testing.assert_allclose(rope.freqs[0], [*(Rope(32).freqs[0, :4] / 8), *np.zeros(12)], rtol=1e-15)
    assert rope.rotary_dim == 32 and Rope(32, scaling=scaling.proportional(1.0)) == Rope(32)


# Amplitudes


@pytest.mark.parametrize("given, amplitude, share", [
    ({}, "0.1 * log(40) + 1", "1"),
    ({"attention_factor": 0.75}, "0.75", "1"),
    ({"mscale": 0.707}, "0.1 * log(40) + 1", "1"),
    ({"mscale": 1.0, "mscale_all_dim": 1.0}, "1", "(0.1 * log(40) + 1)**2"),
    ({"mscale": 1.0, "mscale_all_dim": 0.707}, "(0.1 * log(40) + 1) / (0.0707 * log(40) + 1)",
     "(0.0707 * log(40) + 1)**2"),
    ({"mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 2.0}, "2", "(0.1 * log(40) + 1)**2"),
])
def test_yarn_amplitude_and_share_of_the_softmax(given, amplitude, share):
    rope = Rope(64, scaling=scaling.yarn(40, L0, **given))
    want = [eval(text, {"log": np.log}) for text in (amplitude, share)]
    np.testing.assert_allclose([rope.amplitude, rope.softmax_scale], want, rtol=1e-14)


@pytest.mark.parametrize("given, amplitude", [
    ({"factor": 32}, np.sqrt(1 + 5 / 12)), ({"max_position_embeddings": 131072}, np.sqrt(1 + 5 / 12)),
    ({"factor": 1}, 1), ({"factor": 0.5}, 1), ({"max_position_embeddings": L0}, 1),
    ({"factor": 32, "max_position_embeddings": 8192}, np.sqrt(1 + 5 / 12)),
    ({"factor": 32, "attention_factor": 1.25}, 1.25),
    ({"short_mscale": 1.1, "long_mscale": 1.3}, 1.1),
    ({"short_mscale": 1.1, "long_mscale": 1.3, "attention_factor": 9, "seq_len": L0 + 1}, 1.3),
])
def test_longrope_amplitude(given, amplitude):
    assert scaling.longrope(**LISTS, **given).amplitude == pytest.approx(amplitude, rel=1e-15)


def test_an_amplitude_of_ones_own_multiplies():
    rope = Rope(64, scaling=scaling.yarn(40, L0, mscale_all_dim=1.0), amplitude=2.0, softmax_scale=3.0)
    m = 0.1 * np.log(40) + 1
    np.testing.assert_allclose([rope.amplitude, rope.softmax_scale], [2 * m, 3 * m * m], rtol=1e-15)


# Records, and what a Rope makes of them


def test_frozen_comparable_printable():
    for scaled in EVERY:
        assert pickle.loads(pickle.dumps(scaled)) == scaled and hash(scaled)
        names = {name: getattr(scaling, name) for name in scaling.__all__}
        if "numbers)" not in repr(scaled):
            assert eval(repr(scaled), names) == scaled
        with pytest.raises(AttributeError):
            scaled.factor = 3.0
    assert len(set(EVERY)) == len(EVERY) and scaling.linear(4) == scaling.linear(np.float32(4.0))
    assert scaling.linear(4) != scaling.ntk(4)
    longer = dict(LISTS, short_factor=[1.0] * 48, long_factor=[2.0] * 48)
    assert "48 numbers" in repr(scaling.longrope(**longer, factor=2))
    assert repr(scaling.llama3(8)) == "llama3(factor=8.0, original_max_position_embeddings=8192)"


@pytest.mark.parametrize("name, near", [("ntk_aware", "ntk"), ("dynamicntk", "dynamic_ntk"),
                                        ("llama", "llama3"), ("YARN2", None), ("_yarn", None)])
def test_a_name_that_is_not_there(name, near):
    hint = f"; did you mean {near!r}\\?" if near else ""
    with pytest.raises(AttributeError, match=f"^module 'pe.scaling' has no attribute {name!r}{hint}$"):
        getattr(scaling, name)


@pytest.mark.parametrize("call, words", [
    (lambda: scaling.yarn(4), r"yarn\(\) is missing original_max_position_embeddings; call scaling.yarn"),
    (lambda: scaling.yarn(4, original=4096), "original=; pe takes original_max_position_embeddings="),
    (scaling.linear, r"linear\(\) is missing factor; call scaling.linear\(4.0\)")])
def test_arguments_as_such(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize("scaled", EVERY, ids=repr)
def test_a_rope_keeps_its_scaling_and_what_was_before(scaled):
    rope = Rope(8, 5e5, scaling=scaled)
    copy = pickle.loads(pickle.dumps(rope))
    assert copy == rope and copy.scaling == scaled and copy.base == 5e5
    np.testing.assert_array_equal(copy.unscaled, Rope(8, 5e5).freqs)
    assert repr(scaled) in repr(rope) and scaled.paper == rope.provenance.paper
    assert rope == Rope(8, freqs=rope.freqs, amplitude=scaled.amplitude, softmax_scale=scaled.softmax_scale)


def test_frequencies_of_ones_own_are_scaled_where_that_means_something():
    w = np.array([[1.0, 0.1, 0, 0], [0, 0, 0.5, 0.05]])
    for scaled in (scaling.linear(4), scaling.longrope(**LISTS, factor=4)):
        rope = Rope(8, freqs=w, scaling=scaled)
        divisors = 4 if scaled == scaling.linear(4) else LISTS["short_factor"]
        np.testing.assert_allclose(rope.freqs, w / divisors, rtol=1e-15)
    assert (Rope(8, freqs=w, scaling=scaling.llama3()).freqs[w == 0] == 0).all()
    for scaled in (scaling.ntk(4), scaling.dynamic_ntk(4, L0), scaling.yarn(4, L0)):
        with pytest.raises(TypeError, match=f"scaling={type(scaled).__name__} works on a base.*freqs"):
            Rope(8, freqs=w, scaling=scaled)


@pytest.mark.parametrize("make, error, words", [
    (lambda: scaling.linear(0.5), ValueError, "factor .*at least 1.*0.5"),
    (lambda: scaling.linear(0), ValueError, "factor .*above 0.*0"),
    (lambda: scaling.linear(float("nan")), ValueError, "factor .*finite.*nan"),
    (lambda: scaling.linear("4"), TypeError, "factor .*number.*'4'"),
    (lambda: scaling.linear(None), TypeError, "factor .*number.*None"),
    (lambda: scaling.ntk(-2), ValueError, "factor .*-2"),
    (lambda: scaling.dynamic_ntk(2, 0), ValueError, "max_position_embeddings .*at least 1.*0"),
    (lambda: scaling.dynamic_ntk(2, 2048, 0.5), TypeError, "seq_len .*integer.*0.5"),
    (lambda: scaling.yarn(4, 0), ValueError, "original_max_position_embeddings .*at least 2.*0"),
    (lambda: scaling.yarn(4, L0, beta_fast=1, beta_slow=32), ValueError, "beta_fast .*beta_slow.*1 and .*32"),
    (lambda: scaling.yarn(4, L0, beta_slow=0), ValueError, "beta_slow .*above 0"),
    (lambda: scaling.yarn(4, L0, attention_factor=-1), ValueError, "attention_factor .*-1"),
    (lambda: scaling.yarn(4, L0, mscale="1"), TypeError, "mscale .*number.*'1'"),
    (lambda: scaling.yarn(4, L0, truncate=0), TypeError, "truncate .*True or False.*0"),
    (lambda: scaling.llama3(8, 4, 1), ValueError, "high_freq_factor .*above low_freq_factor.*1 .*4"),
    (lambda: scaling.llama3(8, 4, 4), ValueError, "high_freq_factor .*above low_freq_factor.*4 .*4"),
    (lambda: scaling.llama3(8, 0, 4), ValueError, "low_freq_factor .*above 0"),
    (lambda: scaling.longrope([1.0], [1.0, 2.0], L0, 4), ValueError, "short_factor has 1 .*long_factor"),
    (lambda: scaling.longrope([1.0, 0], [1.0, 2.0], L0, 4), ValueError, r"short_factor\[1\] .*above 0"),
    (lambda: scaling.longrope(1.0, 2.0, L0, 4), TypeError, "short_factor .*list.*1.0"),
    (lambda: scaling.longrope([1.0], [2.0], L0), ValueError, "factor= or max_position_embeddings="),
    (lambda: scaling.longrope([1.0], [2.0], L0, short_mscale=1), ValueError, "short_mscale and long_mscale"),
    (lambda: scaling.proportional(1.5), ValueError, "partial_rotary_factor .*at most 1.*1.5"),
    (lambda: Rope(6, scaling=scaling.longrope(**LISTS, factor=4)), ValueError, "short_factor has 4 .*L = 3"),
    (lambda: Rope(2, scaling=scaling.ntk(4)), ValueError, "ntk .*at least 2 planes.*d = 2"),
    (lambda: Rope(2, scaling=scaling.dynamic_ntk(4, L0, 9999)), ValueError, "dynamic_ntk .*2 planes"),
    (lambda: Rope(8, 1.0, scaling=scaling.yarn(4, L0)), ValueError, "yarn .*base above 1"),
    (lambda: Rope(8, scaling={"rope_type": "linear", "factor": 2}), TypeError, "scaling .*pe.Rope.from_hf"),
    (lambda: Rope(8, scaling="linear"), TypeError, "scaling .*pe.scaling.*'linear'"),
    (lambda: Rope(8, scaling=scaling.Scaling()), TypeError, "take one of pe.scaling"),
])
def test_bad_values(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_scores_of_a_scaled_rope_still_depend_on_the_gap():
    q, k = np.random.default_rng(0).normal(size=(2, 1, 8))
    for scaled in EVERY:
        rope = pe.Rope(8, scaling=scaled)
        scores = [(rope.apply(q, [t]) @ rope.apply(k, [t - 3]).T).item() for t in (3, 1000, 10**6)]
        np.testing.assert_allclose(scores, scores[0], atol=1e-9)


@pytest.mark.parametrize("make, words", [
    (lambda: scaling.yarn(4), r"scaling.yarn\(\) is missing original_max_position_embeddings; call scaling"),
    (lambda: scaling.yarn(4.0, original_context=9), "no keyword original_context=; pe takes original_max_po"),
    (lambda: scaling.ntk(alpha=4), "no keyword alpha=; pe takes factor="),
    (lambda: Rope(8, scaling=scaling.yarn), "class 'pe.scaling.*yarn.*; call it with its parameters"),
    (lambda: scaling.linear({"factor": 4.0}), "factor must be a number; .* a dict; .*pe.Rope.from_hf"),
])
def test_what_to_type_instead(make, words):
    with pytest.raises(TypeError, match=words):
        make()
