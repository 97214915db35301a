"""Timing one case: `pe`, its yardstick and its peers, interleaved repetition by repetition in one process.

A computer that is shared or changes its clock does so for all of them, so that their ratios mean something
when the times alone do not. One thread is timed by the CPU clock of the calling thread, several by the wall
clock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from statistics import median

import numpy as np

from .calls import Problem
from .peers import calls, set_threads
from .table import Case
from .yard import Yard

SAMPLE = 2e-3  # seconds a sample lasts at least: short calls are repeated within it
WARMED = 1e-2  # calls that take less find their operands in the caches, if these hold them
MOST = 200  # repetitions
# How far from NumPy's a result may be by rounding; beyond it, the speed is that of a wrong answer.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}


@dataclass
class Lane:
    """One call with what it took so far, in seconds a call."""

    call: Callable[[], object]
    clock: Callable[[], float]
    number: int = 1
    warm: bool = False
    times: list[float] = field(default_factory=list)
    spent: float = 0.0

    def calibrate(self) -> None:
        """Warm up, then choose how many calls make a sample."""
        self.call()
        start = self.clock()
        self.call()
        once = self.clock() - start
        self.number = max(1, min(100_000, int(SAMPLE / max(once, 1e-9)) + 1))
        self.warm = once < WARMED

    def sample(self) -> None:
        """Time one sample.

        A yardstick goes over its arrays once before its time begins; so does a call, since what ran between
        has left other things in the caches.
        """
        began, call = time.perf_counter(), self.call
        if self.warm:
            call()
        start = self.clock()
        for _ in repeat(None, self.number):
            call()
        self.times.append((self.clock() - start) / self.number)
        self.spent += time.perf_counter() - began


def others_run() -> bool:
    """Whether another thread of this process runs, or would if it had a processor."""
    try:
        threads = os.listdir("/proc/self/task")
    except FileNotFoundError:  # not Linux: only what does run is seen
        ran, until = time.process_time() - time.thread_time(), time.perf_counter() + 1e-3
        while time.perf_counter() < until:
            pass
        return time.process_time() - time.thread_time() - ran > 2e-4
    for thread in threads:
        try:
            state = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        if state == "R" and int(thread) != threading.get_native_id():
            return True
    return False


def settle() -> None:
    """Wait (half a second at most) until worker threads left over from the sample before sleep.

    OpenBLAS's look for work for 27 ms after a product. The clock alone does not show them: beside other
    programs they may get no processor for milliseconds, but then neither does a thread that shares it.
    Awake: a processor that has slept for a millisecond may be slow for several.
    """
    until = time.perf_counter() + 0.5
    while others_run() and time.perf_counter() < until:
        pass


def yard_rates(case: Case, yard: Yard, threads: int) -> dict[str, float]:
    """One sample of each of the case's yardsticks: how much of its work a second that would allow."""
    rates = {}
    for kind, amount in case.limits.items():
        if kind.endswith("FMA"):
            rate = yard.peak(kind.startswith("float64"), threads)
        else:
            rate = yard.bandwidth(kind, int(amount / (2 if kind == "copy" else 1)), threads)
        rates[kind] = rate * case.work / amount
    return rates


def check_agreement(case: Case, lanes: dict[str, Lane]) -> float | None:
    """Largest difference between the results of `pe` and NumPy; RuntimeError when it is no rounding."""
    if "numpy" not in lanes:
        return None
    ours, theirs = (np.asarray(lanes[name].call(), float) for name in ("pe", "numpy"))
    with np.errstate(invalid="ignore"):
        difference = float(np.max(np.abs(np.where(ours == theirs, 0.0, ours - theirs))))
    scale = max(1.0, float(np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))))
    if not difference <= TOLERANCE[case.dtype] * scale:
        raise RuntimeError(f"{case.label}: the result differs from NumPy's by {difference:.3g}")
    return difference


def measure(
    case: Case,
    threads: list[int],
    yard: Yard,
    peers: list[str],
    *,
    repetitions: int = 15,
    seconds: float = 1.0,
) -> dict:
    """Measure a case on every number of threads; the dict is what the JSON holds.

    At least `repetitions` repetitions, and more until `seconds` have passed. A peer that has used as many
    seconds stops after its third. The best share is the best rate over the best yardstick, which no single
    disturbed sample can flatter; of several yardsticks the one that allows least binds.
    """
    problem = Problem(case)
    if case.section == "small":
        threads = [1]
    clocks = {
        n: time.thread_time if n == 1 and case.section != "small" else time.perf_counter for n in threads
    }
    lanes = {
        n: {name: Lane(call, clocks[n]) for name, call in calls(problem, n, peers).items()} for n in threads
    }
    yards: dict[int, list[dict[str, float]]] = {n: [] for n in threads}
    difference = check_agreement(case, lanes[threads[0]])
    for n in threads:
        set_threads(n)
        for lane in lanes[n].values():
            settle()
            lane.calibrate()
    began, done = time.perf_counter(), 0
    while done < repetitions or (time.perf_counter() - began < seconds and done < MOST):
        for n in threads:
            set_threads(n)
            settle()
            rates = yard_rates(case, yard, n)
            if rates and all(rates.values()):  # 0: its threads could not be started
                yards[n].append(rates)
            for name, lane in lanes[n].items():
                if name in ("pe", "plain") or done < 3 or lane.spent < seconds:
                    settle()
                    lane.sample()
        done += 1
    runs = {n: run(case, yards[n], lanes[n]) for n in threads}
    if 1 in runs:
        for n in threads:
            if n > 1:
                runs[n]["speedup"] = ratio(lanes[1]["pe"].times, lanes[n]["pe"].times)
    return {
        "section": case.section,
        "op": case.op,
        "label": case.label,
        "dtype": case.dtype,
        "shape": case.shape,
        "words": case.words,
        "work": case.work,
        "unit": "flop" if (case.yardstick or "").endswith("FMA") else "byte",
        "yardstick": case.yardstick,
        "difference": difference,
        "repetitions": done,
        "runs": runs,
    }


def ratio(slow: list[float], fast: list[float]) -> dict[str, float]:
    """How many times faster: the median over repetitions, and best time against best time."""
    return {"median": median(s / f for s, f in zip(slow, fast, strict=False)), "best": min(slow) / min(fast)}


def run(case: Case, rates: list[dict[str, float]], lanes: dict[str, Lane]) -> dict:
    """The numbers of one thread count."""
    times = lanes["pe"].times
    found: dict = {
        "seconds": {"median": median(times), "best": min(times)},
        "calls_per_sample": lanes["pe"].number,
    }
    if rates:
        best = {kind: max(sample[kind] for sample in rates) for kind in rates[0]}
        found["limit"] = binding = min(best, key=lambda kind: best[kind])
        allowed = [min(sample.values()) for sample in rates]
        found["yardstick"] = {"median": median(allowed), "best": best[binding]}
        found["share"] = {
            "median": median(case.work / t / rate for t, rate in zip(times, allowed, strict=True)),
            "best": case.work / min(times) / best[binding],
        }
    found["peers"] = {
        name: {
            "seconds": {"median": median(lane.times), "best": min(lane.times)},
            "ratio": ratio(lane.times, times),
            "repetitions": len(lane.times),
        }
        for name, lane in lanes.items()
        if name != "pe"
    }
    return found
