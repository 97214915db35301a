"""The live figure in a real browser: opened from disk, with the network cut, moved by keyboard."""

import json
import math
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from chromium import ROOT

from pe import explore
from pe.explore import host
from pe.plot import data, style

ENTRIES = {name: ([[a, b], [c, d]], u) for name, (a, b, c, d, u) in data.PRESETS.items()}
MORE = {"small": ([[-2, 0], [0, -0.0001]], 20), "large": ([[2, 2], [2, 2]], 20)}


@cache
def figure_page(preset="turn"):
    return host.page("The generator", [explore.generator(preset)])

def custom_page(X, u):
    return host.page("The generator", [explore.generator(X=X, u=u)])


def printed(page):
    """Read the numbers of the live figure back from the page."""
    values = {key: page.get_by_test_id(key).inner_text() for key in data.generator(np.eye(2)).numbers()}
    return values | {"A": " ".join(values["A"].split())}


def state(page):
    a, b, c, d, u = (float(page.get_by_test_id(f"number-{key}").input_value()) for key in "abcdu")
    return [[a, b], [c, d]], u


def check(page):
    """Everything printed must be what `pe.plot.data` says for the state of the inputs."""
    X, u = state(page)
    shown = data.generator(X, u)
    assert printed(page) == {key: text for key, (_, text) in shown.numbers().items()}
    assert page.get_by_test_id("title").inner_text() == shown.words["title"]
    assert page.get_by_test_id("notice").inner_text() == shown.words["notice"]
    assert page.get_by_test_id("kind").inner_text() == f"{shown.name} → {shown.words['model']}"
    return shown


def picture(page):
    """The portrait as SVG text and as pixels."""
    page.evaluate(f"{ROOT}.activeElement?.blur()")
    portrait = page.get_by_test_id("portrait")
    return portrait.inner_html(), portrait.screenshot(animations="disabled")


def test_the_network_is_cut(open_page):
    page = open_page("<p>control</p>", clean=False)
    seen, failed = [], []
    page.on("request", lambda r: seen.append(r.url))
    page.on("requestfailed", lambda r: failed.append(r.failure))
    page.set_content('<img src="http://example.org/a.png"><script src="http://example.org/a.js"></script>')
    assert len(seen) == 2 and len(failed) == 2 and all("net::ERR" in reason for reason in failed)


@pytest.mark.parametrize("name", [*ENTRIES, *MORE])
def test_numbers_in_the_page(open_page, name):
    X, u = (ENTRIES | MORE)[name]
    page = open_page(custom_page(X, u))
    assert state(page) == (X, u)
    shown = check(page)
    labels = [label for label, _ in shown.numbers().values()]
    assert [text.strip() for text in page.locator("dt").all_inner_texts()] == labels
    pressed = page.locator("button[aria-pressed=true]").all_inner_texts()
    assert pressed == ([name.replace("+", " + ")] if name in ENTRIES else [])


@pytest.mark.parametrize("key", "abcdu")
def test_every_slider_moves_by_keyboard(open_page, key):
    page = open_page(figure_page("turn+fade"))
    low, high, step = data.LIMITS["u" if key == "u" else "entry"]
    start = explore.generator("turn+fade").state[key]
    slider, number = page.get_by_test_id(f"range-{key}"), page.get_by_test_id(f"number-{key}")
    before = picture(page)
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert float(number.input_value()) == pytest.approx(start + 5 * step)
    assert slider.get_attribute("aria-valuetext").startswith(f"{key} = ")
    check(page)
    moved = picture(page)
    assert moved[0] != before[0] and moved[1] != before[1]
    slider.focus()
    for press in ("ArrowUp", "ArrowDown", *["ArrowLeft"] * 5):
        page.keyboard.press(press)
    assert float(number.input_value()) == start
    check(page)
    after = picture(page)
    assert after[0] == before[0] and after[1] == before[1], "the picture did not come back"
    slider.focus()
    page.keyboard.press("PageUp")
    assert float(number.input_value()) == pytest.approx(start + 10 * step)
    page.keyboard.press("PageDown")
    assert float(number.input_value()) == pytest.approx(start)
    check(page)
    for press, end in (("Home", low), ("End", high)):
        page.keyboard.press(press)
        assert float(number.input_value()) == end
        check(page)


