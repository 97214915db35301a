"""`grid_positions`: the coordinates of a flattened grid."""

import doctest

import numpy as np
import pytest

import pe.positions
from pe import grid_positions


def test_docstring_examples_run():
    result = doctest.testmod(pe.positions)
    assert result.attempted and result.failed == 0


def test_x_is_the_column_and_y_the_row():
    x, y = grid_positions(2, 3)
    assert x.tolist() == [0, 1, 2, 0, 1, 2]
    assert y.tolist() == [0, 0, 0, 1, 1, 1]
    assert x.dtype == y.dtype == np.int64


@pytest.mark.parametrize("shape", [(1, 1), (4, 7), (3, 4, 5), (2, 3, 4, 5), (0, 3), (3, 0)])
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_last_axis_first_and_prefix_at_the_origin(shape, prefix):
    got = grid_positions(*shape, prefix=prefix)
    want = [np.ravel(axis) for axis in np.meshgrid(*map(np.arange, shape), indexing="ij")][::-1]
    assert len(got) == len(shape)
    for g, w in zip(got, want, strict=True):
        assert g[:prefix].tolist() == [0] * prefix
        np.testing.assert_array_equal(g[prefix:], w)


def test_a_prefix_token_is_not_turned():
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 8))
    y = pe.apply_rope_2d(x, *grid_positions(2, 3, prefix=1))
    np.testing.assert_array_equal(y[..., 0, :], x[..., 0, :])
    assert not np.isclose(y[..., 2:, :], x[..., 2:, :]).all(axis=-1).any()


@pytest.mark.parametrize("args, kwargs, error, words", [
    ((-1, 3), {}, ValueError, "height .*at least 0.*-1"),
    ((1, 3.0), {}, TypeError, "width .*integer.*3.0"),
    ((1, 2, True), {}, TypeError, "axis 2 .*integer.*True"),
    ((1, 2), {"prefix": -1}, ValueError, "prefix .*at least 0.*-1"),
])
def test_bad_input(args, kwargs, error, words):
    with pytest.raises(error, match=words):
        grid_positions(*args, **kwargs)
