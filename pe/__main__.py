"""The command line: the tour, ``classify`` a matrix, ``rope`` for a config, ``generate`` text, ``info``.

Bad input of any kind ends with one line on stderr and exit status 2.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sys

from . import __version__
from .llama2c import InputError


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line: what is wrong and where to read on."""

    def error(self, message):
        """Print one line and exit with status 2."""
        self.exit(_fail(f"{message} (see {self.prog} --help)"))


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    if sys.stderr is None:  # closed by the caller (2>&-); print would take None for stdout
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        return _fail("standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter the terminal lacks becomes "?", no traceback
    args = _parser().parse_args(argv)
    try:
        args.command(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has seen enough; keep Python from flushing once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except InputError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    return 0


def tour(args):
    """Walk through the argument, one chapter or all of them and the page."""
    from .tour import take

    take(sys.stdout, args.chapter)


def classify(args):
    """Name a matrix."""
    from .name_matrix import run

    run(args.matrix, exact=args.exact, as_json=args.json, out=sys.stdout)


def rope(args):
    """Explain the rotary encoding of a config.json, or compare two."""
    from .rope_report import run

    run(args.config, other=args.compare, html=args.html, layer_type=args.layer_type, layout=args.layout,
        seq_len=args.seq_len, context=args.context, out=sys.stdout)


def generate(args):
    """Continue a prompt with a llama2.c checkpoint."""
    from .generate import run

    run(args.checkpoint, args.tokenizer, args.prompt, args.steps, cache=args.cache, rope=args.rope,
        temperature=args.temperature, seed=args.seed, out=sys.stdout, log=sys.stderr)


def info(args):
    """Say how this pe was built and what it runs on."""
    from .runtime import show_config

    show_config()


def _parser():
    parser = Parser(prog="python -m pe", description="Turn, fade, slide: positional encodings, with live "
                                                     "numbers. Without a command: the tour.")
    parser.add_argument("--version", action="version", version=f"pe {__version__}")
    parser.set_defaults(command=tour, chapter=None)
    commands = parser.add_subparsers(title="commands", metavar="{tour,classify,rope,generate,info}")

    def add(function, summary, description):
        command = commands.add_parser(function.__name__, help=summary, description=description)
        command.set_defaults(command=function)
        return command.add_argument

    option = add(tour, "the whole argument in short chapters (default)",
                 "Walk the argument from word order to attention. Every number is computed as you read. The "
                 "whole tour also writes turn-fade-slide.html into the current folder.")
    option("--chapter", type=_chapter, metavar="N", help="only chapter N; writes no file")

    option = add(classify, "what a matrix does as a generator: turn, fade, slide ...",
                 "Name what exp(uX) does for a square matrix X: a table, a sentence, a small phase portrait.")
    option("matrix", metavar="MATRIX",
           help='rows between semicolons, as in "0 1; 0 0"; or a .npy file, or a .json file of nested lists')
    option("--exact", action="store_true", help="take the numbers as exact fractions; nothing is rounded")
    option("--json", action="store_true", help="print one JSON object")

    option = add(rope, "the rotary encoding of a Hugging Face config.json",
                 "Explain what a config.json says about rotary positions: layout, frequencies, what scaling "
                 "did to each plane, and what is easy to get wrong with it.")
    option("config", metavar="CONFIG", help="a config.json as Hugging Face saves it; - reads standard input")
    option("--compare", metavar="OTHER", help="another one: say what differs")
    option("--html", metavar="FILE", help="write the report as one self-contained page as well")
    option("--layer-type", metavar="X", help="only these layers, where types of layers differ")
    option("--layout", choices=("half", "interleaved"),
           help="which coordinates are a pair, for a model type that pe does not know")
    option("--seq-len", type=_whole(1), metavar="N",
           help="the length that the types dynamic and longrope choose their frequencies by")
    option("--context", type=_whole(2), metavar="N",
           help="count turns and errors over N positions (default: what the config says)")

    option = add(generate, "text from a llama2.c checkpoint",
                 "Run a llama2.c checkpoint (version 0) with NumPy for the matrix products and pe for rope "
                 "and attention. Text goes to stdout, the speed to stderr.")
    option("checkpoint", metavar="CHECKPOINT", help="the weights, for example stories260K.bin")
    option("--tokenizer", required=True, metavar="T", help="its vocabulary, for example tok512.bin")
    option("--prompt", type=_text, default="", metavar="P", help="how the text begins (default: empty)")
    option("--steps", type=_whole(1), default=200, metavar="N",
           help="tokens to generate at most (default: 200)")
    option("--cache", action=argparse.BooleanOptionalAction, default=True,
           help="keep the keys and values seen so far, or run the whole text again for each token")
    option("--rope", choices=("outside", "inside"), default="outside",
           help="turn q and k with apply_rope, or let attention do it by rope= (default: outside)")
    option("--temperature", type=_temperature, default=0.0, metavar="X",
           help="0 takes the likeliest token (default); higher is more adventurous")
    option("--seed", type=_whole(0), metavar="S", help="make the draws of --temperature repeatable")

    add(info, "version, instruction set, threads, compiler",
        "Print how this pe was built and what it runs on: put it into bug reports.")
    return parser


def _chapter(value):
    from .tour import CHAPTERS

    number = _whole(1)(value)
    if number > len(CHAPTERS):
        raise argparse.ArgumentTypeError(f"the tour has chapters 1 to {len(CHAPTERS)}, not {number}")
    return number


def _whole(least):
    def parse(value):
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"needs a whole number of at least {least}, not {value!r}")
        return number
    return parse


def _temperature(value):
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"needs a number of at least 0, not {value!r}")
    return number


def _text(value):
    try:
        value.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("is not valid UTF-8") from None
    return value


def _fail(message):
    print("pe: error:", " ".join(message.split()), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
