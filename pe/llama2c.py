"""A llama2.c checkpoint, its tokenizer, and the transformer they describe, on `apply_rope` and `attention`.

The model is Llama 2 as Karpathy's llama2.c stores it ("version 0"): RMSNorm, rotary attention with grouped
heads in the interleaved layout, a gated feed-forward layer. NumPy does the matrix products and `pe` all that
has to do with position. Both files are trusted only after their sizes add up: nothing is allocated on the
word of a header.

References
----------
A. Karpathy, llama2.c, ``run.c`` (the model and the byte-pair merges) and ``export.py`` (the file layout).
H. Touvron et al., "Llama 2: Open Foundation and Fine-Tuned Chat Models", arXiv:2307.09288.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from .ops import apply_rope, attention
from .rope import Rope

__all__ = ["BOS", "Cache", "InputError", "Tokenizer", "Transformer"]

BOS = 1  # starts every text; a model that produces it has finished one

# First bytes of the files people have beside a llama2.c checkpoint and pass by mistake.
FOREIGN = {
    b"GGUF": "a GGUF file",
    b"PK\x03\x04": "a PyTorch or NumPy zip archive",
    b"\x93NUM": "a NumPy .npy file",
    b"24ka": "a llama2.c checkpoint of a later version; export it again with --version 0",
}


class InputError(ValueError):
    """A file or an option this program cannot work with; the message says what is wrong in one line."""


@dataclass(frozen=True)
class Config:
    """The header of a checkpoint: seven int32; the sign of the sixth says if the output matrix is shared."""

    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    seq_len: int
    shared_output: bool = True

    @property
    def head_dim(self) -> int:
        """Width of one head, D."""
        return self.dim // self.n_heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every array, in the order of the file; matrices are (out, in)."""
        L, d, h, kv = self.n_layers, self.dim, self.hidden_dim, self.n_kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (self.vocab_size, d), "attention_norm": (L, d),
            "wq": (L, d, d), "wk": (L, kv, d), "wv": (L, kv, d), "wo": (L, d, d),
            "ffn_norm": (L, d), "w1": (L, h, d), "w2": (L, d, h), "w3": (L, h, d), "final_norm": (d,),
            # cos and sin as the exporter had them in float32; the angles here are formed in float64 instead
            "unused_tables": (2, self.seq_len, self.head_dim // 2),
        }
        return shapes if self.shared_output else shapes | {"output": (self.vocab_size, d)}

    @classmethod
    def parse(cls, header: bytes, name: str) -> Config:
        """Read and check the 28 bytes of a header."""
        kind = next((kind for magic, kind in FOREIGN.items() if header.startswith(magic)), None)
        if kind:
            raise InputError(f"{name} is {kind}, not a version 0 llama2.c checkpoint")
        if len(header) < 28:
            raise InputError(f"{name} has {len(header)} bytes; the header of a checkpoint alone has 28")
        dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len = struct.unpack("<7i", header)
        config = cls(dim, hidden_dim, n_layers, n_heads, n_kv_heads, abs(vocab_size), seq_len, vocab_size > 0)
        if min(dim, hidden_dim, n_layers, n_heads, n_kv_heads, seq_len) < 1 or config.vocab_size <= BOS:
            raise InputError(f"{name} is not a llama2.c checkpoint: its header reads {config}")
        if config.dim % config.n_heads or config.n_heads % config.n_kv_heads or config.head_dim % 2:
            raise InputError(f"{name} is not a llama2.c checkpoint: {config.dim} coordinates do not make "
                             f"{config.n_heads} heads of even width on {config.n_kv_heads} key heads")
        return config


@dataclass
class Cache:
    """Keys and values of `length` positions, in arrays (layers, key heads, capacity, D)."""

    keys: np.ndarray
    values: np.ndarray
    length: int = 0


