"""`Rope`: one object that describes a rotary encoding, shared by the ops, the generators and the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .. import _core
from .._keywords import explain_keywords
from .._scalars import amount, integer, positive, shown
from .._shapes import refuse_too_many_axes
from .description import Description, fill
from .frequencies import checked_freqs, geometric_freqs
from .layouts import canonical_layout
from .provenance import Provenance

if TYPE_CHECKING:
    from ..scaling import Scaling
    from .explain import Explanation

_Tables: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]


class Rope(Description):
    """A rotary position encoding: which planes of a head turn, and how fast.

    Plane l of a vector at position p turns counter-clockwise by the angle ``p * w_l``: ``(a, b) -> (a cos - b
    sin, a sin + b cos)``. Queries and keys are turned alike, so their product depends on positions only
    through the gap t - s. Without `freqs`, ``w_l = base**(-2 l / rotary_dim)``.

    A Rope is frozen, comparable and hashable by what it does, not by how it was described. Pickles keep both,
    and are equal bytes for equal descriptions.

    Parameters
    ----------
    dim : int
        Width D of a head.
    base : float, default 10000.0
        Ratio between the fastest and (nearly) the slowest plane, at least 1. A second number is this base and
        no count of positions, of which any will do: ``Rope(64, 2048)`` has the base 2048.
    freqs : array_like of float, shape (L,) or (n_axes, L), optional
        Angular frequencies in radians per position instead of `base`: L of them for one position axis, a row
        for each axis where a position has several coordinates. Zeros are planes that stand still.
    layout : {"interleaved", "half"}, default "interleaved"
        Which coordinates form plane l: (2l, 2l+1), as in RoFormer and GPT-J, or (l, l+L), as in Hugging Face
        Llama, Qwen and GPT-NeoX. Aliases: "adjacent", "gptj", "traditional"; "neox", "rotate_half", "split".
    rotary_dim : int, optional
        Turn only this many coordinates and copy the rest. Default: 2L with `freqs`, else all from
        `rotary_offset` on.
    rotary_offset : int, default 0
        The first coordinate that turns, behind those that are copied (DeepSeek turns the tail of a head).
    scaling : pe.scaling.Scaling, optional
        A context extension such as ``pe.scaling.yarn(4.0, 32768)``: it changes the frequencies, and brings
        factors for `amplitude` and `softmax_scale`.
    amplitude : float, default 1.0
        Factor on cos and sin (YaRN's attention factor); scores of two turned vectors gain its square.
    softmax_scale : float, default 1.0
        Factor on the default scale of `pe.attention`, where this is its ``rope=``.

    Attributes
    ----------
    dim, layout, rotary_dim, rotary_offset, base, scaling
        As given, with `layout` under its canonical name; `base` is None where frequencies were given.
    amplitude, softmax_scale
        As given, times those of the scaling.
    freqs : ndarray of float64, shape (n_axes, L), read-only
        Angular frequencies.
    unscaled : ndarray of float64, shape (n_axes, L), read-only
        What they were before the scaling.

    Raises
    ------
    ValueError
        An odd or impossible width, a base below 1, frequencies that rise (periods?) or are not finite.
    TypeError
        A width that is no integer, a layout that is no string, both `base` and `freqs`, a scaling that is not
        of `pe.scaling` or needs a base where frequencies are given.

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

    @explain_keywords
    def __init__(self, dim: int, base: float = 10000.0, *, freqs: ArrayLike | None = None,
                 layout: str = "interleaved", rotary_dim: int | None = None, rotary_offset: int = 0,
                 scaling: Scaling | None = None, amplitude: float = 1.0, softmax_scale: float = 1.0) -> None:
        dim = integer("dim", dim, 1)
        layout = canonical_layout(layout)
        amplitude, softmax_scale = positive("amplitude", amplitude), positive("softmax_scale", softmax_scale)
        base = positive("base", base)
        offset = integer("rotary_offset", rotary_offset, 0)
        if offset and offset > dim - 2:
            raise ValueError(f"rotary_offset must be at most {max(dim - 2, 0)}, as a plane takes 2 of "
                             f"dim={dim} coordinates; got {offset}")
        if rotary_dim is not None:
            rotary_dim = _even("rotary_dim", integer("rotary_dim", rotary_dim, 1), dim, offset)
        if freqs is None:
            if base < 1:
                raise ValueError(f"base must be at least 1; got {base}")
            width = _even("dim", dim - offset, dim, offset) if rotary_dim is None else rotary_dim
            w = np.atleast_2d(geometric_freqs(width, base))
        else:
            if base != 10000.0:
                raise TypeError(f"Rope takes base= or freqs=, not both; got base={base:g} and freqs")
            w = checked_freqs(freqs)
            width = 2 * w.shape[1]
            if width > dim - offset:
                raise ValueError(f"freqs has {amount(w.shape[1], 'plane')}, which turn {width} coordinates; "
                                 f"a head of dim={dim} has room for {(dim - offset) // 2}"
                                 f"{f' from rotary_offset={offset} on' if offset else ''}")
            if rotary_dim not in (None, width):
                given = amount(w.shape[1], "frequency", "frequencies")
                raise ValueError(f"rotary_dim={rotary_dim} does not fit {given}; expected {width} (or leave "
                                 f"it out)")
        # the default encoding has one description, whichever way it was spelt
        known = base if freqs is None or np.array_equal(w, [geometric_freqs(width)]) else None
        scaled = w
        if scaling is not None:
            scaled = _scaled(scaling, w, known)
            amplitude, softmax_scale = amplitude * scaling.amplitude, softmax_scale * scaling.softmax_scale
        fill(self, dim=dim, layout=layout, rotary_offset=offset, amplitude=amplitude,
             softmax_scale=softmax_scale, freqs=scaled, unscaled=w, base=known, scaling=scaling)

    @classmethod
    @explain_keywords
    def from_hf(cls, config: Any, *, layer_type: str | None = None, layout: str | None = None,
                seq_len: int | None = None) -> Rope:
        """Return the Rope of a Hugging Face config.json, every key of its rope accounted for.

        Parameters
        ----------
        config : dict or object with to_dict()
            With `rope_scaling` and `rope_theta` (old) or `rope_parameters` (new); of a multimodal config the
            `text_config` is read, and a `vision_config` is a config of its own. What it leaves out is filled
            in as the model's configuration class does.
        layer_type : str, optional
            Which of the ropes, where types of layers differ ("full_attention", "sliding_attention").
        layout : {"half", "interleaved"}, optional
            Needed where `model_type` is not in the table of models, and beats the table where it is.
        seq_len : int, optional
            The length to serve, which "dynamic" and "longrope" choose their frequencies by. Default: within
            the context of training. It is chosen once: cached keys keep the frequencies they were turned by.

        Returns
        -------
        Rope
            With scaling, amplitude, softmax_scale, rotary_offset, and several axes for M-RoPE (t, h, w).

        Raises
        ------
        ValueError
            A key that is unknown, misspelt, missing or of no meaning to the rope type; an impossible value; a
            model whose layout is not known; layer types that differ where none is named.
        TypeError
            A config that is no dict, a string where a number belongs.

        References
        ----------
        Hugging Face transformers 5.24: modeling_rope_utils.py, and models/ for what configs leave out.

        Examples
        --------
        >>> from pe import Rope
        >>> qwen = {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1e6,
        ...         "max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0}}
        >>> rope = Rope.from_hf(qwen)
        >>> rope.layout, rope.scaling
        ('half', yarn(factor=4.0, original_max_position_embeddings=32768))
        """
        from .huggingface import read

        return read(config, layer_type, layout, seq_len)

    @explain_keywords
    def cache(self, positions: ArrayLike) -> _Tables:
        """Return the tables (cos, sin) of the angles at these positions, amplitude included.

        Parameters
        ----------
        positions : int or array_like of real numbers
            An int n stands for 0, 1, ..., n-1. An array of any shape (...) is taken as it is; with several
            axes its last axis holds the n_axes coordinates of a position.

        Returns
        -------
        cos, sin : ndarray of float64, shape (..., L)
            One entry for each plane, as exact as `apply` is at any position; pass them to `pe.apply_rope`.

        Examples
        --------
        >>> from pe import Rope
        >>> cos, sin = Rope(4).cache([0, 1, 2.5])
        >>> cos.shape, sin.round(4).tolist()
        ((3, 2), [[0.0, 0.0], [0.8415, 0.01], [0.5985, 0.025]])
        """
        tables = _core.rope_tables(positions, self._plan, False)
        if tables is not NotImplemented:
            return cast(_Tables, tables)
        if isinstance(positions, int | np.integer) and not isinstance(positions, bool):
            positions = np.arange(integer("positions", positions, 0))
        return self._tables("positions", positions)

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
        from ..ops import apply_rope

        if self is None:                # which apply_rope would take for the default rope
            raise TypeError("Rope.apply is called on None; call it on a rope, such as "
                            "pe.Rope(x.shape[-1]).apply(x, positions)")
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
        if (type(k) is np.ndarray and k.ndim and k.shape[-1] == self.dim and len(self.freqs) == 1
                and isinstance(delta, int | float) and type(delta) is not bool and -2**53 <= delta <= 2**53):
            move = np.array(delta, np.float64, ndmin=k.ndim - 1 or 1)
            move = np.repeat(move, len(k)) if k.ndim == 2 else move     # (1,) would not stand for many rows
            plan = *self._plan[:3], 1.0, self._plan[4]
            result = _core.apply_rope(k, (move,), plan, False, out, num_threads)
            if result is not NotImplemented:
                return cast(np.ndarray, result)
        from .._check.arrays import values
        from .._check.positions import numbers, per_row
        from ..ops import apply_rope

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
        turn = self if self.amplitude == 1 else Rope(self.dim, freqs=self.freqs, layout=self.layout,
                                                     rotary_offset=self.rotary_offset)
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
        cos, sin = self._tables("position", position)
        first, second = self._pairs()
        matrix = np.zeros((*cos.shape[:-1], self.dim, self.dim))
        matrix[..., range(self.dim), range(self.dim)] = 1.0
        matrix[..., first, first] = matrix[..., second, second] = cos
        matrix[..., second, first] = sin
        matrix[..., first, second] = -sin
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

    @explain_keywords
    def explain(self, context: float | None = None) -> Explanation:
        """Return a table: the wavelength of each plane, its turns in a context, what the scaling did to it.

        Parameters
        ----------
        context : float, optional
            Positions to count turns in. Default: what the scaling is meant for, if it tells.

        Returns
        -------
        Explanation
            To print, or to read: ``.planes``, with a divisor each, and ``.incomplete``, those that never
            complete a turn.

        Raises
        ------
        ValueError
            A context of 0 or below.

        Examples
        --------
        >>> import pe
        >>> print(pe.Rope(4, scaling=pe.scaling.linear(4)).explain(100))            # doctest: +ELLIPSIS
        Rope(4, layout='interleaved', scaling=linear(factor=4.0), wavelengths=[25.13, 2513])
        w_l = base^(-2l/4), base 10000, linear(factor=4.0); Chen et al. (2023), ...
        plane    wavelength  turns in 100  scaling
            0       25.1327       3.97887  divided by 4
            1       2513.27     0.0397887  divided by 4
        1 plane of 2 never completes a turn in 100 positions
        planes 0-1 divided
        """
        from .explain import explain

        return explain(self, None if context is None else positive("context", context))

    @explain_keywords
    def error_bound(self, position: ArrayLike, dtype: DTypeLike) -> np.float64 | NDArray[np.float64]:
        """Bound the error of a turned coordinate, for a plane whose vector has length 1.

        The angle is a product of float64 numbers kept to 106 bits, so in float32 and below a far position
        costs nothing. What grows is the rounding of the frequencies: float64 numbers miss the published
        formula by parts in 2^51, times the angle. Frequencies given as `freqs`, without a scaling, are taken
        as exact.

        Parameters
        ----------
        position : float, or array_like of shape (...) ((..., n_axes) with several axes)
            Where the vector stands.
        dtype : dtype
            float16, bfloat16, float32 or float64, the dtype of the vector.

        Returns
        -------
        float64, or ndarray of float64
            Of `pe.apply_rope` with positions, or with tables of `cache`.

        Raises
        ------
        TypeError
            Another dtype.

        Examples
        --------
        >>> from pe import Rope
        >>> [f"{Rope(128).error_bound(2**24, dtype):.1e}" for dtype in ("float64", "float32", "float16")]
        ['7.5e-09', '4.2e-07', '4.9e-04']
        """
        from .accuracy import error_bound

        return error_bound(self, position, dtype)

    def _tables(self, name: str, positions: ArrayLike) -> _Tables:
        from .._check.positions import numbers
        from ..ops._plain import run

        p, n_axes = numbers(name, positions), len(self.freqs)
        if n_axes > 1 and (p.ndim == 0 or p.shape[-1] != n_axes):
            raise ValueError(f"{name} must have shape (..., {n_axes}), one coordinate for each axis of "
                             f"freqs; got shape {p.shape}")
        refuse_too_many_axes(name, p.ndim - (n_axes > 1), 1)
        return cast(_Tables, run(_core.rope_tables, (p, self._plan, False)))

    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the first and the second coordinate of every plane."""
        plane, at = np.arange(self.rotary_dim // 2), self.rotary_offset
        pairs = (plane, plane + len(plane)) if self.layout == "half" else (2 * plane, 2 * plane + 1)
        return at + pairs[0], at + pairs[1]


def described(dim: int, freqs: NDArray[np.float64], *, layout: str, rotary_offset: int = 0,
              amplitude: float = 1.0, softmax_scale: float = 1.0, unscaled: NDArray[np.float64] | None = None,
              base: float | None = None, scaling: Scaling | None = None,
              origin: Provenance | None = None) -> Rope:
    """Return a Rope of ready frequencies that tells how they came about, as readers of configs make them."""
    plain = Rope(dim, freqs=freqs, layout=layout, rotary_offset=rotary_offset, amplitude=amplitude,
                 softmax_scale=softmax_scale)
    before = plain.freqs if unscaled is None else np.array(np.atleast_2d(unscaled), np.float64)
    fill(plain, dim=dim, layout=plain.layout, rotary_offset=rotary_offset, amplitude=plain.amplitude,
         softmax_scale=plain.softmax_scale, freqs=plain.freqs, unscaled=before, base=base, scaling=scaling,
         origin=origin)
    return plain


def _scaled(scaling: Any, w: NDArray[np.float64], base: float | None) -> NDArray[np.float64]:
    from ..scaling import Scaling

    if not isinstance(scaling, Scaling):
        hint = "; a dict of Hugging Face goes to pe.Rope.from_hf" if isinstance(scaling, dict) else ""
        hint = "; call it with its parameters" if isinstance(scaling, type) else hint
        raise TypeError(f"scaling must be one of pe.scaling, such as pe.scaling.yarn(4.0, 32768); got "
                        f"{shown(scaling)} of type {type(scaling).__name__}{hint}")
    if base is None and scaling.needs_base:
        raise TypeError(f"scaling={type(scaling).__name__} works on a base; got freqs=, which have none")
    return scaling.scale(w, base)


def _even(name: str, width: int, dim: int, offset: int) -> int:
    if width % 2:
        hint = f"; rotary_dim={width - 1} turns all but the last" if name == "dim" and width > 1 else ""
        name += f" less rotary_offset={offset}" if name == "dim" and offset else ""
        raise ValueError(f"{name} must be even, planes are pairs of coordinates; got {shown(width)}{hint}")
    if not 0 < width <= dim - offset:
        room = f"dim={shown(dim)}" if not offset else f"{dim - offset}, dim={dim} less rotary_offset={offset}"
        raise ValueError(f"{name} must be at most {room}; got {shown(width)}")
    return width
