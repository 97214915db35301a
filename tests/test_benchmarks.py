"""The benchmarks on tiny cases: they measure, refuse wrong answers, and write what the JSON promises."""

import ctypes
import hashlib
import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pe
from pe import _core

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # behind everything else: an installed pe stays the one under test

from benchmarks import __main__, calls, chart, limits, measure, peers, report, table, with_onnx, yard  # noqa: E402


@pytest.fixture(scope="module")
def yardstick(tmp_path_factory):
    """The helper for the instruction set in use, built in a cache folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        try:
            limits = yard.Yard(pe.isa())
        except yard.NoCompiler as error:
            pytest.skip(str(error))
        yield limits


def tiny(case: table.Case) -> table.Case:
    """The same row on operands of a few kilobytes."""
    *lead, length, width = case.shape
    if case.op.endswith("_bias"):
        width = min(width, 24)
    keys = case.keys and (case.keys[0], min(case.keys[1], 24))
    return replace(case, shape=(*(min(n, 8) for n in lead), min(length, 24), width), keys=keys)


@pytest.mark.parametrize("threads", [1, 2])
def test_yardsticks_are_positive(yardstick, threads):
    for isa in yard.ISAS[: yard.ISAS.index(yardstick.isa) + 1]:
        limits = yard.Yard(isa)
        for double in False, True:
            assert limits.peak(double, threads, rounds=2000) > 0
        for kind in yard.WAYS:
            assert limits.bandwidth(kind, 64 << 10, threads) > 0


def test_every_loop_of_a_copy_moves_every_byte(yardstick):
    size = 64 << 10
    for way in yard.WAYS["copy"]:
        room = yardstick._room(size)
        to, source = (np.frombuffer((ctypes.c_char * size).from_address(at), np.uint8) for at in room)
        source[:] = np.arange(size) % 251 + way
        assert yardstick._memory(yardstick._index, way, *room, size, 2, 1) > 0
        np.testing.assert_array_equal(to, source)


def test_missing_compiler_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(yard.NoCompiler, match="'no-such-compiler' does not run") as caught:
        yard.build(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_helper_is_compiled_once(monkeypatch, tmp_path, yardstick):
    first = yard.build(tmp_path)
    stamp = first.stat().st_mtime_ns
    assert yard.build(tmp_path) == first and first.stat().st_mtime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_rows_are_distinct_and_count_useful_work():
    labels = [(case.section, case.label) for case in table.TABLE]
    assert len(set(labels)) == len(labels)
    full, causal = (table.Case("full", "attention", (2, 3, 4, 5), words) for words in ((), ("causal",)))
    assert full.work == 4 * 2 * 3 * 16 * 5 and causal.work == 4 * 2 * 3 * 10 * 5
    decode = table.Case("decode", "attention", (1, 8, 2, 64), ("causal",), keys=(2, 100), dtype="float16")
    assert decode.work == 2 * 2 * 100 * 64 * 2 and decode.yardstick == "read"
    assert decode.limits == {"read": decode.work, "float32 FMA": 4 * 8 * (100 + 99) * 64}
    filled = replace(decode, words=("lengths",), dtype="float64")
    assert filled.limits == {"read": filled.work, "float64 FMA": 4 * 8 * 2 * 75 * 64}
    assert table.Case("retention", "retention", (1, 2, 3, 4)).work == 2 * 2 * (2 * 3 * 4 * 4)
    assert table.Case("bias", "alibi_bias", (2, 3, 5)).work == 120
    assert table.Case("rope", "apply_rope", (2, 3, 4)).work == 192
    with pytest.raises(ValueError, match="unknown words"):
        table.Case("full", "attention", (1, 1, 1, 1), ("caucal",))


def test_the_floors_of_the_project_are_in_the_table_and_in_quick():
    quick = table.choose([], quick=True)
    floors = [(case.op, floor) for case in quick for floor in case.floors]
    assert ("retention", ("plain", 1, 5.0)) in floors
    assert ("attention", ("share", 1, 0.68)) in floors and ("attention", ("speedup", 2, 1.85)) in floors
    for op, least in ("apply_rope", 0.8), ("apply_rope", 0.85), ("apply_rope_2d", 0.76), ("alibi_bias", 0.9):
        assert (op, ("share", 1, least)) in floors and (op, ("share", 2, least)) in floors
    columns = {"share", "speedup", "plain", *peers.PEERS}
    assert {measure for case in table.TABLE for measure, _, _ in case.floors} <= columns
    assert all(case.plain for case in table.TABLE for measure, _, _ in case.floors if measure == "plain")


def test_a_window_counts_what_it_shows():
    case = table.Case("variants", "attention", (1, 1, 4096, 1), ("causal", "window"))
    gap = np.arange(4096)[:, None] - np.arange(4096)
    assert case.window == 512 and case.work == 4 * np.sum((gap >= 0) & (gap < 512))


def test_the_chart_draws_every_row_with_a_limit(tmp_path, yardstick):
    rows = [table.Case("full", "attention", (1, 1, 16, 8)), table.Case("bias", "alibi_bias", (2, 8, 8))]
    results = [measure.measure(c, [1], yardstick, ["numpy"], repetitions=2, seconds=0) for c in rows]
    found, threads = chart.shares(results[0])
    one = results[0]["runs"][1]
    assert threads == 1 and found["pe"] == pytest.approx(one["share"]["best"])
    assert found["numpy"] == pytest.approx(found["pe"] / one["peers"]["numpy"]["ratio"]["best"])
    chart.draw({"cpu": "a processor", "pe": "1, scalar"}, results, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_the_chart_reaches_the_farthest_share(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    for fastest in 1.0, 1.1, 1.9, 3.4, 25.0:
        run = {"yardstick": {"best": 1.0}, "seconds": {"best": 2.0},
               "peers": {"torch": {"seconds": {"best": 1 / fastest}}}}
        row = {"label": "a row", "section": "full", "yardstick": "float32 FMA", "work": 1.0, "runs": {1: run}}
        chart.draw({"cpu": "a processor", "pe": "1, scalar"}, [row], tmp_path / "chart.png")
        axes = drawn[-1].axes[0]
        ticks = axes.get_xticks()
        assert axes.get_xlim()[1] > fastest and fastest - (ticks[1] - ticks[0]) < ticks[-1] <= fastest
        assert len(ticks) <= 11 and axes.get_xticklabels()[-1].get_text() == f"{100 * ticks[-1]:.0f} %"


def test_a_chart_without_matplotlib_is_refused_before_the_run(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match="2"):
        __main__.parse(["--chart", "chart.png"])
    assert "--chart draws with matplotlib, which is not installed" in capsys.readouterr().err


def test_a_faster_peer_is_named():
    peer = {"ratio": {"median": 0.5, "best": 0.7}}
    rows = [{"label": "a row", "runs": {1: {"peers": {"torch": peer, "plain": peer}}}}]
    assert report.behind(rows) == ["  a row, 1 thread: torch 0.70 best, 0.50 median"]


def test_growth_is_held_against_the_square_of_the_length():
    def row(length, share, section="causal"):
        return {"section": section, "shape": (1, 1, length, 64), "runs": {1: {"share": {"best": share}}}}

    rows = [row(512, 0.1), row(1024, 0.8), row(1024, 0.7), row(2048, 0.8)]
    assert report.growth(rows) == []
    rows += [row(4096, 0.8 * 1.1**-3), row(8192, 0.8, "full")]
    assert report.growth(rows) == ["  width 64, 1024 to 4096 tokens: a pair takes c -9.1 to +21.0 %"]


@pytest.mark.parametrize("case", table.TABLE, ids=lambda case: f"{case.section}-{case.label}")
def test_every_row_calls_pe_and_agrees_with_numpy(case):
    problem = calls.Problem(tiny(case))
    try:
        found = peers.calls(problem, 1, peers.installed(quick=True))
    except calls.Unavailable as reason:
        pytest.skip(str(reason))
    lanes = {name: measure.Lane(call, float) for name, call in found.items()}
    assert measure.check_agreement(problem.case, lanes) is not None or "numpy" not in lanes
    if case.dtype in ("float32", "float64") and "rope" not in case.words:
        assert "numpy" in lanes


@pytest.mark.parametrize("op", ["apply_rope", "alibi_bias", "decay_bias"])
@pytest.mark.parametrize("words", [("fresh",), ("fresh", "half")], ids=" ".join)
def test_everybody_makes_new_arrays_in_a_fresh_row(op, words):
    shape = (2, 8, 8) if op.endswith("_bias") else (1, 2, 8, 8)
    found = peers.calls(calls.Problem(table.Case("rope", op, shape, words)), 1, peers.installed(quick=True))
    assert "numpy" in found
    for name, call in found.items():
        first, second = call(), call()  # both alive, so that the second cannot take the place of the first
        assert not np.shares_memory(np.asarray(first), np.asarray(second)), name


def test_no_peer_is_given_scores_that_take_gigabytes():
    pairs = {case: case.shape[2] * case.heads_and_length[1] for case in table.TABLE if case.op == "attention"}
    (longest, *others) = [case for case in pairs if pairs[case] > calls.MOST_PAIRS]
    assert not others
    problem = calls.Problem(longest)
    for composed in calls.numpy_attention, with_onnx._added:
        with pytest.raises(calls.Unavailable, match="gigabytes"):
            composed(problem)


def test_a_wrong_answer_is_not_timed(monkeypatch, yardstick):
    monkeypatch.setattr(pe, "alibi_bias", lambda *_, out, **__: out)
    with pytest.raises(RuntimeError, match="differs from NumPy's"):
        case = table.Case("bias", "alibi_bias", (2, 8, 8))
        measure.measure(case, [1], yardstick, ["numpy"], repetitions=1, seconds=0)


def test_a_measured_row_is_well_formed(yardstick):
    floors = ("share", 1, 0.0), ("speedup", 2, 1e9)
    case = table.Case("causal", "attention", (1, 2, 16, 8), ("causal",), floors=floors)
    result = measure.measure(case, [1, 2], yardstick, ["numpy"], repetitions=3, seconds=0)
    result = json.loads(json.dumps(result))
    assert result["yardstick"] == "float32 FMA" and result["repetitions"] == 3
    one, two = result["runs"]["1"], result["runs"]["2"]
    for run in one, two:
        assert 0 < run["seconds"]["best"] <= run["seconds"]["median"]
        assert run["share"]["median"] > 0 and run["peers"]["numpy"]["ratio"]["median"] > 0
    assert "speedup" not in one and two["speedup"]["median"] > 0

    again = measure.measure(case, [1, 2], yardstick, ["numpy"], repetitions=2, seconds=0)
    met, missed = report.judge(case, [again])
    assert met["met"] and not missed["met"]
    assert report.verdict(met).startswith("  met") and report.verdict(missed).startswith("  BELOW")
    assert "not measured" in report.verdict(report.judge(case, [])[0])


@pytest.mark.parametrize(("best", "word"), [(0.71, "met"), (0.7, "met"), (0.69, "within slack"),
                                            (0.6501, "within slack"), (0.6499, "BELOW"), (0.5, "BELOW")])
def test_a_floor_has_five_points_of_slack_and_what_lies_in_it_is_said(best, word):
    case = table.Case("decode", "attention", (1, 8, 1, 64), keys=(2, 64), floors=(("share", 1, 0.7),))
    run = {"limit": "read", "share": {"best": best, "median": 0.4}}
    (floor,) = report.judge(case, [{"label": case.label, "runs": {1: run}}])
    assert floor["met"] == (word != "BELOW")
    assert report.verdict(floor).startswith(f"  {word} ")
    assert f"{best:.2f} best, 0.40 median; floor 0.70" in report.verdict(floor)


def test_the_slower_of_two_limits_binds(monkeypatch, yardstick):
    case = table.Case("decode", "attention", (1, 8, 1, 64), keys=(2, 64), floors=(("share", 1, 0.7),))
    flops = case.limits["float32 FMA"]
    read = 2e3 * case.work
    for peak, limit in (1e3 * flops, "float32 FMA"), (3e3 * flops, "read"):
        monkeypatch.setattr(yardstick, "peak", lambda *_, peak=peak: peak)
        monkeypatch.setattr(yardstick, "bandwidth", lambda *_: read)
        result = measure.measure(case, [1], yardstick, ["numpy"], repetitions=3, seconds=0)
        found = result["runs"][1]
        assert found["limit"] == limit
        allowed = min(peak / flops, read / case.work)
        assert found["yardstick"]["best"] == pytest.approx(allowed * case.work)
        assert found["share"]["best"] == pytest.approx(1 / found["seconds"]["best"] / allowed)
        assert report.lines(result, 40, ["numpy"])[0].count(f" % {limit.removeprefix('float32 ')}") == 1
        (floor,) = report.judge(case, [result])
        assert floor["what"] == f"share of {limit}"


def test_a_sample_begins_with_operands_in_the_caches(monkeypatch):
    clock = iter(range(100))
    calls = []
    lane = measure.Lane(lambda: calls.append(0), lambda: next(clock) * 1e-4)
    lane.calibrate()
    calls.clear()
    lane.sample()
    assert len(calls) == lane.number + 1
    lane = measure.Lane(lambda: calls.append(0), lambda: float(next(clock)))
    lane.calibrate()
    calls.clear()
    lane.sample()
    assert len(calls) == lane.number == 1


def test_a_sample_waits_for_threads_that_run():
    # without the GIL
    hashing = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 300_000))
    hashing.start()
    seen = False
    while hashing.is_alive() and not seen:
        seen = measure.others_run()
    hashing.join()
    measure.settle()  # Python's thread has ended, the system's not quite
    assert seen and not measure.others_run()


def test_command_line(tmp_path, yardstick):
    target = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "benchmarks", "small", "--quick", "--threads", "1", "--json", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    written = json.loads(target.read_text())
    assert written["quick"] and len(written["cases"]) == len(table.choose(["small"], quick=True))
    assert "numpy" in written["machine"] and "apply_rope (1, 1, 8, 16)" in done.stdout
    command = [*command[:3], "rotate"]
    wrong = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert wrong.returncode == 2 and "no op or section named rotate" in wrong.stderr


@pytest.fixture
def loops(yardstick):
    """The loops whose instructions bound a kernel."""
    if _core.config()["best_isa"] == "scalar":
        pytest.skip("the loops are written for AVX2")
    return limits.Loops()


def test_the_loop_of_angles_makes_them(loops):
    start = loops._room - loops._numbers.ctypes.data
    words = loops._numbers[start : start + limits.ROOM].view(np.uint32)
    reals = words.view(np.float32)
    rng = np.random.default_rng(0)
    position, frequency = rng.integers(0, 2**20, 16), rng.integers(0, 2**32, 32)
    words[:16], words[16:48] = position, frequency
    reals[48:64], reals[64:96] = position, rng.uniform(-1e-9, 1e-9, 32)
    turns = position[:, None] * frequency % 2**32 * (2 * np.pi / 2**32)
    expected = turns + position[:, None] * reals[64:96].astype(float)
    loops.seconds("angles", 1)
    made = reals[1024:2048].reshape(2, 16, 32)
    np.testing.assert_allclose(made, [np.cos(expected), np.sin(expected)], atol=3e-7)


def test_limits_print_a_line_for_every_loop(loops, monkeypatch, capsys):
    monkeypatch.setattr(limits, "REPETITIONS", 2)
    monkeypatch.setattr(limits, "GROUPS", limits.GROUPS[2:3])
    assert limits.main() == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(limits.LOOPS) + 1 and "AVX2" in heading
    assert all(float(line.split("  ")[-1].split()[0]) > 0 for line in lines)
