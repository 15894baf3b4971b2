"""Draws how many times as long scikit-learn takes, of the figures that peers_cpu.py writes: an SVG to standard output.

Usage: ratios_picture.py FIGURES
"""

import json
import sys
from html import escape

LEFT, BAR, ROW, TOP, WIDTH = 190, 16, 22, 46, 720


def main():
    with open(sys.argv[1]) as file:
        figures = json.load(file)
    ratios = [(figure["name"], figure["lloyd"] / figure["seconds"]) for figure in figures]
    greatest = max(ratio for _, ratio in ratios)
    scale = (WIDTH - LEFT - 60) / greatest
    height = TOP + ROW * len(ratios) + 16
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">')
    print("<title>scikit-learn's time divided by that of gkmeans</title>")
    print(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    print(f'<text x="{LEFT}" y="20">scikit-learn\'s time / gkmeans, 20 iterations on the CPU</text>')
    for mark in (1, 2):
        x = LEFT + mark * scale
        print(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 12}" stroke="#999999" stroke-dasharray="3 3"/>')
        print(f'<text x="{x:.1f}" y="{TOP - 10}" text-anchor="middle" fill="#666666">{mark}</text>')
    for i, (name, ratio) in enumerate(ratios):
        y = TOP + i * ROW
        print(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        print(f'<rect x="{LEFT}" y="{y}" width="{ratio * scale:.1f}" height="{BAR}" fill="#3b6ea5"/>')
        print(f'<text x="{LEFT + ratio * scale + 6:.1f}" y="{y + 13}">{ratio:.1f}</text>')
    print("</svg>")


if __name__ == "__main__":
    main()
