"""The confusion matrix as SVG with the colours of the page, and the most frequent confusions by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

MOST_CLASSES = 120
"""Classes that are drawn, at most: those with the most errors."""

NUMBERED = 24
"""With more classes than this, cells have no numbers, and say theirs when pointed at."""

LONGEST = 32
"""Characters of a name beside the matrix, at most."""

FULL = 0.25
"""Share of a class that is taken for another one from which the colour is full: one in ten must be seen."""

LISTED = 10

Counts = Sequence[Sequence[int]]
"""Examples by label (first) and prediction."""


@dataclass(frozen=True)
class Confusion:
    """How many examples of a class were taken for another one, and which share of the class."""

    label: str
    predicted: str
    examples: int
    share: float


def frequent(counts: Counts, names: Sequence[str]) -> list[Confusion]:
    """Return the most frequent confusions."""
    found = [
        Confusion(names[row], names[column], number, number / sum(of_label))
        for row, of_label in enumerate(counts)
        for column, number in enumerate(of_label)
        if number and row != column
    ]
    return sorted(found, key=lambda each: (-each.examples, -each.share, each.label, each.predicted))[:LISTED]


def wrong(counts: Counts) -> int:
    """Return how many examples were taken for another class."""
    return sum(map(sum, counts)) - sum(row[number] for number, row in enumerate(counts))


def drawn(counts: Counts) -> list[int]:
    """Return the classes that are drawn, in order: of too many those that are confused most."""
    if len(counts) <= MOST_CLASSES:
        return list(range(len(counts)))
    columns = [sum(column) for column in zip(*counts, strict=True)]
    errors = [sum(row) + columns[number] - 2 * row[number] for number, row in enumerate(counts)]
    return sorted(sorted(range(len(counts)), key=lambda number: (-errors[number], number))[:MOST_CLASSES])


@dataclass(frozen=True)
class Grid:
    """Where the cells are, in pixels."""

    side: float
    """Of a cell."""
    beside: float
    """Room for the names on the left."""
    cells: int

    @property
    def end(self) -> float:
        """The right end of the cells, whose lower end is `beside` pixels less."""
        return self.beside + self.side * self.cells


def draw(counts: Counts, names: Sequence[str]) -> str:
    """Draw a row for each label and a column for each prediction; cells are shaded by the share of the label."""
    shown = drawn(counts)
    side = max(9.0, min(44.0, 560.0 / len(shown)))
    size = 11 if side >= 13 else 8
    text_width = 0.62 * size * max(len(_short(names[number])) for number in shown)
    grid, slanted = Grid(side, text_width + size, len(shown)), text_width > side - 4
    width = grid.end + (0.3 * text_width + 16)
    height = side * len(shown) + (0.8 * text_width + 36 if slanted else 44)
    least = min(width, grid.beside + 9.0 * len(shown) + 16)
    style = f"width: {width:.0f}px; min-width: {least:.0f}px"
    parts = [
        f'<svg class="confusion" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="confusion matrix" '
        f'style="{style}">',
        *_cells(counts, names, shown, grid),
        *_names(names, shown, grid, size, slanted),
        f'<text class="axis" x="{(grid.beside + grid.end) / 2:.1f}" y="{height - 6:.1f}" text-anchor="middle">'
        "predicted</text></svg>",
    ]
    return "".join(parts)


def _names(names: Sequence[str], shown: list[int], grid: Grid, size: int, slanted: bool) -> Iterator[str]:
    """Yield the names of the rows, and below those of the columns."""
    style = f'style="font-size: {size}px"'
    for place, number in enumerate(shown):
        name = f"<title>{escape(names[number])}</title>{escape(_short(names[number]))}"
        x, y = grid.beside - 6, grid.side * (place + 0.5) + size / 3
        yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" {style}>{name}</text>'
        x, y = grid.beside + grid.side * (place + 0.5), grid.side * len(shown) + size + 3
        turned = f'text-anchor="end" transform="rotate(-55 {x:.1f} {y:.1f})"' if slanted else 'text-anchor="middle"'
        yield f'<text x="{x:.1f}" y="{y:.1f}" {turned} {style}>{name}</text>'


def _cells(counts: Counts, names: Sequence[str], shown: list[int], grid: Grid) -> Iterator[str]:
    """Yield the cells that are not empty, over a line for each row."""
    side = grid.side
    for down, row in enumerate(shown):
        total, y = sum(counts[row]) or 1, side * down
        yield f'<line class="grid" x1="{grid.beside:.1f}" x2="{grid.end:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        for across, column in enumerate(shown):
            if not (number := counts[row][column]):
                continue
            right, share, x = row == column, number / total, grid.beside + side * across
            shade = 0.15 + 0.5 * (share if right else min(math.sqrt(share / FULL), 1.0))
            said = escape(f"{names[row]}, predicted {names[column]}: {number:,} ({share:.0%})")
            place = f'x="{x:.1f}" y="{y:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}"'
            style = "right" if right else "wrong"
            yield f'<g><title>{said}</title><rect class="{style}" {place} fill-opacity="{shade:.2f}"/>'
            if len(shown) <= NUMBERED:
                size = min(12.0, 1.7 * side / max(len(f"{number:,}"), 2))
                middle = f'x="{x + side / 2:.1f}" y="{y + side / 2 + size / 3:.1f}" text-anchor="middle"'
                yield f'<text class="count" {middle} style="font-size: {size:.1f}px">{number:,}</text>'
            yield "</g>"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
