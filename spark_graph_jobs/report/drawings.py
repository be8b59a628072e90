"""Drawings as SVG: bars, a matrix of domains, a loop. Pure functions from numbers to text.

The page's style sheet sets the colours by class, so that drawings follow the page's dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

Bar = tuple[str, int]
"""Label of a bar, and its height or length."""

WIDTH = 640


def columns(bars: Sequence[Bar], *, across: str, up: str) -> Markup:
    """Return a histogram of upright bars; `across` and `up` name the axes."""
    if not bars:
        return Markup()
    height, left, bottom = 240, 56, 40
    most = max(value for _, value in bars) or 1
    step = (WIDTH - left) / len(bars)
    every = math.ceil(len(bars) / 16)  # space for 16 labels
    parts = [_text(0, 12, up, "axis")]
    for tick in _ticks(most):
        y = height - tick / most * (height - 24)
        parts.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(left, WIDTH, y, y))
        parts.append(_text(left - 6, y + 4, f"{tick:,}", "axis end"))
    for place, (name, value) in enumerate(bars):
        tall = value / most * (height - 24)
        x = left + place * step
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
            ).format(x + step * 0.1, height - tall, step * 0.8, tall, f"{name}: {value:,}")
        )
        if place % every == 0:
            parts.append(_text(x + step / 2, height + 16, name, "axis middle"))
    parts.append(_text((left + WIDTH) / 2, height + 34, across, "axis middle"))
    return _svg(WIDTH, height + bottom, parts, f"{up} by {across}")


def rows(bars: Sequence[Bar]) -> Markup:
    """Return horizontal bars one below the other, each with its name above it, because names may be long."""
    if not bars:
        return Markup()
    most = max(value for _, value in bars) or 1
    tall = 40
    parts = []
    for place, (name, value) in enumerate(bars):
        y = place * tall
        parts.append(_text(0, y + 14, _shortened(name, 70), "label"))
        parts.append(_text(WIDTH, y + 14, f"{value:,}", "label end"))
        parts.append(
            Markup('<rect class="bar" x="0" y="{}" width="{:.1f}" height="12"><title>{}</title></rect>').format(
                y + 20, max(1.0, value / most * WIDTH), f"{name}: {value:,}"
            )
        )
    return _svg(WIDTH, len(bars) * tall, parts, "bars")


def loop(arcs: Sequence[tuple[str, str, str]]) -> Markup:
    """Return a loop on a circle: arcs of its spanning shadow tree thick, the others thin. The page lists the names."""
    names = names_of(arcs)
    size, radius = 320, 130
    place = {
        name: (
            size / 2 + radius * math.sin(2 * math.pi * number / len(names)),
            size / 2 - radius * math.cos(2 * math.pi * number / len(names)),
        )
        for number, name in enumerate(names)
    }
    pairs = {(parent, child) for parent, child, _ in arcs}
    parts = []
    for parent, child, state in sorted(arcs, key=lambda arc: arc[2] == "shadow"):
        (x, y), (to_x, to_y) = place[parent], place[child]
        # Two opposite arcs are bent apart, and every arc ends at the circle of its head.
        bend = 24 if (child, parent) in pairs else 8
        length = math.hypot(to_x - x, to_y - y) or 1
        across_x, across_y = -(to_y - y) / length * bend, (to_x - x) / length * bend
        middle_x, middle_y = (x + to_x) / 2 + across_x, (y + to_y) / 2 + across_y
        last = math.hypot(to_x - middle_x, to_y - middle_y) or 1
        end_x, end_y = to_x - (to_x - middle_x) / last * 12, to_y - (to_y - middle_y) / last * 12
        parts.append(
            Markup(
                '<path class="arc {}" d="M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}" marker-end="url(#head-{})">'
                "<title>{} -&gt; {} ({})</title></path>"
            ).format(state, x, y, middle_x, middle_y, end_x, end_y, state, parent, child, state)
        )
    for number, name in enumerate(names, start=1):
        x, y = place[name]
        parts.append(
            Markup('<circle class="node" cx="{:.1f}" cy="{:.1f}" r="10"><title>{}</title></circle>').format(x, y, name)
        )
        parts.append(_text(x, y + 4, str(number), "number middle"))
    return _svg(size, size, parts, f"a loop of {len(names)} groups")


def names_of(arcs: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the groups of a loop in the order of their numbers in its drawing."""
    return sorted({name for parent, child, _ in arcs for name in (parent, child)})


def shade(value: int, most: int) -> int:
    """Return the shade of a cell of the matrix, 0 to 9.

    The scale is logarithmic, because a few values are far larger than the rest.
    """
    return 0 if value <= 0 or most <= 0 else 1 + round(8 * math.log1p(value) / math.log1p(most))


def in_doubling_sizes(sizes: Sequence[int]) -> list[Bar]:
    """Return the number of loops with 2, 3, 4, 5 to 8, 9 to 16, ... groups."""
    bars: list[Bar] = []
    low, high = 2, 2
    while low <= max(sizes, default=0):
        bars.append((str(low) if low == high else f"{low}-{high}", sum(low <= size <= high for size in sizes)))
        low, high = high + 1, high + 1 if high < 4 else high * 2
    return bars


def _ticks(most: int) -> list[int]:
    """Return about four round numbers up to the largest."""
    rough = max(1, most / 4)
    unit = 10 ** math.floor(math.log10(rough))
    step = int(next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough))
    return list(range(0, most + 1, step))


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(style, x, y, text)


def _svg(width: int, height: int, parts: Sequence[Markup], title: str) -> Markup:
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, height, title, Markup().join(parts)
    )
