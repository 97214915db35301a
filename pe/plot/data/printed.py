"""How the figures print numbers."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

__all__ = ["MINUS", "decimals", "plain"]

MINUS = "\u2212"


def decimals(value):
    """Print a number to 4 decimals, with 4 significant digits where it is small, rounding halves away from 0.

    Examples
    --------
    >>> decimals(0.36787944), decimals(0.00031622776), decimals(-0.00001e-12), decimals(2.35385e17)
    ('0.3679', '0.0003162', '−1.000e−17', '2.354e17')
    """
    size = abs(float(value))
    exact = Decimal(size)
    if size == 0:
        return "0.0000"
    exponent = exact.adjusted()
    if size >= 0.01 and size < 1e5:
        text = str(exact.quantize(Decimal("0.0001"), ROUND_HALF_UP))
    else:
        kept = exact.quantize(Decimal(1).scaleb(exponent - 3), ROUND_HALF_UP)
        exponent = kept.adjusted()
        if -6 <= exponent < 0:
            text = f"{kept.quantize(Decimal(1).scaleb(exponent - 3)):f}"
        else:
            text = f"{kept.scaleb(-exponent).quantize(Decimal('0.001'))}e{exponent}".replace("-", MINUS)
    return (MINUS if value < 0 else "") + text


def plain(value):
    """Print a number the way a reader would type it, to 4 significant digits, with a true minus.

    Examples
    --------
    >>> plain(5), plain(-0.5), plain(628.3185), plain(19869.1765)
    ('5', '−0.5', '628.3', '19869')
    """
    text = f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return text.replace("-", MINUS)
