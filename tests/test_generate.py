"""Text from a checkpoint: a published model to the last token, a small one by the book, broken files."""

import io
import os
import re
import struct
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_refused, run_command
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from pe.generate import generate, run
from pe.llama2c import BOS, Config, InputError, Tokenizer, Transformer

STORIES = Path(os.environ.get("PE_SHARED", Path(__file__).parents[1] / "../shared")) / "data" / "stories260K"
STORY = STORIES / "stories260K.bin", STORIES / "tok512.bin"
needs_stories = pytest.mark.skipif(not STORIES.is_dir(), reason="needs stories260K: set PE_SHARED")

SIZES = (16, 24, 2, 4, 2, 20, 12)  # dim, hidden, layers, heads, key heads, vocabulary, context
WAYS = pytest.mark.parametrize("rope", ["outside", "inside"]), pytest.mark.parametrize("cache", [True, False])


def checkpoint(sizes=SIZES, shared=False, seed=0):
    """Bytes of a random model, and its arrays."""
    config = Config(*sizes, shared_output=shared)
    rng = np.random.default_rng(seed)
    arrays = {key: rng.standard_normal(shape).astype("<f4") / 3 for key, shape in config.shapes().items()}
    *head, vocabulary, context = sizes
    header = struct.pack("<7i", *head, vocabulary if shared else -vocabulary, context)
    return header + b"".join(array.tobytes() for array in arrays.values()), arrays


def vocabulary(pieces):
    """Bytes of a tokenizer whose earlier tokens merge first."""
    entries = [struct.pack("<fi", -i, len(piece)) + piece for i, piece in enumerate(pieces)]
    return struct.pack("<i", max(map(len, pieces))) + b"".join(entries)


PIECES = [b"<unk>", b"<s>", b"</s>", b" ", b"a", b"b", b" a", b"ab", b" ab", "\u00e9".encode(), b"<0xC3>",
          b"<0xAB>", b"<0xF>>", *(bytes([c]) for c in b"cdefghi")]


def command(files):
    """Spell the command that runs a model and its tokenizer."""
    return ["generate", files[0], "--tokenizer", files[1]]


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    """Keep products this small on one thread: on a busy machine BLAS threads wait for each other."""
    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture
def files(tmp_path):
    """Write a small model and its tokenizer; return their paths."""
    (tmp_path / "model.bin").write_bytes(checkpoint()[0])
    (tmp_path / "tok.bin").write_bytes(vocabulary(PIECES))
    return tmp_path / "model.bin", tmp_path / "tok.bin"


def spell(tokenizer, tokens):
    """Bytes the tokens behind the first print."""
    return b"".join(tokenizer.decode(token, previous) for previous, token in pairwise(tokens))


# ---- the published model ------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def reference():
    """Tokens and logits of the author's own program."""
    with np.load(STORIES / "reference_greedy_200.npz") as file:
        return file["tokens"], file["logits"]


@needs_stories
@WAYS[0]
@WAYS[1]
def test_200_greedy_tokens_and_their_logits(reference, rope, cache):
    model = Transformer.load(STORIES / "stories260K.bin", rope_inside=rope == "inside")
    tokenizer = Tokenizer.load(STORIES / "tok512.bin", model.config.vocab_size)
    steps = list(generate(model, [BOS], 200, cache=cache))
    tokens = [BOS, *(step.token for step in steps)]
    np.testing.assert_array_equal(tokens[:200], reference[0])
    np.testing.assert_allclose([step.logits for step in steps], reference[1], rtol=0, atol=1e-4)
    assert spell(tokenizer, tokens) + b"\n" == (STORIES / "expected_greedy_200.txt").read_bytes()


@needs_stories
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("cuts", [[], [1, 2, 50], [199]])
def test_prefill_in_any_pieces_gives_the_same_logits(reference, inside, cuts):
    model = Transformer.load(STORIES / "stories260K.bin", rope_inside=inside)
    cache = model.cache(200)
    logits = [model.logits(model.hidden(part, cache)) for part in np.split(reference[0], cuts)]
    np.testing.assert_allclose(np.concatenate(logits), reference[1], rtol=0, atol=1e-4)


