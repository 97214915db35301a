"""What the ops share: which calls are plain, and the step down into the C core."""

from __future__ import annotations

from ..rope import Rope


def run(kernel, arguments):
    result = kernel(*arguments)
    if result is NotImplemented:
        raise RuntimeError(f"{kernel.__name__} refused arguments that pe._check had passed, a defect of pe "
                           f"and not of the call; please report it with the shapes and dtypes")
    return result


def is_plain(switch, num_threads):
    return ((switch is False or switch is True)
            and (num_threads is None or (type(num_threads) is int and 0 < num_threads < 2**31)))


def one_axis_plan(rope, width):
    return rope._plan if type(rope) is Rope and rope.dim == width and len(rope.freqs) == 1 else None
