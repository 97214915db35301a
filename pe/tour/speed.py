"""The encodings at work: attention under each, against plain NumPy."""

from __future__ import annotations

import time

import numpy as np

import pe


def attention_timed(say):
    """Run attention under each encoding, check it against NumPy, and time both."""
    heads, tokens, width = 8, 512, 64
    say.chapter("At work",
        f"""The same {heads} heads of {tokens} tokens of width {width} in float32, causal, under each
        encoding. What does position cost, and is the answer right?""")
    q, k, v = np.random.default_rng(0).standard_normal((3, heads, tokens, width), dtype=np.float32)
    rope, slopes = pe.Rope(width), pe.alibi_slopes(heads)
    t = np.arange(tokens)
    gap = np.subtract.outer(t, t)
    cos, sin = (np.repeat(table, 2, axis=-1).astype(np.float32) for table in rope.cache(t))

    def textbook(q, k, v, penalty=None, turn=False):
        if turn:
            q, k = (x * cos + _swap(x) * sin for x in (q, k))
        scores = q @ np.swapaxes(k, -1, -2) / np.float32(np.sqrt(width))
        if penalty is not None:
            scores = scores - (penalty[:, None, None] * gap).astype(np.float32)
        scores = np.where(gap < 0, np.float32(-np.inf), scores)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) @ v

    encodings = [
        ("nothing (NoPE)", {}, {}),
        ("turn (RoPE)", {"rope": rope}, {"turn": True}),
        ("slide (ALiBi)", {"alibi_slopes": slopes}, {"penalty": slopes}),
        ("fade (decay)", {"decay_rate": 0.1}, {"penalty": np.full(heads, 0.1)}),
        ("turn + fade", {"rope": rope, "decay_rate": 0.1}, {"turn": True, "penalty": np.full(heads, 0.1)}),
    ]
    fast = _race([lambda o=ours: pe.attention(q, k, v, causal=True, **o) for _, ours, _ in encodings])
    slow = _race([lambda p=plain: textbook(q, k, v, **p) for _, _, plain in encodings])
    say.table(["encoding", "keyword", "pe", "NumPy", "ratio", "apart"], [
        [name, ", ".join(f"{key}=" for key in ours) or "-", f"{1e3 * a:.2f} ms", f"{1e3 * b:.1f} ms",
         f"{b / a:.1f} x", f"{np.abs(one - other).max():.0e}"]
        for (name, ours, _), (one, a), (other, b) in zip(encodings, fast, slow, strict=True)])
    threads = pe.get_num_threads()
    say.text(f"""This build runs {pe.isa()} code on {threads} thread{"s" if threads > 1 else ""}. The rows
        took turns, and each time is the best of several on this machine, just now; on a busy one they vary,
        so run the chapter again before you believe a small difference. NumPy writes down all
        {heads} x {tokens} x {tokens} scores, {4 * heads * tokens**2 / 2**20:.0f} MiB at a time;
        pe.attention never holds more than a tile.""")
    say.notice("""a positional encoding is one keyword, and it costs little beside attention itself.""")
    say.careful("""the fade here is the one softmax attention can have, decay_rate=: it adds -gamma u to the
        score. Small differences are float32 rounding, added up in another order.""")


def _swap(x):
    """Send (a, b) to (-b, a) in each plane."""
    return np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)


def _race(runners, seconds=0.5):
    """Run all in turn until the time is up, so that no noise meets one alone: results and best times."""
    results, best = [run() for run in runners], [np.inf] * len(runners)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not all(np.isfinite(best)):
        for i, run in enumerate(runners):
            start = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - start)
    return list(zip(results, best, strict=True))
