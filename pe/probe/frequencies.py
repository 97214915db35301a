"""From the angles of planes at some points to frequencies, origin and base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STRAIGHT = 5e-3
"""How far e^(i angle) may be from a turn at constant speed, besides what 16-bit angles lose of it."""

STILL = 1e-8
"""Frequencies below it are rounding."""

EXACT, ROUNDED = 1e-4, 8e-3
"""Relative errors of frequencies that are geometric: formed in float32 or better; or in 16 bits."""

USUAL_BASES = (100.0, 1e3, 1e4, 5e4, 1e5, 1.5e5, 1.6e5, 5e5, 1e6, 5e6, 8e6, 1e7)


@dataclass(frozen=True)
class Speeds:
    """angle = (point + origin) @ freqs, as far as it is true: `residual` is the largest chord that is left.

    `start` is the angle (L,) at point 0, and `origin` is None where no shift of the points gives it.
    `bent` is the first row whose angle no constant speed gives, or None.
    """

    freqs: np.ndarray
    start: np.ndarray
    origin: tuple | None
    residual: np.ndarray
    bent: int | None


def near_points(n_axes):
    """Return the points that are tried first: 0..16, or multiples of each axis and some of both."""
    if n_axes == 1:
        return np.arange(17)[:, None]
    along = [step * axis for axis in np.eye(n_axes, dtype=int) for step in (1, 2, 4, 8, 16)]
    mixed = [np.roll(np.arange(1, n_axes + 1) * step, turn) for step, turn in ((1, 0), (2, 1), (3, 1))]
    return np.array([np.zeros(n_axes, int), *along, *mixed])


def speeds_of(points, phase):
    """Fit a constant speed for each axis and plane to phases (T, L) at points (T, n_axes)."""
    n_axes, planes = points.shape[1], phase.shape[1]
    row = {tuple(point): i for i, point in enumerate(points.tolist())}
    origin_row = row[(0,) * n_axes]
    freqs = np.zeros((n_axes, planes))
    for axis in range(n_axes):
        unit = np.eye(n_axes, dtype=int)[axis]
        for step in (1, 2, 4, 8, 16):               # each says how many turns the next one makes
            if tuple(step * unit) in row:
                turned = np.angle(phase[row[tuple(step * unit)]] / phase[origin_row])
                expected = freqs[axis] * step
                freqs[axis] = (turned + 2 * np.pi * np.round((expected - turned) / (2 * np.pi))) / step
    freqs[np.abs(freqs) < STILL] = 0.0
    start = np.angle(phase[origin_row])
    residual = np.abs(np.exp(1j * (points @ freqs + start)) - phase)
    bent = (residual > STRAIGHT + ROUNDED * np.abs(points) @ np.abs(freqs)).any(axis=1)
    return Speeds(freqs, start, _origin(freqs, start), residual, int(bent.argmax()) if bent.any() else None)


def without_turns(freqs, expected):
    """Return frequencies (n_axes, L) with the whole turns a position that no point shows, where a law tells.

    The law is that of the expected frequencies, if there are some: a multiple of them, or their inverse.
    Else the planes of one axis are followed from the slowest one, each in proportion to those before it;
    what comes of it is taken if it is geometric.
    """
    if expected is not None and len(freqs) == len(expected):
        turning, expected = freqs.any(axis=0), expected[:, seen_to_turn(expected)]
        if turning.sum() == expected.shape[1] > 0:
            slow = np.unravel_index(np.argmin(np.where(expected > 0, expected, np.inf)), expected.shape)
            inverse = np.divide(1, expected, out=np.zeros_like(expected), where=expected != 0)
            for law in (freqs[:, turning][slow] / expected[slow] * expected, inverse):
                if np.abs(law).max() > np.pi and _same_turns(freqs[:, turning], law):
                    freqs = freqs.copy()
                    freqs[:, turning] = law
                    return freqs
    moving = np.flatnonzero(freqs[0])
    if len(freqs) > 1 or len(moving) < 6:
        return freqs
    speed = freqs[0, moving]
    for order in (slice(None, None, -1), slice(None)):
        chain = _followed(speed[order])
        if np.abs(chain).max() > np.pi and _geometric_to(chain, 1e-6):
            unwound = freqs.copy()
            unwound[0, moving] = chain[order]
            return unwound
    return freqs


def seen_to_turn(freqs):
    """Say which planes (L,) turn at whole positions, as those of frequency 2 pi do not."""
    return (np.abs(np.exp(1j * freqs) - 1) > STILL / 2).any(axis=0)


def _same_turns(freqs, law):
    return bool((np.abs(np.exp(1j * freqs) - np.exp(1j * law)) <= 1e-6 * (1 + np.abs(law))).all())


def _followed(speed):
    """Add whole turns to speeds so that each continues those before it, the first three as they are."""
    chain = list(speed[:3])
    if not all(w > 0 for w in chain):
        return speed
    for w in speed[3:]:
        near = chain[-1] * (chain[-1] / chain[0]) ** (1 / (len(chain) - 1))
        chain.append(w + 2 * np.pi * np.round((near - w) / (2 * np.pi)))
        if chain[-1] <= 0:
            return speed
    return np.array(chain)


def _geometric_to(chain, error):
    logs = np.log(np.abs(chain))
    line = np.linspace(logs[0], logs[-1], len(logs))
    return bool(np.abs(logs - line).max() <= error)


def _origin(freqs, start):
    """Return the shift of the points for which start = shift @ freqs, or None."""
    shift = np.zeros(len(freqs))
    if np.abs(np.exp(1j * start) - 1).max() <= STRAIGHT:
        return tuple(shift.tolist())
    for axis, row in enumerate(freqs):
        own = (row != 0) & (np.abs(freqs).sum(axis=0) == np.abs(row))
        for plane in sorted(np.flatnonzero(own), key=lambda plane: abs(row[plane])):    # slowest first
            turns = np.round((row[plane] * shift[axis] - start[plane]) / (2 * np.pi))
            shift[axis] = (start[plane] + 2 * np.pi * turns) / row[plane]
    halves = np.round(2 * shift) / 2
    shift = np.where(np.abs(shift - halves) < 1e-3, halves, shift) + 0.0        # + 0.0: no negative zeros
    good = np.abs(np.exp(1j * (shift @ freqs)) - np.exp(1j * start)).max() <= STRAIGHT
    return tuple(shift.tolist()) if good else None


@dataclass(frozen=True)
class Spectrum:
    """freqs = scale * base^(-2 l / width), axis by axis, with l counted as `order` says.

    `order` is "shared" (one spectrum over all planes), "each axis" (it starts again for each), or "dealt"
    (one spectrum, dealt out to the axes); `exact` (n_axes, L) are the frequencies in float64 by that formula.
    """

    base: float | None
    scale: tuple
    order: str
    exact: np.ndarray


def spectrum_of(freqs, noise):
    """Return the geometric spectrum that frequencies (n_axes, L) follow, or None.

    noise is what is left of the angles they were read from: float64 angles know their base to 12 digits.
    """
    size, owner = np.abs(freqs), np.abs(freqs).argmax(axis=0)
    if (size.sum(axis=0) - size.max(axis=0)).max() > EXACT:
        return None                                 # planes that several axes drive
    speed = size.max(axis=0)
    turning = np.flatnonzero(speed > 0)
    planes, falling = len(speed), np.argsort(-speed, kind="stable")[:len(turning)]
    ways = [("shared", [(turning, turning, planes)])]       # planes, their exponents, of how many
    if len(freqs) > 1:
        axes = [turning[owner[turning] == axis] for axis in range(len(freqs))]
        ways += [("each axis", [(own, np.arange(len(own)), len(own)) for own in axes if len(own)]),
                 ("dealt", [(falling, np.arange(len(falling)), planes)])]
    for limit in (EXACT, ROUNDED):
        laws = [(order, *law) for order, groups in ways if (law := _geometric(speed, groups, limit, noise))]
        if laws:                                    # one that needs no scale, if there is one
            order, base, scale, exact = min(laws, key=lambda law: any(scale != 1 for scale in law[2]))
            return Spectrum(base, scale, order, np.sign(freqs) * exact * (size > 0))
    return None


def _geometric(speed, groups, limit, noise):
    """Return (base, scale of each group, speeds) if each group falls by one base from its own scale."""
    falls = [np.log(speed[own[0]] / speed[own[-1]]) * count / (exponent[-1] - exponent[0])
             for own, exponent, count in groups if len(own) > 1]
    measured = float(np.exp(np.median(falls))) if falls else None
    law = _by_law(speed, groups, limit, measured)
    if law[-1] > limit or measured is None:
        return law[:-1] if law[-1] <= limit else None
    for base in _round_numbers(measured, limit):
        plain = _by_law(speed, groups, limit, base)
        if plain[-1] <= max(10 * law[-1], 1e-12 if noise < 1e-12 else EXACT / 50):
            return plain[:-1]
    return law[:-1]


def _by_law(speed, groups, limit, base):
    """Return (base, scale of each group, speeds, largest relative difference from those measured)."""
    exact, scales = np.ones_like(speed), []
    for own, exponent, count in groups:
        fall = np.power(base or 1.0, -exponent / count)
        scale = float(speed[own[0]] / fall[0])
        scales.append(1.0 if abs(scale - 1) <= limit else scale)
        exact[own] = scales[-1] * fall
    members = np.concatenate([own for own, _, _ in groups])
    return base, tuple(scales), exact, float(np.abs(speed[members] / exact[members] - 1).max())


def _round_numbers(base, limit):
    """Return the round numbers near a base, within what it is known to."""
    known = EXACT / 50 if limit == EXACT else 5 * ROUNDED
    rounds = [float(f"{base:.{digits - 1}e}") for digits in ((5,) if limit == EXACT else (1, 2))]
    return [near for near in (*rounds, float(round(base))) if near > 0 and abs(base / near - 1) <= known]
