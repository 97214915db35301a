"""`alibi_slopes`, both recipes, against exact powers of two."""

import doctest
import math

import mpmath
import numpy as np
import pytest

import pe.slopes
from pe import alibi_slopes


def test_docstring_examples_run():
    result = doctest.testmod(pe.slopes)
    assert result.attempted and result.failed == 0


def test_published_values():
    assert alibi_slopes(1).tolist() == [2**-8]
    assert alibi_slopes(6).tolist() == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    np.testing.assert_array_max_ulp(alibi_slopes(12)[8:], 2.0 ** -np.array([0.5, 1.5, 2.5, 3.5]), 1)
    smooth = [0.629961, 0.39685, 0.25, 0.15749, 0.099213, 0.0625,
              0.039373, 0.024803, 0.015625, 0.009843, 0.006201, 0.003906]
    np.testing.assert_allclose(alibi_slopes(12, recipe="smooth"), smooth, atol=5e-7)


def exact(max_bias, step, count):
    with mpmath.workdps(40):
        return float(mpmath.mpf(2) ** (-mpmath.mpf(max_bias) * step / count))


def press(heads, max_bias):
    """The published recursion: a power of two, then every other slope of the next one."""
    if math.log2(heads).is_integer():
        return [exact(max_bias, h + 1, heads) for h in range(heads)]
    power = 2 ** math.floor(math.log2(heads))
    return press(power, max_bias) + press(2 * power, max_bias)[::2][: heads - power]


@pytest.mark.parametrize("max_bias", [8.0, 4, 5.5])
def test_every_head_count(max_bias):
    for heads in range(1, 80):
        smooth = [exact(max_bias, h + 1, heads) for h in range(heads)]
        want = {"press": press(heads, max_bias), "smooth": smooth}
        for recipe, slopes in want.items():
            got = alibi_slopes(heads, max_bias=max_bias, recipe=recipe)
            np.testing.assert_array_max_ulp(got, np.array(slopes), 1)


@pytest.mark.parametrize("heads", [1, 2, 16, 64])
def test_recipes_agree_on_powers_of_two(heads):
    np.testing.assert_array_equal(alibi_slopes(heads), alibi_slopes(heads, recipe="smooth"))


@pytest.mark.parametrize("args, kwargs, error, words", [
    ((0,), {}, ValueError, "n_heads .*at least 1.*0"),
    ((2.0,), {}, TypeError, "n_heads .*integer.*2.0"),
    ((True,), {}, TypeError, "n_heads .*integer.*True"),
    ((4,), {"max_bias": 0}, ValueError, "max_bias .*above 0.*0"),
    ((4,), {"max_bias": np.inf}, ValueError, "max_bias .*finite.*inf"),
    ((4,), {"max_bias": "8"}, TypeError, "max_bias .*number.*'8'"),
    ((4,), {"recipe": "geometric"}, ValueError, 'recipe .*"press" or "smooth".*\'geometric\''),
])
def test_bad_input(args, kwargs, error, words):
    with pytest.raises(error, match=words):
        alibi_slopes(*args, **kwargs)
