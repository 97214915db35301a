"""Threads and instruction sets: what a call made now would use.

Environment variables are read once, when ``pe`` is imported: ``PE_NUM_THREADS`` limits the threads of every
call, ``PE_ISA`` (scalar, avx2, avx512, avx512bf16) forces an instruction set.
"""

import math
import operator
import os

import numpy as np

from . import _core

__all__ = ["get_num_threads", "isa", "set_num_threads", "show_config"]


def isa() -> str:
    """Name the instruction set of the kernels in use.

    Returns
    -------
    str
        ``"scalar"`` (plain C), ``"avx2"`` (with FMA and F16C), ``"avx512"`` or ``"avx512bf16"`` (with
        products of bfloat16 pairs): what the environment variable ``PE_ISA`` asked for at import, or else the
        fastest that this processor has. Products of pairs are that on AMD's Zen 4 and 5.

    Examples
    --------
    >>> import pe
    >>> pe.isa() in ("scalar", "avx2", "avx512", "avx512bf16")
    True
    """
    return _core.isa()


def get_num_threads() -> int:
    """Say how many threads a call made now, from this thread, would use at most.

    The smallest of: `set_num_threads` or ``PE_NUM_THREADS``, OpenMP's own maximum (``OMP_NUM_THREADS``,
    threadpoolctl), the processors this process may run on, and the container's CPU quota at import. Calls on
    small arrays stay on one thread whatever this says.

    Returns
    -------
    int

    Examples
    --------
    >>> import pe
    >>> pe.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def set_num_threads(n: int) -> None:
    """Limit the threads of all later calls of this process.

    Parameters
    ----------
    n : int
        At least 1. It can only lower the number that the machine and OpenMP allow.

    Raises
    ------
    TypeError
        If `n` is not an integer.
    ValueError
        If `n` is less than 1.

    Examples
    --------
    >>> import pe
    >>> before = pe.get_num_threads()
    >>> pe.set_num_threads(1)
    >>> pe.get_num_threads()
    1
    >>> pe.set_num_threads(before)
    """
    _core.set_thread_limits(0, _thread_count(n, "n"))


def _thread_count(n, name):
    if isinstance(n, bool | np.bool_):
        raise TypeError(f"{name} must be an integer of at least 1, got the bool {n}")
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(f"{name} must be an integer of at least 1, got {type(n).__name__}") from None
    if count < 1:
        raise ValueError(f"{name} must be at least 1, got {count}")
    return min(count, 2**30)


def show_config() -> None:
    """Print the version, OpenMP run time and threads, instruction set, compiler and NumPy.

    Examples
    --------
    >>> import pe
    >>> pe.show_config()  # doctest: +ELLIPSIS
    pe ...
    """
    from . import __version__

    build = _core.config()
    openmp = "off (serial)" if build["openmp"] == "off" else build["openmp"]
    print(f"pe {__version__}")
    print(f"  instruction set  {isa()} (this processor's best: {build['best_isa']})")
    print(f"  threads          {get_num_threads()}, OpenMP {openmp}")
    print(f"  compiler         {build['compiler']}")
    print(f"  NumPy            {np.__version__}")


def _cpu_quota():
    """Whole CPUs that the quotas of this process's control groups leave it, rounded up; 0 without any."""
    shares = []
    for group in _control_groups():
        first, second = f"/sys/fs/cgroup/cpu{group}/cpu.cfs", f"/sys/fs/cgroup{group}/cpu.max"
        limit = _read(second) or f"{_read(first + '_quota_us')} {_read(first + '_period_us')}"
        try:
            quota, period = map(float, limit.split())
            share = quota / period
        except (ValueError, ZeroDivisionError):  # "max 100000" and "-1 100000": no limit
            continue
        if share > 0:
            shares.append(share)
    return math.ceil(min(shares, default=0))


def _control_groups():
    """Paths of the groups this process is in and of all above them; "" is the root, or a container's own."""
    paths = {""}
    for line in _read("/proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers or "cpu" in controllers.split(","):  # version 2, or that hierarchy of version 1
            while path:
                paths.add(path.rstrip("/"))
                path = path.rpartition("/")[0]
    return paths


def _read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _read_environment():
    wanted = os.environ.get("PE_NUM_THREADS", "").strip()
    if wanted and not (wanted.isdecimal() and int(wanted) >= 1):
        raise ImportError(f"PE_NUM_THREADS={wanted!r}: expected a whole number of at least 1")
    _core.set_thread_limits(_cpu_quota(), min(int(wanted), 2**30) if wanted else 0)


_read_environment()
