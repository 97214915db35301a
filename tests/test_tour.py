"""The tour: live numbers, those of the sources among them, in 80 columns; and the page it writes."""

import importlib
import io
import re
from contextlib import chdir
from functools import cache
from pathlib import Path

import pytest
from command_line import assert_refused, run_command

import pe
from pe.tour import CHAPTERS, take
from pe.tour.text import Script

NUMBERS = range(1, len(CHAPTERS) + 1)

# What source documents 1 and 2 print, or what follows from it to more digits.
EXPECTED = {
    1: ["the dog bit the man", "the man bit the dog", r"no position +[\d.]+e-1[67] "],
    2: ["h5 then h4 = h9", "h7 then h8 = h3", "h5 then h7 = h0", "(h2 h3) h4 = h9",
        "144 pairs", "1728 triples",
        r"hours of the clock, plus +yes +yes +yes +yes +yes",
        r"quarter turns, times +yes +yes +yes +yes +yes",
        r"positive whole numbers, plus +yes +NO +NO +yes +NO",
        r"2x2 matrices, times +yes +yes +NO +yes +NO",
        r"squash \[\[1, 0\], \[0, 0\]\]", r"both to\s+\(5, 0\)"],
    3: [r"log +times to plus +1.7918 +1.7918", r"exp +plus to times +148.4132 +148.4132",
        r"square +plus to plus +25.0000 +13.0000 +12"],
    4: [r"A\(5\) +0.2837 +-0.9589 +0.6065 +5", r"A\(2\) A\(3\) +0.2837 +-0.9589 +0.6065 +5",
        r"turn +[\d.]+e-1[567]", r"slide +(0.0e\+00|[\d.]+e-1[567])", r"hurried: angle 0.01 t\^2 +1.8e-01",
        "-0.0021", "6.3e+103"],
    5: [r"3 +9 +5\n", r"1000 +1000000 +1999\n"],
    6: [r"0 +1.000 +0.0 ", r"5 +0.607 +-0.5 ", r"10 +0.368 +-1.0 ",
        r"25 +0.082 ", r"50 +0.0067 ", r"100 +0.000045 ", "6.9315 tokens", "148.4132"],
    7: [r"0.1 +0.1 +explode +explode\n", r"0 +0 +nothing +nothing\n", r"-0.1 +-0.1 +fade +fade\n",
        r"0 -1; 1 0 +±1i +turn +turn\n", r"-0.1 -1; 1 -0.1 +-0.1±1i +turn\+fade +turn\+fade\n",
        r"0 1; 0 0 +0 \(x2\) +slide +slide\n",
        "NoPE", "decay", r"turn +RoPE +.*Llama",
        r"damped RoPE +.*RetNet", r"ALiBi +.*BLOOM", "beyond", "mixed",
        r"i theta +cos\(theta u\) \+ i sin\(theta u\) +turn\n", '"damped rotating slide"',
        r"differ\s+from\s+exp\(uX\)\s+by\s+[\d.]+e-1[3-6]\s+at\s+most"],
    8: ["16384 entries 256 are not zero", r"64 dials of 2 x 2 +256 +256", r"0 +1 +6.3\n", r"1 +0.316 +19.9\n",
        r"2 +0.1 +62.8\n", r"3 +0.032 +198.7\n", r"4 +0.01 +628.3\n",
        r"5 +0.0032 +1987\n", r"6 +0.001 +6283\n", r"7 +0.00032 +19869\n", "54410"],
    9: [r"5 +2 +3 +5.5431010613 +5.543101 ", r"13 +10 +3 +5.5431010613 ", r"103 +100 +3 +5.5431010613 ",
        r"7 +0 +7 +5.8921859874 ", r"5 +6.137 ", r"10 +3.646 ", r"0 +8.000 "],
    10: [r"17 +14 +(-?[\d.]+) +-?[\d.]+\n +1003 +1000 +\1 +-?[\d.]+\n"
         r" +8300 +8297 +\1 +IndexError: index 8300"],
    11: [r"-2 +\(-2, 1\) +-1 +1 +-1\n", r"0 +\(0, 1\) +0 +0 +0\n", r"3 +\(3, 1\) +1.5 +-1.5 +-1.5\n",
         r"100 +\(100, 1\) +50 +-50 +-50\n",
         "0.5, 0.25, 0.125", r"differ\s+by\s+(0.0e\+00|[\d.]+e-1[567])\s+at\s+most"],
    12: [r"\(3, 5\) +\(4, 5\) +1.0 +14\n", r"\(3, 13\) +\(4, 0\) +13.0 +1\n",
         r"block form, 2 axes +4x4 +0.00 +[\d.]+e-1[567] +yes",
         r"block form, 4 axes +8x8 +0.00 +[\d.]+e-1[567] +yes",
         r"x \+ y in one plane +2x2 +0.00 +[\d.]+e-1[567] +NO",
         r"two random skew B +4x4 +0.\d+ +[1-9].\de[-+]0[01]",
         r"reads \(1.25, -3.00\)", r"score\s+(-?\d\.\d{6}),\s+at\s+\(11,\s+22\) and \(14, 26\)\s+\1"],
    13: ["i j = k is True", "j i = -k is True", r"\(0.3, 0.7\) +\(1.1, -0.4\) +1.438 ",
         r"\(1, 2\) +\(3, 5\) +0.1618 ", r"dimension\s+0:\s+only\s+B2 = 0",
         r"0 +0 +0 +0 +1 +1.0000 +1.0000\n",
         r"3/10 +1/2 +1/2 +-3/10 +1 +1.1576 ", r"2 +-3 +-3 +-2 +1 +3.7417 "],
    14: [r"-0.5 u \(ALiBi\) +slide +2 ", r"e\^\(-0.1 u\) \(decay\) +fade +1 ", r"cos 0.3 u +turn +2 ",
         r"cos 0.5 u +turn\+fade +2 ", r"u e\^\(-0.1 u\) +fading slide +2 ", r"RoPE, 8 planes +turn +10 ",
         r"-log\(1 \+ u\) +outside", r"1 / \(1 \+ u\) +outside", "T5 buckets +outside",
         "RoPE and noise +outside",
         r"finds\s+0.7168", r"finds\s+7.0000", r"flip,\s+integers\s+only"],
    15: [r"\n  RoPE +yes +yes +yes +turn\n", r"0.5 \(t - s\) +yes +yes +yes +slide, nothing",
         r"\)\) +yes +yes +yes +fade\n", r"RoPE - 0.1 \(t - s\) +yes +yes +yes +turn, slide",
         "learned table +yes +NO +- +none", "raw index added +yes +NO +- ", "table of gaps +yes +yes +NO ",
         "step at gap 5 +yes +yes +NO ", r"tanh\(q.k\) e\^\(..\) +NO +- +- ", "gate from the key +NO +- +- ",
         r"log\(1\+\|t-s\|\) +NO +yes +yes ", r"0.5 \|t - s\| +NO +yes +yes +none",
         r"learned table +t, s = \(0, 0\) and \(1, 1\): 4.721, 9.621", "table of gaps +no score at gap 0.5",
         r"step at gap 5 +jumps by 1.1 at gap 5", "gate from the key +whole 0.271, sum of parts 0.736",
         r"\|t-s\|\) +11 coordinates leave", r"0.5 \|t - s\| +X of keys behind misses by 0.25 at gap -0.25"],
    16: [r"nothing \(NoPE\) +- +[\d.]+ ms +[\d.]+ ms", r"turn \(RoPE\) +rope=",
         r"slide \(ALiBi\) +alibi_slopes=", r"fade \(decay\) +decay_rate=",
         r"turn \+ fade +rope=, decay_rate="],
}

