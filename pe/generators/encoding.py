"""encoding: from a generator to the query map F, the key map G and the score they give."""

from __future__ import annotations

import math
import warnings

import numpy as np

from .._shapes import broadcast
from ._matrix import as_generator
from .transport import CHUNK, DEPENDENT, Carrier, _as_numbers


class Encoding:
    """Query map F(t) = exp((t - c) X^T), key map G(s) = exp(-(s - c) X), and the score q^T exp((t - s) X) k.

    Made by `encoding`; holds the generator X and the origin c.
    """

    def __init__(self, generator: np.ndarray, origin: float):
        self.generator = generator
        self.origin = origin
        self._carrier = Carrier(generator, float(np.finfo(np.float64).eps))

    def __reduce__(self):
        return Encoding, (self.generator, self.origin)

    def query_map(self, t) -> np.ndarray:
        """F(t), shape t.shape + (n, n)."""
        self._warn()
        return np.swapaxes(self._carrier.matrices(_as_numbers(t, "t") - self.origin), -1, -2)

    def key_map(self, s) -> np.ndarray:
        """G(s), shape s.shape + (n, n)."""
        self._warn()
        return self._carrier.matrices(self.origin - _as_numbers(s, "s"))

    def score(self, q, k, t, s) -> np.ndarray:
        """q^T exp((t - s) X) k, from the gap alone.

        Parameters
        ----------
        q, k : array_like, shape (..., n)
            Contents of query and key.
        t, s : array_like
            Positions; broadcast against the leading axes of q and k.

        Returns
        -------
        ndarray of float64

        Notes
        -----
        In the coordinates of the blocks a score costs a few products for each coordinate, and a distinct gap
        n exponentials, sines and cosines: 1000 tokens have a million pairs and 1999 gaps.
        """
        self._warn()
        n = len(self.generator)
        q, k = np.asarray(q, dtype=np.float64), np.asarray(k, dtype=np.float64)
        for name, content in (("q", q), ("k", k)):
            if content.ndim == 0 or content.shape[-1] != n:
                raise ValueError(f"{name} has shape {content.shape}; expected (..., {n}) for this generator")
        gap = np.asarray(_as_numbers(t, "t") - _as_numbers(s, "s"))
        shape = broadcast(gap.shape, q.shape[:-1], k.shape[:-1])
        gaps, which = np.unique(np.broadcast_to(gap, shape), return_inverse=True)
        which = which.ravel()
        order = np.argsort(which, kind="stable")
        query_of, key_of = _rows_of(q, shape), _rows_of(k, shape)
        q = self._carrier.covectors(q).reshape(math.prod(q.shape[:-1]), n)
        k = self._carrier.into(k).reshape(math.prod(k.shape[:-1]), n)
        out = np.zeros(len(which))
        step = max(1, CHUNK // max(1, n))
        for first in range(0, len(order), step):
            pairs = order[first : first + step]
            near, far = which[pairs[0]], which[pairs[-1]] + 1
            own = q[query_of[pairs]], k[key_of[pairs]]
            out[pairs] = self._carrier.scores(gaps[near:far], which[pairs] - near, *own)
        return out.reshape(shape)

    def _warn(self):
        if not self._carrier.certain:
            warnings.warn(DEPENDENT, RuntimeWarning, stacklevel=3)

    def reach(self, dtype=np.float64) -> float:
        """How far from the origin the factored form stays finite in this dtype; inf if nothing fades.

        A fading key is written down *larger* by e^(gamma s), because the query will shrink it by e^(-gamma
        t): with gamma = 0.1 float32 is full after 887 positions, float64 after 7098. That is why
        `pe.attention` applies fades and slides to the scores, where only the gap enters, and never to queries
        and keys.
        """
        rate = float(np.max(np.abs(np.linalg.eigvals(self.generator).real), initial=0.0))
        floor = 1e-12 * float(np.linalg.norm(self.generator, 2)) if self.generator.size else 0.0
        return float(np.log(float(np.finfo(dtype).max)) / rate) if rate > floor else np.inf

    def __repr__(self) -> str:
        return f"Encoding(n={len(self.generator)}, origin={self.origin:g})"


def _rows_of(contents, shape):
    """Which row of `contents`, flattened, each entry of the broadcast shape sees."""
    own = contents.shape[:-1]
    rows = np.arange(math.prod(own)).reshape(own)
    return np.broadcast_to(rows, shape).ravel()


def encoding(X, *, origin: float = 0) -> Encoding:
    """Split the transport exp((t - s) X) into a map of the query and a map of the key.

    The query sees only t and the key only s, and yet
    (F(t) q) . (G(s) k) = q^T exp((t - s) X) k, for any X: G is the inverse transpose of F.

    Parameters
    ----------
    X : array_like, shape (n, n)
        Real generator.
    origin : float, default 0
        The position c from which both maps are counted. It drops out of the score and decides what overflows.

    Returns
    -------
    Encoding
        With methods query_map(t), key_map(s), score(q, k, t, s) and reach(dtype).

    Raises
    ------
    ValueError, TypeError
        X is not one square, finite, real matrix, or origin is not a finite number.

    Notes
    -----
    A fade generator *multiplies* the logit by e^(-gamma u): that is retention. `pe.decay_bias` and
    `decay_rate` in `pe.attention` *add* -rate u to it, which is a slide with slope = rate. "Fade" names three
    operators; the third damps the rotated planes themselves, which forgets nothing where a score is negative.

    A score is not monotone in the gap just because it is relative: eight planes of RoPE (d = 16) score 5.543
    at gap 3 and 5.892 at gap 7.

    Examples
    --------
    ALiBi is the slide in two spare coordinates, (-slope, 0) of the query and (0, 1) of the key:

    >>> slide = encoding([[0, 1], [0, 0]])
    >>> slide.score([-0.5, 0], [0, 1], t=[5, 7, 100], s=[5, 4, 0])
    array([  0. ,  -1.5, -50. ])

    Some texts write +m(t - s), which is a penalty only for negative m; here a slope is the penalty.

    References
    ----------
    The Dog, the Man, and the Clock, sections "Where the fix has to live" and "Defective".
    Zhang et al., GRAPE (arXiv:2512.07805).
    """
    matrix, _ = as_generator(X)
    if isinstance(origin, bool) or not isinstance(origin, (int, float, np.integer, np.floating)):
        raise TypeError(f"origin is {origin!r}; expected a number")
    if not np.isfinite(origin):
        raise ValueError(f"origin is {origin!r}; expected a finite number")
    return Encoding(matrix, float(origin))
