"""Measure how long one move of the interactive figure takes in Chromium, layout included.

    python -m benchmarks.figure

For each preset 240 moves of an entry of X (everything is drawn anew) and of the gap u (the rider alone). It
needs playwright and a Chromium, as the figure's tests do, and borrows their browser.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import chromium

from pe import explore
from pe.plot import data

MOVES = f"""(key) => {{
  const root = {chromium.ROOT}, input = root.querySelector(`[data-testid=range-${{key}}]`);
  return Array.from({{ length: 240 }}, (_, i) => {{
    if (i % 40 < 20) input.stepUp(); else input.stepDown();
    const begun = performance.now();
    input.dispatchEvent(new Event("input", {{ bubbles: true }}));
    root.host.offsetHeight;
    return performance.now() - begun;
  }});
}}"""


def main() -> None:
    """Print the median and the 95th percentile of every row."""
    with (tempfile.TemporaryDirectory() as folder, chromium.launch() as browser,
          chromium.offline(browser, Path(folder)) as open_page):
        for preset in data.PRESETS:
            page = open_page(explore.page("Speed", [explore.generator(preset)]))
            for key, name in (("b", "an entry"), ("u", "the gap")):
                times = sorted(page.evaluate(MOVES, key))
                print(f"{preset:12} {name:9} median {statistics.median(times):4.1f} ms, "
                      f"95 % below {times[len(times) * 95 // 100]:4.1f} ms")


if __name__ == "__main__":
    main()
