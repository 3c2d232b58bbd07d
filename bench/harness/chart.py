"""What charts of figures share: the parts of an SVG, as text."""

WIDTH = 760


def text(x, y, content, anchor="middle", size=12, colour="#222", extra=""):
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" '
            f'font-size="{size}" fill="{colour}" {extra}>{content}</text>')


def title(y, content):
    return text(WIDTH / 2, y, content, size=17, extra='font-weight="bold"')


def caption(y, lines):
    return [text(WIDTH / 2, y + 16 * i, line, size=11, colour="#555")
            for i, line in enumerate(lines)]


def grid_line(left, y, width, label):
    return [f'<path d="M{left} {y:.0f}h{width}" stroke="#ddd"/>',
            text(left - 6, y + 4, label, "end")]


def curve(points, colour):
    path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
    return (f'<polyline points="{path}" fill="none" stroke="{colour}" '
            'stroke-width="2"/>')


def page(height, parts):
    """The whole file."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *parts, "</svg>"])
