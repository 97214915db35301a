"""Where a figure lives: in a page whose address remembers it, run again and again, under a foreign model."""

import io

import pytest
from chromium import ROOT

from pe import explore
from pe.explore import host
from pe.explore.bundle import bundle, module

ORDER = "abcdu"
SELECTED = "getSelection().toString()"


def page_of(*explorers):
    return host.page("Figures", explorers)


def values(page, index=0):
    return [float(page.get_by_test_id(f"number-{key}").nth(index).input_value()) for key in ORDER]


def address(page):
    """The part after # once the figures have come to rest."""
    page.wait_for_timeout(300)
    return page.evaluate("location.hash")


# The address


def test_the_address_follows_the_figure_and_leads_back_to_it(open_page):
    page = open_page(page_of(explore.generator("turn")))
    assert address(page) == ""
    page.get_by_test_id("range-u").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_test_id("number-b").fill("-0.25")
    assert address(page) == "#generator=0,-0.25,1,0,0.9"
    x = page.get_by_test_id("x").inner_text()
    page.reload()
    assert values(page) == [0, -0.25, 1, 0, 0.9] and page.get_by_test_id("x").inner_text() == x
    page.get_by_role("button", name="turn", exact=True).click()
    assert address(page) == "", "the state of the start needs no address"


def test_an_address_opens_the_figure(open_page):
    page = open_page(page_of(explore.generator("turn")), address="#generator=-0.1,1,0,-0.1,10")
    assert page.get_by_test_id("kind").inner_text() == "fading slide → beyond the table"
    assert address(page) == "#generator=-0.1,1,0,-0.1,10"
    page.evaluate("location.hash = '#generator=0,1,0,0,2'")
    page.wait_for_function(f"{ROOT}.querySelector('[data-testid=x]').textContent === '(3.0000, 1.0000)'")
    page.go_back()
    page.wait_for_function(f"{ROOT}.querySelector('[data-testid=number-u]').value === '10'")


@pytest.mark.parametrize("wrong", ["0,1,0,0", "0,1,0,0,1,1", "0,1,0,0,21", "0,3,0,0,1", "0,,0,0,1",
                                   "0,one,0,0,1", "NaN,0,0,0,1", ""])
def test_an_address_that_no_slider_could_show_is_ignored(open_page, wrong):
    page = open_page(page_of(explore.generator("slide")), address=f"#generator={wrong}")
    assert values(page) == [0, 1, 0, 0, 1.2]


def test_figures_on_one_page_share_the_address(open_page):
    one, other = explore.generator("turn"), explore.generator("fade")
    html = page_of(one, one, other)
    page = open_page(html, address="#a-heading&generator-3=-1,0,0,-1,1")
    assert values(page, 2) == [-1, 0, 0, -1, 1]
    for index, text in enumerate(["1", "2", "3"]):
        page.get_by_test_id("number-u").nth(index).fill(text)
    parts = address(page).removeprefix("#").split("&")
    assert sorted(parts) == ["a-heading", "generator-2=0,-1,1,0,2", "generator-3=-1,0,0,-1,3",
                             "generator=0,-1,1,0,1"]
    page.reload()
    assert [values(page, index)[4] for index in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("frame", ["src", "srcdoc", "sandbox"])
def test_a_figure_in_a_frame(open_page, tmp_path, frame):
    inner = page_of(explore.generator("turn"))
    (tmp_path / "inner.html").write_text(inner, encoding="utf-8")
    page = open_page('<iframe style="width:800px;height:900px"></iframe>')
    page.evaluate("""([kind, html]) => { const frame = document.querySelector("iframe");
        if (kind === "sandbox") frame.sandbox = "allow-scripts";
        if (kind === "srcdoc") frame.srcdoc = html; else frame.src = "inner.html#generator=0,-1,1,0,4"; }""",
                  [frame, inner])
    figure = page.frame_locator("iframe")
    slider, number = figure.get_by_test_id("range-u"), figure.get_by_test_id("number-u")
    assert number.input_value() == ("0.8" if frame == "srcdoc" else "4")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    moved = "0.9" if frame == "srcdoc" else "4.1"
    assert number.input_value() == moved
    assert page.frames[1].evaluate("location.hash") == f"#generator=0,-1,1,0,{moved}"
    assert page.evaluate("location.hash") == "", "the page around it keeps its own address"


@pytest.mark.parametrize("mark", ['<body><script id="jupyter-config-data"></script>',
                                  '<body data-vscode-theme-kind="vscode-dark">'])
def test_a_notebook_application_keeps_its_own_address(open_page, mark):
    html = page_of(explore.generator("turn")).replace("<body>", mark)
    page = open_page(html, address="#generator=0,1,0,0,2")
    assert values(page) == [0, -1, 1, 0, 0.8]
    page.get_by_test_id("number-u").fill("3")
    assert address(page) == "#generator=0,1,0,0,2" and values(page)[4] == 3


# The clipboard


CALL = "pe.explore.generator(X=[[0, 1], [0, 0]], u=1.2)"


def pasted(page):
    """What Ctrl+V brings."""
    page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'paste' }))")
    page.locator("#paste").focus()
    page.keyboard.press("Control+V")
    return page.locator("#paste").input_value()


