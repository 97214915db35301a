"""What loops with the instructions of a kernel, and nothing else, reach on AVX2.

    python -m benchmarks.limits

A row of `python -m benchmarks` may stay below its yardstick because its kernel has more to do than to
multiply and add, or to copy. Each loop of `limits.c` does what such a kernel must do, with operands in the
first cache and nothing else, beside the yardstick by turns in one process. It is what one compiler made of
those instructions: a strong hint where the ceiling lies, no proof that nothing is faster. Grouped queries
need no loop: their multiply-adds alone, at the peak, are a true ceiling. A neighbour on the same core slows
loads more than multiply-adds: on a shared machine the highest of several runs counts.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pe import _core

from . import yard

SOURCE = Path(__file__).with_name("limits.c")
ROOM, PAGE = 1 << 16, 4096
REPETITIONS = 80
SECONDS = 1e-3  # a sample


class Loop(NamedTuple):
    """A function of `limits.c`, what it stands for, and the flops (or pairs) of one round."""

    name: str
    what: str
    work: int
    unit: str


class Group(NamedTuple):
    """Eight query heads on these key heads of 64 columns, and the bytes of a value of the cache."""

    key_heads: int
    keys: int
    size: int


LOOPS = (
    Loop("tile_66", "attention, many queries, d = 66", 4 * 60 * 16 * 66, "flop"),
    Loop("tile_126", "attention, many queries, d = 126", 4 * 60 * 16 * 126, "flop"),
    Loop("tile_258", "attention, many queries, d = 258", 4 * 60 * 16 * 258, "flop"),
    Loop("angles", "cos and sin of 32 planes", 512, "pair"),
)
GROUPS = tuple(Group(heads, keys, size) for keys in (1 << 14, 1 << 17) for heads in (2, 1) for size in (4, 2))


class Loops:
    """The compiled loops and the memory they work on."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.fspath(yard.build(source=SOURCE)))
        self._numbers = np.zeros(ROOM + PAGE, np.uint8)
        self._room = -(-self._numbers.ctypes.data // PAGE) * PAGE
        start = self._room - self._numbers.ctypes.data
        reals = self._numbers[start : start + ROOM].view(np.float32)
        reals[:] = np.arange(reals.size) % 7 * 1e-3

    def seconds(self, name: str, rounds: int) -> float:
        """What one round takes, by the CPU clock of this thread."""
        loop = getattr(self._library, name)
        loop.argtypes, loop.restype = [ctypes.c_long, ctypes.c_void_p], None
        start = time.thread_time()
        loop(rounds, self._room)
        return (time.thread_time() - start) / rounds

    def enough(self, name: str) -> int:
        """Rounds that make a sample."""
        rounds = 16
        while self.seconds(name, rounds) * rounds < SECONDS:
            rounds *= 2
        return rounds


def loop_line(loop: Loop, loops: Loops, limits: yard.Yard) -> str:
    """The best of a loop beside the best of the multiply-adds, or the time a pair."""
    rounds, times, peaks = loops.enough(loop.name), [], []
    for _ in range(REPETITIONS):
        peaks.append(limits.peak(False, 1))
        times.append(loops.seconds(loop.name, rounds))
    least = min(times) / loop.work
    if loop.unit == "pair":
        return f"  {loop.what:50} {least * 1e9:.2f} ns a pair"
    return f"  {loop.what:50} {100 / least / max(peaks):3.0f} % of FMA"


def group_line(group: Group, limits: yard.Yard) -> str:
    """Every value of the cache takes a multiply-add a query head: how fast that goes beside reading alone."""
    heads, keys, size = group
    cache = 2 * heads * keys * 64 * size
    peaks = [limits.peak(False, 1) for _ in range(REPETITIONS)]
    reads = [limits.bandwidth("read", cache, 1) for _ in range(REPETITIONS)]
    share = max(peaks) / (2 * 8 / heads) * size / max(reads)
    what = f"8 query heads on {heads}, {keys} keys, {8 * size} bits"
    return f"  {what:50} {100 * share:3.0f} % of read at most"


def main() -> int:
    """Print a line for every loop and group."""
    if _core.config()["best_isa"] == "scalar":
        print("benchmarks.limits: the loops need AVX2, which this processor lacks", file=sys.stderr)
        return 2
    try:
        limits, loops = yard.Yard("avx2"), Loops()
    except yard.NoCompiler as error:
        print(f"benchmarks.limits: {error}", file=sys.stderr)
        return 2
    print("loops of instructions alone, one thread, float32, AVX2; best of", REPETITIONS)
    for loop in LOOPS:
        print(loop_line(loop, loops, limits), flush=True)
    for group in GROUPS:
        print(group_line(group, limits), flush=True)
    return 0


if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # an installed pe before the source tree
    sys.exit(main())
