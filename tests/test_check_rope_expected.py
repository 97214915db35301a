"""check_rope with an expected Rope: which number, which order, which scaling is another."""

import foreign_ropes as foreign
import numpy as np
import pytest

import pe
from pe import check_rope

TURN = pe.Rope(64)
AXES = pe.Rope(48, freqs=np.eye(3).repeat([4, 10, 10], axis=1) * 1e4 ** (-np.arange(24) / 24))


def turned_by(rope):
    return lambda x, positions: rope.apply(x, positions)


@pytest.mark.parametrize(("rope", "expect", "cause"), [
    (pe.Rope(64, 5e5), TURN, "base is 500000, expected 10000"),
    (pe.Rope(64, 100.0), TURN, "exponents are counted l/D instead of 2l/D, which makes the base 100"),
    (pe.Rope(64, rotary_dim=32, freqs=TURN.freqs[:, :16]), pe.Rope(64, rotary_dim=32),
     "exponents are over the head width 64 and not over rotary_dim 32: w_1 = 10000^(-2/64)"),
    (pe.Rope(64, scaling=pe.scaling.linear(4.0)), TURN,
     "frequencies are all 0.25 of those expected, as if positions were multiplied by it"),
    (pe.Rope(64, freqs=1e4 ** (-np.arange(1, 33) / 32)), TURN,
     "exponents are one plane ahead: plane 0 has the frequency 0.749894 of plane 1"),
    (TURN, pe.Rope(64, scaling=pe.scaling.llama3()), "scaling is left out: frequencies are those before lla"),
    (TURN, pe.Rope(64, scaling=pe.scaling.linear(8.0)),
     "scaling is left out: frequencies are those before linear(factor=8.0)"),
    (pe.Rope(64, scaling=pe.scaling.ntk(4.0)), pe.Rope(64, scaling=pe.scaling.linear(4.0)),
     "frequencies are not those expected, from plane 0 on"),
    (pe.Rope(48, freqs=AXES.freqs[[0, 2, 1]]), AXES,
     "the axes of positions are swapped: axis 0, axis 2, axis 1"),
])
def test_frequencies_that_differ_are_named(rope, expect, cause):
    report = check_rope(turned_by(rope), expect.dim, expect=expect)
    assert report.causes[0].startswith(cause) and len(report.causes) == 1
    assert not np.allclose(report.counterexample["frequency"], report.counterexample["expected"])


def test_planes_in_reverse_order():
    def apply(x, positions):
        return foreign.pairs(x, foreign.angles(positions, 64)[..., ::-1])

    report = check_rope(apply, expect=TURN)
    assert report.causes == ("frequencies stand in reverse order, the slowest first",)
    note = "frequencies rise from plane to plane: in reverse order, or periods in their place?"
    assert check_rope(apply).notes == (note,)


def test_exponents_that_count_from_one_are_no_scaling():
    ahead = pe.Rope(64, freqs=1e4 ** (-np.arange(1, 33) / 32))
    note = "plane 0 has the frequency 0.749894 of plane 1: exponents count from 1, not from 0"
    assert check_rope(turned_by(ahead)).notes == (note,)
    scaled = pe.Rope(64, scaling=pe.scaling.linear(2.0))
    assert check_rope(turned_by(scaled)).notes == ("frequencies are all multiplied by 0.5 (linear scaling)",)
