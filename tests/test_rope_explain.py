"""`Rope.explain`: the numbers of each plane, and the table they are printed as."""

import pickle

import numpy as np
import pytest

from pe import Rope, presets, scaling


def test_wavelengths_and_turns():
    rope = Rope(16)
    told = rope.explain(1000)
    assert [row.plane for row in told.planes] == list(range(8))
    assert {row.change for row in told.planes} == {""}
    np.testing.assert_array_equal([row.wavelength for row in told.planes], rope.wavelengths[0])
    np.testing.assert_allclose([row.turns for row in told.planes], 1000 / rope.wavelengths[0])
    # source document 1: wavelengths 6, 20, 63, 199, 628, 2e3, 6e3, 20e3: three are longer than 1000
    assert [row.plane for row in told.incomplete] == [5, 6, 7]
    assert "3 planes of 8 never complete a turn in 1000 positions" in str(told)


def test_no_context_no_turns():
    told = Rope(16).explain()
    assert told.context is None and {row.turns for row in told.planes} == {None} and not told.incomplete
    assert "turn in" not in str(told) and len(str(told).splitlines()) == 2 + 1 + 8


def runs(told):
    """{change: the planes it happens to}"""
    return {change: [row.plane for row in told.planes if row.change == change]
            for change in {row.change for row in told.planes}}


def test_llama_3_keeps_29_blends_6_and_divides_29():
    told = Rope(128, 5e5, scaling=scaling.llama3()).explain()
    assert runs(told) == {"kept": [*range(29)], "blended": [*range(29, 35)], "divided": [*range(35, 64)]}
    assert told.context == 65536 and "planes 0-28 kept, 29-34 blended, 35-63 divided" in str(told)
    assert {round(row.divisor, 12) for row in told.planes if row.change == "divided"} == {8}
    assert "blended, divided by 5.257" in str(told) and "turns in 65536" in str(told)


def test_yarn_keeps_21_planes_blends_25_and_divides_18():
    """Of a head of 128 at base 10000, L0 = 4096: the ramp runs from plane 20 to plane 46."""
    told = Rope(128, scaling=scaling.yarn(4, 4096)).explain(16384)
    assert {change: len(planes) for change, planes in runs(told).items()} == {
        "kept": 21, "blended": 25, "divided": 18}
    assert "scores gain amplitude^2 = 1.29648" in str(told)


@pytest.mark.parametrize("scaled, want", [
    (scaling.linear(4), {"divided": [0, 1, 2, 3]}),
    (scaling.ntk(8), {"kept": [0], "divided": [1, 2, 3]}),
    (scaling.proportional(0.5), {"kept": [0, 1], "stopped": [2, 3]}),
    (scaling.longrope([1.0, 2, 2, 2], [1.0, 1, 1, 9], 64, 4.0, seq_len=65),
     {"kept": [0, 1, 2], "divided": [3]}),
], ids=repr)
def test_what_happened(scaled, want):
    assert runs(Rope(8, scaling=scaled).explain(100)) == want


def test_divisors_say_how_frequencies_changed():
    rope = Rope(64, scaling=scaling.ntk(8))
    divisors = [row.divisor for row in rope.explain().planes]
    np.testing.assert_allclose(divisors, rope.unscaled[0] / rope.freqs[0])
    assert divisors[0] == 1 and divisors[-1] == pytest.approx(8)
    stopped = Rope(8, scaling=scaling.proportional(0.5)).explain(10).planes[-1]
    assert (stopped.divisor, stopped.wavelength, stopped.turns) == (np.inf, np.inf, 0)


def test_contexts_that_scalings_are_meant_for():
    lists = {"short_factor": [1.0, 1], "long_factor": [1.0, 2], "original_max_position_embeddings": 1024}
    for scaled, want in ((scaling.yarn(4, 4096), 16384), (scaling.llama3(), 65536), (scaling.linear(4), None),
                         (scaling.dynamic_ntk(2, 2048), 2048), (scaling.dynamic_ntk(2, 2048, 9000), 9000),
                         (scaling.longrope(**lists, factor=4), 4096),
                         (scaling.longrope(**lists, max_position_embeddings=8192), 8192)):
        assert Rope(4, scaling=scaled).explain().context == want
        assert Rope(4, scaling=scaled).explain(77).context == 77


def test_several_axes_have_a_row_for_each_plane_they_turn():
    told = presets.pixtral(16).explain(64)
    assert [(row.axis, row.plane) for row in told.planes] == [(0, 0), (0, 1), (0, 2), (0, 3),
                                                              (1, 4), (1, 5), (1, 6), (1, 7)]
    np.testing.assert_allclose([row.frequency for row in told.planes[:4]], 1e4 ** (-np.arange(4) / 4))
    assert "axis  plane" in str(told)


def test_printing_is_one_line_a_plane_and_the_softmax_has_its_share():
    scaled = scaling.yarn(40, 4096, mscale=1, mscale_all_dim=1)
    rope = Rope(192, rotary_dim=64, rotary_offset=128, scaling=scaled)
    lines = str(rope.explain()).splitlines()
    assert len(lines) == 2 + 1 + 32 + 3 and repr(rope.explain()) == str(rope.explain())
    assert "rotary_offset=128" in lines[0] and "arXiv:2309.00071" in lines[1]
    assert lines[-1] == "attention's default scale is multiplied by 1.87385"


def test_an_explanation_is_a_value():
    told = Rope(8, scaling=scaling.linear(4)).explain(100)
    copy = pickle.loads(pickle.dumps(told))
    assert copy == told and str(copy) == str(told) and told != Rope(8).explain(100)


def test_bad_context():
    for context, error in ((0, ValueError), (-5, ValueError), ("4096", TypeError), (np.nan, ValueError)):
        with pytest.raises(error, match="context"):
            Rope(8).explain(context)
