"""Draws how many times as long others take, of the figures that peers_cpu.py or peers_gpu.py writes: an SVG to standard output.

Usage: ratios_picture.py FIGURES
"""

import json
import sys
from html import escape

LETTER, BAR, GAP, WIDTH = 8, 16, 6, 720
COLOURS = ("#3b6ea5", "#c9a227")


def from_peers_cpu(figures):
    """The title, the heading, the meaning of the bars, and of each set its name and bars."""
    return ("scikit-learn's time divided by that of gkmeans", "scikit-learn's time / gkmeans, 20 iterations on the CPU", (),
            [(figure["name"], [figure["lloyd"] / figure["seconds"]]) for figure in figures])


def short(number):
    """A number of rows or clusters, in thousands or millions if it is round."""
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if number >= unit and number * 10 % unit == 0:
            return f"{number / unit:g}{letter}"
    return str(number)


def from_peers_gpu(figures):
    """The same, of two kinds of peers."""
    return ("the time of the fastest GPU library divided by that of gkmeans",
            "the fastest other's time / gkmeans, mean of 20 iterations on one GPU", ("in 32 bits", "in 16 bits, inexact"),
            [(f"{figure['kind']} {short(figure['n'])} × {short(figure['k'])} × {figure['d']}", figure["ratios"]) for figure in figures])


def bars(left, y, name, ratios, scale):
    """The lines of a set."""
    yield f'<text x="{left - 8}" y="{y + len(ratios) * BAR / 2 + 5:.0f}" text-anchor="end">{escape(name)}</text>'
    for i, ratio in enumerate(ratios):
        if ratio is not None:
            yield f'<rect x="{left}" y="{y + i * BAR}" width="{ratio * scale:.1f}" height="{BAR - (len(ratios) > 1)}" fill="{COLOURS[i]}"/>'
            yield f'<text x="{left + ratio * scale + 6:.1f}" y="{y + i * BAR + 13}">{ratio:.{1 if ratio >= 2 or len(ratios) == 1 else 2}f}</text>'


def legend(left, y, meanings):
    """What the colours of the bars mean."""
    for i, meaning in enumerate(meanings):
        yield f'<rect x="{left + 160 * i}" y="{y - 11}" width="12" height="12" fill="{COLOURS[i]}"/>'
        yield f'<text x="{left + 160 * i + 18}" y="{y}">{escape(meaning)}</text>'


def main():
    with open(sys.argv[1]) as file:
        figures = json.load(file)
    title, heading, meanings, sets = (from_peers_gpu if "ratios" in figures[0] else from_peers_cpu)(figures)
    greatest = max(ratio for _, ratios in sets for ratio in ratios if ratio is not None)
    left = max(190, *(LETTER * len(name) + 8 for name, _ in sets))
    scale = (WIDTH - left - 60) / max(greatest, 1.0)
    top = 68 if meanings else 46
    rows = BAR * max(len(ratios) for _, ratios in sets) + GAP
    height = top + rows * len(sets) + 16
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">')
    print(f"<title>{escape(title, quote=False)}</title>")
    print(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    print(f'<text x="{left}" y="20">{escape(heading, quote=False)}</text>')
    print(*legend(left, 42, meanings), sep="\n", end="\n" if meanings else "")
    for mark in (mark for mark in (1, 2) if mark <= max(greatest, 1.0)):
        x = left + mark * scale
        print(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{height - 12}" stroke="#999999" stroke-dasharray="3 3"/>')
        print(f'<text x="{x:.1f}" y="{top - 10}" text-anchor="middle" fill="#666666">{mark}</text>')
    for i, (name, ratios) in enumerate(sets):
        print(*bars(left, top + rows * i, name, ratios, scale), sep="\n")
    print("</svg>")


if __name__ == "__main__":
    main()
