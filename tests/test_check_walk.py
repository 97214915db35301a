"""Every argument of every public op is spoilt in the same ways, and each is refused by its name."""

import copy
import inspect
import re
from operator import attrgetter

import numpy as np
import pytest
from bad_calls import calls, normal

import pe


def spoilt_calls():
    """Good calls, {id: (public name, callable by keyword, arguments)}."""
    given = calls()
    x, q, k, v = (given[name][1][key] for name, key in
                  (("positions", "x"), ("attention", "q"), ("attention", "k"), ("attention", "v")))
    rows, points = np.arange(5), {"q_positions": np.arange(3.0), "k_positions": np.arange(5.0)}
    attended = given["attention"][1] | {"scale": 0.3, "causal": True}
    weights = {key: value for key, value in attended.items() if key != "v"}
    both = {"pos_x": rows, "pos_y": rows, "layout": "half"}
    bias = {**points, "causal": True, "dtype": np.float64}
    kept = {"q": normal(2, 4, 5, 8), "k": k, "v": v}
    rope = pe.Rope(8)
    described = {
        "tables": ("apply_rope", {**given["tables"][1], "layout": "half", "inverse": False}),
        "positions": ("apply_rope", {"x": x, "positions": rows, "rope": rope}),
        "freqs": ("apply_rope", {"x": x, "positions": rows, "freqs": np.array([1.0, 0.1])}),
        "base": ("apply_rope", {"x": x, "positions": rows, "base": 100.0, "rotary_dim": 4}),
        "2d freqs": ("apply_rope_2d", {"x": x, **both, "freqs": np.array([1.0, 0.1]), "inverse": False}),
        "2d base": ("apply_rope_2d", {"x": x, **both, "base": 100.0}),
        "nd": ("apply_rope_nd", {**given["nd"][1], "layout": "half", "inverse": False}),
        "decay": ("decay_bias", {**bias, "rate": np.array([0.1, 0.2])}),
        "half life": ("decay_bias", {**points, "half_life": np.array([1.0, 2.0])}),
        "multiplier": ("decay_bias", {**points, "multiplier": np.array([0.1, 0.2])}),
        "clock bias": ("decay_bias", {**points, "clock": np.linspace(0.0, 1.0, 5)}),
        "alibi": ("alibi_bias", {**bias, "slopes": np.array([0.1, 0.2])}),
        "attention": ("attention", {**attended, "return_lse": False}),
        "weights": ("attention_weights", {**weights, "stage": "weights"}),
        "merge": ("merge_attention", {"outs": normal(2, 4, 3, 8), "lses": normal(2, 4, 3)}),
        "retention": ("retention", {**kept, "rate": np.array([0.1, 0.2]), "rope": rope, "positions": rows,
                                    "scale": 0.3, "state": pe.RetentionState(normal(2, 2, 8, 8)),
                                    "return_state": False}),
        "kept": ("retention", {**kept, "multiplier": np.array([0.1, 0.2])}),
        "kept by a clock": ("retention", {**kept, "clock": np.linspace(0.0, 1.0, 5)}),
        "clock": ("clock", {"log_gates": -np.ones((2, 5)), "axis": -1}),
        "mask": ("positions_from_mask", {"mask": np.ones((2, 5), bool)}),
        "lengths": ("positions_from_lengths", {"lengths": np.array([3, 2])}),
        "sinusoidal": ("sinusoidal", {"positions": np.arange(5.0), "dim": 8, "base": 100.0}),
        "slopes": ("alibi_slopes", {"n_heads": 4, "max_bias": 8.0, "recipe": "press"}),
        "cache": ("build_rope_cache", {"seq_len": 4, "head_dim": 8, "base": 100.0}),
        "threads": ("set_num_threads", {"n": pe.get_num_threads()}),
        "Rope": ("Rope", {"dim": 8, "base": 100.0, "layout": "half", "rotary_dim": 4, "rotary_offset": 2,
                          "scaling": pe.scaling.linear(2.0), "amplitude": 1.0, "softmax_scale": 1.0}),
        "Rope freqs": ("Rope", {"dim": 8, "freqs": np.array([1.0, 0.1])}),
    }
    table = {each: (name, getattr(pe, name), arguments) for each, (name, arguments) in described.items()}
    table["grid"] = ("grid_positions", lambda height, width, more, prefix:
                     pe.grid_positions(height, width, more, prefix=prefix),
                     {"height": 2, "width": 3, "more": 2, "prefix": 1})
    table["apply"] = ("Rope.apply", rope.apply, {"x": x, "positions": rows, "inverse": False})
    table["shift"] = ("Rope.shift", rope.shift, {"k": k, "delta": 3.0})
    table["shift rows"] = ("Rope.shift", rope.shift, {"k": k, "delta": np.ones(5)})
    table["angles"] = ("Rope.cache", rope.cache, {"positions": rows})
    table["matrix"] = ("Rope.matrix", rope.matrix, {"position": 3.0})
    table["explain"] = ("Rope.explain", rope.explain, {"context": 100.0})
    table["bound"] = ("Rope.error_bound", rope.error_bound, {"position": 3.0, "dtype": np.float32})
    table["layouts"] = ("convert_layout", pe.convert_layout, {
        "a": x, "src": "half", "dst": "interleaved", "axis": -1, "head_dim": 4, "rotary_dim": 2,
        "rotary_offset": 2})
    table |= described_calls()
    for name, op, arguments in table.values():
        if "num_threads" in signature(name):
            arguments["num_threads"] = 1
        if "out" in signature(name):
            arguments["out"] = np.full(np.shape(op(**arguments)), 7.0)
    return table