def test_typed_numbers(open_page):
    page = open_page(figure_page("slide"))
    number = page.get_by_test_id("number-a")
    number.fill("0.3333")
    number.press("Tab")
    assert state(page)[0][0][0] == 0.3333 and check(page).kind == "explode"
    number.fill("-1e-3")
    assert check(page).kind == "fade"
    limits = page.get_by_test_id("limits")
    assert limits.inner_text() == "entries from −2 to 2, u from 0 to 20"
    number.fill("7")
    assert limits.inner_text() == "a = 7 is outside: from −2 to 2"
    number.press("Tab")
    assert number.input_value() == "2"
    assert " ".join(page.get_by_test_id("X").inner_text().split()) == "2 1 0 0"
    number.fill("")
    number.press("Tab")
    assert number.input_value() == "2", "an empty box falls back on the last number"
    check(page)


def test_decimals_decide_the_class(open_page):
    X = [[0.3, 0.1], [-0.9, -0.3]]     # in floating point its discriminant is -6e-17
    page = open_page(custom_page(X, 1))
    assert check(page).kind == "slide"
    page.get_by_test_id("range-b").focus()
    page.keyboard.press("ArrowRight")
    assert check(page).kind != "slide"


def test_presets_and_change_of_basis(open_page):
    page = open_page(figure_page("nothing"))
    for name, (X, u) in ENTRIES.items():
        page.get_by_role("button", name=name.replace("+", " + "), exact=True).focus()
        page.keyboard.press("Enter")
        assert state(page) == (X, u)
        before = check(page)
        assert page.get_by_test_id("said").inner_text().startswith(before.name)
        basis = page.get_by_test_id("basis")
        if name == "nothing":
            assert basis.is_disabled() and basis.get_attribute("title") == "X is the same in every basis"
            continue
        basis.focus()
        page.keyboard.press("Enter")
        after = check(page)
        P = np.array([[1, 0], [0.5, 1]])
        np.testing.assert_allclose(after.X, P @ X @ np.linalg.inv(P), atol=1e-15)
        assert not np.array_equal(after.X, X), "a change of basis must be seen"
        same = ("eigenvalues", "trace-det", "directions", "half-life", "period")
        assert all(before.numbers()[key] == after.numbers()[key] for key in same)
        assert after.kind == before.kind
        assert page.locator("[aria-pressed=true]").all_inner_texts() == [name.replace("+", " + ")]
        page.keyboard.press("Enter")
        assert state(page) == (X, u)


def test_a_basis_where_a_shear_would_leave_the_sliders(open_page):
    page = open_page(custom_page([[0, -2], [2, 0]], 1))
    page.get_by_test_id("basis").click()
    assert check(page).X.tolist() == [[0, 2], [-2, 0]]
    page.get_by_test_id("basis").click()
    assert check(page).X.tolist() == [[0, -2], [2, 0]]


def test_the_trace_determinant_plane_can_be_dragged(open_page):
    page = open_page(figure_page("slide"))
    box = page.get_by_test_id("trace-plane").bounding_box()

    def at(trace, determinant):
        return (box["x"] + (trace + 4) / 8 * box["width"], box["y"] + (4 - determinant) / 8 * box["height"])

    page.mouse.move(*at(0, 3))
    assert check(page).kind == "slide", "nothing moves before the button is down"
    page.mouse.down()
    assert check(page).kind == "turn"
    page.mouse.move(*at(-1, 3))
    shown = check(page)
    assert shown.kind == "turn+fade" and abs(shown.trace + 1) < 0.1 and abs(shown.determinant - 3) < 0.2
    page.mouse.move(*at(-3, 1))
    assert check(page).kind == "fade"
    page.mouse.move(*at(3, -50))                     # far outside of the plane the pointer is still held
    assert check(page).kind == "mixed"
    assert page.get_by_test_id("said").inner_text() == "", "spoken when the drag is over, not all the time"
    page.mouse.up()
    assert page.get_by_test_id("said").inner_text().startswith("explode + fade")
    held = state(page)
    page.mouse.move(*at(0, 3))
    assert state(page) == held


def test_the_sliders_stay_where_they_are_when_the_class_changes(open_page):
    page = open_page(figure_page())
    for width in (360, 420, 700, 1200):
        page.set_viewport_size({"width": width, "height": 900})
        tops = set()
        for name in ENTRIES:
            page.get_by_role("button", name=name.replace("+", " + "), exact=True).click()
            tops.add(page.evaluate(f"{ROOT}.querySelector('[data-testid=range-a]').getBoundingClientRect().top"
                                   " + scrollY"))
        assert max(tops) - min(tops) < 1, (width, tops)


def test_a_basis_that_a_shear_would_not_change(open_page):
    page = open_page(custom_page([[0, 0], [1, 0]], 1))     # commutes with [[1, 0], [h, 1]]
    page.get_by_test_id("basis").click()
    P = np.array([[1, 0.5], [0, 1]])
    np.testing.assert_array_equal(check(page).X, P @ [[0, 0], [1, 0]] @ np.linalg.inv(P))


