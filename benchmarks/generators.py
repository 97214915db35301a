"""Measure the generator layer, which is NumPy and SciPy: naming matrices, and carrying by many gaps.

    python -m benchmarks.generators             all rows (two minutes)
    python -m benchmarks.generators classify    those whose name begins so

Each row is the best of at least three calls by the CPU clock of one thread, beside the time it may take.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import NamedTuple

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402  (reads them)

import pe  # noqa: E402
from pe import generators  # noqa: E402

SECONDS = 1.0  # a row is repeated until this much has passed


class Row(NamedTuple):
    """A call and the seconds it may take."""

    name: str
    limit: float
    make: Callable[[], Callable[[], object]]


def basis(n: int, condition: float, seed: int = 0) -> np.ndarray:
    """A random matrix with geometrically spaced singular values."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return U @ np.diag(np.geomspace(1, 1 / condition, n)) @ V


def naming(X: np.ndarray) -> Callable[[], Callable[[], object]]:
    """Rows that classify a matrix."""
    return lambda: lambda: pe.classify(X).summary()


def stack() -> Callable[[], object]:
    """A hundred thousand 2 x 2 matrices, asked for their fields when somebody looks."""
    X = np.random.default_rng(0).standard_normal((100_000, 2, 2))
    return lambda: pe.classify(X)


def carrying(X: np.ndarray, count: int, vectors: bool = False) -> Callable[[], Callable[[], object]]:
    """Rows that carry by many gaps at once."""

    def make() -> Callable[[], object]:
        rng = np.random.default_rng(0)
        t, v = rng.uniform(-1000, 1000, count), rng.standard_normal(len(X))
        return lambda: pe.transport(X, t, v=v if vectors else None)

    return make


def scoring(X: np.ndarray, length: int) -> Callable[[], Callable[[], object]]:
    """Rows that score every query against every key."""

    def make() -> Callable[[], object]:
        q, k = np.random.default_rng(0).standard_normal((2, length, len(X)))
        t, encoding = np.arange(length), generators.encoding(X)
        return lambda: encoding.score(q[:, None], k, t[:, None], t)

    return make


def in_basis(n: int, condition: float) -> np.ndarray:
    """RoPE in a basis that hides it."""
    return generators.conjugate(generators.rope(n), basis(n, condition))


def torn(n: int, noise: float) -> np.ndarray:
    """One Jordan block, torn by noise."""
    return np.eye(n, k=1) + noise * np.random.default_rng(0).standard_normal((n, n))


ROWS = [
    Row("classify 8, RoPE", 0.005, naming(generators.rope(8))),
    Row("classify 128, RoPE", 0.05, naming(generators.rope(128))),
    Row("classify 128, RoPE in an orthogonal basis", 0.05, naming(in_basis(128, 1.0))),
    Row("classify 128, Gaussian", 0.5, naming(np.random.default_rng(0).standard_normal((128, 128)))),
    Row("classify 128, RoPE in a basis of condition 1e3", 0.5, naming(in_basis(128, 1e3))),
    Row("classify 128, ambiguous (condition 1e6)", 0.5, naming(in_basis(128, 1e6))),
    Row("classify 128, ambiguous (condition 1e8)", 0.5, naming(in_basis(128, 1e8))),
    Row("classify 128, a torn Jordan block", 0.5, naming(torn(128, 1e-12))),
    Row("classify 512, RoPE in an orthogonal basis", 10.0, naming(in_basis(512, 1.0))),
    Row("classify 512, RoPE in a basis of condition 1e3", 10.0, naming(in_basis(512, 1e3))),
    Row("classify 512, ambiguous (condition 1e6)", 10.0, naming(in_basis(512, 1e6))),
    Row("classify a stack of 100000 2 x 2", 2.0, stack),
    Row("transport 1000000 gaps, turn", 1.0, carrying(generators.turn(1.0), 1_000_000)),
    Row("transport 1000000 gaps, slide", 1.0, carrying(generators.slide(), 1_000_000)),
    Row("transport 10000 gaps, RoPE 64", 1.0, carrying(generators.rope(64), 10_000)),
    Row("transport 10000 gaps, RoPE 64 in another basis", 2.0, carrying(in_basis(64, 10.0), 10_000)),
    Row("transport one vector by 1000000 gaps, RoPE 64", 5.0, carrying(generators.rope(64), 1_000_000, True)),
    Row("transport one vector ..., in another basis", 5.0, carrying(in_basis(64, 10.0), 1_000_000, True)),
    Row("score 1000 x 1000, RoPE 64", 5.0, scoring(generators.rope(64), 1000)),
    Row("score 1000 x 1000, RoPE 64 in another basis", 5.0, scoring(in_basis(64, 10.0), 1000)),
]  # fmt: skip


def best(call: Callable[[], object]) -> float:
    """Seconds of the fastest call."""
    times, began = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < SECONDS:
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return min(times)


def main(arguments: list[str] | None = None) -> int:
    """Print the rows; the result is how many took longer than they may."""
    parser = argparse.ArgumentParser("python -m benchmarks.generators", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("name", nargs="?", default="", help="beginning of the names of the rows")
    chosen = [row for row in ROWS if row.name.startswith(parser.parse_args(arguments).name)]
    if not chosen:
        parser.error("no row begins so; there are " + ", ".join(row.name for row in ROWS))
    slow = 0
    for row in chosen:
        seconds = best(row.make())
        slow += seconds > row.limit
        verdict = "" if seconds <= row.limit else "  TOO SLOW"
        print(f"{row.name:50} {seconds * 1e3:9.2f} ms   of {row.limit * 1e3:6.0f} ms{verdict}", flush=True)
    return slow


if __name__ == "__main__":
    raise SystemExit(main())
