"""Interactive figures: one small ES module each, at home in a notebook, in an exported page and on a disk.

`generator` is the figure of the whole argument: change a 2 x 2 X and watch exp(uX) turn, fade, slide or
explode.
`page` puts figures, text and tables on one self-contained page.
"""

from __future__ import annotations

import numpy as np

from pe import plot
from pe.explore.explorer import Explorer
from pe.explore.host import page
from pe.plot import data, style

__all__ = ["Explorer", "generator", "page"]


def generator(preset="turn", *, X=None, u=None):
    """Open the generator figure: X, the flow of x' = Xx, and A(u) = exp(uX).

    Parameters
    ----------
    preset : str or array_like, shape (2, 2)
        The behaviour to open on, ignored when `X` is given: "turn", "fade", "slide", "turn+fade", "nothing",
        "explode", "fading slide" or "saddle"; or `X` itself, by place.
    X : array_like, shape (2, 2), optional
        A generator of your own, entries in [-2, 2].
    u : float, optional
        The gap, in [0, 20]. Default: the one that suits the preset, or 1 for your own `X`.

    Returns
    -------
    Explorer

    Raises
    ------
    ValueError
        If the preset is unknown, or X or u lies outside the range of its slider.

    Notes
    -----
    The picture is that of the essay this tour follows (The Dog, the Man, and the Clock): a turn by +u.
    The score of `pe.apply_rope` carries its mirror image, ``pe.Rope.generator()``, of the same class.

    Examples
    --------
    >>> import pe
    >>> print(pe.explore.generator("slide").describe())
    slide (ALiBi): X = [[0, 1], [0, 0]], eigenvalues 0.0000, twice; at u = 1.2, x(u) = (2.2000, 1.0000).
    >>> pe.explore.generator([[-0.1, 1], [0, -0.1]], u=10).data().name
    'fading slide'
    """
    if X is None and preset is not None and not isinstance(preset, str):
        preset, X = "turn", preset
    if not isinstance(preset, str) or preset not in data.PRESETS:
        raise ValueError(f"preset must be one of {', '.join(map(repr, data.PRESETS))}, got {preset!r}")
    *entries, gap = data.PRESETS[preset]
    if X is not None:
        given = np.asarray(X, dtype=np.float64)
        if given.shape != (2, 2):
            raise ValueError(f"X must have shape (2, 2), got {given.shape}")
        entries, gap = [v + 0.0 for v in given.ravel().tolist()], 1.0
    if u is not None:
        gap = float(u)
    limits = dict.fromkeys("abcd", data.LIMITS["entry"]) | {"u": data.LIMITS["u"]}
    state = dict(zip(limits, [*entries, gap], strict=True))
    for name, (low, high, _) in limits.items():
        if not low <= state[name] <= high:
            where = "u" if name == "u" else f"entry {name} of X = [[a, b], [c, d]]"
            raise ValueError(f"{where} must lie in [{low:g}, {high:g}], got {state[name]}")
    config = {"presets": data.PRESETS, "kinds": data.KINDS, "limits": limits, "dash": style.DASH}
    return Explorer("generator", state, config, title="The generator", data=_data, static=_static,
                    describe=_describe)


def _matrix(state):
    return [[state["a"], state["b"]], [state["c"], state["d"]]]


def _data(state):
    return data.generator(_matrix(state), state["u"])


def _static(state, **kwargs):
    return plot.generator(_matrix(state), state["u"], **kwargs)


def _describe(shown):
    numbers, ((a, b), (c, d)) = shown.numbers(), shown.X.tolist()
    return (f"{shown.name} ({shown.words['model']}): X = [[{a:g}, {b:g}], [{c:g}, {d:g}]], eigenvalues "
            f"{numbers['eigenvalues'][1]}; at u = {shown.u:g}, x(u) = {numbers['x'][1]}.")
