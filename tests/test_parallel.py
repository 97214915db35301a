"""Threads, forks and the floating-point unit: what an op does to the process it runs in."""

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from processes import output, start

import pe
from pe import _core

T = 257
OPENMP = _core.config()["openmp"]
ISAS = ["scalar", "avx2", "avx512", "avx512bf16"]
AVAILABLE = ISAS[: ISAS.index(_core.config()["best_isa"]) + 1]
with_openmp = pytest.mark.skipif(OPENMP == "off", reason="pe was built without OpenMP")
with_two_threads = pytest.mark.skipif(OPENMP == "off" or len(os.sched_getaffinity(0)) < 2,
                                      reason="needs OpenMP and two processors")


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


X = normal(2, 8, T, 64)
LONG = normal(2, 8300, 64)  # keys that are split into parts
ROPE = pe.Rope(64)


def limited(n, call):
    """Call what takes no number of threads under a limit for all."""
    before = pe.get_num_threads()
    pe.set_num_threads(n or before)
    try:
        return call()
    finally:
        pe.set_num_threads(before)


CALLS = {  # each large enough to wake a team
    "apply_rope": lambda n: pe.apply_rope(X, positions=np.arange(T), num_threads=n),
    "apply_rope tables": lambda n: pe.apply_rope(X, *pe.build_rope_cache(T, 64), num_threads=n),
    "apply_rope_2d": lambda n: pe.apply_rope_2d(X, np.arange(T), np.arange(T)[::-1], num_threads=n),
    "decay_bias": lambda n: pe.decay_bias(T, rate=np.linspace(0, 1, 16), num_threads=n),
    "alibi_bias": lambda n: pe.alibi_bias(T, slopes=pe.alibi_slopes(16), causal=False, num_threads=n),
    "attention": lambda n: pe.attention(X, X, X, num_threads=n),
    "attention, every option": lambda n: pe.attention(
        X, X[:, ::4], X[:, ::4], causal=True, scale=0.2, mask=np.arange(T) % 3 > 0, bias=X[0, 0, :, :1],
        alibi_slopes=0.1, rope=ROPE, num_threads=n),
    "attention float16": lambda n: pe.attention(*3 * [X.astype(np.float16)], causal=True, num_threads=n),
    "attention float64": lambda n: pe.attention(*3 * [X.astype(np.float64)], causal=True, num_threads=n),
    "attention, split keys": lambda n: pe.attention(LONG[:, -1:], LONG, LONG, num_threads=n),
    "attention_weights": lambda n: limited(
        n, lambda: pe.attention_weights(X, X[:, ::4], rope=ROPE, causal=True)),
    "attention_weights, split keys": lambda n: limited(n, lambda: pe.attention_weights(LONG[:, -1:], LONG)),
    "Rope.cache": lambda n: limited(n, lambda: ROPE.cache(5000)[1]),
    "retention": lambda n: pe.retention(X, X[:, ::4], X[:, ::4], rate=np.linspace(0, 1, 8), rope=ROPE,
                                        num_threads=n),
}


# The result


@pytest.mark.parametrize("name", CALLS)
def test_same_bits_for_any_number_of_threads_and_every_repeat(name):
    once = CALLS[name](1).tobytes()
    for threads in (1, 2, 3, 16):
        for _ in range(5):
            assert CALLS[name](threads).tobytes() == once


@with_two_threads
def test_same_bits_with_more_threads_than_one_and_the_team_is_real():
    report = output("""
        import os
        import numpy as np, pe
        x = np.random.default_rng(0).normal(size=(2, 8, 257, 64))
        tasks = lambda: len(os.listdir("/proc/self/task"))
        start = tasks()
        few = x[:1, :2, :8]
        pe.attention(few, few, few), pe.alibi_bias(8, slopes=[1, 2])
        pe.apply_rope(few, positions=np.arange(8))
        small = tasks()
        pe.attention(x, x, x)
        print(start, small, tasks(), pe.get_num_threads())
    """, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS=None, PE_NUM_THREADS=None)
    before, small, large, threads = map(int, report.split())
    assert before == small == 1          # a small call wakes nobody
    assert large == threads >= 2


def test_eight_python_threads_at_once():
    names = list(CALLS)
    expected = {name: CALLS[name](1).tobytes() for name in names}
    wrong, barrier = [], threading.Barrier(8)

    def work(first):
        barrier.wait()
        for i in range(len(names)):
            name = names[(first + i) % len(names)]
            if CALLS[name](None).tobytes() != expected[name]:
                wrong.append(name)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not any(worker.is_alive() for worker in workers)
    assert wrong == []


# The global lock


