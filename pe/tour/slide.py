"""ALiBi is the slide."""

from __future__ import annotations

import numpy as np

import pe


def alibi(say):
    """Get ALiBi's bias out of a defective generator, and ALiBi's attention out of two spare coordinates."""
    say.chapter("The slide is ALiBi",
        """ALiBi adds a penalty that grows with distance to each score. No rotation, no fade: is it outside
        the list?""")
    X = pe.generators.slide()
    gaps, m = np.array([-2, 0, 3, 100]), 0.5
    moved = pe.transport(X, gaps) @ [0.0, 1.0]  # the key (0, 1), carried forward by the gap
    say.text("""X = [[0, 1], [0, 0]] has the eigenvalue 0 twice and one eigenvector: it is defective.
        exp(uX) = [[1, u], [0, 1]] is a puck on ice, its place growing by its speed. Give the key the spare
        coordinates (0, 1) and the query (m, 0):""")
    kept = pe.alibi_bias(gaps, [0], slopes=m, causal=False)[:, 0]
    scores = [moved @ [m, 0.0], moved @ [-m, 0.0], kept]
    say.table(["gap u", "carried key", "m = 0.5", "m = -0.5", "alibi_bias, slope 0.5, causal=False"], [
        [f"{u}", f"({key[0]:g}, {key[1]:g})", *(f"{score + 0.0:g}" for score in row)]
        for u, key, row in zip(gaps, moved, np.transpose(scores), strict=True)])

    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 6, 16))
    t = np.arange(6.0)[:, None]
    one = np.ones_like(t)
    # F(t)^T (-m, 0) = (-m, -m t) and G(s) (0, 1) = (-s, 1); times sqrt(16), for attention divides by it
    long_q, long_k = np.hstack([q, 4 * -m * one, 4 * -m * t]), np.hstack([k, -t, one])
    slid = pe.attention(long_q, long_k, v, scale=1 / 4, causal=True)
    usual = pe.attention(q, k, v, alibi_slopes=m, causal=True)
    say.text(f"""Whole attention over 6 tokens, causal: once with q and k two coordinates longer, m = {-m},
        and nothing else, once with alibi_slopes={m}: the outputs differ by
        {np.abs(slid - usual).max():.1e} at most.""")
    slopes = ", ".join(f"{slope:g}" for slope in pe.alibi_slopes(8))
    say.text(f"The slopes of 8 heads, pe.alibi_slopes(8): {slopes}.")
    say.notice("""a defective generator, the odd case of the theorem, had been at work in BLOOM and MPT all
        along.""")
    say.careful("""some texts write +m (t - s), which punishes distance for m < 0 only. In pe a slope is
        a penalty: the bias is -slope (t - s). Look at gap -2: with causal=False ALiBi takes |t - s|,
        which is two slides glued at 0 and outside the family.""")