@needs_stories
def test_the_command_prints_the_story_and_its_speed(capsys):
    status, out, err = run_command(capsys, *command(STORY))
    assert status == 0
    assert out == (STORIES / "expected_greedy_200.txt").read_text()
    assert re.fullmatch(r"prefill: 1 at \d+ tokens/s; decode: 199 at \d+ tokens/s, from the cache\n", err)


@needs_stories
def test_the_prompt_is_tokenized_and_continued_as_by_the_reference(capsys, reference):
    tokenizer = Tokenizer.load(STORIES / "tok512.bin", 512)
    assert tokenizer.encode("Once upon a time, there") == list(reference[0][:7])
    story = (STORIES / "expected_greedy_200.txt").read_text()
    for how in ("--cache", "--no-cache"):
        _, out, err = run_command(capsys, *command(STORY), "--prompt", "Once upon a time, there",
                                  "--steps", 20, how, "--rope", "inside")
        assert story.startswith(out.rstrip("\n")) and len(out) > 40
        assert err.startswith("prefill: 7 at ")


@needs_stories
@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_any_text_survives_the_tokenizer(text):
    tokenizer = Tokenizer.load(STORIES / "tok512.bin", 512)
    tokens = tokenizer.encode(text)
    assert spell(tokenizer, tokens).decode() == text


# ---- a small model against textbook NumPy -------------------------------------------------------------

def textbook(arrays, tokens, sizes=SIZES, shared=False):
    """Compute the logits of a whole text in float64, head by head, rotating complex numbers."""
    dim, _, layers, heads, key_heads, _, _ = sizes
    D, w = dim // heads, {key: array.astype(np.float64) for key, array in arrays.items()}

    def norm(x, weight):
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * weight

    def rotate(x, t):
        z = (x[0::2] + 1j * x[1::2]) * np.exp(1j * t * 10000.0 ** (-np.arange(0, D, 2) / D))
        return np.stack([z.real, z.imag], -1).ravel()

    x = w["embedding"][tokens]
    for layer in range(layers):
        h, mixed = norm(x, w["attention_norm"][layer]), np.zeros_like(x)
        for head in range(heads):
            def part(name, index, layer=layer, h=h):
                return h @ w[name][layer][index * D:(index + 1) * D].T
            key_head = head * key_heads // heads
            q, k, v = part("wq", head), part("wk", key_head), part("wv", key_head)
            q, k = ([rotate(row, t) for t, row in enumerate(a)] for a in (q, k))
            for t in range(len(tokens)):
                weights = np.exp([q[t] @ k[s] / np.sqrt(D) for s in range(t + 1)])
                mixed[t, head * D:(head + 1) * D] = weights @ v[:t + 1] / weights.sum()
        x = x + mixed @ w["wo"][layer].T
        h = norm(x, w["ffn_norm"][layer])
        gate = h @ w["w1"][layer].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][layer].T)) @ w["w2"][layer].T
    return norm(x, w["final_norm"]) @ w["embedding" if shared else "output"].T


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("sizes", [SIZES, (8, 4, 1, 2, 2, 3, 4), (12, 8, 3, 6, 1, 5, 9)])
def test_logits_are_those_of_textbook_numpy(tmp_path, shared, inside, sizes):
    data, arrays = checkpoint(sizes, shared)
    (tmp_path / "model.bin").write_bytes(data)
    model = Transformer.load(tmp_path / "model.bin", rope_inside=inside)
    assert model.config.shared_output == shared
    tokens = np.random.default_rng(1).integers(0, sizes[5], sizes[6])
    np.testing.assert_allclose(model.logits(model.hidden(tokens)), textbook(arrays, tokens, sizes, shared),
                               rtol=0, atol=2e-5)


def test_generation_stops_at_the_end_of_the_text(tmp_path, files, capsys):
    data, arrays = checkpoint()
    model = Transformer.load(files[0])
    arrays["output"][BOS] = 100 * model.hidden([BOS])[-1]  # after BOS nothing is as likely as BOS
    files[0].write_bytes(data[:28] + b"".join(array.tobytes() for array in arrays.values()))
    assert [step.token for step in generate(Transformer.load(files[0]), [BOS], 5)] == [BOS]
    assert run_command(capsys, *command(files), "--steps", 9)[:2] == (0, "\n")


