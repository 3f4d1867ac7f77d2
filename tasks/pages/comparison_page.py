"""The page of a comparison: one HTML file, with the curves of both runs in each plot."""

from __future__ import annotations

from tasks.pages import curves, sections, templates
from tasks.pages.comparison import Comparison


def render(comparison: Comparison) -> str:
    """Return the HTML of the page."""
    journals = {
        name: folder / "metrics.jsonl"
        for name, facts in zip("ab", comparison.both, strict=True)
        if (folder := sections.trained_in(facts)) is not None
    }
    return templates.page("comparison.html.j2", comparison=comparison, curves=curves.draw_both(journals))