def test_what_is_far_away_keeps_its_direction(open_page):
    X = [[2, 1], [1, 0]]
    page = open_page(custom_page(X, 5))
    A = data.transport_2x2(X, 5)
    lines = page.get_by_test_id("portrait").locator("line.vec").evaluate_all(
        "lines => lines.map(({ x1, y1, x2, y2 }) => [x2, y2].map((v, i) => v.baseVal.value"
        " - [x1, y1][i].baseVal.value))")
    for (dx, dy), (x, y) in zip(lines, A.T, strict=True):
        assert min(x, y) > 50 and -dy / dx == pytest.approx(y / x, rel=1e-3)


@pytest.mark.parametrize("name", ["fade", "slide", "turn"])
def test_the_carried_axes_are_named(open_page, name):
    page = open_page(figure_page(name))
    words = page.get_by_test_id("portrait").locator("text.v")
    assert words.all_text_contents() == ["x(u)", "A e₁", "A e₂"]
    boxes = [words.nth(i).bounding_box() for i in range(3)]
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            assert (one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
                    or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"])


ODD = ["0,1,-2,2,0.4", "-0.02,-1,1,-0.02,5", "-0.5,0,0,-0.5,1.5", "-1,0.5,0,0,1", "0,2,-0.05,0,3",
       "0.5,1.5,1,-0.3,0.5", "-2,1.9,0.1,-0.15,0.8", "0.1,1.2,-1.2,0.1,6.3",
       "-0.0001,0.00033,0.00012,-0.2,19.9", "-0.3333333,0.1234567,-1.987654,0.7654321,7.77"]
LABELS = """(root) => [...root.querySelectorAll("svg")].map((svg) => {
    const edge = svg.getBoundingClientRect(), box = (e) => e.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")], bad = [];
    for (const [i, one] of texts.entries()) {
      const a = box(one);
      if (a.left < edge.left || a.right > edge.right || a.top < edge.top - 2 || a.bottom > edge.bottom + 2) {
        bad.push(`${one.textContent} is clipped`);
      }
      for (const other of texts.slice(i + 1)) {
        const b = box(other), wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        const tick = one.classList.contains("v") !== other.classList.contains("v");
        if (wide > 1 && high > 4 && !tick) bad.push(`${one.textContent} and ${other.textContent} overlap`);
      }
    }
    return bad;
  }).flat()"""


@pytest.mark.parametrize("width", [360, 700, 1200])
def test_no_label_is_clipped_or_lies_on_another(open_page, width):
    page = open_page(figure_page("turn"))
    page.set_viewport_size({"width": width, "height": 900})
    states = [",".join(map(str, np.ravel(X).tolist() + [u])) for X, u in (ENTRIES | MORE).values()]
    rng = np.random.default_rng(width)
    chance = [",".join(map(str, [*(rng.integers(-40, 41, 4) / 20), rng.integers(0, 101) / 10]))
              for _ in range(40)]
    for address in [*states, *ODD, *chance]:
        page.evaluate("(state) => { location.hash = `#generator=${state}`; }", address)
        page.wait_for_function(f"{ROOT}.querySelector('[data-testid=number-u]').value === '{address}'"
                               ".split(',').map(Number).at(-1).toString()")
        assert page.evaluate(f"({LABELS})({ROOT})") == [], address
        assert page.get_by_test_id("portrait").locator("text.v", has_text="x(u)").count() == 1
        rows = page.locator("dl > div, .entries, .python, .row")
        assert rows.evaluate_all("rows => rows.filter((e) => e.scrollWidth > e.clientWidth + 1).length") == 0


def test_play(open_page):
    page = open_page(figure_page("turn"))
    play, number = page.get_by_test_id("play"), page.get_by_test_id("number-u")
    number.fill("19.5")
    play.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"{ROOT}.querySelector('[data-testid=number-u]').value === '20'")
    assert play.inner_text() == "play"
    check(page)
    play.click()
    assert play.inner_text() == "pause"
    page.wait_for_function(f"{ROOT}.querySelector('[data-testid=number-u]').value < 10")
    play.click()
    held = number.input_value()
    page.wait_for_timeout(60)
    assert number.input_value() == held and check(page).kind == "turn"


