"""RoPE, the turn in every plane: three ways to write it, its clocks, and the one thing it promises."""

from __future__ import annotations

import numpy as np

import pe


def three_levels(say):
    """Build RoPE as a matrix, as blocks and as arithmetic, and print the clocks of d = 16."""
    say.chapter("RoPE, written three ways",
        """RoPE is drawn as a large matrix, as dials, and as two lines of code. Are they the same thing, and
        which one does one run?""")
    d, t = 128, 5
    rope, x = pe.Rope(d), np.random.default_rng(0).standard_normal((1, d))
    matrix = rope.matrix(t)
    one = x @ matrix.T
    cos, sin = rope.cache([t])
    dials = np.moveaxis(np.array([[cos[0], -sin[0]], [sin[0], cos[0]]]), -1, 0)  # (64, 2, 2)
    two = (dials @ x.reshape(-1, 2, 1)).reshape(1, d)
    three = pe.apply_rope(x, positions=[t], rope=rope)
    say.text(f"d = {d}, position t = {t}, x random:")
    say.table(["level", "what", "numbers", "multiplications", "miss"], [
        ["1", "one matrix, Rope.matrix(t)", f"{matrix.size}", f"{matrix.size}", "-"],
        ["2", f"{len(dials)} dials of 2 x 2", f"{dials.size}", f"{dials.size}",
         f"{abs(two - one).max():.1e}"],
        ["3", "apply_rope: x cos - y sin, ...", f"{cos.size + sin.size}", f"{4 * len(dials)}",
         f"{abs(three - one).max():.1e}"]])
    say.text(f"Of the matrix's {matrix.size} entries {np.count_nonzero(matrix)} are not zero.")

    clocks = pe.Rope(16)
    say.text("The clocks of d = 16, base 10000, from pe.Rope(16):")
    say.table(["plane", "w", "tokens for a full turn"], [
        [f"{k}", f"{w:.2g}" if w < 0.1 else f"{w:.3g}", f"{wave:.1f}" if wave < 1000 else f"{wave:.0f}"]
        for k, (w, wave) in enumerate(zip(clocks.freqs.ravel(), clocks.wavelengths.ravel(), strict=True))])
    slowest = {width: pe.Rope(width).wavelengths.max() for width in (16, 128)}
    say.notice("""the three agree to the last digit, and nobody builds the matrix in earnest. Plane 0 is
        the second hand, plane 7 hardly moves: together they tell near from far, as one hand alone could
        not.""")
    say.careful(f"""the slowest hand is often said to need 60,000 tokens (10000 * 2pi = {2e4 * np.pi:.0f}).
        That is the limit for many planes; it takes {slowest[16]:.0f} tokens at d = 16 and
        {slowest[128]:.0f} at d = 128. And the sign: apply_rope turns q by R(t w) and k by R(s w),
        counter-clockwise. The score q^T R(t w)^T R(s w) k = q^T R(-u w) k, with u = t - s, carries k the
        other way round. Same eigenvalues, mirrored picture.""")


def same_gap(say):
    """Compute the worked example: the score at gap 3, wherever it is."""
    say.chapter("Same gap, same score",
        """q and k are (1, 0) in each of the 8 planes of d = 16. What is their score at t = 5, s = 2, and
        does it know where in the text it is?""")
    unit = np.tile([1.0, 0.0], 8)[None]
    rope = pe.Rope(16)

    def score(t, s, dtype=np.float64):
        q, k = (pe.apply_rope(unit.astype(dtype), positions=[p], rope=rope) for p in (t, s))
        return (q @ k.T).item()

    def closed(u):
        return np.cos(rope.freqs * u).sum()

    say.table(["t", "s", "gap", "score, float64", "in float32", "sum of cos(w_k gap)"], [
        [f"{t}", f"{s}", f"{t - s}", f"{score(t, s):.10f}", f"{score(t, s, np.float32):.6f}",
         f"{closed(t - s):.10f}"]
        for t, s in [(5, 2), (13, 10), (103, 100), (1000003, 1000000), (7, 0)]])
    say.text("The score over the gap, 8 at gap 0:")
    say.bars(["gap", "score"], [[u, f"{score(u, 0):.3f}"] for u in range(13)], top=8.0)
    say.notice(f"""{score(5, 2):.3f} at gap 3, here and a million tokens further on. The closed form has t -
        s in it and nothing else.""")
    say.careful(f"RoPE is no fade. The score at gap 7 is {score(7, 0):.3f}, larger than at gap 3.")


def far_away(say):
    """Leave the trained length: a table of learned positions ends, a rotation does not."""
    say.chapter("Position 8300",
        """A model trained on 2000 tokens meets 10000. Position 8300 is new to it, "3 tokens back" is not.
        Which encodings notice?""")
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 1, 64))
    learned = rng.standard_normal((2000, 64)) / 4  # one vector for each position, added to the token's own
    rope = pe.Rope(64)

    def rotary(t, s):
        turned = pe.apply_rope(np.vstack([q, k]), positions=[t, s], rope=rope)
        return f"{turned[0] @ turned[1]:.9f}"

    def table(t, s):
        try:
            return f"{((q + learned[t]) @ (k + learned[s]).T).item():.9f}"
        except IndexError as error:
            return f"IndexError: {str(error).split(' for ')[0]}"

    say.text("""q and k are random. rope turns them by their positions; a learned table adds to each the
        vector of its position (random numbers stand in for the 2000 learned vectors here).""")
    pairs = [(17, 14), (1003, 1000), (8300, 8297)]
    say.table(["t", "s", "score with rope", "score with a learned table of 2000"],
              [[f"{t}", f"{s}", rotary(t, s), table(t, s)] for t, s in pairs])
    say.notice("""the rotary score is the same in all three places. The table gives another score for the
        same gap, and beyond its last row it has no answer at all.""")
    say.careful("""that the score is well defined at 8300 does not make a model good there: slow hands reach
        angles it never saw in training. That is what the rescaling of frequencies (PI, NTK, YaRN) is
        for.""")
