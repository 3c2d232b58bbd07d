"""Draws what bench/overhead measured: its lines of JSON in, an SVG out.

    python3 -m bench.overhead.chart < figures.jsonl > docs/overhead.svg
"""

import json
import sys

from bench.harness import chart
from bench.harness.chart import text

WORKERS = (1, 2, 4, 8)
MODELS = {
    "convolutional": "convolutional, 0.15 M parameters",
    "dense": "dense, 1.9 M parameters",
}
STRATEGIES = {  # Colour and mark of each.
    "parameter_server": ("#c2410c", '<rect x="{0}" y="{1}" width="8" height="8" '
                                    'transform="translate(-4 -4)"/>'),
    "multi_worker_mirrored": ("#1d4ed8", '<circle cx="{0}" cy="{1}" r="4.5"/>'),
}
CAPTION = (
    "Share of a step that is not computing, on two processor cores in all, over "
    "loopback: parameter_server in sync",
    "with two servers, multi_worker_mirrored over Gloo. Real processes; a worker "
    "sleeps for the stated time in place of",
    "computing, and gradients become ready layer by layer meanwhile. Beside each "
    "mark: the whole step, milliseconds.",
)
HEIGHT = 652
PANEL = (300, 180)  # Width, height.
LEFT, TOP = (70, 430), (90, 352)  # Of columns; of rows.


def read(lines):
    """{(model, ms, workers): {strategy: ms of a step}}"""
    found = {}
    for line in lines:
        figure = json.loads(line)
        model, sleep, workers, what = figure["metric"].split(".")
        if what == "step_ms":
            key = (model, int(sleep[:-2]), int(workers.rsplit("_", 1)[1]))
            found[key] = {"multi_worker_mirrored": figure["value"],
                          "parameter_server": figure["peer_value"]}
    return found


def panel(found, model, sleep, left, top):
    width, height = PANEL
    parts = [text(left, top - 8, f"{MODELS[model]}; {sleep} ms of computing", "start")]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + height * (1 - share)
        parts += chart.grid_line(left, y, width, f"{share:.0%}")
    column = {n: left + width * (i + 0.5) / len(WORKERS)
              for i, n in enumerate(WORKERS)}
    for n, x in column.items():
        parts.append(text(x, top + height + 36, str(n)))
    steps = {n: found[model, sleep, n] for n in WORKERS}
    for strategy, (colour, mark) in STRATEGIES.items():
        points = [(column[n], top + height * sleep / max(sleep, ms[strategy]))
                  for n, ms in steps.items()]
        parts.append(chart.curve(points, colour))
        for (x, y), ms in zip(points, steps.values()):
            parts.append(f'<g fill="{colour}">'
                         + mark.format(f"{x:.0f}", f"{y:.0f}") + "</g>")
            # The slower one's number above, the other's below.
            above = ms[strategy] == max(ms.values())
            parts.append(text(x, y + (-9 if above else 18),
                              f"{ms[strategy]:.0f}", size=11, colour=colour))
    return parts


def draw(found):
    parts = [chart.title(26, "Communication as a share of the step")]
    x = 190
    for strategy, (colour, mark) in STRATEGIES.items():
        parts.append(f'<g fill="{colour}">' + mark.format(x, 48) + "</g>")
        parts.append(text(x + 12, 52, strategy, "start", colour=colour))
        x += 190
    for row, model in enumerate(MODELS):
        for column, sleep in enumerate((10, 100)):
            parts += panel(found, model, sleep, LEFT[column], TOP[row])
    parts.append(text(chart.WIDTH / 2, TOP[1] + PANEL[1] + 36, "workers"))
    return chart.page(HEIGHT, parts + chart.caption(606, CAPTION))


if __name__ == "__main__":
    print(draw(read(sys.stdin)))
