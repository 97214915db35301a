"""`Rope.from_hf`: 76 configs of real model classes in both spellings, 13 bad ones, and what is asked for."""

import json
from pathlib import Path

import numpy as np
import pytest
from golden_cases import GOLDEN, arrays, rope_cases

import pe
from pe import Rope, scaling
from pe.rope.huggingface import axes_of
from pe.rope.models import FAMILIES, VISION

with open(GOLDEN / "rope_hf_configs.json") as file:
    CONFIGS = json.load(file)
CASES = CONFIGS["cases"]
OLD = {"rope_scaling", "rope_parameters", "rope_theta", "rotary_pct", "rotary_emb_base",
       "rope_local_base_freq", "compress_rope_theta", "partial_rotary_factor"}
LLAMA = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 8192}


def spelt(case, form):
    """The config as it is published, or with the rope that transformers 5 saves."""
    config = {"model_type": case["model_type"], **case["config"]}
    if form == "new":
        config = {key: value for key, value in config.items() if key not in OLD}
        config["rope_parameters"] = case["rope_parameters_v5"]
    return config


def read(case, form="old"):
    return Rope.from_hf(spelt(case, form), layer_type=case["layer_type"], seq_len=case["seq_len"])


def of(rope_type, **keys):
    return Rope.from_hf({**LLAMA, "rope_scaling": {"rope_type": rope_type, **keys}})


# The golden configs


def test_every_config_is_here():
    assert len(CASES) == 76 and len(CONFIGS["bad"]) == 13
    unsaved = {name for name, case in CASES.items() if case["rope_parameters_v5"] is None}
    assert unsaved == {"apply_gptj", "vision_dinov3"}


SPELT = [(name, form) for name, case in CASES.items() for form in ("old", "new")
         if form == "old" or case["rope_parameters_v5"] is not None]


@pytest.mark.parametrize("name, form", SPELT)
def test_golden_config(name, form):
    rope, expect = read(CASES[name], form), CASES[name]["expect"]
    got = {"head_dim": rope.dim, "rotary_dim": rope.rotary_dim, "rotary_offset": rope.rotary_offset,
           "n_axes": len(rope.freqs), "layout": rope.layout}
    assert got == {key: expect[key] for key in got}
    assert rope.amplitude == pytest.approx(expect["amplitude"], rel=1e-15)
    file, _, key = expect["freqs"].partition(".npz:")
    np.testing.assert_allclose(rope.freqs, np.atleast_2d(arrays(file)[key]), rtol=1e-14)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case["rope_parameters_v5"] is not None])
def test_both_spellings_are_one_rope(name):
    old, new = (read(CASES[name], form) for form in ("old", "new"))
    assert old == new and old.scaling == new.scaling and old.provenance == new.provenance


@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for c in rope_cases("rope_freqs")])
def test_tables(name, case):
    """cos and sin to position 2^24 + 1: exact but for the roundings of w and p*w; the model's in float32."""
    rope, p = read(CASES[name]), case.positions
    cos, sin = rope.cache(p)
    allowed = (np.abs(p)[:, None] * rope.unscaled[0, 0] + 4) * 2.0**-51
    for got, exact, theirs in ((cos, case.cos, case.cos_hf), (sin, case.sin, case.sin_hf)):
        assert (np.abs(got - exact * case.amplitude) <= allowed * case.amplitude).all()
        near = np.minimum(p[:, None] * 2.0**-21, 2) + 2.0**-22
        assert (np.abs(got - theirs[:, :got.shape[1]]) <= near * case.amplitude).all()
    np.testing.assert_allclose(rope.freqs[0], case.inv_freq_hf, rtol=5e-7)
    assert rope.amplitude == pytest.approx(case.attention_factor_hf, rel=1e-6)


TURNED = [(name, *case["expect"]["freqs"].removesuffix("/freqs").split(".npz:"))
          for name, case in CASES.items() if case["expect"]["freqs"].endswith("/freqs")]