@dataclass(frozen=True, eq=False)
class Transformer:
    """A Llama-2 transformer whose weights stay in their file, mapped into memory.

    Parameters
    ----------
    config : Config
        Sizes from the header.
    weights : dict of str to ndarray
        The arrays `Config.shapes` names, float32.
    rope_inside : bool, default False
        Where position enters. False: queries and keys are turned once by `apply_rope`, and the cache holds
        turned keys. True: `attention` gets plain queries and keys and turns them on the way, with ``rope=``.
    """

    config: Config
    weights: dict[str, np.ndarray] = field(repr=False)
    rope_inside: bool = False

    @classmethod
    def load(cls, path: str | os.PathLike, *, rope_inside: bool = False) -> Transformer:
        """Map a version 0 checkpoint into memory.

        Raises
        ------
        InputError
            The file is truncated, has bytes to spare, belongs to another program, or holds NaN or infinity.
        OSError
            The file cannot be opened.
        """
        name = Path(path).name
        _refuse_pipes(path, name)
        with open(path, "rb") as file:
            config = Config.parse(file.read(28), name)
            size = os.fstat(file.fileno()).st_size
            expected = 28 + 4 * sum(math.prod(shape) for shape in config.shapes().values())
            if size != expected:
                raise InputError(f"{name} has {size} bytes and a header (dim {config.dim}, {config.n_layers} "
                                 f"layers, vocabulary {config.vocab_size}) that asks for {expected}: "
                                 "truncated, too long, or not a llama2.c checkpoint")
            data = np.memmap(file, "<f4", "r", offset=28)

        weights, start = {}, 0
        for key, shape in config.shapes().items():
            weights[key] = data[start:start + math.prod(shape)].view(np.ndarray).reshape(shape)
            start += weights[key].size
        del weights["unused_tables"]
        for key, weight in weights.items():
            if not np.isfinite([weight.min(), weight.max()]).all():  # min and max let NaN through
                raise InputError(f"{name} is damaged: {key} holds NaN or infinity")
        return cls(config, weights, rope_inside)

    def cache(self, capacity: int) -> Cache:
        """Room for `capacity` positions."""
        shape = (self.config.n_layers, self.config.n_kv_heads, capacity, self.config.head_dim)
        return Cache(np.zeros(shape, np.float32), np.zeros(shape, np.float32))

    @np.errstate(all="ignore")  # weights that overflow are found by _rms_norm, once for all
    def hidden(self, tokens, cache: Cache | None = None) -> np.ndarray:
        """Run T tokens through the layers, behind those already in the cache.

        Parameters
        ----------
        tokens : sequence of int, (T,)
            The whole text without a cache, else what follows the cached positions.
        cache : Cache, optional
            Read and extended in place; needs room for T more positions.

        Returns
        -------
        ndarray, (T, dim), float32
            The normalised state `logits` reads.

        Raises
        ------
        InputError
            The numbers grow beyond float32: the weights are damaged.
        """
        w, tokens = self.weights, np.asarray(tokens)
        cache = self.cache(len(tokens)) if cache is None else cache
        positions = np.arange(cache.length, cache.length + len(tokens))
        x = w["embedding"][tokens]
        for layer in range(self.config.n_layers):
            x = x + self._attend(layer, _rms_norm(x, w["attention_norm"][layer]), positions, cache)
            h = _rms_norm(x, w["ffn_norm"][layer])
            gate = h @ w["w1"][layer].T
            # silu(-large) = -large / inf = 0 is right
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][layer].T)) @ w["w2"][layer].T
        cache.length += len(tokens)
        return _rms_norm(x, w["final_norm"])

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """Score every token of the vocabulary as the next one: (..., dim) -> (..., vocabulary)."""
        return hidden @ self.weights.get("output", self.weights["embedding"]).T

    def _attend(self, layer, h, positions, cache):
        D, w, end = self.config.head_dim, self.weights, positions[-1] + 1
        q, k, v = (_heads(h @ w[key][layer].T, D) for key in ("wq", "wk", "wv"))  # (H, T, D), (K, T, D) twice
        keys, values = cache.keys[layer], cache.values[layer]  # (K, capacity, D)
        values[:, positions] = v
        rope = Rope(D)
        if self.rope_inside:
            keys[:, positions] = k
        else:
            q = apply_rope(q, positions=positions, rope=rope)
            apply_rope(k, positions=positions, rope=rope, out=keys[:, positions[0]:end])
        # Causality is bottom-right: T queries are the last T of the `end` keys, cached or not.
        mixed = attention(q, keys[:, :end], values[:, :end], causal=True,
                          rope=rope if self.rope_inside else None)
        return np.swapaxes(mixed, 0, 1).reshape(len(h), -1) @ w["wo"][layer].T


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A byte-pair vocabulary: the bytes and the merge score of every token.

    Parameters
    ----------
    pieces : list of bytes
        What each token spells.
    scores : list of float
        Which merge comes first: the highest.
    """

    pieces: list[bytes] = field(repr=False)
    scores: list[float] = field(repr=False)

    @classmethod
    def load(cls, path: str | os.PathLike, vocab_size: int) -> Tokenizer:
        """Read the `vocab_size` tokens of a llama2.c tokenizer file.

        Raises
        ------
        InputError
            The file is truncated, has bytes to spare, or holds lengths and scores no tokenizer has.
        OSError
            The file cannot be opened.
        """
        name, pieces, scores = Path(path).name, [], []
        _refuse_pipes(path, name)
        with open(path, "rb") as file:
            header = file.read(4)
            longest = int.from_bytes(header, "little", signed=True)
            # 4 bytes of header, 8 before each token: a size out of these bounds is refused before it is read
            size = os.fstat(file.fileno()).st_size
            if len(header) < 4 or longest < 1 or not size <= 4 + vocab_size * (8 + longest):
                raise InputError(f"{name} is not a tokenizer of {vocab_size} tokens: it has {size} bytes "
                                 f"and says its longest token has {longest}")
            for token in range(vocab_size):
                entry = file.read(8)
                score, length = struct.unpack("<fi", entry) if len(entry) == 8 else (0.0, 0)
                piece = file.read(length) if 0 <= length <= min(longest, size) else b""
                if len(entry) < 8 or len(piece) != length:
                    raise InputError(f"{name} is truncated or not a tokenizer: token {token} of {vocab_size} "
                                     "is broken")
                if not math.isfinite(score):
                    raise InputError(f"{name} is damaged: token {token} has the score {score}")
                pieces.append(piece)
                scores.append(score)
            if file.read(1):
                raise InputError(f"{name} holds more than the {vocab_size} tokens of the checkpoint")
        return cls(pieces, scores)

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, `BOS` first: characters, unknown ones as bytes, merged pair by pair.

        Raises
        ------
        InputError
            The vocabulary cannot spell a character of the text, not even byte by byte.
        """
        ids = {piece: token for token, piece in reversed(list(enumerate(self.pieces)))}
        tokens = []
        for character in " " + text if text else "":  # llama2.c puts a space before the first word
            piece = character.encode()
            spelling = [piece] if piece in ids else [b"<0x%02X>" % byte for byte in piece]
            if not all(part in ids for part in spelling):
                raise InputError(f"the tokenizer has neither {character!r} nor its bytes")
            tokens += [ids[part] for part in spelling]

        while True:
            pairs = (self.pieces[a] + self.pieces[b] for a, b in pairwise(tokens))
            merges = {i: ids[pair] for i, pair in enumerate(pairs) if pair in ids}
            if not merges:
                return [BOS, *tokens]
            best = max(merges, key=lambda i: self.scores[merges[i]])  # the leftmost of equals
            tokens[best:best + 2] = [merges[best]]

    def decode(self, token: int, previous: int) -> bytes:
        """Bytes a token prints behind `previous`: `BOS` swallows the space before the first word."""
        piece = self.pieces[token]
        if previous == BOS and piece.startswith(b" "):
            piece = piece[1:]
        if len(piece) == 6 and piece.startswith(b"<0x") and piece.endswith(b">"):
            try:
                return bytes([int(piece[3:5], 16)])
            except ValueError:
                pass  # spelled like a byte, but is not one
        return piece


def _refuse_pipes(path, name):
    """A named pipe or a device would be waited for, perhaps for ever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{name} is not a regular file")


def _rms_norm(x, weight):
    """Divide by the root of the mean square (plus 1e-5), times a learned weight."""
    square = np.mean(x * x, axis=-1, keepdims=True)
    if not np.isfinite(square).all():
        raise InputError("the checkpoint is damaged: its weights lead beyond float32")
    return x / np.sqrt(square + np.float32(1e-5)) * weight


def _heads(x, width):
    """(T, heads * D) -> (heads, T, D), without a copy."""
    return np.swapaxes(x.reshape(len(x), -1, width), 0, 1)
