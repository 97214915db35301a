"""Why position has to be added at all."""

from __future__ import annotations

import numpy as np

import pe


def order_blindness(say):
    """Two sentences of the same words, seen by attention with and without position."""
    say.chapter("Who bit whom?",
        """A transformer compares all words at once. Can attention alone tell "the dog bit the man" from
        "the man bit the dog"?""")
    rng = np.random.default_rng(0)
    vectors = {word: rng.standard_normal(16) for word in ("the", "dog", "bit", "man")}
    to_q, to_k, to_v = rng.standard_normal((3, 16, 16)) / 4
    first, second = "the dog bit the man".split(), "the man bit the dog".split()
    moved = [0, 4, 2, 3, 1]  # where each word of the second sentence stood in the first

    def look(sentence, values=None, **keywords):
        x = np.array([vectors[word] for word in sentence])
        return pe.attention(x @ to_q, x @ to_k, x @ to_v if values is None else values, **keywords)

    say.text("""Four random word vectors, random weights, and pe.attention(q, k, v, causal=False). With the
        identity matrix as values, its output is the attention weights themselves. How strongly "bit" looks
        at:""")
    rope = pe.Rope(16)
    rows = []
    for name, keywords in [("no position", {}), ("rope", {"rope": rope})]:
        for sentence in (first, second):
            bit = look(sentence, np.eye(5), causal=False, **keywords)[sentence.index("bit")]
            dog, man = bit[sentence.index("dog")], bit[sentence.index("man")]
            rows.append([name, " ".join(sentence), f"{dog:.4f}", f"{man:.4f}"])
    say.table(["encoding", "sentence", "dog", "man"], rows)

    def change(**keywords):
        return f"{np.abs(look(first, **keywords)[moved] - look(second, **keywords)).max():.1e}"

    say.text("The most that any number in any word's output changes when dog and man trade places:")
    encodings = [("no position", {}), ("rope", {"rope": rope}), ("alibi", {"alibi_slopes": 0.5})]
    say.table(["encoding", "causal=False", "causal=True"], [
        [name, change(causal=False, **keywords), change(causal=True, **keywords)]
        for name, keywords in encodings])
    say.notice("""without position "bit" gives dog the same weight in both sentences, and nothing changes but
        for rounding: every result moves along with its word. To know who bit whom, position has to be put
        in.""")
    say.careful("""blind to order means causal=False. The causal mask alone already lets each word see only
        the words before it, and that is a trace of order: a decoder can run with no encoding at all
        (NoPE).""")