@pytest.mark.parametrize("name", ["attention", "apply_rope", "alibi_bias"])
def test_other_python_threads_run_during_a_call(name):
    x = normal(8, 1500, 64)
    call = {
        "attention": lambda: pe.attention(x, x, x, num_threads=1),
        "apply_rope": lambda: pe.apply_rope(np.broadcast_to(x, (8, 8, 1500, 64)), positions=np.arange(1500)),
        "alibi_bias": lambda: pe.alibi_bias(1500, slopes=pe.alibi_slopes(8)),
    }[name]
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(2e-4)

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        for _ in range(100):  # a tick strictly inside a call shows that the lock was free then
            ticks.clear()
            begin = time.monotonic()
            call()
            end = time.monotonic()
            margin = (end - begin) / 4
            if any(begin + margin < t < end - margin for t in ticks):
                break
        else:
            pytest.fail("no other thread ever ran in the middle half of a call")
    finally:
        done.set()
        ticker.join()


# Forks

FORK = """
    import multiprocessing, os, signal, sys, warnings
    import numpy as np, pe
    warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, for a fork beside threads
    signal.alarm(60)
    x = np.random.default_rng(0).normal(size=(8, 257, 64))
    def call(_=None):
        signal.alarm(20)
        y = pe.apply_rope(x, positions=np.arange(257))
        return pe.attention(y, y, y, causal=True).tobytes() + pe.decay_bias(257, rate=np.ones(8)).tobytes()
"""


def test_a_forked_child_computes_and_so_does_its_parent():
    report = output(FORK + """
    expected = call()
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if call() == call() == expected and pe.get_num_threads() >= 1 else 3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(call() == expected)
    """)
    assert report.split() == ["0", "True"] * 3


def test_a_grandchild_computes():
    report = output(FORK + """
    expected = call()
    pid = os.fork()
    if pid == 0:
        call()
        inner = os.fork()
        if inner == 0:
            os._exit(0 if call() == expected else 3)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert report == "0"


@pytest.mark.parametrize("used", [True, False])
def test_a_multiprocessing_pool_of_forks_computes(used):
    report = output(FORK + f"""
    expected = call() if {used} else None
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(call, range(4))
    print(set(results) == {{call()}})
    """)
    assert report == "True"


def test_a_fork_from_another_thread_computes():
    report = output(FORK + """
    import threading
    expected, status = call(), []
    def fork():
        call()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if call() == expected else 3)
        status.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    worker = threading.Thread(target=fork)
    worker.start()
    worker.join()
    print(status)
    """)
    assert report == "[0]"


@pytest.mark.skipif(OPENMP != "libgomp", reason="libgomp alone loses its team in a fork")
def test_a_fork_after_another_library_used_openmp_computes():
    """The team that a fork loses belongs to the run time: any library that shares it may have made it."""
    report = output(FORK + """
    import ctypes
    do_nothing = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p)
    ctypes.CDLL("libgomp.so.1").GOMP_parallel(do_nothing, None, 2, 0)
    pid = os.fork()
    if pid == 0:
        call()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert report == "0"


# How many threads


@with_openmp
def test_threadpoolctl_limits_are_obeyed():
    before = pe.get_num_threads()
    with threadpoolctl.threadpool_limits(1):
        assert pe.get_num_threads() == 1
    assert pe.get_num_threads() == before


@with_two_threads
def test_a_limit_holds_for_the_thread_that_set_it():
    seen = []
    with threadpoolctl.threadpool_limits(1):
        worker = threading.Thread(target=lambda: seen.append(pe.get_num_threads()))
        worker.start()
        worker.join()
        seen.append(pe.get_num_threads())
    assert seen == [pe.get_num_threads(), 1]


def threads_and_tasks(prelude="", **environment):
    """Threads that pe says a call would use, and those that a large call left in the process."""
    report = output(f"""
        import os
        {prelude}
        import numpy as np, pe
        x = np.ones((8, 257, 64), np.float32)
        pe.attention(x, x, x)
        print(pe.get_num_threads(), len(os.listdir("/proc/self/task")))
    """, **{"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": None, "PE_NUM_THREADS": None} | environment)
    return tuple(map(int, report.split()))


def test_the_default_is_every_processor_this_process_may_use_at_most():
    threads, tasks = threads_and_tasks()
    assert threads == tasks <= len(os.sched_getaffinity(0))
    if OPENMP == "off":
        assert threads == 1


ONE_PROCESSOR = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"


