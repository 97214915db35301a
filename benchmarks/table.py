"""Every case of the benchmarks as one row of data.

A row names an op, the shape of its first operand and a few words from `WORDS` that say what is special.
`calls.py` alone turns words into arrays and keywords; `measure.py` alone times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SECTIONS = {
    "full": "attention, every query sees every key",
    "causal": "attention, causal",
    "variants": "attention, causal: what a keyword, a dtype or a layout costs",
    "decode": "attention, few queries against a long cache",
    "retention": "retention, a rate for each head; plain is causal attention on the same operands",
    "rope": "rotations",
    "bias": "biases",
    "small": "small calls",
}

WORDS = {
    "causal": "a query sees keys up to its own position",
    "alibi": "alibi_slopes= given",
    "decay": "decay_rate= given",
    "mask": "a dense bool mask (M, N), three quarters true",
    "bias": "a dense float32 bias (M, N)",
    "window": "a query sees the last 256 keys; 512 from 4096 keys on",
    "segments": "two packed texts of equal length",
    "lengths": "kv_lengths= given: the last quarter of the keys is not filled yet",
    "clock": "clock= given: a decay by learned time",
    "softcap": "softcap=50",
    "sinks": "a sink for each head",
    "rope": "rope= given: q and k are rotated inside",
    "positions": "fractional, unsorted positions (for rotations: a position of its own for every row)",
    "views": "q, k, v are (B, T, H, D) arrays seen as (B, H, T, D)",
    "half": "half-split pairs instead of adjacent ones",
    "heads": "frequencies of its own for every head",
    "rate": "rate= given: planes fade as they turn",
    "moving": "positions go on from call to call: angles are made anew, beside peers' ready tables (in the "
    "cache, other rows turn to the same positions again, whose angles a thread keeps)",
    "tables": "cos and sin tables instead of positions",
    "in place": "out= is the input",
    "fresh": "no out=: the result is a new array",
    "both": "causal=False: a penalty on both sides",
    "state": "state= given and a new one returned",
}

ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Case:
    """One row.

    shape is (B, H, M, D) of q or x, (H, M, N) of a bias, or that of what a function of NumPy alone takes or
    gives (`functions.py`); keys is (K, N), the heads and length of k and v where they differ from those of q;
    floors are (measure, threads, least value): "share" of the limit that binds, "speedup" over one thread, or
    a column, the speed relative to that peer or to the plain attention.
    """

    section: str
    op: str
    shape: tuple[int, ...]
    words: tuple[str, ...] = ()
    keys: tuple[int, int] | None = None
    dtype: str = "float32"
    quick: bool = False
    floors: tuple[tuple[str, int, float], ...] = ()

    def __post_init__(self) -> None:
        if unknown := set(self.words) - set(WORDS):
            raise ValueError(f"unknown words {sorted(unknown)} in {self.label}")

    @property
    def label(self) -> str:
        """The row as it is printed and as it stands in the JSON."""
        parts = [self.op, str(self.shape)]
        if self.keys:
            parts.append("keys ({}, {})".format(*self.keys))
        return " ".join([*parts, *self.words, self.dtype])

    @property
    def heads_and_length(self) -> tuple[int, int]:
        """(K, N) of k and v."""
        return self.keys or (self.shape[1], self.shape[2])

    @property
    def window(self) -> int | None:
        """Keys a query sees, its own among them."""
        if "window" not in self.words:
            return None
        return 512 if self.heads_and_length[1] >= 4096 else 256

    @property
    def filled(self) -> int:
        """Keys that count, where the cache is not full."""
        keys = self.heads_and_length[1]
        return keys * 3 // 4 if "lengths" in self.words else keys

    def floors_on(self, isa: str) -> tuple[tuple[str, int, float], ...]:
        """The floors; of multiply-adds AVX2 owes less than AVX-512, whose registers hold more of a tile.

        Products of bfloat16 pairs owe more than the peak of float32.
        """
        if isa == "avx512bf16" and self.section == "variants" and self.dtype == "bfloat16":
            return (("share", 1, 1.35 if self.shape[-1] == 128 else 1.25),)
        if isa != "avx2" or not (self.yardstick or "").endswith("FMA"):
            return self.floors
        return tuple(
            (name, n, min(least, 0.72) if name == "share" else least) for name, n, least in self.floors
        )

    @property
    def work(self) -> float:
        """Useful flops of one call (attention with many queries), or bytes it must move (all others)."""
        size = ITEMSIZE[self.dtype]
        if self.op == "attention":
            batch, heads, queries, width = self.shape
            key_heads, keys = self.heads_and_length
            if self.section == "decode":
                return 2.0 * batch * key_heads * self.filled * width * size
            pairs = queries * keys - ("causal" in self.words) * queries * (queries - 1) // 2
            if self.window and self.window < queries:  # of square scores: what is older than the window
                pairs -= (queries - self.window) * (queries - self.window + 1) // 2
            return 4.0 * batch * heads * pairs * width
        if self.op == "retention":  # k v^T into the state and q times it, once a row
            batch, heads, rows, width = self.shape
            return 4.0 * batch * heads * rows * width * width
        elements = 1
        for n in self.shape:
            elements *= n
        return float(elements * size * (1 if self.op.endswith("_bias") else 2))

    @property
    def yardstick(self) -> str | None:
        """What `work` is held against: "float32 FMA", "float64 FMA", "read", "write" or "copy".

        None for small calls.
        """
        if self.section == "small":
            return None
        if self.section == "decode":
            return "read"
        if self.op in ("attention", "retention"):
            return "float64 FMA" if self.dtype == "float64" else "float32 FMA"
        return "write" if self.op.endswith("_bias") else "copy"

    @property
    def limits(self) -> dict[str, float]:
        """The work of one call by each yardstick that bounds it; the one that takes longest binds.

        Few queries read every value of a cache once, and multiply and add it once for each query.
        """
        if self.yardstick is None:
            return {}
        found = {self.yardstick: self.work}
        if self.section == "decode":
            batch, heads, queries, width = self.shape
            pairs = queries * self.filled - ("causal" in self.words) * queries * (queries - 1) // 2
            kind = "float64 FMA" if self.dtype == "float64" else "float32 FMA"
            found[kind] = 4.0 * batch * heads * pairs * width
        return found

    @property
    def plain(self) -> Case | None:
        """The same attention without what makes it a variant; it is timed beside it."""
        if self.section == "retention" and self.dtype == "float32":
            return Case(self.section, "attention", self.shape, ("causal",), self.keys)
        if self.section == "decode" and self.dtype in ("float16", "bfloat16"):
            return replace(self, dtype="float32", quick=False, floors=())
        if self.section != "variants" or self.dtype == "float64":
            return None
        return Case(self.section, self.op, self.shape, ("causal",) if "causal" in self.words else ())


def _attention() -> list[Case]:
    # Fewer heads where T^2 grows, so that a call stays well under a second.
    heads = {128: 8, 256: 8, 512: 8, 1024: 8, 2048: 4, 4096: 2, 8192: 1, 16384: 1}
    rows = []
    for section, words in ("full", ()), ("causal", ("causal",)):
        for width in 64, 128:
            for length, count in heads.items():
                floors = _floors(section, length, width)
                quick = width == 64 and (length in (128, 1024) or words == ("causal",) and length == 4096)
                shape = 1, count, length, width
                rows.append(Case(section, "attention", shape, words, quick=quick, floors=floors))
        rows += [Case(section, "attention", (1, 8, 1024, width), words) for width in (32, 80, 96, 256)]
        rows.append(Case(section, "attention", (1, 1, 1024, 64), words))
    rows.append(Case("causal", "attention", (1, 1, 32768, 64), ("causal",)))  # time grows as T^2 up to here
    return rows


def _floors(section: str, length: int, width: int) -> tuple[tuple[str, int, float], ...]:
    """The least that is good enough: of multiply-adds (AVX-512), over one thread, beside torch and NumPy."""
    wide = width == 128
    if section == "full":
        share = {128: 0.62, 256: 0.66}.get(length, 0.78 if wide else 0.75)
        beside: tuple[tuple[str, int, float], ...] = (("torch", 1, 1.15),)
    else:
        share = {128: 0.52, 256: 0.56, 512: 0.62, 1024: 0.68}.get(length, 0.76 if wide else 0.72)
        torch = {128: 1.0, 256: 1.0, 512: 2.0, 1024: 1.5, 2048: 1.5}.get(length, 1.2 if wide else 1.3)
        beside = ("torch", 1, torch), ("numpy", 2, 4.0)
    speedup = (("speedup", 2, 1.85),) if length >= 512 else ()
    return ("share", 1, share), *speedup, *beside


# Speed beside plain causal attention.
PLAIN = {"alibi": 0.95, "decay": 0.95, "softcap": 0.8, "bias": 0.8, "mask": 0.8, "views": 0.95, "rope": 0.92,
         "positions": 0.85}  # fmt: skip
BESIDE: dict[str, tuple[tuple[str, int, float], ...]] = {"alibi": (("torch", 1, 3.0),)}


def _variants() -> list[Case]:
    shape = (1, 8, 1024, 64)
    words = ("alibi", "decay", "mask", "bias", "window", "segments", "lengths", "clock", "softcap", "sinks",
             "rope", "positions", "views", "fresh")  # fmt: skip
    rows = [
        Case(
            "variants",
            "attention",
            shape,
            ("causal", word),
            quick=word in ("alibi", "rope"),
            floors=((("plain", 1, PLAIN[word]),) if word in PLAIN else ()) + BESIDE.get(word, ()),
        )
        for word in words
    ]
    rows.append(Case("variants", "attention", shape, ("causal", "positions", "alibi", "rope")))
    rows += [
        Case("variants", "attention", (1, heads, length, 64), ("causal", "window"), floors=floors)
        for heads, length, floors in ((4, 4096, (("flex", 1, 2.0),)), (1, 16384, ()))
    ]
    rows += [Case("variants", "attention", shape, ("causal",), keys=(heads, 1024)) for heads in (2, 1)]
    rows += [
        Case("variants", "attention", shape, ("causal",), None, dtype, dtype == "bfloat16", floors)
        for dtype, floors in (
            ("float64", (("share", 1, 0.65),)),
            ("float16", (("plain", 1, 0.88),)),
            ("bfloat16", (("plain", 1, 0.88),)),
        )
    ]
    floors = (("plain", 1, 0.88),)
    for width, words in (64, ()), (128, ()), (128, ("causal",)):
        long = 1, 4, 2048, width
        rows.append(Case("variants", "attention", long, words, dtype="bfloat16", floors=floors))
    return rows


def _decode() -> list[Case]:
    def row(heads: int, queries: int, key_heads: int, keys: int, *words: str, dtype: str = "float32",
            quick: bool = False):  # fmt: skip
        shape = 1, heads, queries, 64
        group = heads > key_heads
        floors: tuple[tuple[str, int, float], ...] = (("share", 1, 0.7 if group else 0.8),)
        if dtype in ("float16", "bfloat16") and not group:  # groups have no fewer multiply-adds for it
            floors = (("plain", 1, 1.7),)
        elif dtype == "float32" and group:
            floors += (("torch", 1, 2.0),)
        if heads == 1:
            floors += (("share", 2, 0.75),)
        floors = floors if keys >= 16384 else ()
        return Case("decode", "attention", shape, ("causal", *words), (key_heads, keys), dtype, quick, floors)

    halves = [
        row(8, 1, key_heads, 16384, dtype=dtype) for key_heads in (8, 2) for dtype in ("float16", "bfloat16")
    ]
    return [
        row(8, 1, 8, 1024),
        row(8, 1, 8, 16384, quick=True),
        row(8, 1, 2, 16384, quick=True),
        row(8, 1, 1, 16384),
        row(8, 4, 2, 16384),
        row(1, 1, 1, 16384),
        row(1, 1, 1, 131072),
        row(8, 4, 8, 16384),
        row(8, 1, 8, 16384, "lengths"),
        row(8, 1, 8, 16384, "views"),
        row(8, 1, 2, 16384, "views"),
        row(8, 1, 8, 16384, dtype="float64"),
        *halves,
    ]


def _retention() -> list[Case]:
    floors = (("plain", 1, 5.0),)
    rows = [Case("retention", "retention", (1, 1, 16384, 64), quick=True, floors=floors)]
    rows += [Case("retention", "retention", (1, 8, 1024, width), quick=width == 64) for width in (64, 128)]
    rows += [Case("retention", "retention", (1, 8, 1024, 64), (word,)) for word in ("rope", "views", "state")]
    rows.append(Case("retention", "retention", (1, 8, 1024, 64), keys=(2, 1024)))
    for dtype in "float64", "bfloat16":
        rows.append(Case("retention", "retention", (1, 8, 1024, 64), dtype=dtype))
    return rows


def _share(least: float) -> tuple[tuple[str, int, float], ...]:
    return ("share", 1, least), ("share", 2, least)


FORMS: tuple[tuple[str, ...], ...] = ((), ("half",), ("moving",), ("tables",), ("half", "tables"))


def _rotations() -> list[Case]:
    large, cached = (1, 32, 4096, 128), (1, 8, 128, 64)  # 64 MiB and 256 KiB of float32
    rows = []
    for words in (), ("half",), ("tables",), ("half", "tables"), ("in place",), ("half", "in place"):
        floors = _share(0.85 if "half" in words else 0.8)
        if "in place" not in words:
            floors += (("onnxruntime", 1, 3.0),) if "half" in words else (("numpy", 1, 1.5),)
        quick = len(words) < 2 and "in place" not in words
        rows.append(Case("rope", "apply_rope", large, words, quick=quick, floors=floors))
    rows.append(Case("rope", "apply_rope_2d", large, quick=True, floors=_share(0.76)))  # 0.95 of apply_rope
    rows += [
        Case("rope", "apply_rope", large, words, floors=_share(0.4))
        for words in (("positions",), ("half", "positions"))
    ]
    rows += [
        Case("rope", "apply_rope_nd", large, words, quick=words == (), floors=() if words else _share(0.76))
        for words in ((), ("half",), ("rate",), ("heads",), ("positions",))
    ]
    rows.append(Case("rope", "apply_rope", large, ("fresh",)))
    rows += [
        Case("rope", "apply_rope", (1, 32, 8192, 128), dtype=dtype, floors=_share(0.85))
        for dtype in ("float16", "bfloat16")
    ]
    rows.append(Case("rope", "apply_rope", (1, 16, 4096, 128), dtype="float64", floors=_share(0.8)))
    tokens = (1, 8, 512, 64)  # of a prompt; those of a decoder's step stand among the small calls
    rows += [Case("rope", "apply_rope", tokens, words) for words in FORMS]
    rows.append(Case("rope", "apply_rope", cached, quick=True))
    for word in "half", "moving", "tables", "in place":
        rows.append(Case("rope", "apply_rope", cached, (word,)))
    rows += [Case("rope", "apply_rope_2d", cached), Case("rope", "apply_rope_nd", cached)]
    return rows


def _biases() -> list[Case]:
    large, cached = (16, 1024, 1024), (4, 128, 128)  # 64 MiB and 256 KiB of float32
    rows = []
    for op in "alibi_bias", "decay_bias":
        rows += [
            Case("bias", op, large, quick=True, floors=(*_share(0.9), ("numpy", 1, 2.5))),
            Case("bias", op, large, ("both",)),
            Case("bias", op, large, ("fresh",)),
            Case("bias", op, (16, 1024, 2048), dtype="bfloat16"),
            Case("bias", op, cached, quick=True, floors=(("share", 1, 0.6),)),
        ]
    return rows


def _small() -> list[Case]:
    return [
        Case("small", "attention", (1, 1, 8, 16), quick=True),
        Case("small", "attention", (1, 8, 16, 64), ("causal",)),
        Case("small", "attention", (1, 8, 1, 64), ("causal",), keys=(8, 64), quick=True),
        Case("small", "apply_rope", (1, 1, 8, 16), quick=True),
        Case("small", "apply_rope", (1, 1, 8, 16), ("tables",)),
        *[Case("small", "apply_rope", (1, 8, tokens, 64), words) for tokens in (1, 8) for words in FORMS],
        Case("small", "apply_rope_2d", (1, 1, 8, 16)),
        Case("small", "apply_rope_nd", (1, 1, 8, 16)),
        Case("small", "retention", (1, 8, 1, 64), ("state",), quick=True),
        Case("small", "alibi_bias", (1, 8, 16), quick=True),
        Case("small", "decay_bias", (1, 8, 16)),
        Case("small", "attention_weights", (1, 8, 16, 64)),
        Case("small", "merge_attention", (4, 8, 16, 64)),
        Case("small", "Rope.shift", (1, 8, 16, 64)),
        Case("small", "Rope.cache", (8, 64), dtype="float64"),
        Case("small", "build_rope_cache", (8, 64), dtype="float64"),
        Case("small", "clock", (8, 64), dtype="float64"),
        Case("small", "positions_from_mask", (8, 64), dtype="float64"),
        Case("small", "positions_from_lengths", (8, 64), dtype="float64"),
        Case("small", "sinusoidal", (16, 64), dtype="float64"),
    ]


TABLE = [*_attention(), *_variants(), *_decode(), *_retention(), *_rotations(), *_biases(), *_small()]


def choose(names: list[str], quick: bool) -> list[Case]:
    """Rows whose op or section is in `names` (all when empty), with `quick` only those marked so."""
    named = [case for case in TABLE if not names or case.op in names or case.section in names]
    return [case for case in named if case.quick or not quick]