@pytest.mark.parametrize("name, file, peer", TURNED)
def test_whole_heads_of_the_models(name, file, peer):
    """The whole head goes in, with what is copied: exact, and near what the model itself gave."""
    assert len(TURNED) == 30
    case, rope = dict(rope_cases(file))[peer], read(CASES[name])
    for operand in ("q", "k"):
        x = getattr(case, operand, None)
        if x is None:
            continue
        positions = getattr(case, "positions_k", case.positions) if operand == "k" else case.positions
        tail = () if len(rope.freqs) == 1 else (len(rope.freqs),)
        positions = np.broadcast_to(positions, x.shape[:-1] + tail)
        exact, theirs = getattr(case, f"{operand}_exact"), getattr(case, f"{operand}_hf32")
        for dtype in (np.float64, np.float32):
            got = rope.apply(x.astype(dtype), positions, inverse=case.inverse)
            if peer == "deepseek_v3_interleave":                # reads adjacent pairs, writes half order
                turned = got[..., rope.rotary_offset:]
                got = np.concatenate([got[..., :rope.rotary_offset], turned[..., ::2], turned[..., 1::2]], -1)
            largest = np.abs(x).max()
            bound = rope.error_bound(np.abs(positions).max(axis=tuple(range(x.ndim - 1))), dtype)
            assert np.abs(got - exact).max() <= 1.5 * bound * largest
            reach = np.minimum(np.abs(positions).max() * 2.0**-21, 2) + 2.0**-21
            assert np.abs(got - theirs).max() <= 1.5 * reach * largest * rope.amplitude


@pytest.mark.parametrize("peer, name", [("deepseek_v3_interleave", "apply_deepseek_v3_interleave"),
                                        ("deepseek_v3_half", "apply_deepseek_v3_half")])
def test_deepseek_gives_the_softmax_its_share(peer, name):
    rope = read(CASES[name])
    scale = dict(rope_cases("rope_apply"))[peer].softmax_scale_hf
    assert rope.softmax_scale * rope.dim**-0.5 == pytest.approx(scale, rel=1e-7)
    same_keys = {**LLAMA, "rope_scaling": CASES[name]["config"]["rope_scaling"]}
    assert Rope.from_hf(same_keys).softmax_scale == 1           # Llama's code does not read the share


# The bad ones, and others


@pytest.mark.parametrize("name, error, words", [
    ("misspelt required key", ValueError, "rope_scaling .*'facotr'; did you mean 'factor'"),
    ("misspelt optional key", ValueError, "rope_scaling .*'beta_fasst'; did you mean 'beta_fast'"),
    ("misspelt rope_type key", ValueError, "rope_scaling .*'rope_typ'; did you mean 'rope_type'"),
    ("unknown rope_type", ValueError, "rope_type 'ntk' is unknown.*dynamic"),
    ("factor below 1", ValueError, "linear.*factor .*at least 1.*0.5"),
    ("high = low", ValueError, "llama3.*high_freq_factor .*above low_freq_factor.*=4 .*=4"),
    ("high < low", ValueError, "llama3.*high_freq_factor .*above low_freq_factor.*=1 .*=4"),
    ("beta_fast < beta_slow", ValueError, "yarn.*beta_fast .*at least beta_slow.*=1 .*=32"),
    ("wrong list length", ValueError, "longrope.*short_factor has 3 numbers; expected L = 32"),
    ("factor missing", ValueError, "yarn' lacks 'factor'; write \"factor\""),
    ("factor null", ValueError, "yarn' lacks 'factor'; write \"factor\""),
    ("factor a string", TypeError, "linear.*factor .*number.*'4'"),
    ("dynamic with head_dim 2", ValueError, "dynamic.*at least 2 planes"),
])
def test_bad_config(name, error, words):
    with pytest.raises(error, match=words):
        Rope.from_hf({"model_type": "llama", **CONFIGS["bad"][name]["config"]})


