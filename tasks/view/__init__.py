"""What a run looks like: one view, rendered in the terminal, as a page and as Markdown; here its numbers and times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo


def figure(value: float) -> str:
    """Format with four decimals; zero has no sign."""
    text = f"{value:.4f}"
    return text.removeprefix("-") if not float(text) else text


def kilobytes(size: int) -> str:
    """Format a number of bytes in kB or MB."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size / 1e3, 0.1):.1f} kB"


def seconds(value: float) -> str:
    """Format a duration in seconds, or minutes and seconds."""
    if value < 90:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes}:{rest:02d} min"


def change(loss: float) -> str:
    """Return a loss of quality in words: `loses 0.0116`, `gains 0.0058`."""
    return f"{'gains' if loss < 0 else 'loses'} {abs(loss):.4f}"


def speed(ratio: float) -> str:
    """Return the time of a call relative to another one in words: `2.00 x faster`, `1.40 x slower`."""
    if f"{ratio:.2f}" == "1.00":
        return "as fast"
    return f"{ratio:.2f} x slower" if ratio > 1 else f"{1 / ratio:.2f} x faster"


def some(names: Sequence[str], most: int) -> str:
    """Return the first names, and the number of others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def in_words(name: str) -> str:
    """Return the name of a metric, a measure or a status as words."""
    return name.replace("/", " ").replace("_", " ")


def when(moment: str, zone: str | None = None) -> str:
    """Format an ISO 8601 time with its time zone: `zone`, or that of this machine."""
    local = datetime.fromisoformat(moment).astimezone(ZoneInfo(zone) if zone else None)
    return local.strftime("%a %Y-%m-%d %H:%M %Z")