def described_calls():
    """Good calls of what describes an encoding or reads a description."""
    lists = {"short_factor": [1.0, 1.0], "long_factor": [1.0, 8.0]}
    trained, served = {"original_max_position_embeddings": 4096}, {"max_position_embeddings": 4096}
    config = {"model_type": "llama", "head_dim": 8, "layer_types": ["full_attention"]}
    described = {
        "scaling.linear": {"factor": 4.0}, "scaling.ntk": {"factor": 4.0},
        "scaling.dynamic_ntk": {"factor": 4.0, **served, "seq_len": 9000},
        "scaling.proportional": {"partial_rotary_factor": 0.5, "factor": 4.0},
        "scaling.llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **trained},
        "scaling.yarn": {"factor": 4.0, **trained, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
                         "mscale_all_dim": 0.5, "attention_factor": 1.0, "truncate": False},
        "scaling.longrope": {**lists, **trained, "factor": 4.0, "max_position_embeddings": 16384,
                             "attention_factor": 1.0, "short_mscale": 1.0, "long_mscale": 1.1,
                             "seq_len": 9000},
        **{f"presets.{name}": {"dim": 8, "base": 100.0} for name in PRESETS},
        "presets.qwen2_vl": {"dim": 8, "base": 100.0, "sections": (2, 1, 1)},
        "presets.qwen2_vl_vision_positions": {"height": 2, "width": 4, "merge": 2},
        "presets.dinov3_positions": {"height": 2, "width": 4, "prefix": 1},
        "presets.llama4_vision_positions": {"height": 2, "width": 4},
        "Rope.from_hf": {"config": config, "layer_type": "full_attention", "layout": "half", "seq_len": 9},
        "check_rope": {"fn": lambda x: pe.apply_rope(x, positions=np.arange(6)), "head_dim": 8,
                       "signature": "x", "axes": "BHTD", "grid": None, "n_axes": 1, "tables": None,
                       "expect": pe.Rope(8), "dtypes": ["float64"], "max_position": 16, "tolerance": 1e-3,
                       "arrays": "numpy"},
    }
    return {name: (name, attrgetter(name)(pe), arguments) for name, arguments in described.items()}


def signature(name):
    """The names of the parameters of what is public under this name."""
    return [key for key in inspect.signature(attrgetter(name)(pe)).parameters if key != "self"]


PRESETS = ("dinov3", "llama4_vision", "pixtral", "qwen2_vl_vision", "rope_vit_axial", "sam2")
GOOD = spoilt_calls()
ARGUMENTS = [(each, key) for each, (_, _, arguments) in GOOD.items() for key in arguments]
OPS = [name for name in pe.__all__ if name not in pe._LAZY and name != "RetentionState"]    # a result
METHODS = [f"Rope.{name}" for name in vars(pe.Rope) if name[0] != "_" and callable(getattr(pe.Rope, name))]
DESCRIBING = ["check_rope", *(f"scaling.{name}" for name in pe.scaling.__all__ if name != "Scaling"),
              *(f"presets.{name}" for name in pe.presets.__all__)]


@pytest.mark.parametrize("name", [*OPS, *METHODS, *DESCRIBING])
def test_every_parameter_of_every_op_is_in_the_table(name):
    spoilt = {key for op, _, arguments in GOOD.values() if op == name for key in arguments}
    assert spoilt == set(signature(name))


