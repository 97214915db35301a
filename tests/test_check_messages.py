"""What an error says to type next is typed, and works: the index, the cut, the conversion it prints."""

import re

import numpy as np
import pytest
from bad_calls import normal

import pe
from pe._keywords import CALLS

x, q = normal(2, 3, 5, 8), normal(2, 4, 3, 8)
k = v = normal(2, 2, 5, 8, seed=1)
rows = normal(2, 5, 3, 8)                                           # rows before heads
cos, sin = pe.build_rope_cache(9, 8)
twice = np.concatenate([cos, cos], -1)[:5], np.concatenate([sin, sin], -1)[:5]
every = np.repeat(cos, 2, -1)[:5], np.repeat(sin, 2, -1)[:5]
ones = np.ones


def attend(**changes):
    return pe.attention, {"q": q, "k": k, "v": v, **changes}


def turn(**changes):
    return pe.apply_rope, {"x": x, **changes}


# a call; the argument at fault; what its error tells to write in its place
ADVICE = {
    "positions of a batch": (turn(positions=ones((2, 5))), "positions", "positions[:, None, :]"),
    "positions of heads": (turn(positions=ones((3, 5))), "positions", "positions[None, :, :]"),
    "positions, rows before heads": ((pe.apply_rope, {"x": rows, "positions": np.arange(5)}),
                                     "x", "x.swapaxes(-3, -2)"),
    "positions, too few": (turn(positions=np.arange(2)), "positions", "np.arange(5)"),
    "positions of single rows": (turn(x=x[:, :, :1], positions=np.array([7, 9])), "positions",
                                 "positions[:, None, None]"),
    "slopes of True": (attend(alibi_slopes=True), "alibi_slopes", "pe.alibi_slopes(4)"),
    "slopes of a name": (attend(alibi_slopes="auto"), "alibi_slopes", "pe.alibi_slopes(4)"),
    "slopes of a function": (attend(alibi_slopes=pe.alibi_slopes), "alibi_slopes", "pe.alibi_slopes(4)"),
    "slopes of a bias": ((pe.alibi_bias, {"q_positions": 3, "k_positions": 5, "slopes": pe.alibi_slopes}),
                         "slopes", "pe.alibi_slopes(H)"),
    "a rope by its layout": (attend(rope="half"), "rope", 'pe.Rope(8, layout="half")'),
    "a list of text": (attend(sinks=["0", "1", "2", "3"]), "sinks", "np.array(sinks, np.float64)"),
    "a name for a matrix": ((pe.transport, {"X": "turn", "t": 1.0}), "X", "pe.generators.turn(1.0)"),
    "a function for a matrix": ((pe.transport, {"X": pe.generators.turn, "t": 1.0}), "X",
                                "pe.generators.turn(1.0)"),
    "a bias of padding": (attend(bias=ones((2, 5))), "bias", "bias[:, None, None]"),
    "a pair of positions": ((pe.apply_rope_2d, {"x": x, "pos_x": ones((2, 5)), "pos_y": ones(5)}),
                            "pos_x", "pos_x[:, None, :]"),
    "coordinates": ((pe.apply_rope_nd, {"x": x, "positions": ones((2, 5, 2)), "freqs": ones((2, 3))}),
                    "positions", "positions[:, None, :, :]"),
    "a row of frequencies": ((pe.apply_rope_nd, {"x": x, "positions": ones((5, 1)), "freqs": ones(3)}),
                             "freqs", "freqs[None]"),
    "a longer cache": (turn(cos=cos, sin=sin), "cos", "cos[:5]"),
    "a cache of width D, halves": (turn(cos=twice[0], sin=twice[1]), "cos", "cos[..., :4]"),
    "a cache of width D, pairs": (turn(cos=every[0], sin=every[1]), "cos", "cos[..., ::2]"),
    "periods": (turn(positions=np.arange(5), freqs=np.array([1.0, 10, 100])), "freqs", "1/freqs"),
    "a mask of a batch": (attend(mask=ones((2, 3, 5), bool)), "mask", "mask[:, None]"),
    "a mask of padding": (attend(mask=ones((2, 5), bool)), "mask", "mask[:, None, None]"),
    "a mask of heads": (attend(mask=ones((4, 3, 5), bool)), "mask", "mask[None]"),
    "a mask of a tokenizer": (attend(mask=ones((2, 5), int)), "mask", "mask.astype(bool)[:, None, None]"),
    "a mask of floats": (attend(mask=np.tri(3, 5)), "mask", "mask.astype(bool)"),
    "a bias of a batch": (attend(bias=ones((2, 3, 5))), "bias", "bias[:, None]"),
    "positions of queries": (attend(q_positions=ones((2, 3))), "q_positions", "q_positions[:, None, :]"),
    "a clock of a batch": (attend(clock=ones((2, 5))), "clock", "clock[:, None, :]"),
    "a clock of heads": (attend(clock=ones((4, 5))), "clock", "clock[None, :, :]"),
    "lengths of floats": (attend(kv_lengths=ones(2)), "kv_lengths", "kv_lengths.astype(np.int64)"),
    "values of a longdouble": (attend(v=v.astype("g")), "v", "v.astype(np.float64)"),
    "values of objects": (attend(v=v.astype(object)), "v", "v.astype(np.float64)"),
    "bits of a bfloat16": (attend(v=ones(v.shape, np.uint16)), "v", "v.astype(np.float64)"),
    "slopes of a text with +m": (attend(alibi_slopes=-ones(4)), "alibi_slopes", "-alibi_slopes"),
    "rates beside positions": ((pe.decay_bias, {"q_positions": ones((3, 2, 5)), "rate": ones(2)}),
                               "rate", "rate[None, :]"),
    "positions beside rates": ((pe.decay_bias, {"q_positions": ones((3, 5)), "k_positions": 5,
                                                "rate": ones((3, 2))}),
                               "q_positions", "q_positions[:, None, :]"),
    "gates": ((pe.clock, {"log_gates": np.array([0.5, 0.9])}), "log_gates", "np.log(gates)"),
}


