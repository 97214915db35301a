"""Rotary functions as others write them, right and wrong, for check_rope; and a look at its report."""

import numpy as np


def angles(positions, width, base=10000.0, dtype=np.float64):
    """Angles (..., width/2) with everything in one dtype."""
    freqs = dtype(1) / dtype(base) ** (np.arange(0, width, 2).astype(dtype) / dtype(width))
    return np.asarray(positions).astype(dtype)[..., None] * freqs


def rotate_half(x):
    """(a, b) -> (-b, a) for the two halves of the last axis."""
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def rotate_pairs(x):
    """(a, b) -> (-b, a) for adjacent pairs."""
    return np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)


def halves(x, angle):
    """Llama as in Hugging Face: tables [w, w], pairs (l, l+L)."""
    cos, sin = (np.concatenate([t, t], axis=-1).astype(x.dtype) for t in (np.cos(angle), np.sin(angle)))
    return x * cos + rotate_half(x) * sin


def pairs(x, angle):
    """RoFormer: every column twice, adjacent pairs."""
    cos, sin = (np.repeat(t, 2, axis=-1).astype(x.dtype) for t in (np.cos(angle), np.sin(angle)))
    return x * cos + rotate_pairs(x) * sin


def by_complex(x, angle):
    """Llama as in Meta's reference: adjacent pairs are complex numbers."""
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


def late(rotate, base=10000.0, dtype=np.float64):
    """fn(x, positions) with the angles formed in a dtype."""
    return lambda x, positions: rotate(x, angles(positions, x.shape[-1], base, dtype))


def partly(rotate, width, offset=0, base=10000.0):
    """fn(x, positions) that turns a slice of the head."""
    def apply(x, positions):
        turned = rotate(x[..., offset:offset + width], angles(positions, width, base))
        return np.concatenate([x[..., :offset], turned, x[..., offset + width:]], axis=-1)
    return apply


def vjepa2(x, positions):
    """Adjacent pairs, but tables laid out as halves: not a rotation."""
    angle = angles(positions, x.shape[-1])
    angle = np.concatenate([angle, angle], axis=-1)
    return x * np.cos(angle) + rotate_pairs(x) * np.sin(angle)


def halves_of_repeated(x, positions):
    """Pairs (l, l+L), but every column of the tables twice in place: not a rotation."""
    angle = np.repeat(angles(positions, x.shape[-1]), 2, axis=-1)
    return x * np.cos(angle) + rotate_half(x) * np.sin(angle)


def axial(x, at_first, at_second, base=10000.0):
    """Adjacent pairs; the first half of the head turns by one axis, the second by the other."""
    half = x.shape[-1] // 2
    return np.concatenate([pairs(x[..., :half], angles(at_first, half, base)),
                           pairs(x[..., half:], angles(at_second, half, base))], axis=-1)


def found(report, cause, **expected):
    """The first cause starts with these words, and the report is what is expected besides."""
    assert report.causes and report.causes[0].startswith(cause), str(report)
    assert not report.ok and report.counterexample
    assert {name: getattr(report, name) for name in expected} == expected
    return report.counterexample
