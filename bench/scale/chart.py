"""Draws what bench/scale measured: its lines of JSON in, an SVG out.

    python3 -m bench.scale.chart < figures.jsonl > docs/scale.svg
"""

import json
import math
import sys

from bench.harness import chart
from bench.harness.chart import text

PANELS = (  # Metric, title, colour.
    ("cpu_us_per_member_second", "processor time: µs per member and second",
     "#c2410c"),
    ("bytes_per_member_second", "both ways: bytes per member and second",
     "#1d4ed8"),
    ("take_over_ms", "until everybody knows of a take-over: ms", "#15803d"),
    ("take_over_cpu_us_per_member", "processor time of that: µs per member",
     "#7e22ce"),
)
CAPTION = (
    "A coordinator and a simulated job in mode async with replication: 2 and ten "
    "workers for each server, of which one is lost in a",
    "minute. Processor time is that of the coordinator's core, without its "
    "transport. Both axes are logarithmic.",
)
HEIGHT = 610
PANEL = (290, 180)  # Width, height.
LEFT, TOP = (76, 440), (78, 334)  # Of columns; of rows.


def read(lines):
    """{metric: {servers: value}}"""
    found = {}
    for line in lines:
        figure = json.loads(line)
        size, _, what = figure["metric"].partition(".")
        if what:
            servers = int(size.removeprefix("servers_"))
            found.setdefault(what, {})[servers] = figure["value"]
    return found


def number(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def panel(values, title, colour, left, top):
    width, height = PANEL
    low = math.floor(math.log10(min(values.values())))
    high = max(math.ceil(math.log10(max(values.values()))), low + 2)
    sizes = sorted(values)
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])
    inside = width - 50  # Room for the numbers at both ends.

    def at(servers, value):
        across = (math.log10(servers) - first) / max(last - first, 1)
        up = (math.log10(value) - low) / (high - low)
        return left + 25 + inside * across, top + height * (1 - up)

    parts = [text(left, top - 8, title, "start")]
    for exponent in range(low, high + 1):
        y = at(sizes[0], 10.0 ** exponent)[1]
        parts += chart.grid_line(left, y, width, f"{10.0 ** exponent:,.10g}")
    points = [at(n, values[n]) for n in sizes]
    parts.append(chart.curve(points, colour))
    for n, (x, y) in zip(sizes, points):
        parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" '
                     f'fill="{colour}"/>')
        parts.append(text(x, y - 9, number(values[n]), size=11, colour=colour))
        parts.append(text(x, top + height + 18, f"{n:,}"))
    return parts


def draw(found):
    parts = [chart.title(30, "A coordinator as its job grows")]
    for i, (metric, title, colour) in enumerate(PANELS):
        parts += panel(found[metric], title, colour, LEFT[i % 2], TOP[i // 2])
    parts.append(text(chart.WIDTH / 2, TOP[1] + PANEL[1] + 38, "servers"))
    return chart.page(HEIGHT, parts + chart.caption(576, CAPTION))


if __name__ == "__main__":
    print(draw(read(sys.stdin)))