@pytest.mark.parametrize("change, error, words", [
    ({"model_type": "llamma"}, ValueError, "'llamma' .*did you mean 'llama'.*layout="),
    ({"alibi": True}, ValueError, r'"alibi", .* slides: .*alibi_slopes=pe.alibi_slopes\(4\)\)$'),
    ({"model_type": ["llama"]}, TypeError, r"model_type must be a string.*\['llama'\]"),
    ({"model_type": None}, ValueError, "no model_type.*layout=\"half\""),
    ({"hidden_size": None}, ValueError, "head_dim"),
    ({"hidden_size": 2.5}, TypeError, "hidden_size .*integer"),
    ({"rope_theta": 0.5}, ValueError, "rope_theta .*at least 1.*0.5"),
    ({"rope_theta": "1e4"}, TypeError, "rope_theta .*number"),
    ({"rope_theta": 0}, ValueError, "rope_theta .*above 0"),
    ({"model_type": "gpt_neox", "rotary_emb_base": 0.5}, ValueError, "rotary_emb_base must be at least 1"),
    ({"model_type": "gpt_neox", "rotary_pct": 2}, ValueError, "rotary_pct must be at most 1"),
    ({"rope_scaling": [1]}, TypeError, "rope_scaling must be a dict"),
    ({"rope_scaling": {"factor": 4.0}}, ValueError, "'factor', which rope_type 'default' .*'linear'"),
    ({"rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 4.0}}, ValueError,
     "keep the right one"),
    ({"rope_scaling": {"rope_type": 3}}, TypeError, "rope_type must be a string"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 4.0, "beta_fast": 32}}, ValueError,
     "'beta_fast', .*'yarn'"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "max_position_embeddings": None}, ValueError,
     "original_max_position_embeddings"),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "max_position_embeddings": None}, ValueError,
     "max_position_embeddings"),
    ({"max_position_embeddings": -3}, ValueError, "max_position_embeddings must be at least 1; got -3"),
    ({"max_position_embeddings": "abc"}, TypeError, "max_position_embeddings must be an integer; got 'abc'"),
    ({"max_position_embeddings": float("inf")}, TypeError, "max_position_embeddings must be an integer"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_parameters": {"rope_type": "default"}},
     ValueError, "both rope_scaling and rope_parameters"),
    ({"rope_scaling": {"mrope_section": [16, 8, 9]}}, ValueError, "counts 33 planes; expected L = 32"),
    ({"rope_scaling": {"mrope_section": 32}}, ValueError, "mrope_section must be three counts"),
    ({"partial_rotary_factor": 1.5}, ValueError, "partial_rotary_factor .*at most 1"),
    ({"model_type": "deepseek_v3", "rope_interleave": "false"}, TypeError,
     "rope_interleave must be true or false; got 'false' of type str"),
    ({"model_type": "deepseek_v3", "rope_interleave": 0}, TypeError, "rope_interleave must be true or false"),
    ({"rope_scaling": {"mrope_section": [16, 8, 8], "mrope_interleaved": "no"}}, TypeError,
     "mrope_interleaved must be true or false; got 'no'"),
    ({"rope_scaling": {"mrope_interleaved": "no"}}, TypeError, "mrope_interleaved must be true or false"),
    ({"layer_rope_theta": [[1]]}, TypeError, r"layer_rope_theta must be a number; got \[1\]"),
    ({"partial_rotary_factor": 0.3}, ValueError, "head_dim 64 times partial_rotary_factor 0.3 gives 19"),
    ({"rope_parameters": {"full_attention": {"rope_type": "default"}, "factor": 2}}, ValueError,
     "mixes layer types .*'factor'"),
])
def test_refused(change, error, words):
    with pytest.raises(error, match=words):
        Rope.from_hf({**LLAMA, **change})


def test_a_config_is_a_dict_or_has_to_dict():
    class Config:
        def to_dict(self):
            return LLAMA

    assert Rope.from_hf(Config()) == Rope.from_hf(LLAMA) == Rope(64, layout="half")
    for config in ("config.json", Path("config.json")):
        with pytest.raises(TypeError, match=r"must be a dict.*; pass json.load\(open\('config.json'\)\)"):
            Rope.from_hf(config)
    for config in (None, 3):
        with pytest.raises(TypeError, match="config must be a dict"):
            Rope.from_hf(config)


def test_layout_is_asked_for_where_the_model_is_unknown():
    unknown = {**LLAMA, "model_type": "brand_new"}
    assert Rope.from_hf(unknown, layout="gptj") == Rope(64)
    assert Rope.from_hf(LLAMA, layout="interleaved") == Rope(64)
    with pytest.raises(ValueError, match="layout 'neither'"):
        Rope.from_hf(unknown, layout="neither")


def test_seq_len_is_a_length():
    for seq_len, error in ((0, ValueError), (2.5, TypeError), ("9", TypeError)):
        with pytest.raises(error, match="seq_len"):
            Rope.from_hf(LLAMA, seq_len=seq_len)


