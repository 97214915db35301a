"""check_rope on wrong positions, on what is no turn at all, and on functions that fail."""

import foreign_ropes as foreign
import numpy as np
import pytest
from foreign_ropes import found

import pe
from pe import check_rope

HALF = pe.Rope(64, layout="half")


# Positions


@pytest.mark.parametrize("shift", [1, -1, 0.5])
def test_positions_off(shift):
    report = check_rope(lambda x, positions: foreign.halves(x, foreign.angles(positions + shift, 64)))
    shown = found(report, f"positions are off by {shift}: position 0 is turned like {shift}; scores do not",
                  position_origin=shift, is_relative=True, base=1e4)
    np.testing.assert_allclose(shown["cos, sin of plane 0"], [np.cos(shift), np.sin(shift)], atol=1e-12)


@pytest.mark.parametrize("step", [1, 4, 8])
def test_rows_that_a_loop_leaves_out(step):
    """A kernel without its tail: what does not fill a vector, or the last row, stays as it was."""
    def kernel(x, positions):
        done = (x.shape[-2] - 1) // step * step
        turned = pe.apply_rope(x[..., :done, :], positions=positions[:done])
        return np.concatenate([turned, x[..., done:, :]], axis=-2)

    shown = found(check_rope(kernel), "rows from 16 on of 17 come back unturned, those before them turn")
    assert shown["row"] == 16 and shown["position"] == [16]


@pytest.mark.parametrize(("written", "lost"), [(16, 1), (8, 9)])
def test_rows_that_nothing_writes(written, lost):
    def kernel(x, positions):
        out = np.zeros_like(x)
        out[..., :written, :] = pe.apply_rope(x[..., :written, :], positions=positions[:written])
        return out

    shown = found(check_rope(kernel), f"rows come back as 0, {lost} of 17, the first is row {written}")
    assert shown["row"] == written


def test_all_tokens_at_position_0():
    report = check_rope(lambda x, positions: foreign.halves(x, foreign.angles(0 * positions, 64)))
    found(report, "nothing turns: every row comes back as it was", is_rotation=True, layout=None)


def test_all_tokens_at_another_position():
    report = check_rope(lambda x, positions: foreign.halves(x, foreign.angles(0 * positions + 5, 64)))
    found(report, "every row is mapped alike: the position has no effect")


def test_c34_an_offset_left_out():
    report = check_rope(lambda x, offset: foreign.halves(x, foreign.angles(np.arange(x.shape[-2]), 64)),
                        signature="x, offset")
    shown = found(report, "positions are ignored: row i stands at position i", is_relative=False)
    assert shown == {"row": 0, "position": 9, "taken_for": 0}


def test_c34_an_offset_off_by_one():
    report = check_rope(lambda x, offset: foreign.halves(
        x, foreign.angles(offset + (offset > 0) + np.arange(x.shape[-2]), 64)), signature="x, offset")
    found(report, "consecutive positions: rows are off by 1", is_relative=False)


def test_c34_decoding_at_position_0():
    def apply(x, positions):
        return foreign.halves(x, foreign.angles(positions if len(positions) > 1 else [0], 64))

    shown = found(check_rope(apply), "one row alone stands at position 0, whatever its position")
    assert shown == {"row": 0, "position": 7, "taken_for": 0}


def test_c34_a_later_chunk_stands_at_its_start():
    report = check_rope(lambda x, positions: foreign.halves(x, foreign.angles(
        positions if positions[0] == 0 else 0 * positions + positions[0], 64)))
    shown = found(report, "consecutive positions: all rows stand at position 9", is_relative=False)
    assert shown == {"row": 1, "position": 10, "taken_for": 9}


def test_positions_only_counted_from_the_first():
    report = check_rope(lambda x, positions: foreign.halves(
        x, foreign.angles(positions[0] + np.arange(len(positions)), 64)))
    found(report, "positions in any order: rows stand elsewhere", is_relative=False)


def test_c36_one_row_of_positions_for_the_batch():
    report = check_rope(lambda x, ids: foreign.halves(x, foreign.angles(ids[0], 64)),
                        signature="x, position_ids")
    found(report, "one row of position_ids serves the whole batch", is_relative=False)


@pytest.mark.parametrize(("late", "words"), [
    (lambda p: np.where(p < 3000, p, 0), "rows from position 3000 on come back as they were"),
    (lambda p: np.minimum(p, 2999), "positions from 3000 on stand at 2999: the table ends there"),
    (lambda p: p % 3000, "positions wrap around at 3000"),
])
def test_c36_positions_beyond_the_table(late, words):
    report = check_rope(lambda x, positions: foreign.halves(x, foreign.angles(late(positions), 64)))
    shown = found(report, words, is_relative=False, is_rotation=True, base=1e4)
    assert shown["position"] == 3000


