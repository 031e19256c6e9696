#!/usr/bin/env python3
"""Makes tables and a picture of what bench/plan_accuracy.sh has measured.

  bench/plan_accuracy.py DIR REGIME...

Prints a summary of all regimes and a table of each in Markdown, and writes DIR/accuracy.svg.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import statistics
import sys

NAMES = {"few": "few rows", "many": "many rows", "slow": "slow links"}
COLOURS = {"few": "#1f77b4", "many": "#2a9d3a", "slow": "#d1495b"}


def read(folder, regime):
    with open(f"{folder}/{regime}-measured.json", encoding="utf-8") as file:
        rows = json.load(file)["strategies"]
    rows = [row for row in rows if "step_seconds" in row]
    for row in rows:  # other programs make steps longer and never shorter
        row["step_seconds"] = row["fastest_step_seconds"]
    return rows


def ranks(numbers):
    order = sorted(range(len(numbers)), key=lambda i: numbers[i])
    found = [0.0] * len(numbers)
    first = 0
    while first < len(order):
        end = first + 1
        while end < len(order) and numbers[order[end]] == numbers[order[first]]:
            end += 1
        for i in range(first, end):
            found[order[i]] = (first + end - 1) / 2
        first = end
    return found


def correlation(a, b):
    mean_a, mean_b = statistics.mean(a), statistics.mean(b)
    both = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    return both / math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))


def summary(rows):
    predicted = [row["predicted_step_seconds"] for row in rows]
    measured = [row["step_seconds"] for row in rows]
    errors = [abs(p / m - 1) for p, m in zip(predicted, measured)]
    chosen = measured[predicted.index(min(predicted))]
    return {
        "plans": len(rows),
        "spearman": correlation(ranks(predicted), ranks(measured)),
        "median": statistics.median(errors),
        "worst": max(errors),
        "choice": chosen / min(measured),
    }


def grid_of(row):
    return ",".join(f"{axis}={size}" for axis, size in row["grid"].items() if size > 1)


def print_tables(folder, regimes):
    print("| regime | plans | Spearman | median error | worst error | predicted best / measured best |")
    print("|---|---|---|---|---|---|")
    for regime in regimes:
        s = summary(read(folder, regime))
        print(f"| {NAMES[regime]} | {s['plans']} | {s['spearman']:.3f} | {100 * s['median']:.1f}% | "
              f"{100 * s['worst']:.1f}% | {s['choice']:.3f} |")
    for regime in regimes:
        print(f"\n### {NAMES[regime].capitalize()}\n")
        print("| strategy | grid | passes | chunks | predicted s | measured s | error |")
        print("|---|---|---|---|---|---|---|")
        for row in sorted(read(folder, regime), key=lambda row: row["predicted_step_seconds"]):
            p, m = row["predicted_step_seconds"], row["step_seconds"]
            print(f"| {row['strategy']} | {grid_of(row)} | {row['micro_batches']} | {row['chunks']} | "
                  f"{p:.2f} | {m:.2f} | {100 * (p / m - 1):+.1f}% |")


def picture(folder, regimes):
    """Measured over predicted seconds, both on logarithmic scales."""
    points = [(row["predicted_step_seconds"], row["step_seconds"], regime)
              for regime in regimes for row in read(folder, regime)]
    low = min(min(p, m) for p, m, _ in points) * 0.93
    high = max(max(p, m) for p, m, _ in points) * 1.07
    left, top, size = 62, 20, 440

    def place(value):
        return size * math.log(value / low) / math.log(high / low)

    def x(value):
        return left + place(value)

    def y(value):
        return top + size - place(value)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + size + 20}" height="{top + size + 56}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for share, shade in ((1.3, "#f3f3f3"), (1.1, "#e4e4e4")):
        corners = [(low, low), (low * share, low), (high, high / share), (high, high), (high / share, high),
                   (low, low * share)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners)
        lines.append(f'<polygon points="{path}" fill="{shade}"/>')
    lines.append(f'<line x1="{x(low):.1f}" y1="{y(low):.1f}" x2="{x(high):.1f}" y2="{y(high):.1f}" stroke="#888"/>')
    lines.append(f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="#444"/>')
    for tick in (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60):
        if low < tick < high:
            lines.append(f'<text x="{x(tick):.1f}" y="{top + size + 18}" text-anchor="middle">{tick}</text>')
            lines.append(f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for p, m, regime in points:
        lines.append(f'<circle cx="{x(p):.1f}" cy="{y(m):.1f}" r="3.2" fill="{COLOURS[regime]}" '
                     'fill-opacity="0.75"/>')
    for i, regime in enumerate(regimes):
        lines.append(f'<circle cx="{left + 18}" cy="{top + 20 + 20 * i}" r="5" fill="{COLOURS[regime]}"/>')
        lines.append(f'<text x="{left + 30}" y="{top + 25 + 20 * i}">{NAMES[regime]}</text>')
    lines.append(f'<text x="{left + size / 2}" y="{top + size + 42}" text-anchor="middle">predicted step, '
                 'seconds</text>')
    lines.append(f'<text transform="translate(16 {top + size / 2}) rotate(-90)" text-anchor="middle">measured '
                 'step, seconds</text>')
    lines.append("</svg>")
    with open(f"{folder}/accuracy.svg", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    if len(sys.argv) < 3 or any(name not in NAMES for name in sys.argv[2:]):
        sys.exit("usage: bench/plan_accuracy.py DIR REGIME...   (few, many, slow)")
    print_tables(sys.argv[1], sys.argv[2:])
    picture(sys.argv[1], sys.argv[2:])


main()