def test_temperature_draws_from_the_softmax_and_a_seed_repeats_it(files):
    model = Transformer.load(files[0])
    logits = model.logits(model.hidden([BOS])[-1]).astype(np.float64)
    expected = np.exp(logits / 0.7) / np.exp(logits / 0.7).sum()
    draws = [next(generate(model, [BOS], 1, temperature=0.7, seed=seed)).token for seed in range(3000)]
    counts = np.bincount(draws, minlength=len(logits))
    assert (((counts - 3000 * expected) ** 2) / (3000 * expected)).sum() < 60  # chi-square, 19 degrees

    def tokens(**keywords):
        return [step.token for step in generate(model, [BOS], 12, **keywords)]

    assert tokens(temperature=1.0, seed=3) == tokens(temperature=1.0, seed=3) == \
        tokens(temperature=1.0, seed=3, cache=False)
    assert len({tuple(tokens(temperature=1.0, seed=seed)) for seed in range(5)}) > 1
    assert tokens(temperature=1e-300, seed=0) == tokens()


# ---- the tokenizer ------------------------------------------------------------------------------------

@pytest.fixture
def small(files):
    """Return the tokenizer of PIECES."""
    return Tokenizer.load(files[1], len(PIECES))


@pytest.mark.parametrize(("text", "pieces"), [
    ("", []), ("a", [b" a"]), ("ab", [b" ab"]), ("bab", [b" ", b"b", b"ab"]), (" a", [b" ", b" a"]),
    ("\u00e9", [b" ", b"\xc3\xa9"]), ("\u00eb", [b" ", b"<0xC3>", b"<0xAB>"]),
])
def test_encoding_merges_the_best_pair_first(small, text, pieces):
    assert small.encode(text) == [BOS, *(PIECES.index(piece) for piece in pieces)]


def test_a_character_without_a_spelling_is_refused(small):
    with pytest.raises(InputError, match="neither 'z'"):
        small.encode("z")


def test_bytes_are_spelled_and_the_first_space_is_dropped(small):
    assert small.decode(PIECES.index(b" a"), BOS) == b"a"
    assert small.decode(PIECES.index(b" a"), 4) == b" a"
    assert small.decode(PIECES.index(b"<0xC3>"), 4) == b"\xc3"
    assert small.decode(PIECES.index(b"<0xF>>"), 4) == b"<0xF>>"  # looks like a byte and is none


def test_a_character_spread_over_two_tokens_is_printed_whole(files):
    out = io.StringIO()
    run(*files, "\u00eb", 1, cache=True, rope="outside", temperature=0.0, seed=None, out=out,
        log=io.StringIO())
    assert out.getvalue().startswith("\u00eb")


# ---- files and options that cannot be used ------------------------------------------------------------

def test_more_steps_than_the_context_holds(files, capsys):
    prompt = len(Tokenizer.load(files[1], len(PIECES)).encode("ab ab"))
    room = 12 - prompt + 1
    assert_refused(run_command(capsys, *command(files), "--prompt", "ab ab", "--steps", room + 1),
                   f"{prompt} tokens", f"--steps can be {room} at most")
    assert run_command(capsys, *command(files), "--prompt", "ab ab", "--steps", room)[0] == 0
    assert_refused(run_command(capsys, *command(files), "--prompt", "cdefghicdefghi"), "does not fit")
    assert_refused(run_command(capsys, *command(files), "--prompt", "a" * 100_000), "100000 characters")


def test_a_prompt_the_vocabulary_cannot_spell(files, capsys):
    assert_refused(run_command(capsys, *command(files), "--prompt", "zoo"), "'z'")


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "empty", "swapped"])
def test_files_that_are_not_there_or_something_else(files, capsys, tmp_path, which, kind):
    paths = list(files)
    if kind == "pipe":
        paths[which] = tmp_path / "pipe"
        os.mkfifo(paths[which])
    elif kind == "missing":
        paths[which] = tmp_path / "nowhere\nat all.bin"
    elif kind == "folder":
        paths[which] = tmp_path
    elif kind == "empty":
        paths[which].write_bytes(b"")
    else:
        paths[which] = files[1 - which]
    assert_refused(run_command(capsys, *command(paths)))


@pytest.mark.parametrize(("magic", "name"), [
    (b"GGUF\x03\0\0\0", "GGUF"), (b"PK\x03\x04\0\0", "zip"), (b"24ka\x01\0\0\0", "version"),
    (b"\x93NUMPY", "npy"),
    (b"#!/bin/sh\necho this is a text, and a longer one than a header\n", "not a llama2.c"),
])
def test_foreign_checkpoints_are_named(files, capsys, magic, name):
    files[0].write_bytes(magic + bytes(100))
    assert_refused(run_command(capsys, *command(files)), name)


