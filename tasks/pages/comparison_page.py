"""The page of a comparison: one HTML file, in the style of a run's page, with the curves of both in each picture."""

from __future__ import annotations

from tasks.pages import curves, sections, templates
from tasks.pages.comparison import Comparison


def render(found: Comparison) -> str:
    """The page's HTML."""
    journals = {
        name: folder / "metrics.jsonl"
        for name, facts in zip("ab", found.both, strict=True)
        if (folder := sections.trained_in(facts)) is not None
    }
    return templates.page("comparison.html.j2", found=found, curves=curves.draw_both(journals))
