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
    found = LAYOUTS.get(layout) or _FOLDED.get(_folded(layout))
    if found is None:
        raise ValueError(f"layout {shown(layout)} is unknown; {_hint(_folded(layout))}")
    return found


def _folded(name: str) -> str:
    return name.lower().translate({ord(mark): None for mark in "-_ "})


_FOLDED = {_folded(name): layout for name, layout in LAYOUTS.items()}


def _hint(name: str) -> str:
    import difflib  # here, as a good call should not wait for it

    if name in ("llama", "hf", "huggingface", "meta"):
        return 'Hugging Face\'s Llama is "half", Meta\'s own checkpoints "interleaved"'
    near = difflib.get_close_matches(name, _FOLDED, n=1)
    meant = next((f'did you mean "{own}"? ' for own in LAYOUTS if near and _folded(own) == near[0]), "")
    return (f'{meant}expected "interleaved" (also "adjacent", "gptj", "traditional") or "half" (also "neox", '
            f'"rotate_half", "split")')