@pytest.mark.parametrize("call, argument, advice", ADVICE.values(), ids=ADVICE)
def test_what_a_message_tells_to_type_works(call, argument, advice):
    op, arguments = call
    if np.dtype("g") == np.float64 and advice.startswith("v."):
        pytest.skip("longdouble is float64 here")
    with pytest.raises((TypeError, ValueError)) as caught:
        op(**arguments)
    text = str(caught.value)
    said = advice.replace("-alibi_slopes", "alibi_slopes=-m")
    assert said in text, text
    names = {"np": np, "pe": pe, "H": 4, "gates": arguments.get("log_gates"), **arguments}
    fixed = {argument: eval(advice, names)}
    if argument == "cos":
        fixed["sin"] = eval(advice.replace("cos", "sin"), names)
    result = op(**arguments | fixed)
    assert np.isfinite(result).any()


def test_rows_before_heads_are_recognised():
    a = normal(2, 7, 4, 8)                                          # 7 rows, 4 heads
    b = normal(2, 5, 2, 8)
    with pytest.raises(ValueError, match=r"H = 7 .*K = 5 .*pass q.swapaxes\(-3, -2\), k and v alike"):
        pe.attention(a, b, b)
    assert pe.attention(*(each.swapaxes(-3, -2) for each in (a, b, b))).shape == (2, 4, 7, 8)


@pytest.mark.parametrize("keywords", [
    {"segments": np.zeros((3, 1, 5), int)}, {"segments": np.zeros((3, 5), int)}, {"clock": np.zeros((3, 5))},
    {"causal": True, "q_positions": np.zeros((3, 1, 5))}, {"clock": np.zeros((3, 4, 5))},
])
def test_a_batch_of_one_that_should_be_several(keywords):
    """Each message shows the call that gives q, or k where it is short, as many rows."""
    given, name, out = {"q": normal(1, 4, 5, 8), "k": normal(1, 2, 5, 8)}, [*keywords][-1], None
    for _ in range(3):
        try:
            out = pe.attention(given["q"], given["k"], given["k"], **keywords)
        except ValueError as error:
            pattern = r"(q|k) has a batch of 1; for 3 pass (np\S+ \(3, \S+\)\))(?:, with (\S.*))?$"
            found = re.search(pattern, str(error))
            each, call, index = found.groups()
            given[each] = eval(call, {"np": np, **given})
            keywords = keywords if not index else {**keywords, name: eval(index, dict(keywords))}
    assert out.shape == (3, 4, 5, 8)


@pytest.mark.parametrize("keywords", [
    {"alibi_slopes": np.ones(4)}, {"decay_rate": np.ones(4)}, {"sinks": np.ones(4)},
    {"mask": np.ones((6, 6), bool)}, {"bias": np.ones((4, 6, 6))}, {"q_positions": np.arange(6)},
    {"segments": np.zeros(6, int)}])
def test_rows_before_heads_show_where_anything_else_has_the_size_of_a_head_or_row(keywords):
    x = normal(2, 6, 4, 8)                                          # 4 heads behind 6 rows
    with pytest.raises(ValueError, match=r"\(\.\.\., rows, heads, D\), pass q.swapaxes\(-3, -2\)"):
        pe.attention(x, x, x, **keywords)
    x = x.swapaxes(-3, -2)
    assert pe.attention(x, x, x, **keywords).shape == x.shape
    with pytest.raises(ValueError, match=r"^(?!.*rows, heads)"):    # nor is it offered where it does not fit
        pe.attention(*3 * [normal(2, 7, 5, 8)], **keywords)


