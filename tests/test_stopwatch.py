"""The clock of the tests of interrupts: it leaves out the company of others, and nothing else."""

import os
import subprocess
import sys
import time

import pytest
from stopwatch import between, moment


def work(seconds):
    """Compute for so long by the clock of this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_sleeping_and_computing_count():
    """As does a call that hears nothing."""
    for spend in time.sleep, work:
        start = moment()
        spend(0.3)
        assert between(start, moment()) > 0.28


def test_another_thread_that_waits_takes_nothing_from_what_this_one_runs():
    me, other = str(os.getpid()), "another"
    start, end = (5.0, {me: (1.0, 0.0), other: (0.0, 0.0)}), (6.0, {me: (1.75, 0.0), other: (0.0, 1.0)})
    assert between(start, end) == 0.75
    assert between((5.0, {}), (6.0, {other: (0.0, 0.25)})) == 0.75


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel does not count waiting")
def test_waiting_for_a_processor_does_not_count():
    processor = min(before := os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processor})
    crowd = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        time.sleep(0.5)
        start = moment()
        work(0.2)
        end = moment()
    finally:
        for each in crowd:
            each.kill()
            each.wait()
        os.sched_setaffinity(0, before)
    assert end[0] - start[0] > 0.5                          # of five alike
    assert between(start, end) < (end[0] - start[0]) / 2
