"""`python -m pe rope`: every config explained, its numbers checked by other means, bad ones refused."""

import io
import json
import math
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest
from chromium import launch, offline
from command_line import assert_refused, run_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pe.llama2c import InputError
from pe.probe.precision import to_bfloat16
from pe.rope_report import float_errors, run
from pe.rope_report.drawing import Curve, Level, in_letters, in_svg

STORED = json.loads((Path(__file__).parent / "golden" / "rope_hf_configs.json").read_text())
CASES, BAD = STORED["cases"], STORED["bad"]
LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 10000.0,
         "max_position_embeddings": 4096}


def config_of(name):
    """A stored case as a config.json has it."""
    case = CASES[name]
    return {"model_type": case["model_type"], **case["config"]}


def v5_of(name):
    """The same case as transformers 5 saves it."""
    old = ("rope_theta", "rope_scaling", "rope_local_base_freq", "rotary_pct", "rotary_emb_base",
           "partial_rotary_factor", "compress_rope_theta")
    config = {key: value for key, value in config_of(name).items() if key not in old}
    return {**config, "rope_parameters": CASES[name]["rope_parameters_v5"]}


def told(folder, config, *options):
    """Run the command on a config and return its lines joined to one, and the lines."""
    (folder / "config.json").write_text(json.dumps(config))
    out = io.StringIO()
    run(str(folder / "config.json"), out=out, **dict(options))
    return " ".join(out.getvalue().split()), out.getvalue().splitlines()


