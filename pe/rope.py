"""`Rope`: one object that describes a rotary encoding, shared by the ops, the generators and the pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._keywords import explain_keywords
from ._scalars import amount, integer, positive, shown

__all__ = ["Rope", "build_rope_cache"]

MAX_AXES = 8        # coordinates of a position that the C core takes

LAYOUTS = {
    "interleaved": "interleaved", "adjacent": "interleaved",
    "gptj": "interleaved", "traditional": "interleaved",
    "half": "half", "neox": "half", "rotate_half": "half", "split": "half",
}


def canonical_layout(layout: str | None) -> str:
    """Return "interleaved" (also for None) or "half" for a layout's name or alias, or raise."""
    if layout is None:
        return "interleaved"
    if not isinstance(layout, str):
        raise TypeError(f'layout must be a string, "interleaved" (pairs 2l, 2l+1) or "half" (pairs l, l+L); '
                        f"got {shown(layout)} of type {type(layout).__name__}")
    try:
        return LAYOUTS[layout]
    except KeyError:
        raise ValueError(f'layout {shown(layout)} is unknown; expected "interleaved" (also "adjacent", '
                         f'"gptj", "traditional") or "half" (also "neox", "rotate_half", "split")') from None


def checked_freqs(freqs: ArrayLike) -> NDArray[np.float64]:
    """Return angular frequencies as a new (n_axes, L) float64 array, or raise."""
    from ._check.arrays import to_array

    given = to_array("freqs", freqs)
    if given.dtype.type is np.uint16:
        raise TypeError("freqs has dtype uint16; bfloat16 bits? pass freqs.view(ml_dtypes.bfloat16), or "
                        "freqs.astype(np.float64) for numbers")
    if given.dtype.kind not in "iuf":
        raise TypeError(f"freqs must be real numbers; got dtype {given.dtype}")
    if given.ndim not in (1, 2) or given.size == 0:
        raise ValueError(f"freqs must have shape (L,) or (n_axes, L), neither empty; got shape {given.shape}")
    if given.ndim == 2 and len(given) > MAX_AXES:
        raise ValueError(f"freqs has {len(given)} axes of positions (shape {given.shape}); expected at most "
                         f"{MAX_AXES}")
    w = np.array(np.atleast_2d(given), dtype=np.float64, order="C") + 0.0       # + 0.0: no negative zeros
    if not np.isfinite(w).all():
        raise ValueError(f"freqs must be finite; got {w[~np.isfinite(w)][0]}")
    # One axis only: in a table of several axes a row may well start with the zeros of another axis.
    if len(w) == 1 and (np.diff(w[0]) >= 0).all() and w[0, -1] > w[0, 0]:
        raise ValueError(f"freqs rise, from {w[0, 0]:.6g} to {w[0, -1]:.6g}; expected radians per position, "
                         "fastest plane first. Are these periods? pass 1/freqs")
    return w


def geometric_freqs(width: int, base: float = 10000.0) -> NDArray[np.float64]:
    """Return w_l = base^(-2l/width) for the width/2 planes of a rotary encoding."""
    return np.power(base, -np.arange(0, width, 2) / width)


