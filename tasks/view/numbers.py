"""Numbers as text: metrics, sizes and durations."""

from __future__ import annotations


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