# The public calls each chapter has its numbers from.
CALLS = {1: ["attention", "Rope"], 2: ["check_group_axioms"], 3: ["homomorphism_defect"],
         4: ["transport", "group_law_residual"], 5: ["encoding"], 6: ["transport", "decay_bias", "classify"],
         7: ["classify"], 8: ["Rope", "apply_rope"], 9: ["apply_rope"], 10: ["apply_rope"],
         11: ["transport", "alibi_bias", "attention", "alibi_slopes"],
         12: ["transport", "apply_rope_2d", "generators.commute", "generators.relativity_residual",
              "generators.is_injective", "generators.position_of", "generators.axial"],
         13: ["generators.quaternion_matrix", "generators.relativity_residual", "generators.commutant",
              "generators.joint_spectrum"],
         14: ["transport", "Rope", "generators.fit_generator", "generators.generator_of"],
         15: ["Rope", "generators.check_encoding"],
         16: ["attention", "alibi_slopes", "isa"]}


def told(chapter=None, stream=None):
    """Take the tour and return what it prints."""
    stream = stream or io.StringIO()
    take(stream, chapter)
    return stream.getvalue()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Say so."""
        return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Take the whole tour once; return its text and the folder it was taken in."""
    folder = tmp_path_factory.mktemp("tour")
    with chdir(folder):
        return told(), folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Take a chapter by itself, once; return its text and the files it left in an empty folder."""
    @cache
    def of(number):
        folder = tmp_path_factory.mktemp("chapter")
        with chdir(folder):
            return told(number), list(folder.iterdir())

    return of


@pytest.mark.parametrize("number", NUMBERS)
def test_chapter_shows_the_numbers_of_the_sources(number, alone):
    text, _ = alone(number)
    for pattern in EXPECTED[number]:
        assert pattern in text or re.search(pattern, text), f"{pattern!r} not in\n{text}"


@pytest.mark.parametrize("number", NUMBERS)
def test_chapter_teaches(number, alone):
    text, _ = alone(number)
    title, rule, question = text.strip().split("\n", 2)
    assert title.startswith(f"{number}. ") and set(rule) == {"─"}
    assert "?" in question.split("\n\n")[0], "a chapter opens with its question"
    assert text.count("\n  Notice: ") == 1 and text.count("\n  Careful: ") <= 1


@pytest.mark.parametrize(("number", "call"), [(number, call) for number in CALLS for call in CALLS[number]])
def test_numbers_come_from_the_public_functions(number, call, monkeypatch):
    class Called(Exception):
        pass

    def called(*args, **keywords):
        raise Called

    module, _, name = f"pe.{call}".rpartition(".")
    monkeypatch.setattr(importlib.import_module(module), name, called)
    with pytest.raises(Called):
        told(number)


def test_a_wrong_op_shows(monkeypatch):
    right = pe.apply_rope
    monkeypatch.setattr(pe, "apply_rope", lambda x, **keywords: 1.001 * right(x, **keywords))
    assert not re.search(EXPECTED[9][0], told(9))


def test_the_whole_tour_is_every_chapter_in_order(whole):
    titles = re.findall(r"^(\d+)\. .*\n─+$", whole[0], re.M)
    assert titles == [str(number) for number in NUMBERS]


def test_it_fits_80_columns_without_escape_codes(whole):
    assert max(map(len, whole[0].splitlines())) <= 80
    assert "\x1b" not in whole[0] and "\t" not in whole[0]
    assert all(line == line.rstrip() for line in whole[0].splitlines())


def test_colours_only_on_a_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for number in (4, 7, 11):
        plain, colored = told(number), told(number, Terminal())
        assert "\x1b[" in colored
        assert re.sub(r"\x1b\[\d+m", "", colored) == plain
    for name, value in [("NO_COLOR", "1"), ("TERM", "dumb")]:
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert "\x1b" not in told(4, Terminal())


def test_only_the_names_of_behaviours_are_coloured(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for number, names in [(2, []), (3, []), (4, ["turn", "fade", "slide"]), (7, ["turn", "fade", "slide"])]:
        painted = re.findall(r"\x1b\[3\d+m([^\x1b]*)", told(number, Terminal()))
        assert set(names) == set(painted) - {"explode", "fading", "rotating"}, number


def test_no_line_breaks_inside_a_formula(whole):
    lines = [line for line in whole[0].splitlines() if "  " not in line.strip()]     # no tables
    assert not [line for line in lines if re.search(r" [-+=<*]$", line)]
    assert not [line for line in lines if re.match(r" *[-+=<*] ", line)]


def test_a_stream_of_ascii_gets_bars_of_ascii():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    for number in (7, 9):
        take(stream, number)
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert re.search(r"0  8.000  #{66}\n", text) and re.search(r"0 -1; 1 0 +\+-1i +turn", text)
    assert "?????" not in text


def test_the_page_is_written_and_said(whole):
    text, folder = whole
    page = folder / "turn-fade-slide.html"
    assert [path.name for path in folder.iterdir()] == [page.name]
    assert f"\n  {page}\n" in text and "What to try next" in text.split(str(page))[1]
    html = page.read_text(encoding="utf-8")
    assert len(html.encode()) < 150_000
    assert html.count("<h2>") == len(CHAPTERS) + 1 and "<figure" in html and "<script" in html
    assert html.count('<p class="note notice">') == len(CHAPTERS) and html.count("<i style=") == 13
    assert "What to try next" in html and "pe.explore.generator(" in html.split("What to try next")[1]
    for number in ("5.5431010613", "0.000045", "16384", "IndexError: index 8300", "148.4132", "damped RoPE"):
        assert number in html
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", html)


@pytest.mark.parametrize("number", NUMBERS)
def test_one_chapter_writes_no_file(number, alone):
    assert alone(number)[1] == []


def test_a_folder_in_the_place_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "turn-fade-slide.html").mkdir()
    assert_refused(run_command(capsys), "turn-fade-slide.html")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write to")
def test_a_folder_that_cannot_be_written(monkeypatch, capsys):
    monkeypatch.chdir("/proc/self")
    assert_refused(run_command(capsys), "turn-fade-slide.html")


def test_tables_line_up_and_numbers_stand_right():
    stream = io.StringIO()
    say = Script(stream)
    say.table(["name", "value"], [["one", "1.5"], ["three hundred", "-300"]])
    assert stream.getvalue().splitlines() == ["", "  name           value", "  one              1.5",
                                              "  three hundred   -300"]
    assert say.parts == [("table", ["name", "value"], [["one", "1.5"], ["three hundred", "-300"]])]


def test_bars_are_as_long_as_their_numbers():
    stream = io.StringIO()
    Script(stream).bars(["gap", "score"], [[0, "8.00"], [1, "4.00"], [2, "-1.00"]], top=8.0)
    lines = stream.getvalue().splitlines()
    lengths = [line.count("█") for line in lines]
    assert len(lines[2]) == 80 and lengths[3] * 2 in (lengths[2], lengths[2] + 1) and lengths[4] == 0