@pytest.mark.parametrize("signature", ["x", "x, positions"])
def test_the_wrong_axis_taken_for_the_sequence(signature):
    def apply(x, positions=None):
        positions = np.arange(x.shape[1]) if positions is None else positions
        return foreign.halves(x, foreign.angles(positions, 64)[:, None])

    report = check_rope(apply, signature=signature)
    shown = found(report, "x is taken as (B, T, H, D), not as (B, H, T, D)", layout="half", base=1e4)
    assert shown == {"axes": "BTHD"}
    assert check_rope(apply, signature=signature, axes="BTHD").ok


# Amplitudes, values, linearity


@pytest.mark.parametrize(("factor", "why"), [(1.2, "it is applied twice"), (1 / 1.2, "it is left out"),
                                             (1.1, "")])
def test_c28_amplitudes(factor, why):
    rope = pe.Rope(64, amplitude=1.2)
    report = check_rope(lambda x, positions: factor * rope.apply(x, positions), expect=rope)
    found(report, "amplitude is ")
    assert report.causes[0].endswith(why or "expected 1.2")
    assert report.amplitude == pytest.approx(1.2 * factor)


def test_lengths_that_change_with_the_position():
    report = check_rope(lambda x, positions: HALF.apply(x, positions) * np.exp(0.01 * positions)[:, None])
    shown = found(report, "lengths change, by factors from 1 to 1.17351", is_rotation=False)
    assert shown["position"] == [1] and shown["length"] == pytest.approx(np.exp(0.01))


def test_turns_that_the_position_hardly_changes():
    report = check_rope(lambda x, positions: foreign.halves(x, np.full((len(positions), 32), 0.5)
                                                            + 9e-9 * positions[:, None]))
    found(report, "planes are turned, and by the same angles at every position", freqs=None)


def test_only_one_of_q_and_k_is_turned():
    report = check_rope(lambda q, k, positions: (HALF.apply(q, positions), k.copy()),
                        signature="q, k, positions")
    found(report, "k is not turned as q is", is_relative=False, is_rotation=True, layout="half")


def test_values_that_change_places():
    report = check_rope(lambda q, k, p: (HALF.apply(k, p), HALF.apply(q, p)), signature="q, k, positions")
    shown = found(report, "q and k change places", is_rotation=True, is_relative=True)
    assert shown["got q at 0, 1"].tolist() == [0, 1] and shown["got k at 0, 1"].tolist() == [1, 0]
    report = check_rope(lambda q, k, v, p: (HALF.apply(q, p), v, HALF.apply(k, p)),
                        signature="q, k, v, positions")
    shown = found(report, "k and v change places", is_rotation=True)
    assert len(report.causes) == 1 and shown["got k at 0, 1"].tolist() == [0, 1]


def test_the_scale_on_one_of_q_and_k():
    report = check_rope(lambda q, k, p: (HALF.apply(q, p), HALF.apply(k, p) / 8), signature="q, k, positions")
    shown = found(report, "k is not turned as q is, but 0.125 times as long", is_relative=True)
    assert shown == {"x": "1 at coordinate 0, else 0", "position": [0], "got at 0": 0.125, "expected": 1}
    report = check_rope(lambda q, k, p: (HALF.apply(q, p), HALF.apply(k, -p)), signature="q, k, positions")
    shown = found(report, "k is not turned as q is", is_relative=False)
    assert shown == {"x": "1 at coordinate 0, else 0", "position": [1],
                     "got at 32": pytest.approx(-np.sin(1)), "expected": pytest.approx(np.sin(1))}


def test_v_that_is_changed():
    report = check_rope(lambda q, k, v, p: (HALF.apply(q, p), HALF.apply(k, p), 2 * v),
                        signature="q, k, v, positions")
    found(report, "v does not come back as it was", is_relative=True)


def test_v_is_turned_too():
    def apply(q, k, v, positions):
        return tuple(HALF.apply(x, positions) for x in (q, k, v))

    found(check_rope(apply, signature="q, k, v, positions"), "v is turned too", is_relative=True)
    assert check_rope(lambda q, k, v, p: (HALF.apply(q, p), HALF.apply(k, p), v),
                      signature="q, k, v, positions").ok