def test_rows_before_heads_show_in_a_rate_of_retention_and_in_a_cache():
    x = normal(2, 6, 4, 8)
    for keyword in "rate", "multiplier":
        with pytest.raises(ValueError, match=r"expected \(6,\).* pass q.swapaxes\(-3, -2\), k and v alike$"):
            pe.retention(x, x, x, **{keyword: np.full(4, 0.5)})
        with pytest.raises(ValueError, match="or one number$"):
            pe.retention(x, x, x, **{keyword: np.full(5, 0.5)})
    with pytest.raises(ValueError, match=r"is q really the queries\? If q, k and v are .* pass q.swapaxes"):
        pe.attention(x[:, :1], x, x)                                # one row of 4 heads, six rows of them


def test_what_is_wrong_with_the_heads():
    """q and k in each other's place come first; the order of axes is offered only where it fits."""
    wide = normal(2, 8, 5, 8)
    with pytest.raises(ValueError, match="k has more heads than q; is q really the queries.$"):
        pe.attention(q, wide, wide)
    three = normal(2, 3, 5, 8)
    with pytest.raises(ValueError, match=r"K must divide H$"):
        pe.attention(q, three, three)                               # nor do 3 heads and 5


@pytest.mark.parametrize("op, args, text", [
    (pe.attention, (q, k, v, ones((3, 5), bool)), "takes q, k, v by place, and got 4; everything after v is "
     "by keyword; call attention(q, k, v, mask=mask, causal=True)"),
    (pe.attention, (q, k, v, None, 0.0, True), "takes q, k, v by place, and got 6; everything after v is by "
     "keyword; call attention(q, k, v, mask=mask, causal=True)"),
    (pe.attention_weights, (q, k, v), "everything after k is by keyword; call attention_weights(q, k, "
     "causal=True), as weights need no v"),
    (pe.apply_rope, (x, x, cos, sin), "takes x, cos, sin by place, and got 4; everything after sin"),
    (pe.alibi_bias, (3, 5, ones(4)), "everything after k_positions is by keyword; call alibi_bias(M, N, "
     "slopes=pe.alibi_slopes(H))"),
    (pe.alibi_bias, (8, 5), "alibi_bias() is missing slopes; call alibi_bias(M, N, slopes="),
    (pe.merge_attention, (1, 2, 3), "takes outs, lses by place, and got 3; call merge_attention("),
    (pe.Rope, (64, 10000.0, "half"), "Rope() takes dim, base by place, and got 3; everything after base is "
     'by keyword; call Rope(64, layout="half")'),
    (pe.Rope, (), "Rope() is missing dim; call Rope(64"),
])
def test_arguments_by_place(op, args, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        op(*args)


@pytest.mark.parametrize("call", [re.split(", as |, with ", call)[0] for call in CALLS.values()])
def test_the_calls_that_messages_show_are_good(call):
    names = {"x": x[0], "q": q, "k": k, "v": v, "T": 5, "M": 3, "N": 5, "H": 4, "mask": ones((3, 5), bool),
             "pos_x": np.arange(5), "pos_y": np.arange(5), "positions": ones((5, 2)), "freqs": ones((2, 4)),
             "out1": q, "out2": q, "lse1": q[..., 0], "lse2": q[..., 0], "np": np, "pe": pe,
             "gates": ones(5), "weight": ones((128, 6)), "config": {"model_type": "llama", "head_dim": 64},
             "fn": lambda x, positions: pe.apply_rope(x, positions=positions)}
    names |= {"q": k} if call.startswith("retention") else {}
    assert eval(f"pe.{call}", names) is not None


@pytest.mark.parametrize("slip", ["rope", "apply_rotary_pos_emb", "scaled_dot_product_attention", "softmax"])
def test_names_of_other_libraries(slip):
    with pytest.raises(AttributeError, match=f"no attribute '{slip}'; .*pe") as caught:
        getattr(pe, slip)
    named = re.findall(r"pe\.(\w+)", str(caught.value))
    assert named and all(hasattr(pe, name) for name in named)
    assert not hasattr(pe, slip) and slip not in dir(pe)


def test_other_texts_that_misled():
    with pytest.raises(ValueError, match="x has D = 1, which does not divide into pairs; pass an even D$"):
        pe.apply_rope(ones((2, 1)), positions=[0, 1])
    with pytest.raises(ValueError, match=r"expected \(5,\) or \(3, 5\), where any axis may be 1$"):
        pe.attention(q[0, 0], k[0, 0], v[0, 0], mask=ones((4, 5), bool))
    with pytest.raises(ValueError, match="one call turns one array: queries and keys take a call each$"):
        pe.Rope(8).apply(q, q)
    class Held:
        ndim = 0
        __repr__, __float__ = (lambda self: "held(0.5)"), (lambda self: 0.5)

    held = Held()
    with pytest.raises(TypeError, match=r"scale is held\(0.5\); expected one real number: float\(scale\)"):
        pe.attention(q, k, v, scale=held)
    assert np.array_equal(pe.attention(q, k, v, scale=float(held)), pe.attention(q, k, v, scale=0.5))