class Lazy:
    """As an array of dask, which must not be computed behind the caller's back."""

    chunks = ((5,),)

    def __array__(self, *args, **keywords):
        raise AssertionError("computed")


Lazy.__module__ = "dask.array.core"
NEVER = {"an object": object(), "a dict": {}, "a set": {1, 2}, "text": "abc", "bytes": b"ab",
         "a complex number": 1j, "dask": Lazy(), "ragged": [[1.0], [1.0, 2.0]],
         "masked": np.ma.masked_array([1.0, 2.0], [True, False])}
PERHAPS = {"True": True, "nan": float("nan"), "inf": float("inf"), "-5": -5, "2**70": 2**70,
           "10**400": 10**400, "10**9999": 10**9999, "long text": "a b" * 999, "long list": [["a"] * 999],
           "uint16": np.ones(5, np.uint16)}


@pytest.fixture(autouse=True)
def threads_as_before():
    before = pe.get_num_threads()
    yield
    pe.set_num_threads(before)


def refusal(each, key, value):
    """Return the error of a call with one argument spoilt, or ""; named, short, before anything is written.

    A number may be a good one for a result of another shape than out.
    """
    _, op, arguments = GOOD[each]
    arguments = copy.deepcopy(arguments) | {key: value}
    arrays = [a for a in arguments.values() if type(a) is np.ndarray]
    before = [a.tobytes() for a in arrays]
    try:
        op(**arguments)
    except (TypeError, ValueError) as error:
        text = str(error)
    else:
        return ""
    named = "axis 2" if key == "more" else key
    assert re.search(rf"\b{named}\b|^out has shape", text), text
    assert len(text) < 420 and "\n" not in text, text
    assert [a.tobytes() for a in arrays] == before
    return text


@pytest.mark.parametrize("kind", NEVER)
@pytest.mark.parametrize("each, key", ARGUMENTS)
def test_what_no_argument_takes(each, key, kind):
    if (key, kind) == ("dtype", "masked"):
        return                                                  # NumPy reads the dtype of any array
    assert refusal(each, key, NEVER[kind])


@pytest.mark.parametrize("kind", PERHAPS)
@pytest.mark.parametrize("each, key", ARGUMENTS)
def test_what_is_taken_or_refused_by_name(each, key, kind):
    refusal(each, key, PERHAPS[kind])


@pytest.mark.parametrize("each, key", [("base", "base"), ("2d base", "base"), ("Rope", "base"),
                                       ("cache", "base"), ("Rope", "amplitude"), ("slopes", "max_bias"),
                                       ("sinusoidal", "base")])
def test_positive_numbers(each, key):
    for value, expected in ((True, "number; got True"), (np.True_, "number"), (10**400, "above 0"),
                            (float("inf"), "finite"), (0, "above 0"), (-1.0, "above 0"),
                            ("8", "number; got '8'")):
        assert expected in refusal(each, key, value)


@pytest.mark.parametrize("each, key", [("decay", "q_positions"), ("alibi", "k_positions"),
                                       ("angles", "positions"), ("sinusoidal", "dim"), ("grid", "height"),
                                       ("grid", "more"), ("grid", "prefix"), ("slopes", "n_heads"),
                                       ("cache", "seq_len"), ("cache", "head_dim"), ("Rope", "dim")])
def test_counts_beyond_every_memory(each, key):
    for value in (2**53 + 1, 2**70, 10**400, 10**9999):
        assert "at most" in refusal(each, key, value)


def test_frequencies_of_a_rope_are_read_as_those_of_the_ops():
    class Exchanged:
        def __dlpack__(self, **keywords):
            return np.array([1.0, 0.1]).__dlpack__(**keywords)

        def __dlpack_device__(self):
            return 1, 0

    assert pe.Rope(8, freqs=Exchanged()) == pe.Rope(8, freqs=[1.0, 0.1])
    masked = np.ma.masked_array([1.0, 0.1], [True, False])
    assert "mask would be lost" in refusal("Rope freqs", "freqs", masked)
    assert "compute()" in refusal("Rope freqs", "freqs", Lazy())
    assert "uint16" in refusal("Rope freqs", "freqs", np.array([2, 1], np.uint16))


def test_the_flattest_slopes_of_any_exponent():
    for max_bias in (2.0**70, 1e300, 1.7e308):
        assert not pe.alibi_slopes(6, max_bias=max_bias).any()
