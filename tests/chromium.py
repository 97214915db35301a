"""A headless Chromium for the tests of figures: pages opened from disk, with the network cut.

Any Chromium will do: PE_CHROMIUM, or `chromium`, `chromium-browser` or `google-chrome` on the path. With
PE_CHROMIUM set, a browser that does not start is a failure, not a skip.
"""

import os
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = os.environ.get("PE_CHROMIUM") or next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
ROOT = "document.querySelector('[data-pe] > div').firstChild.shadowRoot"


@contextmanager
def launch(*, resolve="MAP * ~NOTFOUND"):
    """Start a browser; `resolve` says which names have an address, by default none."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs a Chromium: apt-get install chromium, or set PE_CHROMIUM to one")
    with api.sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=CHROMIUM, args=[
            "--no-sandbox", "--disable-partial-raster", f"--host-resolver-rules={resolve}"])
        yield chromium
        chromium.close()


@contextmanager
def offline(browser, folder):
    """Give a function that opens HTML from disk; afterwards no request and no error may have been seen."""
    contexts, requests, errors = [], [], []

    def opener(html, *, clean=True, before=None, address="", **options):
        path = folder / f"{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": 900, "height": 1000}, **options)
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        if clean:
            page.on("request", lambda request: requests.append(request.url))
            page.on("console", lambda message: errors.append(message.text))
            page.on("pageerror", lambda error: errors.append(str(error)))
        if before:
            page.add_init_script(before)
        page.goto(path.as_uri() + address)
        return page

    yield opener
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
