"""Groups and homomorphisms, checked by trying."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class GroupReport:
    """Which group axioms hold.

    Attributes
    ----------
    closure, identity, inverses, associativity, commutative : bool
        What was found; the last one is no axiom.
    witness : dict of str to tuple
        For each axiom that fails the first elements that show it.
    size : int
        Number of elements tried.
    exhaustive : bool
        Whether they were the whole set.
    """

    closure: bool
    identity: bool
    inverses: bool
    associativity: bool
    commutative: bool
    witness: dict[str, tuple]
    size: int
    exhaustive: bool

    @property
    def is_group(self) -> bool:
        """All four axioms hold (for a sample: none of them was seen to fail)."""
        return self.closure and self.identity and self.inverses and self.associativity

    def __str__(self) -> str:
        lines = [
            f"{'a group' if self.is_group else 'not a group'}: {self.size} elements "
            f"({'all' if self.exhaustive else 'a sample'}), {self.size**2} products, {self.size**3} triples"
        ]
        for axiom in ("closure", "identity", "inverses", "associativity"):
            shown = ", ".join(repr(x) for x in self.witness.get(axiom, ()))
            lines.append(
                f"  {'yes' if getattr(self, axiom) else 'NO '}  {axiom}{shown and ' fails for ' + shown}"
            )
        lines.append(f"  {'yes' if self.commutative else 'no '}  commutative (not an axiom)")
        return "\n".join(lines)


def check_group_axioms(
    elements: Iterable,
    op: Callable,
    *,
    contains: Callable | None = None,
    identity=None,
    inverse: Callable | None = None,
) -> GroupReport:
    """Try the four group axioms: closure, identity, inverses, associativity.

    Parameters
    ----------
    elements : iterable
        The whole finite set, which is then checked exhaustively; or, with `contains`, a sample of an infinite
        one. Numbers, tuples, arrays; floats and arrays count as equal to within rounding.
    op : callable
        op(a, b), "first b, then a" for actions.
    contains : callable, optional
        contains(x): whether x belongs to the infinite set that `elements` samples.
    identity : optional
        The do-nothing element; looked for among `elements` if not given.
    inverse : callable, optional
        inverse(a); an error it raises means that there is none. Looked for among `elements` if not given.

    Returns
    -------
    GroupReport

    Raises
    ------
    TypeError
        op, contains or inverse is not callable.
    ValueError
        There are no elements.

    Examples
    --------
    The 12-hour clock:

    >>> check_group_axioms(range(12), lambda a, b: (a + b) % 12).is_group
    True

    Positive integers under addition have neither a zero nor negatives:

    >>> report = check_group_axioms([1, 2, 3], lambda a, b: a + b, contains=lambda x: x > 0)
    >>> report.is_group, sorted(report.witness)
    (False, ['identity', 'inverses'])

    References
    ----------
    The Dog, the Man, and the Clock, section "What is a group?".
    """
    if isinstance(op, np.ndarray) and op.ndim == 2:
        raise TypeError("op is a table; expected a function: pass op.item, if elements number its rows")
    for name, function in (("op", op), ("contains", contains), ("inverse", inverse)):
        if not callable(function) and (function is not None or name == "op"):
            raise TypeError(f"{name} is {function!r}; expected a function")
    try:
        elements = list(elements)
    except TypeError:
        raise TypeError(f"elements is {elements!r}; expected a list of them, or a range") from None
    if not elements:
        raise ValueError("elements is empty; a group has at least its identity")
    belongs = contains or (lambda x: any(_same(x, e) for e in elements))
    pairs = [(a, b, op(a, b)) for a, b in itertools.product(elements, repeat=2)]
    witness: dict[str, tuple] = {}

    outside = next(((a, b) for a, b, ab in pairs if not belongs(ab)), None)
    if outside:
        witness["closure"] = outside
    neutral = _neutral(elements, op, belongs, identity)
    if neutral is None:
        witness["identity"] = (elements[0],) if identity is None else (identity,)
    stuck = next((a for a in elements if not _undone(a, elements, op, belongs, neutral, inverse)), None)
    if stuck is not None:
        witness["inverses"] = (stuck,)
    products = [ab for _, _, ab in pairs]
    n = len(elements)

    def associative(i, j, k):
        try:
            return _same(op(products[i * n + j], elements[k]), op(elements[i], products[j * n + k]))
        except Exception:
            if outside is None:
                raise
            return True  # a product that is no element need not combine with anything; closure has failed

    torn = next(
        (
            (elements[i], elements[j], elements[k])
            for i, j, k in itertools.product(range(n), repeat=3)
            if not associative(i, j, k)
        ),
        None,
    )
    if torn:
        witness["associativity"] = torn
    commutative = all(_same(products[i * n + j], products[j * n + i]) for i in range(n) for j in range(i))
    return GroupReport(
        outside is None,
        neutral is not None,
        stuck is None,
        torn is None,
        commutative,
        witness,
        n,
        contains is None,
    )


def _same(a, b) -> bool:
    if isinstance(a, (float, np.ndarray, np.floating)) or isinstance(b, (float, np.ndarray, np.floating)):
        return np.shape(a) == np.shape(b) and bool(np.allclose(a, b, rtol=1e-12, atol=1e-12))
    return a == b


def _neutral(elements, op, belongs, identity):
    candidates = elements if identity is None else [identity]
    for e in candidates:
        if belongs(e) and all(_same(op(e, a), a) and _same(op(a, e), a) for a in elements):
            return e
    return None


def _undone(a, elements, op, belongs, neutral, inverse):
    if neutral is None:
        return False
    if inverse is None:
        candidates = elements
    else:
        try:
            candidates = [inverse(a)]
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            return False
    return any(belongs(b) and _same(op(a, b), neutral) and _same(op(b, a), neutral) for b in candidates)


def homomorphism_defect(f: Callable, a, b, *, op_in: Callable = np.add, op_out: Callable = np.add) -> float:
    """Largest |f(a op_in b) - f(a) op_out f(b)|: 0 for a translation that respects how things combine.

    Parameters
    ----------
    f : callable
        The map, applied to arrays.
    a, b : array_like
        Where to try it; broadcast against each other.
    op_in, op_out : callable, default numpy.add
        How things combine before and after the map.

    Returns
    -------
    float

    Examples
    --------
    Squaring is no homomorphism of addition; the cross term 2ab is left over:

    >>> homomorphism_defect(np.square, 2, 3)
    12.0

    The slide rule is one: multiplication goes in, addition comes out.

    >>> homomorphism_defect(np.log, 2.0, 8.0, op_in=np.multiply) < 1e-15
    True

    References
    ----------
    The Dog, the Man, and the Clock, section "Homomorphism".
    """
    for name, function in (("f", f), ("op_in", op_in), ("op_out", op_out)):
        if not callable(function):
            raise TypeError(f"{name} is {function!r}; expected a function")
    a, b = np.asarray(a), np.asarray(b)
    together, apart = np.asarray(f(op_in(a, b))), np.asarray(op_out(f(a), f(b)))
    return float(np.max(np.abs(together - apart), initial=0.0))


def group_law_residual(A: Callable, ts) -> float:
    """How far t -> A(t) is from a one-parameter group: A(0) = I and A(u + v) = A(u) A(v).

    Parameters
    ----------
    A : callable
        A(t) for a number t: a square matrix, or a number.
    ts : array_like
        Times; all pairs (u, v) are tried.

    Returns
    -------
    float
        Largest ||A(u + v) - A(u) A(v)|| / (||A(u)|| ||A(v)||) (spectral norm), or ||A(0) - I|| if that is
        larger.

    Examples
    --------
    >>> turn = lambda t: np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    >>> group_law_residual(turn, [-2, 0.5, 3]) < 1e-15
    True
    >>> group_law_residual(lambda t: turn(0.01 * t**2), [-2, 0.5, 3]) > 0.1
    True

    References
    ----------
    The Dog, the Man, and the Clock, section "One-parameter groups".
    """
    if not callable(A):
        raise TypeError(
            f"A is {type(A).__name__}; expected a function of one time, e.g. lambda t: pe.transport(X, t)"
        )
    try:
        times = np.asarray(ts, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise TypeError(f"ts is {ts!r}; expected times, such as [0.5, 1.0, -2.0]") from None
    if not np.all(np.isfinite(times)):
        raise ValueError("ts has NaN or infinite entries; expected finite times")
    values = [_square(A(t)) for t in times]
    start = _square(A(0.0))
    worst = float(np.linalg.norm(start - np.eye(len(start)), 2))
    for (u, Au), (v, Av) in itertools.product(zip(times, values, strict=True), repeat=2):
        size = float(np.linalg.norm(Au, 2) * np.linalg.norm(Av, 2))
        worst = max(worst, float(np.linalg.norm(_square(A(u + v)) - Au @ Av, 2)) / (size or 1.0))
    return worst


def _square(value) -> np.ndarray:
    matrix = np.atleast_2d(np.asarray(value, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A(t) has shape {np.shape(value)}; expected a square matrix or a number")
    return matrix