def test_copy_fills_the_clipboard(open_page):
    page = open_page(page_of(explore.generator("slide")), permissions=["clipboard-read", "clipboard-write"])
    button = page.get_by_test_id("copy")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"{ROOT}.querySelector('[data-testid=copy]').textContent === 'copied'")
    assert page.get_by_test_id("said").inner_text() == "copied"
    assert page.evaluate("navigator.clipboard.readText()") == pasted(page) == CALL
    names = {"pe": __import__("pe")}
    assert eval(CALL, names).state == explore.generator("slide").state


def test_copy_without_the_clipboard_interface(open_page):
    page = open_page(page_of(explore.generator("slide")),
                     before="Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_test_id("copy").click()
    page.wait_for_function(f"{ROOT}.querySelector('[data-testid=copy]').textContent === 'copied'")
    assert pasted(page) == CALL


def test_copy_where_nothing_may_be_copied_selects_the_words(open_page):
    page = open_page(page_of(explore.generator("slide")), before="""
        navigator.clipboard.writeText = () => Promise.reject(new Error("not here"));
        document.execCommand = () => false;""")
    page.get_by_test_id("copy").click()
    page.wait_for_function(f"{ROOT}.querySelector('[data-testid=copy]').textContent.startsWith('selected')")
    assert page.evaluate(SELECTED) == CALL
    page.keyboard.press("Control+C")
    assert pasted(page) == CALL


# Running a cell again


def test_twenty_runs_of_a_cell_leave_one_figure(open_page):
    """Nodes, listeners, frames and timers of figures that left the page are gone."""
    page = open_page("<main><div></div></main>", before="""
        window.frames = 0;
        const ask = requestAnimationFrame;
        window.requestAnimationFrame = (call) => { window.frames += 1; return ask(call); };""")
    session = page.context.new_cdp_session(page)
    cell = explore.generator("turn").html()

    def run():
        """What a notebook does: empty the output, put the HTML in, create each script anew."""
        page.evaluate("""(html) => {
            const output = document.querySelector("main > div");
            output.innerHTML = html;
            for (const old of output.querySelectorAll("script")) {
              const script = document.createElement("script");
              script.textContent = old.textContent;
              old.replaceWith(script);
            }
        }""", cell)
        page.get_by_test_id("play").click()     # a figure that is moving when its cell is run again
        page.get_by_test_id("copy").click()
        page.get_by_test_id("number-c").fill("0.5")

    def counts():
        for _ in range(3):
            session.send("HeapProfiler.collectGarbage")
        found = session.send("Memory.getDOMCounters")
        return found["nodes"], found["jsEventListeners"]

    def settle():
        page.evaluate("document.querySelector('main > div').replaceChildren()")
        page.wait_for_timeout(2300)             # the button says "copied" for two seconds
        counts()
        page.evaluate("dispatchEvent(new Event('hashchange'))")
        return counts()

    run()
    run()
    before = settle()
    for _ in range(20):
        run()
    assert page.locator("[data-live]").count() == 1
    nodes, listeners = settle()
    assert nodes <= before[0] + 20 and listeners <= before[1]
    asked = page.evaluate("window.frames")
    page.wait_for_timeout(100)
    assert page.evaluate("window.frames") == asked > 20, "a figure that is gone still asks for frames"


def test_a_hidden_figure_is_drawn_when_it_is_shown(open_page):
    html = page_of(explore.generator("slide")).replace("<main>", "<main hidden>")
    page = open_page(html)
    portrait = page.get_by_test_id("portrait")
    assert page.get_by_test_id("x").text_content() == "(2.2000, 1.0000)"
    assert portrait.locator("path").count() == 0
    page.evaluate("document.querySelector('main').hidden = false")
    portrait.locator("text.v").first.wait_for()
    assert portrait.bounding_box()["width"] > 300


def test_a_theme_that_changes_is_noticed_at_the_next_move(open_page):
    html = page_of(explore.generator()).replace("<body>", '<body data-jp-theme-light="true">')
    page = open_page(html)
    theme = f"{ROOT}.host.dataset.theme"
    assert page.evaluate(theme) == "light"
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.get_by_test_id("range-u").press("ArrowRight")
    assert page.evaluate(theme) == "dark"


# The same module under another model


def test_the_module_serves_other_hosts(open_page):
    """It is an ES module whose default export renders from a model and cleans up after itself."""
    page = open_page("<main></main>")
    explorer = explore.generator("slide")
    config = explorer.config | {"css": host.stylesheet()}
    assert page.evaluate("""async ([source, state, config]) => {
        const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
        const { default: module } = await import(url);
        const values = { ...state, config }, events = new Map(), el = document.querySelector("main");
        let saved = 0;
        const model = {
          get: (key) => values[key],
          set(key, value) { values[key] = value; events.get(`change:${key}`)?.(); },
          save_changes() { saved += 1; },
          on: (name, call) => events.set(name, call), off: (name) => events.delete(name),
        };
        const clean = module.render({ model, el });
        const find = (id) => el.firstChild.shadowRoot.querySelector(`[data-testid=${id}]`);
        const first = find("x").textContent;
        model.set("u", 2);
        const second = find("x").textContent, listening = events.size, quiet = saved;
        find("range-u").value = 3;
        find("range-u").dispatchEvent(new Event("input", { bubbles: true }));
        const third = [find("x").textContent, values.u, saved, location.hash];
        clean();
        return [first, second, listening, quiet, third, events.size];
    }""", [module("generator"), explorer.state, config]) == [
        "(2.2000, 1.0000)", "(3.0000, 1.0000)", 5, 0, ["(4.0000, 1.0000)", 3, 1, ""], 0]
    core = bundle("generator")
    assert module("generator").startswith(core), "both hosts carry the same bytes"
    assert host.script([explorer]).count(core) == 1


def test_a_table_that_goes_on_has_a_shadow_there(open_page):
    tables = ("table", ["one", "two", "three"], [["a cell of some length"] * 3]), ("table", ["a"], [["b"]])
    page = open_page(host.page("Tables", tables))
    page.set_viewport_size({"width": 390, "height": 600})
    wide, narrow = page.locator(".wide").all()

    def edges(table):
        """Ink of the first and the last column of pixels, in a row without letters or lines."""
        plt = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib: pip install -e '.[test]'")
        pixels = plt.imread(io.BytesIO(table.screenshot()))[2, :, :3].mean(axis=-1)
        return bool(pixels[0] < pixels.max() - 0.1), bool(pixels[-1] < pixels.max() - 0.1)

    assert edges(wide) == (False, True) and edges(narrow) == (False, False)
    wide.evaluate("table => { table.scrollLeft = 60 }")
    assert edges(wide) == (True, True)
    wide.evaluate("table => { table.scrollLeft = 9999 }")
    assert edges(wide) == (True, False)
