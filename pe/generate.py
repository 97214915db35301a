"""Text from a llama2.c checkpoint: prefill the prompt, then decode token by token against a cache."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .llama2c import BOS, InputError, Tokenizer, Transformer

__all__ = ["Step", "generate", "run"]


@dataclass(frozen=True)
class Step:
    """One generated token, the logits it was chosen from, and the seconds that took."""

    token: int
    logits: np.ndarray
    seconds: float


def generate(model: Transformer, tokens: list[int], steps: int, *, cache: bool = True,
             temperature: float = 0.0, seed: int | None = None) -> Iterator[Step]:
    """Continue a text, one `Step` at a time.

    Parameters
    ----------
    model : Transformer
        The model.
    tokens : list of int
        The prompt; the first step is its prefill.
    steps : int
        Tokens to generate at most; the model stops itself by producing `BOS`.
    cache : bool, default True
        False runs the whole text through the model again for every token: slow, and the same numbers.
    temperature : float, default 0.0
        0 takes the likeliest token; above, tokens are drawn from softmax(logits / temperature).
    seed : int, optional
        Seed of the draw.

    Yields
    ------
    Step

    Raises
    ------
    InputError
        The logits are not finite: the weights are damaged.
    """
    text, fed, memory = list(tokens), 0, model.cache(len(tokens) + steps) if cache else None
    draw = np.random.default_rng(seed)
    for _ in range(steps):
        start = time.perf_counter()
        with np.errstate(all="ignore"):  # the check speaks for all of it
            logits = model.logits(model.hidden(text[fed:], memory)[-1])
        if not np.isfinite(logits).all():
            raise InputError("the checkpoint is damaged: its weights lead to logits that are not finite")
        token = int(np.argmax(logits)) if temperature == 0 else _sample(logits, temperature, draw)
        yield Step(token, logits, time.perf_counter() - start)
        if token == BOS:
            return
        fed = len(text) if cache else 0
        text.append(token)


def run(checkpoint: str, tokenizer: str, prompt: str, steps: int, *, cache: bool, rope: str,
        temperature: float, seed: int | None, out, log) -> None:
    """Print the prompt and its continuation to `out`, and the speed to `log`.

    Raises
    ------
    InputError
        One of the files is not what it should be, or the text does not fit into the model's context.
    OSError
        One of the files cannot be read.
    """
    model = Transformer.load(checkpoint, rope_inside=rope == "inside")
    vocabulary = Tokenizer.load(tokenizer, model.config.vocab_size)
    context = model.config.seq_len
    # No token spells more than the longest piece: what cannot fit is refused before the slow merging.
    if len(prompt.encode()) > context * max(map(len, vocabulary.pieces)):
        raise InputError(f"the prompt has {len(prompt)} characters; they do not fit into {context} tokens")
    tokens = vocabulary.encode(prompt)
    room = context + 1 - len(tokens)  # the last token is printed, never fed
    if steps > room:
        advice = f"--steps can be {room} at most, not {steps}" if room > 0 else "it does not fit"
        raise InputError(f"the prompt has {len(tokens)} tokens and the context {context}: {advice}")

    text = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be spread over several tokens
    for previous, token in pairwise(tokens):
        out.write(text.decode(vocabulary.decode(token, previous)))
    previous, seconds = tokens[-1], []
    for step in generate(model, tokens, steps, cache=cache, temperature=temperature, seed=seed):
        seconds.append(step.seconds)
        if step.token != BOS:
            out.write(text.decode(vocabulary.decode(step.token, previous)))
            out.flush()
        previous = step.token
    out.write(text.decode(b"", final=True) + "\n")
    out.flush()

    speed = f"prefill: {len(tokens)} at {len(tokens) / seconds[0]:.0f} tokens/s"
    if len(seconds) > 1:
        rate = (len(seconds) - 1) / sum(seconds[1:])
        how = "from the cache" if cache else "the whole text again for each"
        speed += f"; decode: {len(seconds) - 1} at {rate:.0f} tokens/s, {how}"
    print(speed, file=log)


def _sample(logits, temperature, draw):
    """Draw from softmax(logits / temperature)."""
    with np.errstate(over="ignore"):  # a temperature near 0 leaves the likeliest token alone: exp(-inf) = 0
        weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    return int(draw.choice(len(logits), p=weights / weights.sum()))
