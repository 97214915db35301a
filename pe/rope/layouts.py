"""Which coordinates of a head form a plane: the two layouts, and the names other libraries give them."""

from __future__ import annotations

from .._scalars import shown

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
