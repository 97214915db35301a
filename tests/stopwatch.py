"""Time that a process takes by itself: what it spends waiting for a processor belongs to its neighbours."""

import os
import time
from pathlib import Path


def moment():
    """Return the time, and how long each thread of this process ran, and waited for a processor."""
    while True:
        seen, now = _threads(), time.monotonic()
        if _waits(_threads()) == _waits(seen):              # no wait lies between the two readings
            return now, seen


def between(start, end):
    """Return the seconds from one moment to another, but for the longest wait; never less than main ran."""
    spent = {task: [b - a for a, b in zip(start[1].get(task, (0, 0)), seconds, strict=True)]
             for task, seconds in end[1].items()}
    ran, _ = spent.get(str(os.getpid()), (0, 0))
    return max(ran, end[0] - start[0] - max(_waits(spent), default=0))


def _waits(threads):
    return [waited for _, waited in threads.values()]


def _threads():
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            ran, waited, _ = (task / "schedstat").read_text().split()
            found[task.name] = int(ran) / 1e9, int(waited) / 1e9
        except OSError:                                     # it has ended, or this system does not count
            pass
    return found