@pytest.mark.parametrize("limit", [
    {"OMP_NUM_THREADS": "1"}, {"PE_NUM_THREADS": "1"}, {"prelude": "import pe; pe.set_num_threads(1)"},
    {"prelude": ONE_PROCESSOR}, {"prelude": f"import pe; {ONE_PROCESSOR}"},  # before and after the import
], ids=lambda limit: str(limit).strip("{}"))
def test_each_limit_to_one_thread_is_obeyed(limit):
    assert threads_and_tasks(**limit) == (1, 1)


@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "PE_NUM_THREADS"])
def test_no_limit_raises_the_number_of_threads(variable):
    assert threads_and_tasks(**{variable: "64"}) == threads_and_tasks()


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "1 2"])
def test_a_thread_count_that_is_none_is_an_import_error(value):
    process = start("import pe", PE_NUM_THREADS=value)
    assert process.returncode == 1
    assert all(text in process.stderr for text in ("ImportError", "PE_NUM_THREADS", repr(value)))


# Instruction sets


@pytest.mark.parametrize("name", ISAS)
def test_pe_isa_forces_a_set_or_says_which_there_are(name):
    process = start("import pe; print(pe.isa())", PE_ISA=name)
    if name in AVAILABLE:
        assert (process.returncode, process.stdout.strip()) == (0, name)
    else:
        assert process.returncode == 1
        assert "ImportError" in process.stderr and all(f in process.stderr for f in [repr(name), *AVAILABLE])


@pytest.mark.parametrize("name", ["sse9", "AVX2", "neon", "avx", "scalar "])
def test_an_unknown_instruction_set_is_an_import_error_that_lists_the_names(name):
    process = start("import pe", PE_ISA=name)
    assert process.returncode == 1
    assert "ImportError" in process.stderr and name in process.stderr
    assert "scalar, avx2, avx512, avx512bf16" in process.stderr


def test_the_fastest_instruction_set_is_the_default():
    """The best, but for products of bfloat16 pairs where they are slower than those of float32."""
    cpu = Path("/proc/cpuinfo")
    fastest = AVAILABLE[-1]
    if fastest == "avx512bf16" and "AuthenticAMD" not in cpu.read_text():
        fastest = "avx512"
    for value in (None, ""):
        assert output("import pe; print(pe.isa())", PE_ISA=value) == fastest


def test_the_private_switch_takes_the_same_names():
    before = pe.isa()
    try:
        for name in AVAILABLE:
            _core._set_isa(name)
            assert pe.isa() == name
        with pytest.raises(ValueError, match="scalar, avx2, avx512, avx512bf16"):
            _core._set_isa("mmx")
        assert pe.isa() == AVAILABLE[-1]
    finally:
        _core._set_isa(before)


# What an import may not change


def test_subnormals_and_the_rounding_mode_survive_import_and_calls():
    """Linking with -ffast-math would flush subnormal numbers to zero in the whole process."""
    report = output("""
        import ctypes, sys, warnings
        warnings.simplefilter("error")
        rounding = ctypes.CDLL("libm.so.6").fegetround
        before = rounding()
        def healthy():
            import numpy as np
            tiny = sys.float_info.min
            return (tiny / 2 != 0 and tiny / 2 * 2 == tiny and np.float32(1e-40) * np.float32(1) != 0
                    and bool((np.full(64, 1e-40, np.float32) * np.float32(1) != 0).all())
                    and rounding() == before and 1 + 2**-53 == 1 and 1 + 3 * 2**-53 == 1 + 2**-51)
        import pe
        print(healthy())
        import numpy as np
        x = np.random.default_rng(0).normal(size=(8, 257, 64)).astype(np.float32)
        y = pe.apply_rope(x, positions=np.arange(257))
        pe.attention(y, y, y, causal=True), pe.alibi_bias(257, slopes=np.ones(8))
        print(healthy())
    """)
    assert report.split() == ["True", "True"]


def test_subnormal_values_come_through_the_ops():
    tiny = np.array([[3e-40, -2e-41]], np.float32)
    assert (pe.apply_rope(tiny, positions=[0]) == tiny).all()
    assert (pe.attention(tiny, tiny, tiny) == tiny).all()


def test_import_loads_numpy_and_the_core_only():
    report = output("""
        import sys
        before = set(sys.modules)
        import pe
        pe.attention(*3 * [[[1.0, 2.0]]], causal=True, rope=pe.Rope(2))
        top = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(*sorted(top - set(sys.stdlib_module_names)))
    """)
    assert report.split() == ["numpy", "pe"]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the free-threaded build came with Python 3.13")
def test_the_global_lock_is_on_after_the_import():
    """Nothing is claimed for a free-threaded Python, which then switches its lock on and says so."""
    assert output("import sys, pe; print(sys._is_gil_enabled())") == "True"