@pytest.mark.parametrize(("fn", "words", "x"), [
    (lambda x, p: HALF.apply(x, p) - 0.1 * x.mean(axis=-2, keepdims=True), ": it depends on other rows",
     "1 at coordinate 0, in other rows at the next one"),
    (lambda x, p: HALF.apply(np.cumsum(x, axis=-2), p), ": it depends on other rows",
     "1 at coordinate 0, in other rows at the next one"),
    (lambda x, p: HALF.apply(np.abs(x), p), ": it is not linear", "-1 at coordinate 0, else 0"),
    (lambda x, p: HALF.apply(x / np.linalg.norm(x, axis=-1, keepdims=True), p), ": it is not linear",
     "2 at coordinate 0, else 0"),
    (lambda x, p: HALF.apply(x, p) + 0.1 * (x[:, ::-1] - x), ": it depends on other heads",
     "1 at coordinate 0, in other heads at the next one"),
])
def test_what_is_no_matrix_a_row(fn, words, x):
    words = f"a row is more than a fixed matrix times its vector{words}"
    shown = found(check_rope(fn), words, is_rotation=False)
    assert shown.get("x") == x


def test_a_row_that_is_no_matrix_is_shown():
    shown = found(check_rope(lambda x, p: HALF.apply(np.abs(x), p)), "a row is more than", is_rotation=False)
    assert shown == {"dtype": "float64", "x": "-1 at coordinate 0, else 0", "position": [8],
                     "got at 0": pytest.approx(np.cos(8)), "expected": pytest.approx(-np.cos(8))}


@pytest.mark.parametrize(("fn", "why"), [
    (lambda x, p: foreign.halves(x, foreign.angles(p, 64)
                                 + foreign.angles(np.arange(len(x)), 64)[:, None, None]),
     "it depends on its place in the batch"),
    (lambda x, p: HALF.apply(x, p)[:, [0, 0, 0]], "it depends on other heads"),
])
def test_rows_that_mix_batch_or_heads(fn, why):
    shown = found(check_rope(fn), f"a row is more than a fixed matrix times its vector: {why}")
    assert {"x", "position", "expected"} <= {*shown}


def test_results_that_are_integers():
    report = check_rope(lambda x, p: HALF.apply(x, p).astype(int))
    assert report.causes == ("the function returned int64 for values of float64: fractions are lost",)


def test_heads_of_their_own_size():
    def apply(x, positions):
        return HALF.apply(x, positions) * np.arange(1.0, x.shape[1] + 1)[:, None, None]

    found(check_rope(apply), "heads are turned differently", is_rotation=False)


def test_the_first_head_that_differs_is_shown():
    def apply(x, positions):
        return foreign.pairs(x, foreign.angles(positions + np.arange(x.shape[1])[:, None], x.shape[-1]))

    shown = found(check_rope(apply, 8), "heads are turned differently", is_rotation=False)
    assert shown == {"dtype": "float64", "head": 1, "position": [0], "x": "1 at coordinate 1, else 0",
                     "got at 0": pytest.approx(-np.sin(1)), "in head 0": 0}


def test_frequencies_that_follow_the_length_of_the_call():
    def dynamic(x, positions):
        scaling = pe.scaling.dynamic_ntk(2.0, 64, seq_len=int(np.max(positions, initial=0)) + 1)
        return pe.Rope(16, scaling=scaling).apply(x, positions)

    shown = found(check_rope(dynamic, 16), "position 15 turns otherwise in a call that holds position 131071 "
                  "too: frequencies follow the farthest position of a call", is_relative=False)
    assert shown["position"] == 15
    fixed = pe.Rope(16, scaling=pe.scaling.dynamic_ntk(2.0, 64, seq_len=4096))
    assert check_rope(lambda x, p: fixed.apply(x, p), 16).ok


def test_frequencies_that_stay_as_the_farthest_call_made_them():
    seen = [0]

    def sticky(x, positions):
        seen[0] = max(seen[0], int(np.max(positions)) + 1)
        return pe.Rope(16, scaling=pe.scaling.dynamic_ntk(2.0, 64, seq_len=seen[0])).apply(x, positions)

    found(check_rope(sticky, 16), "position 15 turns otherwise after a call that held position 131071: the "
          "frequencies of that call stay", is_relative=False)


