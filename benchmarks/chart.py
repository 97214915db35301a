"""One picture of a run: the share of the physical limit each row reaches, and where its peers stand."""

from __future__ import annotations

import math
from pathlib import Path

from .report import short
from .table import SECTIONS

# A colour and a mark for each peer: told apart in grey too.
MARKS = {
    "numpy": ("#8a6d00", "s"),
    "torch": ("#c2410c", "o"),
    "flex": ("#9333ea", "D"),
    "onnxruntime": ("#0f766e", "^"),
    "mha": ("#0f766e", "v"),
    "gqa": ("#0f766e", ">"),
}
NAMES = {"mha": "onnxruntime MultiHeadAttention", "gqa": "onnxruntime GroupQueryAttention"}
BAR, INK, FAINT = "#2563a8", "#1f2328", "#d0d7de"


def shares(result: dict) -> tuple[dict[str, float], int]:
    """The share of its limit that `pe` and each peer reach on one thread, best of all repetitions."""
    threads, run = next(iter(result["runs"].items()))
    limit = result["work"] / run["yardstick"]["best"]
    found = {"pe": limit / run["seconds"]["best"]}
    for name, peer in run["peers"].items():
        if name in MARKS:
            found[name] = limit / peer["seconds"]["best"]
    return found, threads


def draw(machine: dict[str, str], results: list[dict], file: Path) -> None:
    """Bars for `pe`, marks for the peers, grouped by section; rows without a limit (small calls) stay out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    groups = [(title, [r for r in results if r["section"] == section and r["yardstick"]])
              for section, title in SECTIONS.items() if section != "retention"]  # fmt: skip
    groups = [(title, rows) for title, rows in groups if rows]
    lines = sum(len(rows) + 1.6 for _, rows in groups)
    figure = Figure(figsize=(10, 1.5 + 0.235 * lines), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    y, labels, seen, farthest, threads = 0.0, [], [], 1.0, 1
    for title, rows in groups:
        y += 1.1
        axes.text(0, y, title.split(";")[0], fontsize=9.5, fontweight="bold", color=INK, va="center")
        for result in rows:
            y += 1
            found, threads = shares(result)
            axes.barh(y, found["pe"], height=0.62, color=BAR, zorder=2)
            share = f"{100 * found['pe']:.0f} %"
            axes.text(0.008, y, share, color="white", fontsize=7.5, va="center", zorder=4)
            for name, share in found.items():
                if name != "pe":
                    colour, mark = MARKS[name]
                    axes.plot(share, y, mark, color=colour, markersize=5.5, markeredgecolor="white",
                              markeredgewidth=0.6, zorder=3)  # fmt: skip
                    seen += [name] if name not in seen else []
            farthest = max(farthest, *found.values())
            what = (result["yardstick"] or "").replace("float32 ", "")
            labels.append((y, f"{short(result['label'], result['section'])}  [{what}]"))
        y += 0.5
    axes.set_ylim(y + 0.5, 0)
    axes.set_xlim(0, farthest + 0.03)
    axes.set_yticks([at for at, _ in labels], [text for _, text in labels], fontsize=7.5)
    step = 20 if farthest <= 2 else 100 * math.ceil(farthest / 10)
    ticks = range(0, int(100 * farthest) + 1, step)
    axes.set_xticks([tick / 100 for tick in ticks], [f"{tick} %" for tick in ticks], fontsize=8.5)
    axes.axvline(1, color=INK, linewidth=1, zorder=1)
    axes.grid(axis="x", color=FAINT, linewidth=0.7, zorder=0)
    axes.tick_params(length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)
    handles = [Line2D([], [], color=BAR, linewidth=7, label="pe")]
    handles += [Line2D([], [], color=colour, marker=mark, linestyle="", label=NAMES.get(name, name))
                for name, (colour, mark) in MARKS.items() if name in seen]  # fmt: skip
    plural = "s" if threads > 1 else ""
    figure.suptitle(f"Share of what the processor can do, {threads} thread{plural}", x=0.01, ha="left",
                    fontsize=12.5, fontweight="bold", color=INK)  # fmt: skip
    where = f"{machine['cpu']}; pe {machine['pe']}"
    axes.set_title(f"{where}. Best of all repetitions, in one process with the limit in brackets.",
                   loc="left", fontsize=8, color=INK)  # fmt: skip
    figure.legend(handles=handles, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=8.5)
    figure.savefig(file, dpi=150)
