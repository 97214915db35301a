"""check_rope with an expected Rope: which number, which order, which scaling is another."""

import foreign_ropes as foreign
import numpy as np
import pytest

import pe
from pe import check_rope

TURN = pe.Rope(64)
AXES = pe.Rope(48, freqs=np.eye(3).repeat([4, 10, 10], axis=1) * 1e4 ** (-np.arange(24) / 24))
YARN = pe.Rope(64, scaling=pe.scaling.yarn(8.0, 4096))
INTERLEAVED = np.eye(3)[:, [0, 1, 2] * 4 + [1, 2] * 6] * AXES.freqs.sum(axis=0)


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
     "scaling is another one: frequencies are those of ntk(factor=4.0), expected linear(factor=4.0)"),
    (pe.Rope(64, scaling=pe.scaling.linear(8.0), amplitude=YARN.amplitude), YARN,
     "scaling is another one: frequencies are those of linear(factor=8.0), expected yarn(factor=8.0"),
    (pe.Rope(64, scaling=pe.scaling.yarn(8.0, 4096, truncate=False)), YARN,
     "scaling is another one: frequencies are those of yarn(factor=8.0, "
     "original_max_position_embeddings=4096, truncate=False)"),
    (pe.Rope(64, scaling=pe.scaling.yarn(8.0, 32768)), YARN,
     "scaling is another one: frequencies are those of yarn(factor=8.0, "
     "original_max_position_embeddings=32768)"),
    (pe.Rope(64, scaling=pe.scaling.linear(16.0)), pe.Rope(64, scaling=pe.scaling.linear(4.0)),
     "frequencies are all 0.25 of those expected, as if positions were multiplied by it (1 / factor: the "),
    (pe.Rope(64, freqs=TURN.freqs * np.pi / 180), TURN,
     "frequencies are all 0.0174533 of those expected, as if positions were multiplied by it (pi / 180"),
    (pe.Rope(64, freqs=4 * TURN.freqs), pe.Rope(64, scaling=pe.scaling.linear(4.0)),
     "frequencies are all 16 of those expected, as if positions were multiplied by it (factor^2: positions"),
    (pe.Rope(64, 1e8), TURN, "exponents are counted 2l/L instead of 2l/D, which makes the base 1e+08"),
    (pe.Rope(64, freqs=1e4 ** -np.linspace(0, 1, 32)), TURN,
     "exponents are l/(L - 1), up to 1 (a linspace with its end), instead of l/L: the base is then 13459.6"),
    (pe.Rope(48, freqs=INTERLEAVED), AXES,
     "planes follow other axes than expected: plane 1 turns by axis 1, not by axis 0 (sections chunked"),
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


def test_frequencies_in_another_order():
    order = [*range(0, 32, 2), *range(1, 32, 2)]
    report = check_rope(lambda x, p: foreign.halves(x, foreign.angles(p, 64)[..., order]),
                        expect=pe.Rope(64, layout="half"))
    assert report.causes == ("frequencies stand in another order: plane 1 has that of plane 2",)


@pytest.mark.parametrize("rope", [pe.Rope(64, 1e8), pe.Rope(128, 1e8, layout="half"), pe.presets.dinov3(64),
                                  pe.Rope(64, freqs=7 * TURN.freqs)])
def test_planes_that_hardly_turn_or_make_whole_turns_are_no_faults(rope):
    report = check_rope(turned_by(rope), rope.dim, expect=rope)
    assert report.ok, str(report)
