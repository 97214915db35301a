"""Signals during a call: Ctrl-C, handlers that call ops or fork, and the end of the process."""

import os

import pytest
from processes import output

from pe import _core

with_two_threads = pytest.mark.skipif(_core.config()["openmp"] == "off" or len(os.sched_getaffinity(0)) < 2,
                                      reason="needs OpenMP and two processors")

# A timer thread sends the real signal, long before the call would end. The scalar kernels and many axes keep
# the arrays of the memory-bound ops small.
INTERRUPT = """
    import os, signal, threading, time
    import numpy as np, pe
    from stopwatch import between, moment
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(0)
    rope = pe.Rope(64, freqs=rng.uniform(0.1, 1, size=(8, 32)))
    x = rng.normal(size=(100_000, 64)).astype(np.float16)
    positions = rng.normal(size=(100_000, 8))
    q = rng.normal(size=(8, 1024, 64)).astype(np.float32)
    k = np.broadcast_to(rng.normal(size=(1, 60_000, 64)).astype(np.float32), (8, 60_000, 64))
    wide = np.empty((8, 4096, 4096), np.float16)
    calls = {
        "attention": lambda out: pe.attention(q, k, k, causal=True, out=out),
        "attention rope": lambda out: pe.attention(q, k, k, rope=pe.Rope(64), return_lse=True, out=out),
        "retention": lambda out: pe.retention(k, k, k, rate=0.1, rope=pe.Rope(64), out=out),
        "apply_rope": lambda out: pe.apply_rope(x, positions=positions, rope=rope, out=out, num_threads=1),
        "in place": lambda out: pe.apply_rope(out, positions=positions, rope=rope, out=out, num_threads=1),
        "alibi_bias": lambda out: pe.alibi_bias(4096, slopes=pe.alibi_slopes(8), out=out, num_threads=1),
    }
    def interrupted(name, out):
        sent = []
        def send():
            sent.append(moment())
            os.kill(os.getpid(), signal.SIGINT)
        timer = threading.Timer(0.05, send)
        timer.start()
        try:
            calls[name](out)
            time.sleep(60)
        except KeyboardInterrupt:
            return between(sent[0], moment())
"""


@pytest.mark.parametrize(("name", "out"), [
    ("attention", "q.copy()"), ("attention rope", "q.copy()"), ("apply_rope", "x.copy()"),
    ("retention", "k.copy()"), ("alibi_bias", "wide")])
def test_ctrl_c_stops_a_call_within_a_fifth_of_a_second(name, out):
    report = output(INTERRUPT + f"""
    out = {out}
    out[...] = 77
    print(min(interrupted({name!r}, out) for _ in range(3)), bool((out[..., -1] == 77).any()))
    small = pe.attention(q[:, :8], q[:, :8], q[:, :8])
    print(np.allclose(small, pe.reference.attention(q[:, :8], q[:, :8], q[:, :8]), atol=1e-5))
    """, PE_ISA="scalar")
    seconds, unfinished, usable = report.split()
    assert float(seconds) < 0.2
    assert unfinished == "True"          # the call was cut short, and not merely quick
    assert usable == "True"


def test_ctrl_c_lets_a_rope_into_its_own_input_run_to_its_end():
    report = output(INTERRUPT + """
    expected, out = x.copy(), x.copy()
    start = time.monotonic()
    calls["in place"](expected)
    seconds = time.monotonic() - start
    assert seconds > 0.1, f"too quick to interrupt: {seconds}"
    assert interrupted("in place", out) is not None
    print(out.tobytes() == expected.tobytes(), bool((out != x).any()))
    """, PE_ISA="scalar")
    assert report.split() == ["True", "True"]


@with_two_threads
def test_interrupts_are_seen_until_the_last_task_ends_within_a_fifth_of_a_second():
    """Of 40 heads the second alone sees any key: the thread that hears signals has nothing else to do."""
    report = output("""
        import itertools, signal, statistics
        import numpy as np, pe
        from stopwatch import between, moment
        n = 1_000_000 if pe.isa() != "scalar" else 50_000
        q, k = np.ones((40, 32, 256)), np.broadcast_to(np.ones(256), (40, n, 256))
        place = np.where(np.arange(40) == 1, 0.0, 2.0)[:, None]
        places = dict(causal=True, q_positions=np.ones(32), k_positions=np.broadcast_to(place, (40, n)))
        def longest_silence():
            heard = [moment()]
            signal.signal(signal.SIGALRM, lambda *_: heard.append(moment()))
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            pe.attention(q, k, k, num_threads=2, **places)
            signal.setitimer(signal.ITIMER_REAL, 0)
            heard.append(moment())
            return max(between(a, b) for a, b in itertools.pairwise(heard))
        print(statistics.median(longest_silence() for _ in range(5)))
    """)
    assert float(report) < 0.2


