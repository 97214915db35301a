"""Time that a process takes by itself: what it spends waiting for a processor belongs to its neighbours."""

import time
from pathlib import Path


def moment():
    """Return the time, and how long each thread of this process has been ready to run without a processor."""
    while True:
        waited, now = _waited(), time.monotonic()
        if _waited() == waited:                             # no wait lies between the two readings
            return now, waited


def between(start, end):
    """Return the seconds from one moment to another, but for those of the thread that waited longest."""
    waited = [seconds - start[1].get(task, 0) for task, seconds in end[1].items()]
    return end[0] - start[0] - max(waited, default=0)


def _waited():
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
        except OSError:                                     # it has ended, or this system does not count
            pass
    return found
