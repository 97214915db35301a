"""How long one move of the figure takes in Chromium, layout included: `python tests/figure_speed.py`.

Measured, never asserted: 240 moves for each of an entry of X (everything is drawn anew) and the gap u.
"""

import statistics
import tempfile
from pathlib import Path

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

if __name__ == "__main__":
    with (tempfile.TemporaryDirectory() as folder, chromium.launch() as browser,
          chromium.offline(browser, Path(folder)) as open_page):
        for preset in data.PRESETS:
            page = open_page(explore.page("Speed", [explore.generator(preset)]))
            for key, name in (("b", "an entry"), ("u", "the gap")):
                times = sorted(page.evaluate(MOVES, key))
                print(f"{preset:10} {name:9} median {statistics.median(times):4.1f} ms, "
                      f"95 % below {times[len(times) * 95 // 100]:4.1f} ms")
