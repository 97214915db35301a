"""Measure how fast `pe` is, against what this processor can do at most and against its peers.

    python -m benchmarks                        everything (half an hour with every peer)
    python -m benchmarks --quick                the rows that decide, in two minutes
    python -m benchmarks apply_rope decode      some ops or sections
    PE_ISA=avx2 python -m benchmarks causal     with a lower instruction set, against its own peak

Every row is timed in one process with its yardstick and its peers, interleaved repetition by repetition, 15
times at least. Rates count useful work: causal attention T (T + 1) / 2 pairs, a cache its bytes once. One
thread is timed by its CPU clock, several by the wall clock, a small call by the wall clock on the default
number of threads. On a shared machine trust best shares and medians of ratios, not single times. Outputs are
reused (out=) unless a row says "fresh". Peers: NumPy always, torch and onnxruntime where installed
(pip install ".[bench]").
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import platform
import sys
import time
from pathlib import Path

from .report import LEGEND, SLACK, behind, growth, heading, judge, lines, short, verdict
from .table import SECTIONS, TABLE, WORDS, choose


def parse(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Read the command line."""
    names = sorted({case.op for case in TABLE} | set(SECTIONS))
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description=__doc__,
        epilog="words in the rows:\n" + "\n".join(f"  {word:10} {what}" for word, what in WORDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="op", help="of " + ", ".join(names))
    parser.add_argument("--quick", action="store_true", help="only the rows that decide, fewer seconds each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the numbers")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="where to draw them (.png; matplotlib)")
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help="default: 1 and 2")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="keep N processes busy meanwhile")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in names]:
        parser.error(f"no op or section named {', '.join(unknown)}; there are {', '.join(names)}")
    if options.chart and importlib.util.find_spec("matplotlib") is None:
        parser.error("--chart draws with matplotlib, which is not installed: pip install matplotlib")
    return parser, options


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen rows, print them as they come, then the floors; write the JSON."""
    parser, options = parse(arguments)
    import pe

    from . import calls, chart, measure, peers, yard

    available = pe.get_num_threads()
    threads = sorted(set(options.threads or [n for n in (1, 2) if n <= available]))
    if not 1 <= threads[0] <= threads[-1] <= available:
        parser.error(f"--threads: pe may use 1 to {available} threads here, got {threads}")
    try:
        yardsticks = yard.Yard(pe.isa())
    except yard.NoCompiler as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2

    versions, names = peers.describe(), peers.installed(options.quick)
    machine = {
        "cpu": cpu_name(),
        "threads": available,
        "system": platform.platform(),
        "python": platform.python_version(),
        "pe": f"{pe.__version__}, {pe.isa()}",
        **versions,
    }
    print("\n".join(f"{name:12} {value}" for name, value in machine.items()))
    print(LEGEND)
    neighbours = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.busy)]
    for process in neighbours:
        process.start()
    began, results = time.perf_counter(), []
    chosen = choose(options.names, options.quick)
    for section, title in SECTIONS.items():
        rows = [case for case in chosen if case.section == section]
        if not rows:
            continue
        width = max(len(short(case.label, section)) for case in rows)
        print(f"\n{title}\n{heading(section, width, names)}")
        for case in rows:
            try:
                seconds = 0.4 if options.quick else 1.0
                result = measure.measure(case, threads, yardsticks, names, seconds=seconds)
            except calls.Unavailable as reason:
                print(f"  {short(case.label, section):{width}}  not measured: {reason}")
                continue
            results.append(result)
            print("\n".join(lines(result, width, names)), flush=True)
    for process in neighbours:
        process.terminate()
    floors = [floor for case in chosen for floor in judge(case, results, pe.isa())]
    if floors:
        print(f"\nfloors, by the best time; up to {100 * SLACK:.0f} points below are slack for company")
        print("\n".join(verdict(floor) for floor in floors))
    if grown := growth(results):
        print("\ngrowth: time of causal attention beside c times its pairs, one thread, by best shares")
        print("\n".join(grown))
    if slower := behind(results):
        print("\nbehind a peer")
        print("\n".join(slower))
    print(f"\n{len(results)} rows in {time.perf_counter() - began:.0f} s")
    if options.json:
        report = {"machine": machine, "quick": options.quick, "floors": floors, "cases": results}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        print(f"written: {options.json}")
    if options.chart:
        chart.draw(machine, results, options.chart)
        print(f"written: {options.chart}")
    return 0


def spin() -> None:
    """A busy neighbour."""
    while True:
        pass


def cpu_name() -> str:
    """The processor's own name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    # `python -m` puts the source tree first; an installed pe is the one to measure.
    sys.path.append(sys.path.pop(0))
    sys.exit(main())