def test_the_text_config_of_a_multimodal_model():
    text = CASES["apply_gemma3_full"]
    for inner in ({"model_type": "gemma3_text"}, {}):
        config = {"model_type": "gemma3", "hidden_size": 1, "text_config": {**inner, **text["config"]}}
        assert Rope.from_hf(config, layer_type="full_attention") == read(text)


@pytest.mark.parametrize("keys, words", [
    ({"rope_parameters": {"rope_thet": 1e4}}, "'rope_thet'; did you mean 'rope_theta'"),
    ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "'linear' .*that vision towers have"),
    ({"hidden_size": None}, "lacks hidden_size"), ({"num_attention_heads": 48}, "dim .*4"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5, which vision towers do not read"),
    ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5, which vision towers"),
    ({"rope_parameters": {"mrope_section": [16, 8, 8]}}, r"mrope_section \[16, 8, 8\], which vision towers")])
def test_a_vision_tower_is_read_as_strictly(keys, words):
    config = {"model_type": "pixtral", "hidden_size": 128, "num_attention_heads": 2}
    assert Rope.from_hf(config) == pe.presets.pixtral(64)
    with pytest.raises(ValueError, match=words):
        Rope.from_hf({**config, **keys})


def test_a_vision_tower_has_one_rope_for_all_layers():
    with pytest.raises(ValueError, match="layer_type is 'x', but this config has one rope"):
        Rope.from_hf({"model_type": "pixtral"}, layer_type="x")


@pytest.mark.parametrize("model, tower", [
    ("qwen2_5_vl", {"hidden_size": 1280, "num_heads": 16, "out_hidden_size": 3584, "patch_size": 14}),
    ("qwen2_vl", {"embed_dim": 1280, "num_heads": 16, "hidden_size": 3584, "patch_size": 14})])
def test_a_vision_config_under_the_name_of_its_model(model, tower):
    assert Rope.from_hf({"model_type": model, **tower}) == pe.presets.qwen2_vl_vision(80)
    text = {"model_type": model, "head_dim": 128, "vision_config": {"model_type": model, **tower}}
    assert len(Rope.from_hf(text).freqs) == 3


def test_layer_types():
    gemma, full = spelt(CASES["linear_gemma3_4b_full_legacy"], "old"), "full_attention"
    for given in (None, "global"):
        with pytest.raises(ValueError, match="layer_type=, one of 'full_attention', 'sliding_attention'"):
            Rope.from_hf(gemma, layer_type=given)
    assert Rope.from_hf(gemma, layer_type=full).scaling == scaling.linear(8)
    assert Rope.from_hf(gemma, layer_type="sliding_attention").scaling is None
    with pytest.raises(ValueError, match="layer_type is 'full_attention'.*one rope"):
        Rope.from_hf(LLAMA, layer_type=full)
    listed = {**LLAMA, "layer_types": [full, "sliding_attention"]}
    assert Rope.from_hf(listed, layer_type=full) == Rope.from_hf(listed)
    only = {full: {"rope_type": "linear", "factor": 2.0}, "sliding_attention": None}
    one = {**LLAMA, "rope_parameters": only}
    assert Rope.from_hf(one).scaling == scaling.linear(2)


