"""The page of a run: one HTML file without external resources."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.compression.judgement import FILE, SEARCH
from tasks.evaluation import MIN_EXAMPLES
from tasks.runs.runs import Run
from tasks.search import table
from tasks.store.files import write
from tasks.view import (
    attempts,
    charts,
    confusion,
    examples,
    figure,
    in_words,
    kilobytes,
    seconds,
    sections,
    settings,
    speed,
    trainings,
    variants,
    worst,
)
from tasks.view.facts import Facts
from tasks.view.report import MEASURES
from tasks.view.summary import describe_run
from tasks.view.try_it import write_example
from tasks.view.words import one, plain


def page(template: str, **values: Any) -> str:
    """Return the HTML of a template; values are escaped unless the template marks them as safe."""
    return environment().get_template(template).render(**values)


@functools.cache
def environment() -> Environment:
    """Return the environment of the templates; it keeps those that it has compiled."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {each.__name__: each for each in (figure, in_words, kilobytes, one, plain, seconds, speed)}
    environment.globals["zip"] = zip
    return environment


TEMPLATE = "run_page.html.j2"


def compile_template() -> None:
    """Compile the template of the page ahead of its use."""
    for name in (TEMPLATE, "style.css"):
        environment().get_template(name)


def publish(run: Run) -> tuple[list[tuple[Path, str]], str]:
    """Write `page.html`, `config.yaml` (a preset that repeats the run) and `description.md` in the run's folder.

    Returns:
        the files for MLflow's artifact viewer with their folders, and the description of the MLflow run.
    """
    facts = Facts(run)
    description = describe_run(facts)
    made = {"page.html": render(facts), "config.yaml": settings.as_preset(run.config.model_dump(mode="json"))}
    for name, text in {**made, "description.md": description}.items():
        write(run.folder / name, text.encode())
    files = [(path, "") for name in (*made, table.FILE, FILE, SEARCH) if (path := run.folder / name).exists()]
    write_example(facts)
    worst.on_board(facts)
    report = facts.one("report")
    if report is not None:
        files.append((report.path / "report.json", ""))
        files += [(path, "pictures") for path in sorted((report.path / "pictures").glob("*.png"))]
    return files, description


def render(facts: Facts) -> str:
    """Return the HTML of the page."""
    parts = (attempts, charts, confusion, examples, sections, settings, trainings, variants, worst)
    named = {part.__name__.rpartition(".")[2]: part for part in parts}
    html = page(TEMPLATE, facts=facts, measures=MEASURES, enough=MIN_EXAMPLES, **named)
    return html.replace(CONTENTS, contents(html), 1)


CONTENTS = "<!-- contents -->"
"""Where the table of contents goes; nothing else on the page has this, as values are escaped."""

HEADING = re.compile(r'<h2 id="([^"]+)">([^<]+)</h2>')


def contents(html: str) -> str:
    """Return the table of contents of a page: a link to each of its headings; empty with fewer than three."""
    links = [f'<a href="#{name}">{title}</a>' for name, title in HEADING.findall(html)]
    return f'<nav aria-label="contents">{"".join(links)}</nav>' if len(links) > 2 else ""
