"""The yardsticks of `yard.c`, compiled on first use and kept in a cache folder.

`Yard(isa)` measures what the processor can do with an instruction set: `peak` in flop/s, `bandwidth` in
byte/s.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("yard.c")
FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")
ISAS = ("scalar", "avx2", "avx512")
# Every kind of traffic in two ways; a yardstick is the better of them.
WAYS = {"read": (0, 1), "write": (2, 3), "copy": (4, 5)}
LINE = 64


class NoCompiler(RuntimeError):
    """The helper could not be built; the message is one sentence for the user."""


def cache_folder() -> Path:
    """A folder of the user's own, or a fresh temporary one where that cannot be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turn-fade-slide"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="turn-fade-slide-"))


def build(folder: Path | None = None, source: Path = SOURCE) -> Path:
    """Compile a C file with $CC (or cc) unless this text, compiler and flags were compiled before."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    key = repr((source.read_bytes(), compiler, FLAGS, platform.machine())).encode()
    library = (folder or cache_folder()) / f"{source.stem}-{hashlib.sha256(key).hexdigest()[:16]}.so"
    if library.exists():
        return library
    part = library.with_suffix(f".{os.getpid()}")
    try:
        subprocess.run([*compiler, *FLAGS, "-o", part, source], check=True, capture_output=True, text=True)
    except OSError as error:
        raise NoCompiler(
            f"the benchmarks need a C compiler for their yardsticks, and {compiler[0]!r} does not run "
            f"({error.strerror}): install one or name it in CC"
        ) from None
    except subprocess.CalledProcessError as error:
        first = (error.stderr.strip().splitlines() or ["no message"])[0]
        raise NoCompiler(f"{shlex.join(compiler)} could not compile {source.name}: {first}") from None
    part.replace(library)
    return library


class Yard:
    """Limits of this processor with one instruction set ("scalar", "avx2" or "avx512").

    A name outside that list (another architecture) means "scalar": plain C as the compiler builds it.
    """

    def __init__(self, isa: str) -> None:
        isa = "avx512" if isa == "avx512bf16" else isa  # its float32 peak
        self.isa = isa if isa in ISAS else "scalar"
        self._index = ISAS.index(self.isa)
        library = ctypes.CDLL(os.fspath(build()))
        self._peak, self._memory = library.yard_peak, library.yard_memory
        self._peak.restype = self._memory.restype = ctypes.c_double
        self._peak.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self._memory.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                 ctypes.c_ssize_t, ctypes.c_int, ctypes.c_long]  # fmt: skip
        self._arrays: tuple[np.ndarray, ...] = ()

    def peak(self, double: bool, threads: int, rounds: int = 50_000) -> float:
        """Multiply-add peak in flop/s; the best of three runs of a fraction of a millisecond."""
        return max(self._peak(self._index, double, threads, rounds) for _ in range(3))

    def bandwidth(self, kind: str, size: int, threads: int) -> float:
        """Byte/s of "read", "write" or "copy" on arrays of `size` bytes; a copy counts both directions."""
        to, source = self._room(size)
        rounds = max(1, (8 << 20) // size)
        return max(self._memory(self._index, way, to, source, size, threads, rounds) for way in WAYS[kind])

    def _room(self, size: int) -> tuple[int, int]:
        """Addresses of two arrays on cache lines, from NumPy as the timed operands are (huge pages alike)."""
        if not self._arrays or self._arrays[0].nbytes < size + LINE:
            self._arrays = ()  # give the old ones back first
            # Not zeros: this would show three times the bandwidth where hardware elides lines of zeros.
            self._arrays = tuple(np.full(size + LINE, 63, np.uint8) for _ in range(2))
        to, source = (-(-array.ctypes.data // LINE) * LINE for array in self._arrays)
        return to, source
