"""The page of a run: one HTML file that tells everything and needs nothing."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.pages import sections
from tasks.pages.description import describe_run
from tasks.pages.facts import Facts
from tasks.pages.words import seconds
from tasks.store.files import write
from tasks.store.runs import Run


def publish(run: Run) -> tuple[list[tuple[Path, str]], str]:
    """Make `page.html`, `config.yaml` (a preset that repeats the run) and `description.md` in the run's folder.

    Returns:
        the files for MLflow's artifact viewer with their folders, and the description of the MLflow run.
    """
    facts = Facts(run)
    description = describe_run(facts)
    made = {"page.html": render(facts), "config.yaml": sections.as_preset(run.config.model_dump(mode="json"))}
    for name, text in {**made, "description.md": description}.items():
        write(run.folder / name, text.encode())
    files = [(run.folder / name, "") for name in made]
    report = facts.one("report")
    if report is not None:
        files.append((report.path / "report.json", ""))
        files += [(path, "pictures") for path in sorted((report.path / "pictures").glob("*.png"))]
    return files, description


def render(facts: Facts) -> str:
    """The page's HTML; every value is escaped but the SVG that we draw ourselves."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["seconds"] = seconds
    environment.globals["zip"] = zip
    return environment.get_template("run_page.html.j2").render(
        facts=facts,
        record=facts.record,
        attempts=sections.attempts(facts),
        metrics=sections.metrics(facts),
        classes=sections.classes(facts),
        pictures=sections.pictures(facts),
        files=sections.files(facts),
        furthest=sections.furthest(facts),
        training=sections.training(facts),
        variants=sections.variants(facts),
        data=sections.data(facts),
        lineage=sections.lineage(facts),
        config=sections.config(facts),
        environment=sections.environment(facts),
        cost=sections.cost(facts),
    )
