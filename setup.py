"""What must be computed to build pe._core: per-file instruction sets, and whether OpenMP works.

The rest of the package's description is in pyproject.toml.

PE_OPENMP=auto|on|off   auto (default) uses OpenMP where a small program compiles, links and runs with it
PE_SANITIZE=1           AddressSanitizer and UndefinedBehaviorSanitizer, for tests
"""

import os
import platform
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ABI3 = not sysconfig.get_config_var("Py_GIL_DISABLED")
SANITIZE = os.environ.get("PE_SANITIZE", "") not in ("", "0")
X86 = platform.machine().lower() in ("x86_64", "amd64")

# -g1, names and lines alone: Python's own -g takes as long as the rest, and most of the file
FLAGS = """-std=gnu11 -O3 -g1 -fvisibility=hidden -ffp-contract=off -fno-math-errno
    -Wall -Wextra -Wshadow -Wconversion
    -Werror=implicit-function-declaration -Werror=int-conversion""".split()
FLAGS_OF = {
    "micro_avx2": "-mavx2 -mfma -mf16c".split(),
    "micro_avx512": "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq".split(),
    "micro_avx512bf16": "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16".split(),
}
# CPython's own flags come first: -fwrapv would silence the signed-overflow check, -DNDEBUG the asserts.
SANITIZERS = ["-fsanitize=address,undefined"]
SANITIZER_FLAGS = """-fno-sanitize-recover=undefined -fno-omit-frame-pointer -fno-wrapv -UNDEBUG
    -O1""".split() + SANITIZERS

OPENMP_PROBE = """
#include <omp.h>
int main(void) {
    int n = 0;
#pragma omp parallel num_threads(2) reduction(+ : n)
    n += 1;
    return omp_get_max_threads() < 1 || n < 1;
}
"""

PAIRS_PROBE = """
#include <immintrin.h>
__m512 add(__m512 sum, __m512bh a, __m512bh b) { return _mm512_dpbf16_ps(sum, a, b); }
int main(void) { return 0; }
"""


class BuildCore(build_ext):
    """Adds flags by source file; asks the compiler that will be used what it can do."""

    def works(self, text, *flags):
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "probe.c"), Path(folder, "probe")
            source.write_text(text)
            compiler = self.compiler.compiler  # all of it: the first word may be ccache
            try:
                subprocess.run([*compiler, *flags, source, "-o", program], check=True, capture_output=True)
                return subprocess.run([program], capture_output=True).returncode == 0
            except (OSError, subprocess.CalledProcessError):
                return False

    def build_extensions(self):
        choice = os.environ.get("PE_OPENMP", "auto")
        if choice not in ("auto", "on", "off"):
            raise SystemExit(f"PE_OPENMP={choice!r}: expected auto, on or off")
        openmp = choice != "off" and self.works(OPENMP_PROBE, "-fopenmp")
        if choice == "on" and not openmp:
            raise SystemExit("PE_OPENMP=on, but a small OpenMP program does not compile, link and run here")
        if X86 and not self.works(PAIRS_PROBE, *FLAGS_OF["micro_avx512bf16"]):  # gcc before 10
            self.extensions[0].sources.remove("csrc/micro_avx512bf16.c")
            self.extensions[0].define_macros.append(("PE_NO_PAIRS", None))
        compile_one = self.compiler._compile

        def compile_with_flags(obj, src, ext, cc_args, extra, pp_opts):
            stem = Path(src).stem
            flags = extra + FLAGS + FLAGS_OF.get(stem, []) + (SANITIZER_FLAGS if SANITIZE else [])
            if openmp and stem == "parallel":
                flags = flags + ["-fopenmp"]
            compile_one(obj, src, ext, cc_args, flags, pp_opts)

        self.compiler._compile = compile_with_flags
        compile_in_turn = self.compiler.compile

        def compile_side_by_side(sources, **options):
            # only Linux says which processors this process may use
            usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
            with ThreadPoolExecutor(usable) as pool:
                return sum(pool.map(lambda source: compile_in_turn([source], **options), sources), [])

        self.compiler.compile = compile_side_by_side
        for extension in self.extensions:
            extension.extra_link_args += (["-fopenmp"] if openmp else []) + (SANITIZERS if SANITIZE else [])
        super().build_extensions()


sources = sorted(str(path) for path in Path("csrc").glob("*.c"))
if not X86:
    sources = [path for path in sources if "avx" not in path]

setup(
    ext_modules=[
        Extension(
            "pe._core",
            sources=sources,
            depends=sorted(str(path) for path in Path("csrc").glob("*.h")),
            include_dirs=["csrc", numpy.get_include()],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if ABI3 else [],
            extra_link_args=["-lm", "-pthread"],
            py_limited_api=ABI3,
        )
    ],
    cmdclass={"build_ext": BuildCore},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
)