@cache
def plane_rows(text):
    """The table of planes, one dict of cells a row."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  plane  coordinates"))
    rows = []
    for line in lines[start + 1:]:
        if not line:
            return rows
        rows.append(re.split(r"\s{2,}", line.strip()))
    return rows


# Every config


@pytest.mark.parametrize("name", CASES)
def test_every_config_is_explained(name, tmp_path, capsys):
    case, expect = CASES[name], CASES[name]["expect"]
    (tmp_path / "config.json").write_text(json.dumps(config_of(name)))
    options = [f"--{key.replace('_', '-')}={case[key]}" for key in ("layer_type", "seq_len") if case[key]]
    status, out, err = run_command(capsys, "rope", tmp_path / "config.json", *options)
    assert status == 0 and err == ""
    assert max(map(len, out.splitlines())) <= 100
    first = expect["rotary_offset"]
    for line in (f"  layout +{expect['layout']}: ", rf"  amplitude +{expect['amplitude']:.10g}\n",
                 rf"  coordinates that turn +{first} to {first + expect['rotary_dim'] - 1}\n",
                 rf"  position axes +{expect['n_axes']}\n", rf"  head +{expect['head_dim']} coordinates"):
        assert re.search(line, out), line
    step = (1, expect["rotary_dim"] // 2) if expect["layout"] == "half" else (2, 1)
    rows = plane_rows(out)
    assert len(rows) >= min(12, expect["rotary_dim"] // 2)
    for plane, coordinates, *_ in rows:
        at = first + step[0] * int(plane)
        assert coordinates == f"{at}, {at + step[1]}"
    assert not re.search(r"\bnan\b", out)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["rope_parameters_v5"]])
def test_both_spellings_are_one_rotation(name, tmp_path):
    (tmp_path / "new.json").write_text(json.dumps(v5_of(name)))
    text, _ = told(tmp_path, config_of(name), ("other", str(tmp_path / "new.json")),
                   ("seq_len", CASES[name]["seq_len"]))
    assert "both describe the same rotation" in text and "Careful" not in text


# Numbers


def test_planes_of_yarn_are_those_that_transformers_publishes(tmp_path):
    """Its tests print five digits for d = 128, base 10000, factor 10, L0 = 2048."""
    text, lines = told(tmp_path, {**LLAMA, "rope_scaling": {
        "rope_type": "yarn", "factor": 10.0, "original_max_position_embeddings": 2048}})
    found = {int(row[0]): row for row in plane_rows("\n".join(lines))}
    assert [found[plane][-1] for plane in (16, 17, 41)] == ["kept", "blended / 1.037", "/ 10"]
    for plane, w in {17: 8.3479e-2, 40: 4.3007e-4, 41: 2.7384e-4}.items():
        assert float(found[plane][2]) == pytest.approx(w, rel=2e-5)


def test_turns_and_wavelengths_follow_from_the_base(tmp_path):
    text, lines = told(tmp_path, LLAMA)
    for plane, _, w, wavelength, turns in plane_rows("\n".join(lines)):
        exact = 10000.0 ** (-int(plane) / 64)
        assert float(w) == pytest.approx(exact, rel=1e-5)
        assert float(wavelength) == pytest.approx(2 * math.pi / exact, rel=1e-5)
        assert float(turns) == pytest.approx(4096 * exact / (2 * math.pi), rel=1e-3)
    first = math.ceil(64 * math.log(4096 / (2 * math.pi)) / math.log(10000))
    degrees = math.degrees(4096 * 10000 ** (-63 / 64))
    assert (f"of 64 planes {64 - first}, from plane {first} on, complete no turn in 4096 positions (the "
            f"slowest makes {degrees:.3g} degrees)") in text


@pytest.mark.parametrize(("context", "error"), [(4096, 1.4e-4), (32768, 1.7e-3), (131072, 2.7e-3),
                                                (1048576, 3.1e-2)])
def test_what_float32_angles_cost(context, error, tmp_path):
    """The numbers of two digits were computed in 200-bit arithmetic."""
    text, _ = told(tmp_path, LLAMA, ("context", context))
    number = re.search(rf"formed in float32 are off by ([\d.e-]+) at position {context - 1} ", text)[1]
    assert float(number) == pytest.approx(error, rel=0.05)


def test_float_errors_are_those_of_the_formats():
    values = np.random.default_rng(0).standard_normal(20000) * 10.0 ** np.arange(-10, 10).repeat(1000)
    values = np.concatenate([values, np.arange(1, 600) / 256, [0.0, 2.0**100]])       # ties among them
    want = values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(to_bfloat16(values.astype(np.float32)), want)
    for amplitude in (0.75, 1.0, 1.2, 2.0, 2.5):
        table = amplitude * np.cos(np.linspace(0, 7, 200001))
        for dtype, most in zip((np.float16, ml_dtypes.bfloat16), float_errors.table_rounding(amplitude),
                               strict=True):
            error = np.abs(table.astype(dtype).astype(np.float64) - table).max()
            assert 0.9 * most <= error <= most * 1.0001        # once rounded to float32 before


def test_a_module_cast_to_bfloat16():
    w = 10000.0 ** (-np.arange(64) / 64)
    angle = np.float32(1000) * w.astype(ml_dtypes.bfloat16).astype(np.float32)
    chord = np.abs(np.exp(1j * angle.astype(np.float64)) - np.exp(1000j * w)).max()
    assert float_errors.bfloat16_frequencies(w, 1000) == pytest.approx(chord, rel=1e-12)
    error = np.abs(np.cos(angle.astype(np.float64)) - np.cos(1000 * w)).max()
    assert error == pytest.approx(0.89624, rel=1e-5)            # measured on a Llama of transformers


def mean_cosine(short, long, position):
    """Of the angles between two lists of frequencies."""
    return np.cos((np.array(short) - np.array(long)) * position).mean()


def test_longrope_says_what_its_switch_does_to_cached_keys(tmp_path):
    config = config_of("longrope_phi3_5_short")
    scaling = config["rope_scaling"]
    w = 10000.0 ** (-np.arange(48) / 48)
    lists = [w / np.array(scaling[f"{name}_factor"]) for name in ("short", "long")]
    text, _ = told(tmp_path, config)
    assert f"(plane 4; mean cosine over the planes {mean_cosine(*lists, 4096):.2f})" in text
    assert "more than 4096 positions take the long list" in text and "this is the short list" in text
    assert "this is the long list" in told(tmp_path, config, ("seq_len", 4097))[0]


def test_dynamic_says_what_its_switch_does_to_cached_keys(tmp_path):
    text, _ = told(tmp_path, config_of("dynamic_llama_2048"))
    d, factor = 128, 2.0
    longer = 10000.0 * (factor * 2 - (factor - 1)) ** (d / (d - 2))
    w = [base ** (-np.arange(64) / 64) for base in (10000.0, longer)]
    assert "read in a text of 4096, the one at position 2048" in text
    assert f"mean cosine over the planes {mean_cosine(*w, 2048):.2f}" in text


# Pitfalls


SAID = {
    "yarn_qwen2_5_7b": ["multiplied by 1.13863 ", "its square, 1.29648", "still says 32768",
                        r'convert_layout\(w, "interleaved", "half", axis=0, head_dim=128\)'],
    "yarn_deepseek_v3": [r"multiplied by 1.87385 \(mscale_all_dim\)", "pass scale=0.135234",
                         "only coordinates 128 to 191 of a head of 192 turn; the other 128 are copied",
                         "head_dim=192, rotary_dim=64, rotary_offset=128"],
    "yarn_mscale_alone": [r"mscale stands without mscale_all_dim.* 0.1 ln 40 \+ 1 = 1.36889"],
    "yarn_gpt_oss": [r"truncate is false.* up to \d+ %", "multiplied by 1.34657"],
    "llama3_8b_3_1": ["factor 8 times original_max_position_embeddings 8192 is 65536, but "
                      "max_position_embeddings is 131072"],
    "llama3_llama4_scout": ["equals high_freq_factor.* by a factor of 16 at the wavelength 8192"],
    "dynamic_alpha_hunyuan_7b": ["alpha=1000 makes this dynamic type a fixed change of base"],
    "proportional_gemma4_full": ["192 of 256 planes stand still", "no rotation of the first 128"],
    "default_phi2": ["only coordinates 0 to 31 of a head of 80 turn; the other 48 .* over 32, not over 80"],
    "apply_nanochat": ["turns by -p w, clockwise"],
    "mrope_qwen2_vl": ["3 coordinates, which drive 16, 24, 24 planes"],
    "vision_dinov3": ["2 coordinates, which drive 16, 16 planes", "--context N"],
    "linear_gemma3_4b_full_nested": ["full_attention and sliding_attention layers need tables of their own",
                                     "differ by 0.875 radians at position 1 already"],
    "default_llama2": ["float16 are off by up to 0.00024, in bfloat16 by up to 0.002,",
                       "bfloat16 counts to 256 without a gap, float16 to 2048[.]"],
}


@pytest.mark.parametrize("name", SAID)
def test_pitfalls_have_the_numbers_of_the_config(name, tmp_path):
    text, _ = told(tmp_path, config_of(name), ("seq_len", CASES[name]["seq_len"]))
    for words in SAID[name]:
        assert re.search(words, text), words


def test_a_plain_config_has_no_pitfalls_of_others(tmp_path):
    text, _ = told(tmp_path, LLAMA)
    for words in ("attention factor", "softmax scale is", "stand still", "only coordinates", "clockwise",
                  "mscale", "truncate", "alpha", "long list", "original_max", "coordinates, which drive",
                  "a base of its own", "tables of their own"):
        assert words not in text, words


GEMMA2 = {"model_type": "gemma2", "head_dim": 128, "query_pre_attn_scalar": 168, "sliding_window": 2048,
          "layer_types": ["sliding_attention", "full_attention"] * 3}
SCORED = [
    (GEMMA2, [r"pass scale=168\*\*-0.5 = 0.0771517 to pe.attention, .* is 1/sqrt\(128\) = 0.0883883",
              r"50 tanh\(score / 50\).* pass softcap=50 to pe.attention",
              "3 of 6 layers slide .* pass window=2048, causal=True .* itself and the 2047 rows before it"]),
    ({"model_type": "granite", "head_dim": 64, "attention_multiplier": 0.0078125},
     [r"pass scale=0.0078125 to pe.attention, whose default is 1/sqrt\(64\) = 0.125"]),
    ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True}, ["pass window=4096, cau"]),
]


@pytest.mark.parametrize("config, words", SCORED, ids=[config["model_type"] for config, _ in SCORED])
def test_what_attention_wants_besides(config, words, tmp_path):
    text, _ = told(tmp_path, config)
    assert all(re.search(each, text) for each in words), text


def test_what_attention_does_not_want(tmp_path):
    for config in ({**GEMMA2, "query_pre_attn_scalar": 128, "attn_logit_softcapping": None,
                    "sliding_window": None}, {"model_type": "qwen2", "sliding_window": 4096}, LLAMA,
                   {"model_type": "granite", "head_dim": 64, "attention_multiplier": 0.125}):
        text, _ = told(tmp_path, config)
        assert not re.search(r"scale=|softcap=|window=", text), config


def test_only_the_layers_that_slide_have_a_window(tmp_path):
    config = {"model_type": "gemma3", "text_config": {"hidden_size": 2560, "sliding_window": 1024}}
    for layer_type, count in (("full_attention", 0), ("sliding_attention", 1)):
        text, _ = told(tmp_path, config, ("layer_type", layer_type))
        assert text.count("these layers slide (sliding_window): pass window=1024, causal=True") == count
        assert "defaults of gemma3_text head_dim 256, max_position_embeddings 131072" in text
        assert "head 256 coordinates" in text and "context 131072 (max_position_embeddings)" in text


# Comparisons


def test_two_configs_side_by_side(tmp_path):
    (tmp_path / "other.json").write_text(json.dumps(config_of("llama3_8b_3_1")))
    text, lines = told(tmp_path, config_of("default_llama3"), ("other", str(tmp_path / "other.json")))
    assert re.search(r"scaling none llama3 factor - 8", text) and " model type" not in text
    w = 500000.0 ** (-np.arange(64) / 64)
    turns = 8192 * w / (2 * np.pi)
    kept = np.clip((turns - 1) / 3, 0, 1)
    apart = w - w * (kept + (1 - kept) / 8)
    assert f"agree within 0.1 radians up to position {0.1 / apart.max():.4g}" in text
    assert f"(mean cosine over the planes {np.cos(8191 * apart).mean():.2f})" in text
    assert any(line.split() == ["63", "2.5592e+06", "2.04736e+07", "8"] for line in lines)


def test_layers_that_differ_in_amplitude_alone(tmp_path):
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 1.0, "original_max_position_embeddings": 4096}
    text, _ = told(tmp_path, {**LLAMA, "rope_parameters": {
        "full_attention": {**yarn, "attention_factor": 1.2},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})
    assert ("full_attention and sliding_attention layers need tables of their own: angles are the same, "
            "amplitudes differ (1.2 and 1).") in text


def test_a_comparison_names_its_files(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(config_of("yarn_qwen2_5_7b")))
    text, lines = told(tmp_path, LLAMA, ("other", str(tmp_path / "mine.json")))
    assert lines[1] == "config.json beside mine.json" and "a config.json, b mine.json" in text
    assert ["what", "config.json", "mine.json"] in [line.split() for line in lines]
    assert "plane wavelength in config.json in mine.json second / first" in text
    assert "a key cached under config.json and read under mine.json at" in text
    assert "scores of mine.json are 1.29648 times those of config.json" in text
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text(json.dumps({**LLAMA, "rope_theta": 5e5}))
    text, _ = told(tmp_path, LLAMA, ("other", str(tmp_path / "old" / "config.json")))
    assert f"{tmp_path / 'old' / 'config.json'}" in text


def test_a_layer_type_beside_a_config_that_has_one_rope(tmp_path):
    (tmp_path / "gemma.json").write_text(json.dumps(config_of("linear_gemma3_4b_full_nested")))
    choice = ("other", str(tmp_path / "gemma.json")), ("layer_type", "full_attention")
    _, lines = told(tmp_path, LLAMA, *choice)
    assert lines[1] == "config.json beside gemma.json, full_attention"
    (tmp_path / "gemma.json").write_text(json.dumps(LLAMA))
    with pytest.raises(InputError, match="--layer-type full_attention: neither config has types of layers"):
        told(tmp_path, LLAMA, *choice)


def test_what_cannot_be_compared_is_said(tmp_path):
    (tmp_path / "other.json").write_text(json.dumps(config_of("apply_glm")))
    text, _ = told(tmp_path, LLAMA, ("other", str(tmp_path / "other.json")))
    assert "differ in the number of planes (64 and 4): keys" in text and "position axes (" not in text
    assert re.search(r"layout half: .* interleaved: ", text)
    (tmp_path / "other.json").write_text(json.dumps(config_of("mrope_qwen2_vl")))
    text, _ = told(tmp_path, LLAMA, ("other", str(tmp_path / "other.json")))
    assert "differ in the number of position axes (1 and 3): keys" in text and "planes (" not in text
    one, two = config_of("linear_gemma3_4b_full_nested"), config_of("apply_deepseek_v4_main")
    (tmp_path / "other.json").write_text(json.dumps(two))
    with pytest.raises(InputError, match="no layer type in common: full_attention.*main, compress"):
        told(tmp_path, one, ("other", str(tmp_path / "other.json")))


# The page


def test_page_stands_alone_and_its_picture_can_be_read_aloud(tmp_path):
    page = tmp_path / "page.html"
    text, _ = told(tmp_path, config_of("linear_gemma3_4b_full_nested"), ("html", str(page)))
    html = page.read_text()
    assert not re.search(r"https?://|<script|<link|<img|\ue000", html) and "prefers-color-scheme:dark" in html
    pictures = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)]
    assert len(pictures) == 2
    for picture, curves in zip(pictures, (2, 1), strict=True):
        assert picture.get("role") == "img" and picture.get("aria-label") == picture.find("title").text
        assert "from" in picture.find("desc").text and "context 131072" in picture.find("desc").text
        assert len(picture.findall("circle")) == 128 * curves
        width, height = map(float, picture.get("viewBox").split()[2:])
        for circle in picture.findall("circle"):
            assert 0 < float(circle.get("cx")) < width and 0 < float(circle.get("cy")) < height
    assert text.count("Careful:") == html.count("<b>Careful:</b>") > 5


BOXES = """() => [...document.querySelectorAll('svg')].map(svg => {
  const frame = svg.viewBox.baseVal;
  return {width: frame.width, height: frame.height,
          texts: [...svg.querySelectorAll('text')].map(text => {
            const {x, y, width, height} = text.getBBox();
            return {words: text.textContent, x, y, right: x + width, bottom: y + height}; })};
})"""


@pytest.mark.parametrize("name", ["longrope_phi3_5_short", "linear_gemma3_4b_full_nested"])
def test_page_in_a_browser(name, tmp_path):
    page = tmp_path / "page.html"
    told(tmp_path, config_of(name), ("html", str(page)))
    axe = pytest.importorskip("axe_playwright_python.sync_playwright",
                              reason="needs axe: pip install axe-playwright-python")
    with launch() as browser, offline(browser, tmp_path) as open_page:
        for scheme in ("light", "dark"):
            opened = open_page(page.read_text(), color_scheme=scheme)
            found = axe.Axe().run(opened).response["violations"]
            assert [(v["id"], v["nodes"][0]["html"][:80]) for v in found] == []
        for picture in opened.evaluate(BOXES):
            for i, one in enumerate(picture["texts"]):
                assert 0 <= one["x"] and one["right"] <= picture["width"], one
                assert 0 <= one["y"] and one["bottom"] <= picture["height"], one
                for other in picture["texts"][:i]:
                    assert (one["x"] >= other["right"] or other["x"] >= one["right"]
                            or one["y"] >= other["bottom"] or other["y"] >= one["bottom"]), (one, other)


def test_labels_do_not_cover_each_other():
    curves = [Curve("a", "a", np.array([10.0, 1000.0])), Curve("b", "b", np.array([10.0, 1001.0]))]
    picture = ElementTree.fromstring(in_svg(curves, [Level("context", 999), Level("trained", 1002)], "a < b"))
    places = sorted(float(t.get("y")) for t in picture.findall("text") if t.get("fill"))
    assert len(places) == 4 and min(np.diff(places)) >= 15.9
    assert picture.find("title").text == "a < b"


def test_letters_stand_where_the_wavelengths_are():
    lines = in_letters([Curve("c", "*", np.array([1.0, 10.0, 100.0, math.inf]))], [Level("context", 10)])
    grid = [line[9:] for line in lines if "|" in line]
    stars = sorted((line.index("*"), -i) for i, line in enumerate(grid) if "*" in line)
    assert len(stars) == 3
    steps = np.diff(stars, axis=0)
    assert (steps > 0).all() and abs(steps[0] - steps[1]).max() <= 1
    assert [line[-3:] for line in grid if "─" in line] == [" 10"] and lines[-1] == "  line at 10: context"


# What is refused


@pytest.mark.parametrize("name", BAD)
def test_bad_configs_are_refused_in_one_line(name, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"model_type": "llama", **BAD[name]["config"]}))
    assert_refused(run_command(capsys, "rope", path), "bad.json")


@pytest.mark.parametrize(("content", "words"), [
    ("{", "holds no JSON"), ("[1, 2]", "JSON object, got list"), ("", "holds no JSON"),
    ("\xff", "holds no JSON"), ("[" * 100000, "holds no JSON"), ("{}", "--layout half"),
    ('{"model_type": "lama", "head_dim": 64}', "did you mean 'llama'"),
    ('{"model_type": ["llama"]}', "model_type"), ('{"model_type": "internlm2"}', "head_dim"),
    ('{"model_type": "llama", "head_dim": 64, "rope_scaling": [1]}', "rope_scaling must be a dict"),
    ('{"model_type": "llama", "head_dim": 64, "rope_theta": NaN}', "rope_theta"),
    ('{"model_type": "llama", "head_dim": 64, "rope_theta": 1e999}', "rope_theta"),
])
def test_files_that_hold_no_config(content, words, tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(content, encoding="latin-1")
    assert_refused(run_command(capsys, "rope", path), "config.json", words)


def test_a_byte_order_mark_is_no_part_of_a_config(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8-sig")
    status, out, _ = run_command(capsys, "rope", path)
    assert status == 0 and "layout half" in " ".join(out.split())


def test_a_config_from_standard_input(tmp_path, capsys, monkeypatch):
    def given(content):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode("latin-1"))))

    given(json.dumps(LLAMA))
    status, out, _ = run_command(capsys, "rope", "-")
    assert status == 0 and out.splitlines()[1] == "standard input" and "layout half" in " ".join(out.split())
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "rope_theta": 5e5}))
    given(json.dumps(LLAMA))
    status, out, _ = run_command(capsys, "rope", tmp_path / "config.json", "--compare", "-")
    assert status == 0 and "standard input" in out
    for content in ("", "{", "\xff", "[1]"):
        given(content)
        assert_refused(run_command(capsys, "rope", "-"), "standard input holds no")
    assert_refused(run_command(capsys, "rope", "-", "--compare", "-"), "one of them must be a file")


@pytest.mark.parametrize("name", CASES)
def test_no_line_is_wider_than_a_terminal(name, tmp_path):
    assert max(map(len, told(tmp_path, config_of(name), ("seq_len", CASES[name]["seq_len"]))[1])) <= 80


def test_one_plane_is_told_in_the_singular(tmp_path):
    text, _ = told(tmp_path, config_of("apply_llama_d2"))
    assert "2 coordinates, 1 plane turns" in text
    assert "off by 0 " not in text and "Careful: As a position, bfloat16 counts to 256" in text
    text, _ = told(tmp_path, {**LLAMA, "head_dim": 8, "max_position_embeddings": 1000})
    assert "of 4 planes 1, from plane 3 on, completes no turn" in text and "it reaches angles" in text


def test_paths_and_options_that_do_not_work(tmp_path, capsys):
    path = tmp_path / "config.json"
    assert_refused(run_command(capsys, "rope", path), "No such file")
    assert_refused(run_command(capsys, "rope", tmp_path), "directory")
    path.write_text(json.dumps(LLAMA))
    assert_refused(run_command(capsys, "rope", path, "--html", tmp_path / "no" / "page.html"), "No such file")
    assert_refused(run_command(capsys, "rope", path, "--compare", tmp_path / "none.json"), "none.json")
    assert_refused(run_command(capsys, "rope", path, "--layer-type", "full_attention"), "layer_type")
    assert_refused(run_command(capsys, "rope", path, "--context", "1"), "--context", "at least 2")
    assert_refused(run_command(capsys, "rope", path, "--context", 2**53 + 1), "--context")
    assert_refused(run_command(capsys, "rope", path, "--layout", "sideways"), "--layout")
    assert_refused(run_command(capsys, "rope"), "CONFIG")
    path.write_text(json.dumps(config_of("linear_gemma3_4b_full_nested")))
    refused = run_command(capsys, "rope", path, "--layer-type", "linear")
    assert_refused(refused, "--layer-type", "'sliding_attention'")


def test_a_model_type_of_ones_own_needs_a_layout(tmp_path):
    text, _ = told(tmp_path, {**LLAMA, "model_type": "mine"}, ("layout", "interleaved"))
    assert "layout interleaved: plane l is (2l, 2l + 1) layout from --layout" in text


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3000), st.floats(-1e6, 1e6),
                   st.sampled_from([math.nan, math.inf, 2**45]), st.text(max_size=5),
                   st.lists(st.floats(0, 9), max_size=4),
                   st.dictionaries(st.text(max_size=3), st.integers()))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from([name for name in CASES if "vision" not in name]), data=st.data())
def test_a_spoilt_config_is_explained_or_refused_but_never_a_crash(name, data, tmp_path):
    config = json.loads(json.dumps(config_of(name)))
    inner = [value for value in config.values() if isinstance(value, dict)]
    target = data.draw(st.sampled_from([config, *inner]))
    key = data.draw(st.sampled_from([*target, "rope_scaling", "max_position_embeddings"]))
    target[key] = data.draw(VALUES)
    try:
        text, lines = told(tmp_path, config, ("seq_len", CASES[name]["seq_len"]))
    except InputError as error:
        assert str(error)
    else:
        assert "Careful:" in text and lines