def test_defaults_of_gemma_4_and_deepseek_4():
    gemma = {"model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 512}
    full = Rope.from_hf(gemma, layer_type="full_attention")
    assert full.dim == 512 and full.scaling == scaling.proportional(0.25) and full.base == 1e6
    assert Rope.from_hf(gemma, layer_type="sliding_attention") == Rope(256, layout="half")
    saved = {"model_type": "gemma4_text", "head_dim": 256, "per_layer_config": {"05": {"head_dim": 512}}}
    bare = {"model_type": "gemma4_text", "head_dim": 256}
    assert full == Rope.from_hf(saved, layer_type="full_attention") == Rope.from_hf(
        bare, layer_type="full_attention")
    saved["per_layer_config"]["11"] = {"head_dim": 1024}
    with pytest.raises(ValueError, match="per_layer_config has heads of several widths.*global_head_dim"):
        Rope.from_hf(saved, layer_type="full_attention")
    deep = {"model_type": "deepseek_v4", "head_dim": 512, "max_position_embeddings": 65536,
            "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 4096}}
    main, compress = (Rope.from_hf(deep, layer_type=layer) for layer in ("main", "compress"))
    assert (main.rotary_offset, main.scaling, main.base) == (448, None, 1e4)
    assert compress.base == 160000 and compress.scaling.factor == 16 and compress.amplitude == 1
    deep["rope_scaling"]["facotr"] = 16
    for layer in ("main", "compress"):                      # checked even where it is not meant
        with pytest.raises(ValueError, match="'facotr'; did you mean 'factor'"):
            Rope.from_hf(deep, layer_type=layer)


def test_null_stands_for_not_given_and_harmless_keys_pass():
    want = of("yarn", factor=4.0)
    assert of("yarn", factor=4.0, beta_fast=None, attention_factor=None, finetuned=True, type="yarn") == want
    assert Rope.from_hf({**LLAMA, "rope_scaling": None, "head_dim": None}) == Rope(64, layout="half")
    assert of("linear", factor=2.0, original_max_position_embeddings=512) == of("linear", factor=2.0)


def test_where_the_context_of_training_stands():
    for keys, want in (({}, 8192), ({"original_max_position_embeddings": 2048}, 2048)):
        assert of("yarn", factor=4.0, **keys).scaling.original_max_position_embeddings == want
    for inside in ({}, {"original_max_position_embeddings": 1024}):
        beside = {**LLAMA, "original_max_position_embeddings": 1024,
                  "rope_scaling": {"rope_type": "yarn", "factor": 4.0, **inside}}
        assert Rope.from_hf(beside).scaling.original_max_position_embeddings == 1024
    del beside["rope_scaling"]["original_max_position_embeddings"]
    for zero in ({"original_max_position_embeddings": 0}, {"max_position_embeddings": 0}):
        with pytest.raises(ValueError, match="max_position_embeddings must be at least [12]; got 0"):
            Rope.from_hf({**beside, "original_max_position_embeddings": None, **zero})
    beside["rope_scaling"]["original_max_position_embeddings"] = 2048
    with pytest.raises(ValueError, match=" 1024, and rope_scaling has original_max_.* 2048; keep"):
        Rope.from_hf(beside)


@pytest.mark.parametrize("change", [
    {"rope_parameters": {"partial_rotary_factor": 0.25}}, {"partial_rotary_factor": 0.25},
    {"model_type": "gpt_neox", "rotary_pct": 0.25}, {"model_type": "gpt_neox"}])
def test_where_the_part_of_the_planes_stands(change):
    rope_type = {"rope_type": "proportional", "rope_theta": 1e6, **change.get("rope_parameters", {})}
    rope = Rope.from_hf({"model_type": "llama", "head_dim": 16, **change, "rope_parameters": rope_type})
    assert rope.scaling == scaling.proportional(0.25)
    assert (rope.freqs > 0).sum() == 2 and rope.rotary_dim == 16


def test_sections_of_three_axes():
    assert axes_of("chunked", (1, 2, 1)).tolist() == [0, 1, 1, 2]
    assert axes_of("interleaved", (4, 2, 2)).tolist() == [0, 1, 2, 0, 1, 2, 0, 0]
    assert axes_of("alternating", (2, 2, 1)).tolist() == [1, 2, 1, 2, 0]
    text = np.repeat(np.arange(5)[:, None], 3, axis=1)
    x = np.random.default_rng(0).normal(size=(5, 128))
    for name in ("mrope_qwen2_vl", "mrope_qwen3_vl", "mrope_ernie4_5_vl"):
        rope = read(CASES[name])
        plain = Rope(128, rope.base, layout=rope.layout)        # text stands at (p, p, p)
        np.testing.assert_allclose(rope.apply(x, text), plain.apply(x, np.arange(5)), atol=1e-14)


def test_yarn_on_three_axes_scales_the_spectrum_they_share():
    keys = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    config = {"model_type": "qwen2_5_vl", "head_dim": 128, "rope_theta": 1e6,
              "rope_scaling": {**keys, "mrope_section": [16, 24, 24]}}
    rope, plain = Rope.from_hf(config), Rope(128, 1e6, scaling=scaling.yarn(4.0, 32768))
    np.testing.assert_array_equal(rope.freqs.sum(axis=0), plain.freqs[0])
    assert rope.amplitude == plain.amplitude and rope.scaling == plain.scaling


# What configs leave out, by the defaults of the configuration classes of transformers 5.24


@pytest.mark.parametrize("model, base", [
    ("llama4_text", 5e5), ("cohere", 5e5), ("cohere2", 1e4), ("voxtral_realtime_text", 1e4), ("evolla", 5e5),
    ("hy_v3", 11158840.0), ("pe_audio_encoder", 2e4), ("paddleocr_vl_text", 5e5), ("bailing_hybrid", 6e6)])
def test_bases_where_a_config_has_none(model, base):
    config = {"model_type": model, "head_dim": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    assert Rope.from_hf(config).base == base


def test_what_a_class_fills_in():
    for model, rope in (("gpt_oss", Rope(64, 150000.0, layout="half", scaling=scaling.yarn(
                            32.0, 4096, truncate=False))),
                        ("llama", Rope(128, layout="half")), ("gptj", Rope(256, rotary_dim=64))):
        assert Rope.from_hf({"model_type": model}) == rope
    assert Rope.from_hf({"model_type": "gemma3", "text_config": {}}, layer_type="full_attention").dim == 256
    assert Rope.from_hf({"model_type": "deepseek_v3"}).dim == 192
    assert Rope.from_hf({"model_type": "pixtral"}) == pe.presets.pixtral(64)
    assert Rope.from_hf({"model_type": "ministral3", "rope_theta": 5e5}).base == 5e5
    yarn = {"rope_scaling": {"type": "yarn", "factor": 4.0}}
    assert Rope.from_hf({"model_type": "qwen2", **yarn}).scaling.original_max_position_embeddings == 32768
    for model in ("internlm2", "brand_new"):                    # of no class that could fill in
        with pytest.raises(ValueError, match="lacks head_dim, or hidden_size and .*rows of k_proj.weight"):
            Rope.from_hf({"model_type": model}, layout="half")


@pytest.mark.parametrize("model, width", [("gemma3_text", 256), ("gemma", 256), ("qwen3", 128), ("glm", 128),
                                          ("gpt_oss", 64), ("timesfm2_5", 80), ("llama", 240)])
def test_widths_of_heads_where_a_config_has_none(model, width):
    """Gemma 3 12B says 3840 over 16 heads, which are 256 wide; null asks for the quotient."""
    config = {"model_type": model, "hidden_size": 3840, "num_attention_heads": 16}
    layer_type = "full_attention" if FAMILIES[model].layers else None
    assert Rope.from_hf(config, layer_type=layer_type).dim == width
    assert Rope.from_hf({**config, "head_dim": None}, layer_type=layer_type).dim == 240


def test_gemma_3_as_it_was_released():
    text = {"hidden_size": 2560, "model_type": "gemma3_text", "sliding_window": 1024,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}
    config = {"model_type": "gemma3", "text_config": text}
    full, local = (Rope.from_hf(config, layer_type=kind) for kind in ("full_attention", "sliding_attention"))
    assert full == Rope(256, 1e6, layout="half", scaling=scaling.linear(8))
    assert local == Rope(256, layout="half")


@pytest.mark.parametrize("key, width", [("kv_channels", 128), ("attention_head_dim", 160), ("head_dim", 96)])
def test_other_names_of_the_width(key, width):
    config = {"model_type": "jetmoe", "hidden_size": 2048, "num_attention_heads": 32, key: width}
    assert Rope.from_hf(config).dim == width


def test_text_models_inside_other_parts():
    inner = {"model_type": "qwen2_5_omni_text", "head_dim": 128, "rope_theta": 1e6,
             "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"}}
    want = Rope.from_hf(inner)
    omni = {"model_type": "qwen2_5_omni", "thinker_config": {"model_type": "x", "text_config": inner}}
    assert Rope.from_hf(omni) == want and len(want.freqs) == 3
    for part in ("language_config", "llm_config"):
        assert Rope.from_hf({"model_type": "internvl_chat", part: inner}) == want
    inner["text_config"] = inner                                # a circle, which no JSON can hold
    assert Rope.from_hf(inner) == want
    del inner["text_config"]
    doubled = {**inner["rope_scaling"], "mrope_interleaved": True, "interleaved": True}
    assert Rope.from_hf({**inner, "rope_scaling": doubled}) != want
    with pytest.raises(ValueError, match="unknown key 'interleaved'"):
        Rope.from_hf({**inner, "rope_scaling": {**inner["rope_scaling"], "interleaved": True}})


@pytest.mark.parametrize("family", ["ministral3", "mistral4"])
def test_a_scale_of_queries_is_named_and_is_no_part_of_the_rope(family):
    keys = {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384, "mscale": 1.0,
            "mscale_all_dim": 1.0}
    config = {"model_type": family, "head_dim": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64}
    rope, plain = (Rope.from_hf({**config, "rope_parameters": {**keys, **more}})
                   for more in ({"llama_4_scaling_beta": 0.1}, {}))
    assert rope == plain and rope.scaling == plain.scaling
    assert "queries times 1 + llama_4_scaling_beta ln(" in rope.provenance.formula
    with pytest.raises(ValueError, match="unknown key 'llama_4_scaling_beta'"):
        of("yarn", factor=4.0, llama_4_scaling_beta=0.1)


def test_a_part_of_the_whole_head():
    """Mistral 4 counts the turned coordinates as a part of the head, DeepSeek of those that turn."""
    config = {"model_type": "mistral4", "qk_nope_head_dim": 64, "qk_rope_head_dim": 64}
    for part in ({}, {"partial_rotary_factor": 0.5}):
        rope = Rope.from_hf({**config, "rope_parameters": {"rope_type": "default", **part}})
        assert (rope.dim, rope.rotary_dim, rope.rotary_offset) == (128, 64, 64)
    assert Rope.from_hf({**config, "partial_rotary_factor": 0.25}).rotary_dim == 16


def test_provenance():
    rope = read(CASES["yarn_deepseek_v3"])
    assert rope.provenance.family == "deepseek_v3" and "YaRN" in rope.provenance.paper
    assert "inverse=True" in str(read(CASES["apply_nanochat"]).provenance)


@pytest.mark.parametrize("model", FAMILIES)
def test_every_family_reads_a_plain_config(model):
    config = {"model_type": model, "hidden_size": 512, "num_attention_heads": 4, "qk_nope_head_dim": 32,
              "qk_rope_head_dim": 16, "position_embedding_type": "rope"}
    if FAMILIES[model].sections:
        config["hidden_size"] = 4 * int(2 * sum(FAMILIES[model].sections) / FAMILIES[model].part)
    for layer_type in FAMILIES[model].layers or [None]:
        rope = Rope.from_hf(config, layer_type=layer_type)
        assert rope.layout == FAMILIES[model].layout and rope.provenance.family == model


@pytest.mark.parametrize("model", VISION)
def test_every_vision_tower_reads_a_plain_config(model):
    keys = {VISION[model].width: 512, **dict.fromkeys(VISION[model].over, 2)}
    rope = Rope.from_hf({"model_type": model, **keys})
    assert rope.dim == 512 // 2 ** len(VISION[model].over) and len(rope.freqs) == 2
    assert rope.provenance.family == model and rope.base == VISION[model].base


def test_one_rope_in_both_spellings():
    """`type` of the old spelling is `rope_type` of the new one."""
    both = {"rope_scaling": {"type": "linear", "factor": 2.0},
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}
    assert Rope.from_hf({**LLAMA, **both}) == of("linear", factor=2.0)
    both["rope_scaling"]["factor"] = 4.0
    with pytest.raises(ValueError, match="both rope_scaling and rope_parameters, and they differ"):
        Rope.from_hf({**LLAMA, **both})


@pytest.mark.parametrize(("changes", "words"), [
    ({"head_dim": 10**9}, "1000000000 coordinates to turn; expected at most 1048576"),
    ({"model_type": "deepseek_v3", "qk_nope_head_dim": 2, "qk_rope_head_dim": 10**9}, "at most 1048576"),
    ({"model_type": "lama"}, "did you mean 'llama'\\? The layout stands in no config"),
    ({"rope_scaling": {"rope_type": "Linear", "factor": 2.0}}, "did you mean 'linear'\\? expected default"),
])
def test_widths_and_names_that_cannot_be_meant(changes, words):
    with pytest.raises(ValueError, match=words):
        Rope.from_hf({**LLAMA, **changes})


def test_to_dict_that_gives_no_dict():
    class Config:
        def to_dict(self):
            return 5

    with pytest.raises(TypeError, match=r"to_dict\(\) of the config, .* gives 5; expected a dict"):
        Rope.from_hf(Config())
