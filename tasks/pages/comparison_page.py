"""The page of a comparison: one HTML file, with the curves of both runs in each plot."""

from __future__ import annotations

from tasks.pages import curves, seeds, templates
from tasks.pages.comparison import Comparison
from tasks.pages.facts import Facts


def render(comparison: Comparison) -> str:
    """Return the HTML of the page."""
    runs = {name: _points(facts) for name, facts in zip("ab", comparison.both, strict=True)}
    return templates.page("comparison.html.j2", comparison=comparison, curves=curves.draw_both(runs))


def _points(facts: Facts) -> dict[str, curves.Points]:
    """Return the curves of the training of a run's model; of several seeds, that of the chosen one."""
    trained = seeds.trained(facts)
    model = next(iter(trained.values()), None) if facts.choice is None else trained.get(facts.choice.chosen)
    return {} if model is None else seeds.points_of(facts, model)
