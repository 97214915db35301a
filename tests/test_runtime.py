"""Threads and instruction sets as the user sets and reads them."""

import builtins
import doctest
import io

import numpy as np
import pytest
from processes import output

import pe
from pe import _core, runtime


@pytest.fixture
def threads():
    """Put the limit back: there is no way to raise it above what it was."""
    before = pe.get_num_threads()
    yield before
    pe.set_num_threads(before)


def test_docstring_examples_run():
    outcome = doctest.testmod(runtime)
    assert outcome.attempted >= 7
    assert outcome.failed == 0


def test_set_then_get(threads):
    pe.set_num_threads(1)
    assert pe.get_num_threads() == 1
    pe.set_num_threads(10**30)
    assert pe.get_num_threads() == threads


@pytest.mark.parametrize("n", [np.int8(1), np.uint64(1), type("One", (), {"__index__": lambda self: 1})()])
def test_anything_that_is_an_index_sets_it(threads, n):
    pe.set_num_threads(n)
    assert pe.get_num_threads() == 1


@pytest.mark.parametrize(("n", "error", "came"), [
    (0, ValueError, "0"), (-3, ValueError, "-3"), (-(10**30), ValueError, "-1000"), (True, TypeError, "bool"),
    (np.False_, TypeError, "bool"), (1.0, TypeError, "float"), ("2", TypeError, "str"),
    (None, TypeError, "NoneType")])
def test_what_is_no_thread_count_is_refused_and_changes_nothing(threads, n, error, came):
    with pytest.raises(error, match=rf"n must be .*at least 1.*{came}"):
        pe.set_num_threads(n)
    assert pe.get_num_threads() == threads


def test_show_config_says_what_matters(capsys):
    assert pe.show_config() is None
    text, err = capsys.readouterr()
    assert err == "" and text.startswith(f"pe {pe.__version__}\n")
    for fact in (pe.isa(), str(pe.get_num_threads()), _core.config()["compiler"], np.__version__):
        assert fact in text
    openmp = _core.config()["openmp"]
    assert ("serial" if openmp == "off" else openmp) in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_config_of_the_core():
    config = _core.config()
    assert set(config) == {"compiler", "openmp", "best_isa", "scratch_bytes"}
    assert config["openmp"] in ("libgomp", "libomp", "off")
    assert config["compiler"].startswith(("gcc ", "clang "))
    assert config["best_isa"] in ("scalar", "avx2", "avx512", "avx512bf16")


# The container's quota: version 2 of control groups has one file, version 1 two

V2 = "/sys/fs/cgroup/cpu.max"
QUOTA, PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"
OWN, WITHIN = "/proc/self/cgroup", "/sys/fs/cgroup/a.slice/b.service/cpu.max"
ABOVE = "/sys/fs/cgroup/a.slice/cpu.max"
BOX = {"/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "150000",
       "/sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(("files", "cpus"), [
    ({V2: "max 100000\n"}, 0), ({V2: "100000 100000\n"}, 1), ({V2: "150000 100000\n"}, 2),
    ({V2: "1000 100000\n"}, 1), ({V2: "300000 100000\n", QUOTA: "100000\n", PERIOD: "100000\n"}, 3),
    ({QUOTA: "-1\n", PERIOD: "100000\n"}, 0), ({QUOTA: "250000\n", PERIOD: "100000\n"}, 3),
    ({QUOTA: "50000\n"}, 0),
    ({V2: ""}, 0), ({V2: "100000 0\n"}, 0), ({V2: "many few\n"}, 0), ({}, 0),
    # groups within groups, as systemd makes them: the tightest counts, of a sibling none
    ({OWN: "0::/a.slice/b.service\n", WITHIN: "250000 100000\n"}, 3),
    ({OWN: "0::/a.slice/b.service\n", WITHIN: "max 100000\n", ABOVE: "150000 100000\n"}, 2),
    ({OWN: "0::/a.slice/b.service\n", WITHIN: "400000 100000\n", ABOVE: "100000 100000\n"}, 1),
    ({OWN: "0::/a.slice/c.service\n", WITHIN: "100000 100000\n"}, 0),
    ({OWN: "5:cpu,cpuacct:/box\n4:memory:/\n", **BOX}, 2), ({OWN: "5:cpuset:/box\n0::/\n", **BOX}, 0),
    ({OWN: "5:cpu,cpuacct:/not/shown\n", QUOTA: "100000\n", PERIOD: "100000\n"}, 1),  # a container's view
    ({OWN: "no group at all\n", V2: "150000 100000\n"}, 2),
    ({OWN: "0::/\n", V2: "150000 100000\n"}, 2)], ids=str)
def test_quota_is_rounded_up_to_whole_processors(files, cpus, monkeypatch):
    def open_file(path, *_, **options):
        if path not in files:
            raise FileNotFoundError(path)
        return io.StringIO(files[path])

    monkeypatch.setattr(builtins, "open", open_file)
    assert runtime._cpu_quota() == cpus


def test_a_quota_limits_the_threads_of_a_fresh_process():
    report = output("""
        import builtins, io
        real = builtins.open
        def open_file(path, *rest, **options):
            half = io.StringIO("60000 100000")
            return half if path == "/sys/fs/cgroup/cpu.max" else real(path, *rest, **options)
        builtins.open = open_file
        import pe
        print(pe.get_num_threads())
        pe.set_num_threads(8)
        print(pe.get_num_threads())
    """, PE_NUM_THREADS=None)
    assert report.split() == ["1", "1"]


def test_the_environment_is_read_once():
    report = output("""
        import os
        import pe
        before = pe.get_num_threads(), pe.isa()
        os.environ.update(PE_NUM_THREADS="nonsense", PE_ISA="nonsense", OMP_NUM_THREADS="1")
        print((pe.get_num_threads(), pe.isa()) == before)
    """)
    assert report == "True"
