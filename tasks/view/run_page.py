"""The page of a run: one HTML file without external resources."""

from __future__ import annotations

import functools
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.compression.judgement import FILE, SEARCH
from tasks.runs.runs import Run
from tasks.search import table
from tasks.store.files import write
from tasks.view import evaluation, examples, judgement, sections, seeds, trials, variants
from tasks.view.facts import Facts
from tasks.view.numbers import seconds
from tasks.view.summary import describe_run
from tasks.view.words import one


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
    environment.filters |= {"seconds": seconds, "one": one}
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
    made = {"page.html": render(facts), "config.yaml": sections.as_preset(run.config.model_dump(mode="json"))}
    for name, text in {**made, "description.md": description}.items():
        write(run.folder / name, text.encode())
    files = [(run.folder / name, "") for name in made]
    if facts.trials is not None:
        files.append((run.folder / table.FILE, ""))
    if facts.judgement:
        files.append((run.folder / FILE, ""))
    if (run.folder / SEARCH).exists():
        files.append((run.folder / SEARCH, ""))
    report = facts.one("report")
    if report is not None:
        files.append((report.path / "report.json", ""))
        files += [(path, "pictures") for path in sorted((report.path / "pictures").glob("*.png"))]
    return files, description


def render(facts: Facts) -> str:
    """Return the HTML of the page."""
    return page(
        TEMPLATE,
        facts=facts,
        record=facts.record,
        attempts=sections.attempts(facts),
        metrics=judgement.metrics(facts),
        methods=judgement.methods(facts),
        chosen_on=judgement.chosen_on_validation(facts),
        looks=judgement.looks(facts),
        over=partial(judgement.over, facts),
        few=judgement.few(facts),
        slices_without_score=judgement.slices_without_score(facts),
        slices=judgement.slices(facts),
        simple_model=evaluation.simple_model(facts),
        decision=evaluation.decision(facts),
        worst_slices=evaluation.worst_slices(facts),
        groups=evaluation.groups(facts),
        robustness=evaluation.robustness(facts),
        classes=judgement.classes(facts),
        pictures=judgement.pictures(facts),
        passages=judgement.passages(facts),
        files=judgement.files(facts),
        furthest=judgement.furthest(facts),
        seeds=seeds.seeds(facts),
        tuning=trials.tuning(facts),
        training=sections.training(facts),
        samples=examples.samples(facts),
        augmented=examples.augmented(facts),
        variants=variants.variants(facts),
        data=sections.data(facts),
        lineage=sections.lineage(facts),
        config=sections.config(facts),
        environment=sections.environment(facts),
        cost=sections.cost(facts),
    )
