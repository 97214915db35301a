"""What the benchmarks print: a line for every row and number of threads, and a verdict for every floor."""

from __future__ import annotations

import math

from .peers import ATTENTION_ONLY
from .table import Case

SLACK = 0.05  # machines are shared: the best of a row may lack 5 points of its floor

LEGEND = """
Values are float32 unless the row says otherwise.
share    of what this processor can do, median / best: multiply-adds, or copy, write, read at the same size;
         of few queries whichever of multiply-adds and reading takes longer, in the cache's bytes; views too
         are held against reading in order, since the rows of all heads together lie so
x peer   how many times longer the peer takes, median of ratios; "plain" is the attention without its extras
         (in decode: on a float32 cache), or beside retention; mha and gqa are MultiHeadAttention and
         GroupQueryAttention of onnxruntime
speedup  how many times faster than on one thread, median / best"""

ATTENTION = ("full", "causal", "variants", "decode")  # sections


def columns(section: str, peers: list[str]) -> list[str]:
    """The peers that can appear in a section."""
    found = [name for name in peers if name not in ATTENTION_ONLY or section in ATTENTION]
    if section == "bias":
        found = [name for name in found if name != "onnxruntime"]
    return ["plain", *found] if section in ("variants", "decode", "retention") else found


def short(label: str, section: str) -> str:
    """Cut what goes without saying: the op where the section's title names it, and float32."""
    return label.removesuffix(" float32").removeprefix("" if section == "small" else "attention ")


def heading(section: str, width: int, peers: list[str]) -> str:
    """The line above a table."""
    names = "".join(f"{'x ' + name.removesuffix('runtime'):>9}" for name in columns(section, peers))
    return f"  {'':{width}} threads      time          rate                share{names}      speedup"


def lines(result: dict, width: int, peers: list[str]) -> list[str]:
    """One line for every number of threads; a small call has its best time where the others have a rate."""
    unit = "GF/s" if result["unit"] == "flop" else "GB/s"
    found = []
    for index, (threads, run) in enumerate(result["runs"].items()):
        label = short(result["label"], result["section"]) if index == 0 else ""
        count = "" if result["section"] == "small" else threads
        limit = run.get("limit", "").removeprefix("float32 ").replace("float64", "f64")
        rate, share = f"best {duration(run['seconds']['best'])}", ""
        if limit:
            rate = f"{result['work'] / run['seconds']['median'] / 1e9:.1f} {unit}"
            share = f"{100 * run['share']['median']:.0f} / {100 * run['share']['best']:.0f} % {limit}"
        ratios = {name: f"{peer['ratio']['median']:.2f}" for name, peer in run["peers"].items()}
        cells = "".join(f"{ratios.get(name, '-'):>9}" for name in columns(result["section"], peers))
        speedup = "{median:.2f} / {best:.2f}".format(**run["speedup"]) if "speedup" in run else ""
        taken = duration(run["seconds"]["median"])
        line = f"  {label:{width}} {count:>7} {taken:>9}  {rate:>12}  {share:>19}{cells}  {speedup:>11}"
        found.append(line.rstrip())
    return found


def duration(seconds: float) -> str:
    """Three digits with a unit that suits."""
    for unit, size in ("s", 1), ("ms", 1e-3):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def judge(case: Case, results: list[dict], isa: str = "avx512") -> list[dict]:
    """Hold a row against its floors; the best decides, because company on a machine only slows down.

    What lacks up to 5 points (of 100, the limit, the peer or one thread) passes: company may last for a row.
    """
    runs: dict = next((result["runs"] for result in results if result["label"] == case.label), {})
    found = []
    for measure, threads, least in case.floors_on(isa):
        run = runs.get(threads, {})
        limit = run.get("limit", case.yardstick)
        names = {"share": f"share of {limit}", "speedup": "speedup over one thread"}
        got = run.get(measure) if measure in names else run.get("peers", {}).get(measure, {}).get("ratio")
        what = names.get(measure, f"times as fast as {measure}")
        met = None if got is None else got["best"] >= least - SLACK
        about = {"case": case.label, "what": what, "threads": threads, "floor": least}
        found.append({**about, "measured": got, "met": met})
    return found


def _count(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def behind(results: list[dict]) -> list[str]:
    """One line for every row and peer that is faster than `pe` both in its best time and in the median."""
    return [
        f"  {result['label']}, {_count(threads)}: {name} {peer['ratio']['best']:.2f} best, "
        f"{peer['ratio']['median']:.2f} median"
        for result in results
        for threads, run in result["runs"].items()
        for name, peer in run["peers"].items()
        if name != "plain" and max(peer["ratio"].values()) < 1
    ]


def growth(results: list[dict]) -> list[str]:
    """One line for every width of causal attention: how far the time of a pair strays as the text grows."""
    pace: dict[int, dict[int, float]] = {}
    for result in results:
        run = result["runs"].get(1)
        if run and result["section"] == "causal":
            *_, length, width = result["shape"]  # a share is beside multiply-adds of the same minute
            times, time = pace.setdefault(width, {}), 1 / run["share"]["best"]
            times[length] = min(time, times.get(length, time))
    found = []
    for width, times in pace.items():
        long = {length: time for length, time in times.items() if length >= 1024}
        if len(long) > 2:
            middle = math.exp(sum(map(math.log, long.values())) / len(long))
            least, most = (100 * (edge(long.values()) / middle - 1) for edge in (min, max))
            lengths = f"{min(long)} to {max(long)} tokens"
            found.append(f"  width {width}, {lengths}: a pair takes c {least:+.1f} to {most:+.1f} %")
    return found


def verdict(floor: dict) -> str:
    """One line about one floor."""
    word = {None: "not measured", True: "met", False: "BELOW"}[floor["met"]]
    if floor["met"] and floor["measured"]["best"] < floor["floor"]:
        word = "within slack"
    got = "{best:.2f} best, {median:.2f} median; ".format(**floor["measured"]) if floor["measured"] else ""
    row = f"{floor['case']}, {_count(floor['threads'])}"
    return f"  {word:12} {row}: {floor['what']} {got}floor {floor['floor']:.2f}"
