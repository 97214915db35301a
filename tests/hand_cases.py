"""What tests of cases worked out by hand share: values, and how near a result must come to what is wanted."""

import ml_dtypes
import numpy as np

import pe

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]
DTYPES = [np.dtype(np.float16), BF16, *FLOATS]
REACH = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2e-6, "float64": 1e-12}


def normal(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def near(actual, wanted, digits=0.0):
    """Equal to within the rounding of the dtype and of the digits that wanted is written with."""
    reach = REACH[actual.dtype.name]
    np.testing.assert_allclose(actual.astype(float), wanted, rtol=reach, atol=reach / 8 + digits)


def attend(v, *, queries=None, dtype=np.float64, **keywords):
    """Attention of queries of zeros, to which all keys are alike, to values of width 1."""
    v = np.asarray(v, dtype)[:, None]
    q, k = np.zeros((len(v) if queries is None else queries, 1), dtype), np.zeros((len(v), 1), dtype)
    return pe.attention(q, k, v, **keywords)[:, 0]