def test_reduced_motion_steps(open_page):
    page = open_page(figure_page("turn"), reduced_motion="reduce")
    play = page.get_by_test_id("play")
    assert play.inner_text() == "step"
    play.click()
    assert state(page)[1] == 1.3
    page.wait_for_timeout(60)
    assert state(page)[1] == 1.3 and check(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(open_page, scheme):
    card = f"getComputedStyle({ROOT}.querySelector('.card'))"
    page = open_page(figure_page(), color_scheme=scheme)
    other = {"light": "dark", "dark": "light"}[scheme]

    def rgb(theme):
        colour = style.PALETTE[theme]["card"]
        return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))

    assert page.evaluate(f"{card}.backgroundColor") == rgb(scheme)
    # a notebook that says which theme it has is believed before the system
    html = figure_page().replace("<body>", f'<body data-jp-theme-light="{str(other == "light").lower()}">')
    assert open_page(html, color_scheme=scheme).evaluate(f"{card}.backgroundColor") == rgb(other)


@pytest.mark.parametrize("width", [320, 420, 700, 980])
def test_no_sideways_scroll(open_page, width):
    page = open_page(figure_page("explode"))
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box, label = page.get_by_test_id("portrait").bounding_box(), page.locator("svg text").first
    assert box["width"] == pytest.approx(box["height"], abs=1)
    assert label.evaluate("e => getComputedStyle(e).fontSize") == "12px", "type must not shrink"


def test_without_scripts_the_picture_stands(open_page):
    page = open_page(figure_page("slide"), java_script_enabled=False)
    image = page.locator("figure img")
    assert image.is_visible() and image.bounding_box()["width"] > 300
    assert "A slide drifts" in image.get_attribute("alt") and "(2.2000, 1.0000)" in image.get_attribute("alt")
    assert page.locator("figure table").is_visible()
    expected = dict(explore.generator("slide").rows())
    rows = page.locator("figure tr").all()
    assert {row.locator("th").inner_text(): row.locator("td").inner_text() for row in rows} == expected


def test_a_failing_script_gives_the_picture_back(open_page):
    page = open_page(figure_page(), clean=False, before="delete window.ResizeObserver")
    assert page.locator("figure img").is_visible() and page.locator("[data-pe] > div").count() == 0


def test_two_equal_figures_are_both_alive_and_separate(open_page):
    one, other = explore.generator("turn"), explore.generator("fade")
    page = open_page(host.page("Three", [one, one, other]))
    assert page.locator("[data-live]").count() == 3
    page.get_by_test_id("range-u").nth(1).focus()
    page.keyboard.press("End")
    values = [page.get_by_test_id("number-u").nth(i).input_value() for i in range(3)]
    assert values == ["0.8", "20", "5"]
    assert page.locator("[data-pe] > div > div[data-lm-suppress-shortcuts=true]").count() == 3


def test_accessibility(open_page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright",
                              reason="needs axe: pip install axe-playwright-python")
    table = ("table", ["X", "class"], [["0 1; 0 0", "slide"]])
    for scheme in ("light", "dark"):
        page = open_page(host.page("Turn, fade, slide", [explore.generator(), ("heading", "Rows"), table]),
                         color_scheme=scheme)
        found = axe.Axe().run(page).response["violations"]
        assert [(v["id"], v["impact"]) for v in found] == []