@pytest.mark.parametrize(("stands", "why"), [
    (lambda n: np.arange(n) - n // 2, "there it stands at -2026, counted from the middle or the end"),
    (lambda n: np.arange(n) / n, "positions are divided by the number of rows, or by the largest position"),
])
def test_positions_that_follow_the_number_of_rows(stands, why):
    report = check_rope(lambda x: foreign.halves(x, foreign.angles(stands(x.shape[-2]), 64)), signature="x")
    assert any(f"a call that holds position 4097 too: {why}" in cause for cause in report.causes), str(report)


@pytest.mark.parametrize(("stands", "words"), [
    (lambda p: p / len(p), "consecutive positions: positions are divided by the number of rows"),
    (np.sort, "positions in any order: rows stand at the sorted positions"),
])
def test_rows_beside_others(stands, words):
    report = check_rope(lambda x, p: foreign.halves(x, foreign.angles(stands(p), 64)))
    found(report, words, is_relative=False)


def test_positions_that_are_rounded():
    report = check_rope(lambda x, p: foreign.halves(x, foreign.angles(p // 4, 64)))
    shown = found(report, "the angle is not proportional to the position: rows at [0] and [1] turn alike")
    assert shown["position"] == [1]


@pytest.mark.parametrize(("dtype", "words"), [
    (np.int8, "position 128 is taken for -128: the integer type of positions is too short"),
    (np.uint8, "positions wrap around at 256: the table ends there, or their integer type is too short"),
])
def test_positions_in_a_short_integer_type(dtype, words):
    report = check_rope(lambda x, p: foreign.halves(x, foreign.angles(p.astype(dtype), 64)))
    assert found(report, words, is_relative=False)["position"] == np.iinfo(dtype).max + 1


# Functions that fail


class Unreadable:
    """What NumPy cannot read."""

    def __array__(self, dtype=None, copy=None):
        raise BufferError("gone")


def broken(*, at):
    def apply(x, positions):
        if (positions >= at).any():
            return HALF.apply(x, positions) * np.nan
        return HALF.apply(x, positions)
    return apply


@pytest.mark.parametrize(("fn", "words"), [
    (lambda x, positions: 1 / 0, "the function raised ZeroDivisionError: division by zero"),
    (lambda x: x, "the function raised TypeError: "),
    (lambda x, positions: x[..., :3], "the function returned shape (64, 3, 17, 3) for values of shape (64, "),
    (lambda x, positions: x.sum(), "the function returned "),
    (lambda x, positions: None, "the function returned None, read as dtype object; expected real"),
    (lambda x, positions: "text", "the function returned 'text', read as dtype"),
    (lambda x, positions: Unreadable(), "the function returned an object of type Unreadable, which is"),
    (lambda x, positions: x + 1j, "the function returned an array of shape (64, 3, 17, 64), read as dtype c"),
    (lambda x, positions: (x, x), "the function returned a tuple of 2 for x; expected an array"),
    (lambda x, positions: np.full_like(x, np.nan), "the function returned nan for finite x"),
    (broken(at=0), "the function returned nan for finite x"),
    (broken(at=4000), "position 4095: the function returned nan for finite x"),
    (broken(at=17), "consecutive positions: the function returned nan for finite x"),
])
def test_functions_that_fail_are_reported(fn, words):
    report = check_rope(fn)
    assert not report.ok and report.causes[0].startswith(words), report.causes
    assert str(report).splitlines()[0].endswith("found")


def test_too_few_results():
    report = check_rope(lambda q, k, positions: q, signature="q, k, positions")
    assert report.causes[0].endswith("for q, k; expected a tuple of 2 arrays")


def test_tables_that_cannot_be_built():
    report = check_rope(lambda x, cos, sin: x, signature="x, cos, sin", tables=lambda positions: 1 / 0)
    assert report.causes == ("tables() raised ZeroDivisionError: division by zero",)


def test_a_function_that_writes_into_its_input():
    def apply(x, positions):
        x[...] = HALF.apply(x, positions)
        return x

    report = check_rope(apply)
    assert report.causes == ("the function writes into its argument x",) and report.layout == "half"
    assert report.is_rotation and report.is_relative


def test_negative_positions_that_are_refused():
    def apply(x, positions):
        if (positions < 0).any():
            raise IndexError("before the table")
        return HALF.apply(x, positions)

    report = check_rope(apply)
    assert report.ok
    assert report.notes == ("negative positions: the function raised IndexError: before the table",)


# Functions that are not the same twice, or called with what they do not take


def test_a_counter_of_calls_and_random_results():
    calls = iter(range(10**6))
    counting = check_rope(lambda x: foreign.halves(
        x, foreign.angles(next(calls) + np.arange(x.shape[-2]), 64)), signature="x")
    rng = np.random.default_rng(0)
    for report in (counting, check_rope(lambda x, positions: rng.normal(size=x.shape))):
        found(report, "two equal calls give different results", is_rotation=False, layout=None)


@pytest.mark.parametrize("signature", ["x, positions", "q, k, positions"])
def test_a_function_of_other_arguments(signature):
    report = check_rope(lambda x: x, signature=signature)
    found(report, "the function raised TypeError: ")
    assert report.causes[0].endswith(f"; signature= says what it is given, here '{signature}'")


def test_a_function_of_tensors_given_arrays():
    report = check_rope(lambda x, positions: x.unsqueeze(0))
    found(report, "the function raised AttributeError: ")
    assert report.causes[0].endswith('; arrays="torch" gives it tensors')