class Rope:
    """A rotary position encoding: which planes of a head turn, and how fast.

    Plane l of a vector at position p turns counter-clockwise by the angle ``p * w_l``: ``(a, b) -> (a cos - b
    sin, a sin + b cos)``. Queries and keys are turned alike, so their product depends on positions only
    through the gap t - s. Without `freqs`, ``w_l = base**(-2 l / rotary_dim)``.

    A Rope is frozen, comparable, hashable, and pickles to equal bytes when equal.

    Parameters
    ----------
    dim : int
        Width D of a head.
    base : float, default 10000.0
        Ratio between the fastest and (nearly) the slowest plane, at least 1.
    freqs : array_like of float, shape (L,) or (n_axes, L), optional
        Angular frequencies in radians per position instead of `base`: L of them for one position axis, a row
        for each axis where a position has several coordinates. Zeros are planes that stand still.
    layout : {"interleaved", "half"}, default "interleaved"
        Which coordinates form plane l: (2l, 2l+1), as in RoFormer and GPT-J, or (l, l+L), as in Hugging Face
        Llama, Qwen and GPT-NeoX. Aliases: "adjacent", "gptj", "traditional"; "neox", "rotate_half", "split".
    rotary_dim : int, optional
        Turn only the first `rotary_dim` coordinates and copy the rest. Default: 2L with `freqs`, else `dim`.
    amplitude : float, default 1.0
        Factor on cos and sin (YaRN's attention factor); scores of two turned vectors gain its square.

    Attributes
    ----------
    dim, layout, rotary_dim, amplitude
        As given, with `layout` under its canonical name.
    freqs : ndarray of float64, shape (n_axes, L), read-only
        Angular frequencies.

    Raises
    ------
    ValueError
        An odd or impossible width, a base below 1, frequencies that rise (periods?) or are not finite.
    TypeError
        A width that is no integer, a layout that is no string, both `base` and `freqs`.

    References
    ----------
    Su, J. et al. (2021). RoFormer: Enhanced Transformer with Rotary Position Embedding. arXiv:2104.09864 (the
    interleaved form and the frequencies); the half layout is that of GPT-NeoX and Hugging Face Llama.

    Examples
    --------
    >>> from pe import Rope
    >>> rope = Rope(16)
    >>> rope.freqs[0].round(4).tolist()
    [1.0, 0.3162, 0.1, 0.0316, 0.01, 0.0032, 0.001, 0.0003]
    >>> rope == Rope(16, layout="adjacent"), rope == Rope(16, layout="half")
    (True, False)
    """

    __slots__ = ("_plan", "amplitude", "dim", "freqs", "layout", "rotary_dim")

    dim: int
    layout: str
    rotary_dim: int
    amplitude: float
    freqs: NDArray[np.float64]
    _plan: tuple[NDArray[np.float64], int, int, float]  # for the C core: freqs, half, blocks, amplitude

    @explain_keywords
    def __init__(self, dim: int, base: float = 10000.0, *, freqs: ArrayLike | None = None,
                 layout: str = "interleaved", rotary_dim: int | None = None, amplitude: float = 1.0) -> None:
        dim = integer("dim", dim, 1)
        layout = canonical_layout(layout)
        amplitude = positive("amplitude", amplitude)
        base = positive("base", base)
        if rotary_dim is not None:
            rotary_dim = _even("rotary_dim", integer("rotary_dim", rotary_dim, 1), dim)
        if freqs is None:
            if base < 1:
                raise ValueError(f"base must be at least 1; got {base}")
            width = _even("dim", dim, dim) if rotary_dim is None else rotary_dim
            w = np.atleast_2d(geometric_freqs(width, base))
        else:
            if base != 10000.0:
                raise TypeError(f"Rope takes base= or freqs=, not both; got base={base:g} and freqs")
            w = checked_freqs(freqs)
            width = 2 * w.shape[1]
            if width > dim:
                raise ValueError(f"freqs has {amount(w.shape[1], 'plane')}, which turn {width} coordinates; "
                                 f"a head of dim={dim} has room for {dim // 2}")
            if rotary_dim not in (None, width):
                given = amount(w.shape[1], "frequency", "frequencies")
                raise ValueError(f"rotary_dim={rotary_dim} does not fit {given}; expected {width} (or leave "
                                 f"it out)")
        w.flags.writeable = False
        fields = {"dim": dim, "layout": layout, "rotary_dim": width, "amplitude": amplitude, "freqs": w,
                  "_plan": (w, int(layout == "half"), 1, amplitude)}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @explain_keywords
    def cache(self, positions: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the tables (cos, sin) of the angles at these positions, amplitude included.

        Parameters
        ----------
        positions : int or array_like of real numbers
            An int n stands for 0, 1, ..., n-1. An array of any shape (...) is taken as it is; with several
            axes its last axis holds the n_axes coordinates of a position.

        Returns
        -------
        cos, sin : ndarray of float64, shape (..., L)
            One entry for each plane. Angles are formed in float64; pass the tables to `pe.apply_rope`.

        Examples
        --------
        >>> from pe import Rope
        >>> cos, sin = Rope(4).cache([0, 1, 2.5])
        >>> cos.shape, sin.round(4).tolist()
        ((3, 2), [[0.0, 0.0], [0.8415, 0.01], [0.5985, 0.025]])
        """
        if isinstance(positions, int | np.integer) and not isinstance(positions, bool):
            positions = np.arange(integer("positions", positions, 0))
        angle = self._angles("positions", positions)
        return self.amplitude * np.cos(angle), self.amplitude * np.sin(angle)

    @explain_keywords
    def apply(self, x: ArrayLike, positions: ArrayLike, *, inverse: bool = False,
              out: Any = None, num_threads: int | None = None) -> np.ndarray:
        """Turn x (..., T, dim) to its positions: ``pe.apply_rope(x, positions=positions, rope=self)``.

        Parameters
        ----------
        x : array_like, shape (..., T, dim)
            Queries or keys.
        positions : array_like, shape (T,), or as many axes as x without its last, each equal to x's or 1
            Where each row stands; with several axes a last axis of n_axes coordinates follows.
        inverse, out, num_threads
            As in `pe.apply_rope`.

        Returns
        -------
        ndarray, shape of x
            The turned vectors, in the dtype of x.

        Examples
        --------
        >>> import numpy as np
        >>> from pe import Rope
        >>> Rope(4).apply(np.array([[1.0, 2.0, 3.0, 4.0]]), [1]).round(6)
        array([[-1.14264 ,  1.922076,  2.959851,  4.0298  ]])
        """
        from .ops import apply_rope

        return apply_rope(x, positions=positions, rope=self, inverse=inverse, out=out,
                          num_threads=num_threads)

    @explain_keywords
    def shift(self, k: ArrayLike, delta: ArrayLike, *, out: Any = None,
              num_threads: int | None = None) -> np.ndarray:
        """Move vectors that are turned already by delta positions, as when a cache drops its oldest keys.

        Turns compose, R(delta) R(p) = R(p + delta), so the unturned keys are not needed. The amplitude is in
        k already and is not applied again.

        Parameters
        ----------
        k : array_like, shape (..., T, dim)
            What `apply` returned. In 16 bits every move rounds once more; move far rather than often.
        delta : float, or array_like (n_axes,) with several axes
            How far all rows move; negative is back. Or a move for each row, in a shape that `apply` takes as
            positions.
        out, num_threads
            As in `pe.apply_rope`; ``out=k`` moves in place.

        Returns
        -------
        ndarray, shape of k
            The keys at their new positions, in the dtype of k.

        Examples
        --------
        >>> import numpy as np
        >>> from pe import Rope
        >>> rope, k = Rope(4), np.ones((3, 4))
        >>> cache = rope.apply(k, [10, 11, 12])
        >>> bool(np.allclose(rope.shift(cache, -10), rope.apply(k, [0, 1, 2])))
        True
        """
        from ._check.arrays import values
        from ._check.positions import numbers, per_row
        from .ops import apply_rope

        keys, moves = values("k", k), numbers("delta", delta)
        if not keys.ndim:
            raise ValueError(f"k is a single number; expected shape (..., T, {self.dim})")
        n_axes = len(self.freqs)
        tail = (n_axes,) if n_axes > 1 else ()
        if tail and moves.ndim == 0:
            raise ValueError(f"delta is {moves}; a rope with {n_axes} axes moves by ({n_axes},), "
                             f"a number for each")
        if moves.shape == tail:                                 # one move for every row
            rows = keys.shape[-2] if keys.ndim > 1 else 1
            moves = np.broadcast_to(moves, (*[1] * (keys.ndim - 2), rows, *tail))
        per_row("delta", moves, "k", keys.shape[:-1], n_axes)
        turn = self if self.amplitude == 1 else Rope(self.dim, freqs=self.freqs, layout=self.layout)
        return apply_rope(keys, positions=moves, rope=turn, out=out, num_threads=num_threads)

    @explain_keywords
    def matrix(self, position: ArrayLike) -> NDArray[np.float64]:
        """Return the block matrix R(p w) that `apply` multiplies a column vector with at position p.

        Parameters
        ----------
        position : float, or array_like of shape (...) ((..., n_axes) with several axes)
            One position, or many for a stack of matrices. A number is a position here, never a count.

        Returns
        -------
        ndarray of float64, shape (..., dim, dim)
            cos and sin (times the amplitude) in the planes, 1 on the diagonal where nothing turns.

        Examples
        --------
        >>> import numpy as np
        >>> from pe import Rope
        >>> rope = Rope(4)
        >>> rope.matrix(1).round(2)
        array([[ 0.54, -0.84,  0.  ,  0.  ],
               [ 0.84,  0.54,  0.  ,  0.  ],
               [ 0.  ,  0.  ,  1.  , -0.01],
               [ 0.  ,  0.  ,  0.01,  1.  ]])
        >>> bool(np.allclose(rope.matrix(2) @ rope.matrix(3), rope.matrix(5)))
        True

        References
        ----------
        Su et al., RoFormer (2021), arXiv:2104.09864, equation 15.
        """
        angle = self._angles("position", position)
        first, second = self._pairs()
        matrix = np.zeros((*angle.shape[:-1], self.dim, self.dim))
        matrix[..., range(self.dim), range(self.dim)] = 1.0
        matrix[..., first, first] = matrix[..., second, second] = self.amplitude * np.cos(angle)
        matrix[..., second, first] = self.amplitude * np.sin(angle)
        matrix[..., first, second] = -matrix[..., second, first]
        return matrix

    def generator(self) -> NDArray[np.float64]:
        """Return X with score = q^T exp((t - s) X) k: the block -w_l J in plane l, J = [[0, -1], [1, 0]].

        The minus comes from turning queries and keys alike, since R(t w)^T R(s w) = R(-(t - s) w). The
        amplitude has no part in it.

        Returns
        -------
        ndarray of float64, shape (dim, dim), or (n_axes, dim, dim) with several axes
            Skew-symmetric; the matrices of several axes commute.

        Examples
        --------
        >>> from pe import Rope
        >>> Rope(2).generator().tolist()
        [[0.0, 1.0], [-1.0, 0.0]]
        """
        first, second = self._pairs()
        x = np.zeros((len(self.freqs), self.dim, self.dim))
        x[:, first, second] = self.freqs
        x[:, second, first] = 0.0 - self.freqs
        return x[0] if len(x) == 1 else x

    @property
    def wavelengths(self) -> NDArray[np.float64]:
        """Positions per full turn of each plane, 2 pi / w_l, (n_axes, L); inf where a plane stands still.

        Examples
        --------
        >>> from pe import Rope
        >>> Rope(16).wavelengths[0].round(1).tolist()
        [6.3, 19.9, 62.8, 198.7, 628.3, 1986.9, 6283.2, 19869.2]
        """
        with np.errstate(divide="ignore"):
            return 2 * math.pi / np.abs(self.freqs)

    def _angles(self, name: str, positions: ArrayLike) -> NDArray[np.float64]:
        from ._check.positions import numbers

        p = numbers(name, positions).astype(np.float64)
        n_axes = len(self.freqs)
        if n_axes == 1:
            return p[..., None] * self.freqs[0]
        if p.ndim == 0 or p.shape[-1] != n_axes:
            raise ValueError(f"{name} must have shape (..., {n_axes}), one coordinate for each axis of "
                             f"freqs; got shape {p.shape}")
        return p @ self.freqs

    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the first and the second coordinate of every plane."""
        plane = np.arange(self.rotary_dim // 2)
        return (plane, plane + len(plane)) if self.layout == "half" else (2 * plane, 2 * plane + 1)

    def _key(self) -> tuple[int, str, float, int, bytes]:
        return self.dim, self.layout, self.amplitude, len(self.freqs), self.freqs.tobytes()

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Rope) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, self._key()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Rope is frozen: cannot set {name}; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Rope is frozen: cannot delete {name}")

    def __repr__(self) -> str:
        turns = [np.array2string(row, threshold=6, edgeitems=3, separator=", ", max_line_width=10000,
                                 formatter={"float_kind": "{:.4g}".format}) for row in self.wavelengths]
        part = "" if self.rotary_dim == self.dim else f", rotary_dim={self.rotary_dim}"
        gain = "" if self.amplitude == 1 else f", amplitude={self.amplitude:g}"
        return f"Rope({self.dim}, layout={self.layout!r}{part}{gain}, wavelengths={', '.join(turns)})"


@explain_keywords
def build_rope_cache(seq_len: int, head_dim: int, base: float = 10000.0
                     ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the tables (cos, sin) for positions 0..seq_len-1, as RoPE tutorials build them.

    Parameters
    ----------
    seq_len : int
        Number T of positions.
    head_dim : int
        Width D of a head, even.
    base : float, default 10000.0
        Frequencies are ``base**(-2 l / head_dim)``.

    Returns
    -------
    cos, sin : ndarray of float64, shape (T, D/2)
        For ``pe.apply_rope(x, cos, sin)`` with x (..., T, D). They are float64 so that late rows are right;
        they do not change the dtype of the result.

    Raises
    ------
    ValueError
        seq_len below 0, or head_dim odd.

    References
    ----------
    The Dog, the Man, and the Clock, "RoPE in code"; its own table is float32.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> x = np.random.default_rng(0).normal(size=(1, 2, 6, 8))
    >>> y = pe.apply_rope(x, *pe.build_rope_cache(6, 8))
    >>> bool(np.allclose(y, pe.apply_rope(x, positions=np.arange(6))))
    True
    """
    width, rows = integer("head_dim", head_dim, 1), integer("seq_len", seq_len, 0)
    if width % 2:
        raise ValueError(f"head_dim must be even, planes are pairs of coordinates; got {width}")
    return Rope(width, base).cache(rows)


def _restore(dim: int, layout: str, amplitude: float, n_axes: int, freqs: bytes) -> Rope:
    table = np.frombuffer(freqs).reshape(n_axes, -1)
    return Rope(dim, freqs=table, layout=layout, amplitude=amplitude)


def _even(name: str, width: int, dim: int) -> int:
    if width % 2:
        hint = f"; rotary_dim={width - 1} turns all but the last" if name == "dim" and width > 1 else ""
        raise ValueError(f"{name} must be even, planes are pairs of coordinates; got {shown(width)}{hint}")
    if width > dim:
        raise ValueError(f"{name} must be at most dim={shown(dim)}; got {shown(width)}")
    return width