# Handlers, which run amid a task

ALARM = """
    import os, signal, sys, threading, time
    import numpy as np, pe
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(8, n, 64)).astype(np.float32) for n in (256, 3000))
    def on_alarm(handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.03)
"""


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=with_two_threads)])
def test_a_handler_may_call_ops_of_its_own(threads):
    """One that takes less scratch than the call it interrupts, and one that takes more."""
    report = output(ALARM + f"""
    small, large = rng.normal(size=(2, 9, 16)), rng.normal(size=(1, 70, 700))
    calls = [lambda: pe.attention(q, k, k, num_threads={threads}),
             lambda: pe.attention(small, small, small), lambda: pe.attention(large, large, large)]
    expected, *of_handler = (call().tobytes() for call in calls)
    heard = []
    def handler(*_):
        heard.append([call().tobytes() for call in calls[1:]] == of_handler)
        on_alarm(handler)
    on_alarm(handler)
    same = calls[0]().tobytes() == expected
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(same, len(heard) > 0, all(heard))
    """, PE_ISA="scalar")
    assert report.split() == ["True", "True", "True"]


@with_two_threads
def test_a_handler_may_fork_and_the_child_is_interrupted():
    report = output(ALARM + """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, for a fork beside threads
    expected, children = pe.attention(q, k, k).tobytes(), []
    on_alarm(lambda *_: children.append(os.fork()))
    try:
        same = pe.attention(q, k, k, num_threads=2).tobytes() == expected
    except KeyboardInterrupt:
        small = q[:, :64]
        usable = np.allclose(pe.attention(small, small, small), pe.reference.attention(small, small, small),
                             atol=1e-5)
        os._exit(7 if children == [0] and usable else 3)
    print(same, os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
    """, PE_ISA="scalar")
    assert report.split() == ["True", "7"]


@with_two_threads
def test_a_handler_may_fork_while_the_caller_waits_for_a_helper():
    """Of the last two tasks one takes eight times as long: whoever has the other waits. Every child ends."""
    report = output(ALARM + """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    N, me, children = 1 << 19, os.getpid(), []
    q = np.ones((8, 1, 64, 8), np.float32)
    k = np.broadcast_to(q[:1, :, :1], (8, 1, N, 8))
    lengths = np.array([1] * 6 + [N // 8, N])
    signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
    start = time.monotonic()
    pe.attention(q, k, k, kv_lengths=lengths, num_threads=2)
    pause = max(0.06, (time.monotonic() - start) / 8)  # not faster than children end
    for _ in range(5):
        signal.setitimer(signal.ITIMER_REAL, pause, pause)
        try:
            pe.attention(q, k, k, kv_lengths=lengths, num_threads=2)
        except KeyboardInterrupt:
            assert os.getpid() != me
        if os.getpid() != me:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    end, left = time.monotonic() + 30, set(children)
    while left and time.monotonic() < end:
        left -= {child for child in left if os.waitpid(child, os.WNOHANG)[0]}
        time.sleep(0.02)
    for child in left:
        os.kill(child, signal.SIGKILL)
    print(len(children) > 0, len(left))
    """, PE_ISA="scalar")
    assert report.split() == ["True", "0"]


@with_two_threads
def test_the_process_may_end_amid_a_call_of_a_daemon_thread():
    """Python ends such a thread where it asks for the interpreter; helpers are at work on its call."""
    report = output(ALARM + """
    class Late:
        def __del__(self, sleep=time.sleep):
            sleep(0.3)
    sys.modules["late"] = Late()  # so that the end takes a while
    k = np.concatenate([k] * 8, axis=1)
    threading.Thread(target=lambda: pe.attention(q, k, k, num_threads=2), daemon=True).start()
    time.sleep(0.1)
    print("the end")
    """, PE_ISA="scalar")
    assert report == "the end"
