"""What the ops share: which calls are plain, and the step down into the C core."""

from __future__ import annotations

from ..rope import Rope


def run(kernel, arguments):
    result = kernel(*arguments)
    if result is NotImplemented:
        raise RuntimeError(f"{kernel.__name__} refused arguments that pe._check had passed, a defect of pe "
                           f"and not of the call; please report it with the shapes and dtypes")
    return result


def rope_plan(rope, width):
    return rope._plan if type(rope) is Rope and rope.dim == width else None