class Text(HTMLParser):
    """Collect tags, and text outside of scripts and styles."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, words):
        if self.tags and self.tags[-1] not in ("script", "style") and words.strip():
            self.words.append(words.strip())


def test_page_of_parts(open_page):
    parts = [("heading", "Rows & <ranks>"), ("text", "a < b\nc"), explore.generator(),
             ("note", "Careful", "a < c"), ("code", "a = b < c\nd"),
             ("table", ["X", "class", "n"], [["[[0, 1], [0, 0]]", "slide", "1.5"], [1, "<b> slide", -20]]),
             ("bars", ["gap", "score"], [[0, "8.0"], [1, "4.0"], [2, "-1.0"]], 8.0)]
    html = explore.page("Turn <fade>", parts)
    words = Text(html).words
    for expected in ("Turn <fade>", "Rows & <ranks>", "a < b\nc", "[[0, 1], [0, 0]]", "slide", "1",
                     "<b> slide", "Careful:", "a < c", "a = b < c\nd"):
        assert expected in words
    assert words.index("Rows & <ranks>") < words.index("a < b\nc") < words.index("slide")
    page = open_page(html)
    check(page)
    assert page.locator("main h1").inner_text() == "Turn <fade>" and page.locator("main > h2").count() == 1
    cells = page.locator("main > .wide").nth(0).locator("tbody tr").nth(0).locator("td")
    sides = [cells.nth(i).evaluate("e => getComputedStyle(e).textAlign") for i in range(3)]
    assert sides == ["left", "left", "right"]
    assert cells.nth(1).locator("b.slide").count() == 1 and page.locator("td b").count() == 1
    widths = [page.locator(".bars i").nth(i).bounding_box()["width"] for i in range(3)]
    assert widths[0] == pytest.approx(2 * widths[1], abs=1) and widths[0] > 300 and widths[2] == 0
    for part in (("heading", 3), "text", ("tables", [], []), None):
        with pytest.raises(TypeError, match=r"parts\[1\] must be an Explorer"):
            explore.page("x", [("text", "fine"), part])


@pytest.mark.parametrize("name", ENTRIES)
def test_size_and_self_containment(tmp_path, name):
    path = explore.generator(name).save(tmp_path / "figure.html")
    html = path.read_bytes().decode()
    assert len(html.encode()) < 150_000 and "\r" not in html
    assert not re.search(r"https?:|@import|url\(|<link|\bfetch\(|localStorage|<iframe", html)
    assert not re.search(r'\s(src|href)="(?!data:)', html)
    core = html[html.index("<script>") + 8 : html.rindex("</script>")]
    assert "</script" not in core and "<!--" not in core
    assert len(host.bundle("generator", "hosts").encode()) < 40_000
    assert html.count("<script") == 1 and "eval(" not in core and "export default" not in core


def test_bytes_are_deterministic(tmp_path):
    code = ("import sys, pathlib, pe; pe.explore.generator('fade').save(sys.argv[1]); "
            "pathlib.Path(sys.argv[1] + '.cell').write_text(pe.explore.generator('fade').html())")
    for seed in "12":
        subprocess.run([sys.executable, "-c", code, str(tmp_path / seed)], check=True,
                       env=os.environ | {"PYTHONHASHSEED": seed})
    for ending in ("", ".cell"):
        assert (tmp_path / f"1{ending}").read_bytes() == (tmp_path / f"2{ending}").read_bytes()
    assert host.identity(explore.generator("fade")) != host.identity(explore.generator("turn"))


def test_explorer_in_a_notebook():
    explorer = explore.generator("turn+fade")
    bundle, metadata = explorer._repr_mimebundle_()
    assert bundle["text/html"] == explorer.html() == explorer._repr_html_()
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert "spirals in" in metadata["image/png"]["vscode_altText"]
    assert bundle["text/plain"] == repr(explorer) and "0x" not in repr(explorer)
    assert explorer.describe() == ("turn + fade (damped RoPE): X = [[-0.1, -0.5], [0.5, -0.1]], eigenvalues "
                                   "−0.1000 ± 0.5000 i; at u = 3, x(u) = (−0.6866, 0.7914).")
    assert explorer.state == {"a": -0.1, "b": -0.5, "c": 0.5, "d": -0.1, "u": 3.0}
    assert explorer.data().kind == "turn+fade" and explorer.static().data.u == 3
    json.dumps([explorer.state, explorer.config])
    before = bundle["image/png"]
    explorer.state["u"] = 0.0
    assert explorer._repr_mimebundle_()[0]["image/png"] != before, "the picture follows the state"


def test_without_matplotlib(monkeypatch):
    monkeypatch.setattr("pe.explore.explorer.find_spec", lambda name: None)
    explorer = explore.generator("fade")
    bundle, _ = explorer._repr_mimebundle_()
    assert "image/png" not in bundle and "<img" not in explorer.html() and "<table>" in explorer.html()


def test_a_matrix_may_come_by_place():
    X = np.array([[0.5, 1], [0, -1]])
    assert explore.generator(X).state == explore.generator(X=X).state
    assert explore.generator(X.tolist(), u=2).state == explore.generator(X=X, u=2).state


@pytest.mark.parametrize("given, message", [
    ({"preset": "spin"}, "one of 'turn', 'fade', 'slide', 'turn.fade', 'nothing', 'explode', .*, got 'spin'"),
    ({"X": [[3, 0], [0, 0]]}, r"entry a of X = \[\[a, b\], \[c, d\]\] must lie in \[-2, 2\], got 3.0"),
    ({"X": [[0, 0], [0, math.nan]]}, "entry d of X .* got nan"),
    ({"preset": None}, "must be one of 'turn'.*, got None"),
    ({"preset": [0, 1], "X": [[0, 1], [0, 0]]}, "must be one of"),
    ({"X": [1, 2]}, r"X must have shape \(2, 2\), got \(2,\)"),
    ({"u": -1}, r"u must lie in \[0, 20\], got -1.0"),
])
def test_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        explore.generator(**given)