@pytest.mark.parametrize("change", [
    {0: 0}, {0: -16}, {2: 0}, {3: 3}, {3: 16}, {4: 3}, {5: 0}, {5: 1}, {5: -2**31}, {6: 0},
    {0: 2**31 - 1}, {1: 2**31 - 1}, {2: 2**31 - 1}, {5: 2**30}, {6: 2**31 - 1},
    {0: 2**30, 1: 2**30, 2: 2**30, 3: 2, 4: 1, 5: 2**30, 6: 2**30},
])
def test_absurd_headers_are_refused_without_their_memory(files, capsys, change):
    data = bytearray(files[0].read_bytes())
    for index, value in change.items():
        struct.pack_into("<i", data, 4 * index, value)
    files[0].write_bytes(data)
    tracemalloc.start()
    try:
        assert_refused(run_command(capsys, *command(files)), "model.bin")
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("key", [key for key in Config(*SIZES, False).shapes() if key != "unused_tables"])
def test_weights_that_are_no_numbers_are_refused_by_name(files, capsys, key, value):
    data, arrays = checkpoint()
    arrays[key].flat[-1] = value
    files[0].write_bytes(data[:28] + b"".join(array.tobytes() for array in arrays.values()))
    assert_refused(run_command(capsys, *command(files)), key, "damaged")


@pytest.mark.parametrize("key", ["w2", "final_norm"])
def test_weights_that_overflow_are_refused(files, capsys, key):
    data, arrays = checkpoint()
    arrays[key][:] = 3e38
    files[0].write_bytes(data[:28] + b"".join(array.tobytes() for array in arrays.values()))
    assert_refused(run_command(capsys, *command(files), "--steps", 5), "damaged")


def test_every_truncation_of_a_tokenizer_and_a_byte_too_many(files):
    data = files[1].read_bytes()
    for size in range(len(data)):
        files[1].write_bytes(data[:size])
        with pytest.raises(InputError, match="tok.bin"):
            Tokenizer.load(files[1], len(PIECES))
    for extra, size in [(b"\0", len(PIECES)), (b"", len(PIECES) - 1), (b"", len(PIECES) + 1)]:
        files[1].write_bytes(data + extra)
        with pytest.raises(InputError, match="tok.bin"):
            Tokenizer.load(files[1], size)


@pytest.mark.parametrize(("offset", "value"), [(0, -1), (0, 0), (0, 2), (8, -1), (8, 2**31 - 1), (8, 1000)])
def test_absurd_lengths_in_a_tokenizer(files, capsys, offset, value):
    data = bytearray(files[1].read_bytes())
    struct.pack_into("<i", data, offset, value)
    files[1].write_bytes(data)
    tracemalloc.start()
    try:
        assert_refused(run_command(capsys, *command(files)), "tok.bin")
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_scores_that_are_no_numbers(files, capsys, score):
    data = bytearray(files[1].read_bytes())
    struct.pack_into("<f", data, 4, score)
    files[1].write_bytes(data)
    assert_refused(run_command(capsys, *command(files)), "tok.bin", "score")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_files_end_in_text_or_in_one_line(tmp_path_factory, data):
    """Flip bytes, cut and append: the command succeeds or refuses, and says so as it should."""
    folder = tmp_path_factory.mktemp("damaged")
    contents = [bytearray(checkpoint()[0]), bytearray(vocabulary(PIECES))]
    for content in contents:
        place = st.integers(0, 60) | st.integers(0, len(content) - 1)
        for at, byte in data.draw(st.lists(st.tuples(place, st.integers(0, 255)), max_size=4)):
            content[at] = byte
        cut = data.draw(st.none() | st.integers(0, len(content)))
        content[:] = content[:cut] + data.draw(st.binary(max_size=3))
    paths = [folder / "model.bin", folder / "tok.bin"]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    out = io.StringIO()
    try:
        run(*paths, "ab a", 3, cache=True, rope="outside", temperature=0.0, seed=None, out=out,
            log=io.StringIO())
    except InputError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert out.getvalue().endswith("\n")
