"""What the generator figure draws and prints, as pure functions of a 2 x 2 matrix X and a gap u.

The browser module `pe/explore/matrix.js` holds the same arithmetic; both hosts of the figure print what
stands here. Entries are read as the decimals a reader would type (the shortest ones that give the float), so
the class is decided in rational arithmetic and no tolerance is involved: 0.1 means one tenth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pe._scalars import shown
from pe.plot.data.gaps import finite
from pe.plot.data.printed import decimals

__all__ = ["KINDS", "LIMITS", "PRESETS", "START", "GeneratorData", "behaviour", "directions", "eigenvalues",
           "generator", "invariants", "transport_2x2"]

#: Ranges of the entries of X and of the gap u in the figure, and the steps of their sliders.
LIMITS = {"entry": (-2.0, 2.0, 0.05), "u": (0.0, 20.0, 0.1)}

#: Where the marked solution of x' = Xx starts: the far corner of the unit square.
START = (1.0, 1.0)

#: name: (a, b, c, d, u). Six are the rows of the table in source document 1, The Dog, the Man, and the Clock;
#: two are in none: a defective X that is not ALiBi, and a saddle.
PRESETS = {
    "turn": (0.0, -1.0, 1.0, 0.0, 0.8),
    "fade": (-0.1, 0.0, 0.0, -0.3, 5.0),
    "slide": (0.0, 1.0, 0.0, 0.0, 1.2),
    "turn+fade": (-0.1, -0.5, 0.5, -0.1, 3.0),
    "nothing": (0.0, 0.0, 0.0, 0.0, 5.0),
    "explode": (0.1, -0.5, 0.5, 0.1, 3.0),
    "fading slide": (-0.1, 1.0, 0.0, -0.1, 1.5),
    "saddle": (1.0, 0.0, 0.0, -1.0, 0.7),
}

#: class: name in coloured parts, its name in models, a title that holds for every X of the class, a notice.
KINDS = {
    "turn": {
        "name": [["turn", "turn"]], "accent": "turn", "model": "RoPE",
        "title": "A turn goes round for ever and loses nothing",
        "notice": "Real part 0: nothing is forgotten. The imaginary part sets the rhythm, and one period "
                  "brings the square home.",
    },
    "fade": {
        "name": [["fade", "fade"]], "accent": "fade", "model": "decay",
        "title": "A fade lets go of the past at a steady rate",
        "notice": "A negative real part is a rate of forgetting: one half-life later, half is left.",
    },
    "slide": {
        "name": [["slide", "slide"]], "accent": "slide", "model": "ALiBi",
        "title": "A slide drifts at a constant speed",
        "notice": "Both eigenvalues sit at 0, just as for nothing. Trace and determinant cannot tell the two "
                  "apart; the number of eigen-directions can.",
    },
    "turn+fade": {
        "name": [["turn", "turn"], ["+", "muted"], ["fade", "fade"]], "accent": "turn",
        "model": "damped RoPE",
        "title": "A turn that fades spirals in",
        "notice": "The real part is fate, the imaginary part is rhythm: half is gone after a half-life, and "
                  "once a period it comes round.",
    },
    "nothing": {
        "name": [["nothing", "muted"]], "accent": "nothing", "model": "NoPE",
        "title": "Nothing moves, so the gap leaves no mark",
        "notice": "A(u) is the identity for every u. The slide has the same two zeros, but here every "
                  "direction stays where it is.",
    },
    "explode": {
        "name": [["explode", "explode"]], "accent": "explode", "model": "forbidden",
        "title": "A positive real part grows without bound",
        "notice": "One positive real part is enough: far gaps outweigh near ones without limit, so no "
                  "encoding can use it.",
    },
    "fading slide": {
        "name": [["fading", "fade"], ["slide", "slide"]], "accent": "slide", "model": "beyond the table",
        "title": "A slide that fades drifts first and lets go later",
        "notice": "One eigen-direction, as in a slide, but the eigenvalue is negative: defective, and still "
                  "not ALiBi.",
    },
    "mixed": {
        "name": [["explode", "explode"], ["+", "muted"], ["fade", "fade"]], "accent": "explode",
        "model": "forbidden",
        "title": "A saddle: one direction fades while another grows",
        "notice": "Growth wins in the end: almost every start leaves along the growing direction.",
    },
}


def transport_2x2(X, u):
    """Return A(u) = exp(uX) of a 2 x 2 matrix in closed form.

    With m = tr X / 2, Y = X - mI and D = ((a - d) / 2)^2 + bc, Y^2 = DI, so one formula serves every class:
    exp(uX) = e^(mu) (C I + S Y), where C and S are cosh and sinh, cos and sin, or 1 and u as D is positive,
    negative or zero.

    Parameters
    ----------
    X : array_like, shape (2, 2)
        The generator.
    u : float
        The gap.

    Returns
    -------
    ndarray, shape (2, 2), float64

    References
    ----------
    Cayley-Hamilton for 2 x 2 matrices. For D u^2 > 1 the two exponentials are kept apart, because C - S h
    would subtract two numbers of the size of e^(u sqrt(D)) and lose the small entry.

    Examples
    --------
    >>> transport_2x2([[0, 1], [0, 0]], 5)
    array([[1., 5.],
           [0., 1.]])
    """
    (a, b), (c, d) = ((float(v) for v in row) for row in X)
    u = float(u)
    m, h = (a + d) / 2, (a - d) / 2
    D = h * h + b * c
    z = D * u * u
    if z > 1:
        w = math.sqrt(D)
        P, M = math.exp((m + w) * u) / 2, math.exp((m - w) * u) / 2
        k, rest, s = abs(h) / w, b * c / (D + w * abs(h)), (P - M) / w
        large, small = P * (1 + k) + M * rest, P * rest + M * (1 + k)
        first, last = (large, small) if h >= 0 else (small, large)
        return np.array([[first, b * s], [c * s, last]])
    if abs(z) < 1e-4:
        C = 1 + z / 2 * (1 + z / 12 * (1 + z / 30))
        S = u * (1 + z / 6 * (1 + z / 20 * (1 + z / 42)))
    else:
        w = math.sqrt(abs(D))
        C, S = (math.cosh(w * u), math.sinh(w * u) / w) if z > 0 else (math.cos(w * u), math.sin(w * u) / w)
    g = math.exp(m * u)
    return np.array([[g * (C + S * h), g * b * S], [g * c * S, g * (C - S * h)]])


def _exact(X):
    """Return a, b, c, d as the rational numbers their shortest decimals stand for."""
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"X is {shown(X)}; expected a matrix (2, 2) of numbers, such as "
                        f"[[0, -1], [1, 0]]") from None
    if array.shape != (2, 2):
        raise ValueError(f"X must have shape (2, 2), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"X must be finite, got {array.tolist()}")
    return [Fraction(repr(float(v))) for v in array.flat]


def invariants(X):
    """Return trace, determinant and D = (tr/2)^2 - det of X, exactly."""
    a, b, c, d = _exact(X)
    return a + d, a * d - b * c, ((a - d) / 2) ** 2 + b * c


def behaviour(X):
    """Name what exp(uX) does for growing u: a key of `KINDS`, decided exactly.

    Parameters
    ----------
    X : array_like, shape (2, 2)
        The generator; each entry stands for its shortest decimal.

    Returns
    -------
    str
        "turn", "fade", "slide", "turn+fade", "nothing", "explode", "fading slide" or "mixed" (a saddle).

    Examples
    --------
    >>> behaviour([[0.1, -0.5], [0.5, -0.1]]), behaviour([[-0.1, 1], [0, -0.1]])
    ('turn', 'fading slide')
    """
    trace, det, D = invariants(X)
    if det < 0:
        return "mixed"
    if trace > 0:
        return "explode"
    defective = D == 0 and (X[0][1] != 0 or X[1][0] != 0)
    if trace < 0:
        return "turn+fade" if D < 0 else "fading slide" if defective else "fade"
    return "turn" if D < 0 else "slide" if defective else "nothing"


def eigenvalues(X):
    """Return the pair of eigenvalues, larger real part (or positive imaginary part) first."""
    trace, det, D = invariants(X)
    mean, root = float(trace / 2), math.sqrt(abs(D))
    if D < 0:
        return complex(mean, root), complex(mean, -root)
    far = mean + math.copysign(root, mean)      # no cancellation here; the near one follows from the product
    near = float(det) / far if far and D else far
    return complex(max(far, near)), complex(min(far, near))


def directions(X):
    """Return the real eigen-directions as unit vectors, none to two; None when every direction is one."""
    a, b, c, d = (float(v) for v in np.asarray(X, dtype=np.float64).flat)
    D = invariants(X)[2]
    if D < 0:
        return []
    if b == 0 and c == 0 and a == d:
        return None
    found = []
    for value in dict.fromkeys(v.real for v in eigenvalues(X)):
        x, y = max((b, value - a), (value - d, c), key=lambda v: math.hypot(*v))
        found.append((x / math.hypot(x, y), y / math.hypot(x, y)))
    return found


@dataclass(frozen=True)
class GeneratorData:
    """Everything the generator figure draws and prints for one X and one u.

    Attributes
    ----------
    X, A : ndarray, shape (2, 2)
        The generator and A(u) = exp(uX).
    u, trace, determinant, det_A : float
        The gap; tr X, det X, and det A(u) = e^(u tr X).
    eigenvalues : tuple of two complex
        Larger real part, or positive imaginary part, first.
    directions : list of (x, y) or None
        Real eigen-directions; None when every direction is one.
    half_lives : tuple of float
        ln 2 / gamma for each distinct real part -gamma < 0, longest first.
    period : float or None
        2 pi / theta when the eigenvalues are not real.
    kind : str
        The class, a key of `KINDS`.
    square : ndarray, shape (4, 2)
        The unit square carried along: A(u) times (0,0), (1,0), (1,1), (0,1).
    point, trail : ndarray, shapes (2,) and (n, 2)
        The solution of x' = Xx from `START`, at u and from 0 to u.
    """

    X: np.ndarray
    u: float
    A: np.ndarray
    trace: float
    determinant: float
    det_A: float
    eigenvalues: tuple[complex, complex]
    directions: list | None
    half_lives: tuple[float, ...]
    period: float | None
    kind: str
    square: np.ndarray
    point: np.ndarray
    trail: np.ndarray

    @property
    def words(self):
        """Name, model, title and notice of the class."""
        return KINDS[self.kind]

    @property
    def name(self):
        """The class in words, such as "turn + fade"."""
        return " ".join(part for part, _ in self.words["name"])

    def numbers(self):
        """Return the printed numbers, key: (label, text), in the order and with the keys the browser uses."""
        one, two = self.eigenvalues
        if one.imag:
            eigenvalues = f"{decimals(one.real)} ± {decimals(one.imag)} i"
        elif one == two:
            eigenvalues = f"{decimals(one.real)}, twice"
        else:
            eigenvalues = f"{decimals(one.real)}, {decimals(two.real)}"
        directions = "every one" if self.directions is None else ["none", "1", "2"][len(self.directions)]
        (a, b), (c, d) = self.A
        return {
            "eigenvalues": ("eigenvalues", eigenvalues),
            "directions": ("eigen-directions", directions),
            "trace-det": ("trace, determinant", f"{decimals(self.trace)}, {decimals(self.determinant)}"),
            "half-life": ("half-life", ", ".join(map(decimals, self.half_lives)) or "none"),
            "period": ("period", "none" if self.period is None else decimals(self.period)),
            "A": ("A(u) = exp(uX)", f"{decimals(a)} {decimals(b)} {decimals(c)} {decimals(d)}"),
            "det": ("det A(u)", decimals(self.det_A)),
            "x": ("x(u)", f"({decimals(self.point[0])}, {decimals(self.point[1])})"),
        }


def generator(X, u=1.0):
    """Compute what the generator figure shows.

    Parameters
    ----------
    X : array_like, shape (2, 2)
        The generator.
    u : float
        The gap.

    Returns
    -------
    GeneratorData

    Raises
    ------
    ValueError
        If X is not a finite 2 x 2 matrix, u is not finite, or exp(uX) leaves float64.

    Examples
    --------
    >>> shown = generator([[-0.1, -0.5], [0.5, -0.1]], 5)
    >>> shown.name, shown.numbers()["half-life"][1], shown.numbers()["period"][1]
    ('turn + fade', '6.9315', '12.5664')
    """
    trace, det, _ = invariants(X)
    X, u = np.array(X, dtype=np.float64), finite("u", u)
    try:
        A, det_A = transport_2x2(X, u), math.exp(u * float(trace))
        steps = max(2, math.ceil(abs(u) * 16)) if np.any(X) else 1
        trail = np.array([transport_2x2(X, u * k / steps) @ START for k in range(steps + 1)])
    except OverflowError:
        raise ValueError(f"exp(uX) leaves float64 at u = {u} for X = {X.tolist()}") from None
    values = eigenvalues(X)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    return GeneratorData(
        X=X, u=u, A=A, trace=float(trace), determinant=float(det), det_A=det_A,
        eigenvalues=values, directions=directions(X),
        half_lives=tuple(math.log(2) / -r for r in dict.fromkeys(v.real for v in values) if r < 0),
        period=2 * math.pi / values[0].imag if values[0].imag else None,
        kind=behaviour(X), square=corners @ A.T, point=A @ START, trail=trail,
    )
