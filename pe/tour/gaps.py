"""One function of one gap, and the plainest such function: the fade."""

from __future__ import annotations

import numpy as np

import pe


def lookup(say):
    """Count the different matrices in a table of all pairs of positions."""
    say.chapter("One gap",
        """The query knows only its position t, the key only s. If the score may depend on t - s alone, how
        many different corrections does a text need?""")
    X = pe.generators.turn(0.5)
    encoding = pe.encoding(X)

    def matrix(t, s):
        return encoding.query_map(t).T @ encoding.key_map(s)

    entries = ", ".join(f"[{a:g}, {b:g}]" for a, b in X)
    say.text(f"""pe.encoding(X) gives the map F(t) for queries and G(s) for keys. Between q and k then stands
        M(t, s) = F(t)^T G(s). Three words, nine cells; here X = [{entries}] turns by 0.5 a token, and a cell
        shows M's first row:""")

    def cell(t, s):
        return "{:.4f} {:+.4f}".format(*np.round(matrix(t, s)[0], 4) + 0.0)

    say.table(["", *(f"key s={s}" for s in range(3))],
              [[f"query t={t}", *(cell(t, s) for s in range(3))] for t in range(3)])
    say.text("""Each cell has its gap t - s. Below the diagonal the key lies in the past; above it in the
        future: M(0, 1) has the gap -1 and turns the other way.""")
    cells = np.array([matrix(t, s).ravel() for t in range(3) for s in range(3)])
    distinct = np.unique(np.round(cells, 12) + 0.0, axis=0)
    n = 1000
    gaps = np.unique(np.subtract.outer(np.arange(n), np.arange(n)))
    pairs = [(5, 2), (9, 6), (100, 97)]
    spread = max(np.abs(matrix(*pair) - matrix(*pairs[0])).max() for pair in pairs)
    say.table(["words", "cells", "different matrices"],
              [["3", f"{len(cells)}", f"{len(distinct)}"], [f"{n}", f"{n * n}", f"{len(gaps)}"]])
    say.text(f"M(5,2), M(9,6) and M(100,97) are one matrix, A(3): they differ by {spread:.1e} at most.")
    say.notice("""every diagonal is constant. What looked like a function of two positions is a function
        A(u) of one gap: it carries a stale key forward by u. Carrying by 0 does nothing, by 3 and then 2
        carries by 5, by 3 and then -3 leads back. These are the rules of the clock, so A(u) = exp(uX).""")
    say.careful(f"""a table is not a matrix; nothing is multiplied here. It is the two maps that make it
        possible: the million cells of {n} words are served by touching each query and each key once.""")


def fade(say):
    """Print the fade table, and what the same fade does to a key in the future."""
    say.chapter("The fade",
        """A real eigenvalue -gamma makes a key pale with distance. How much is left of it at which gap, for
        gamma = 0.1?""")
    gaps = np.array([0, 5, 10, 25, 50, 100])
    faded = pe.transport(pe.generators.fade(0.1), gaps).ravel()
    added = pe.decay_bias(gaps, [0], rate=0.1)[:, 0]
    say.text("""The multiplier from pe.transport, and what pe.decay_bias adds to the score instead; e^bias
        is the same number:""")
    say.table(["gap", "multiplier", "decay_bias", "e^bias"], [
        [f"{gap}", f"{a:.3f}" if a > 0.05 else f"{a:.2g}" if a > 1e-3 else f"{a:.6f}",
         f"{b + 0.0:.1f}", f"{np.exp(b):.6f}"] for gap, a, b in zip(gaps, faded, added, strict=True)])
    half_life = pe.classify(pe.generators.fade(0.1)).blocks[0].half_life
    future = pe.transport(pe.generators.fade(0.1), -50.0).item()
    say.text(f"""Half-life, from pe.classify: ln 2 / gamma = {half_life:.4f} tokens. A key 50 tokens in the
        future has the gap -50 and the multiplier e^5 = {future:.4f}.""")
    say.notice("""one number, gamma, is the memory span. A fade runs one way only: forward it forgets,
        backward it explodes, so it needs a causal mask.""")
    say.careful("""three operations are called fade. The generator multiplies the score by e^(-gamma u), as
        RetNet does without a softmax. decay_bias and attention's decay_rate= add -gamma u before the
        softmax: they fade the weight, and are in truth a slide of the score, the same operation as ALiBi.
        And a damped RoPE shrinks the score towards 0, which forgets nothing if the score is negative.""")
