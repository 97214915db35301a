"""Trajectories of x' = Xx for the phase portrait of a 2 x 2 generator, exact up to rounding."""

from __future__ import annotations

import math

import numpy as np

from pe.plot.data import behaviour, directions, eigenvalues, invariants, transport_2x2

__all__ = ["FRAME", "flow", "heads", "still"]

FRAME = 3.0   # the portrait shows [-3, 3] x [-3, 3]
RING = 4.4    # trajectories start on this circle, just outside the corners of the frame


def _scaled(p, q, m, w, times):
    """Return e^(mt) (p cos wt + q sin wt) at the given times, shape (n, 2)."""
    t = np.asarray(times)[:, None]
    return np.exp(m * t) * (np.cos(w * t) * p + np.sin(w * t) * q)


def _spirals(X):
    """Trajectories around a centre or focus: loops of one period, or a few spirals that fill the frame."""
    (a, _), (c, d) = np.asarray(X, dtype=np.float64)
    m, h = (a + d) / 2, (a - d) / 2
    w = math.sqrt(-float(invariants(X)[2]))
    # p and q span an ellipse of area pi that the flow follows (in a spiral: up to its growth)
    p = np.array([1.0, 0.0]) * math.sqrt(w / abs(c))
    q = np.array([h, c]) / w * p[0]
    # its semi-axes are the singular values of [p q], whose product is 1
    squares = (p @ p + q @ q) / 2
    long = math.sqrt(squares + math.sqrt(max(squares * squares - 1, 0.0)))
    period, shrink = 2 * math.pi / w, 2 * math.pi * abs(m) / w
    if shrink < math.log(1.2):
        times = np.arange(73) * period / 72
        return [_scaled(0.5 * k * long * p, 0.5 * k * long * q, m, w, times) for k in range(1, 9)]
    count = min(max(round(shrink / math.log(1.35)), 1), 8)
    span = math.log(RING * long / 0.3) / abs(m)
    n = math.ceil(48 * span / period) + 8
    curves = []
    for j in range(count):
        cos, sin = math.cos(2 * math.pi * j / count), math.sin(2 * math.pi * j / count)
        start, side = RING * long * (cos * p + sin * q), RING * long * (cos * q - sin * p)
        times = np.arange(n + 1) * span / n
        curves.append(_scaled(start, side, m, w, times if m < 0 else -times)[:: 1 if m < 0 else -1])
    return curves


def _walk(X, start, sign):
    """Follow exp(tX) from `start`, forwards or backwards, in steps of nearly equal length."""
    (a, b), (c, d) = X
    cap = 0.25 / max(abs(a) + abs(b), abs(c) + abs(d))
    x, y = map(float, start)
    points = [(x, y)]
    for _ in range(200):
        speed = math.hypot(a * x + b * y, c * x + d * y)
        step = min(0.14 / speed, cap) if speed else cap
        if speed * step < 0.004:
            break
        A = transport_2x2(X, sign * step)
        x, y = A[0, 0] * x + A[0, 1] * y, A[1, 0] * x + A[1, 1] * y
        points.append((x, y))
        if math.hypot(x, y) < 0.12 or math.hypot(x, y) > 2 * RING:
            break
    return np.array(points[::sign])


def _through(X, start):
    """Follow the trajectory through `start` both ways."""
    return np.concatenate([_walk(X, start, -1), _walk(X, start, 1)[1:]])


def flow(X):
    """Return the trajectories of x' = Xx that the portrait draws, each (n, 2) in the order of time.

    Every one is exact up to rounding: a centre gets loops of one period, a focus a few spirals, a slide
    straight lines, a node trajectories from a circle outside the frame, a saddle hyperbolas and its two axes.
    """
    kind = behaviour(X)
    X = [[float(v) for v in row] for row in X]
    if kind == "nothing":
        return []
    size = np.abs(X).max()
    if size < 1e-100:       # whose squares would vanish: a multiple of X flows along the same lines
        X = np.divide(X, size).tolist()
    if invariants(X)[2] < 0:
        return _spirals(X)
    ranks = [k / 2 for k in range(-8, 9) if k]
    if kind == "slide":
        (x, y), = directions(X)
        # X sends the left normal of the direction to a multiple of it: one side flows forwards, one back
        normal = np.array([-y, x])
        forward = math.copysign(RING, (np.array(X) @ normal) @ (x, y))
        ends = np.array([[-forward], [forward]]) * (x, y)
        return [k * normal + ends * math.copysign(1, k) for k in ranks]
    if kind == "mixed":
        p, q = np.array(directions(X))
        arms = [p, q, -p, -q]
        curves = [_walk(X, RING * arm, 1 if i % 2 else -1) for i, arm in enumerate(arms)]
        for arm, following in zip(arms, arms[1:] + arms[:1], strict=True):
            middle = (arm + following) / math.hypot(*(arm + following))
            curves += [_through(X, 0.6 * k * middle) for k in range(1, 6)]
        return curves
    sign = -1 if kind == "explode" else 1
    if invariants(X)[1] == 0:
        # one eigenvalue is 0: straight lines to, or from, the points that never move
        lines = np.array(directions(X))
        p, q = lines if eigenvalues(X)[0] == 0 else lines[::-1]
        return [np.array([k * p + end * q, k * p][::sign]) for k in [*ranks, 0] for end in (-RING, RING)]
    angles = 2 * math.pi * (np.arange(16) + 0.5) / 16
    ring = RING * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    if all(sign * (p @ (np.array(X) @ p)) < 0 for p in ring):
        return [_walk(X, p, sign) for p in ring]
    # Far from normal the flow leaves the circle before it comes back: start across the slow direction.
    x, y = directions(X)[0]
    return [_through(X, (-y * k, x * k)) for k in ranks]


def heads(curves, *, every=2.6):
    """Place arrow heads along trajectories.

    Parameters
    ----------
    curves : list of ndarray, shape (n, 2)
        Trajectories in the order of time.
    every : float
        Arc length from head to head; the first sits half of it from the start.

    Returns
    -------
    ndarray, shape (k, 3)
        x, y and direction angle of every head that lies inside the frame.
    """
    found = []
    for curve in curves:
        due = every / 2
        for (x, y), (x2, y2) in zip(curve[:-1].tolist(), curve[1:].tolist(), strict=True):
            length = math.hypot(x2 - x, y2 - y)
            while length and due <= length:
                hx, hy = x + (x2 - x) * due / length, y + (y2 - y) * due / length
                if max(abs(hx), abs(hy)) < FRAME:
                    found.append((hx, hy, math.atan2(y2 - y, x2 - x)))
                due += every
            due -= length
    return np.array(found).reshape(-1, 3)


def still(X):
    """Return points that never move, shape (k, 2): a lattice, a line of them, or the origin alone."""
    steps = np.arange(-5, 6) / 2
    lines, (trace, det, _) = directions(X), invariants(X)
    if lines is None and trace == 0:
        return np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    if det == 0 and lines:
        zero = [value.real for value in eigenvalues(X)].index(0) if len(lines) > 1 else 0
        return steps[:, None] * lines[zero]
    return np.zeros((1, 2))
