"""The summary of a finished run in the terminal: quality, variants, release, paths and the next command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.display import seeds, variants
from tasks.display.evaluation import beside_simple_model
from tasks.display.numbers import seconds
from tasks.display.words import raw_input
from tasks.pages.facts import Facts
from tasks.runs.runs import Run

SAMPLE_LINES = 12
"""Lines of a generated text that the summary shows, at most."""


def metrics_of(run: Run) -> dict[str, float]:
    """Return all metrics of the last attempt, by flat name."""
    return Facts(run).metrics


def in_a_line(run: Run) -> str:
    """Return the result of a finished run in a line; it begins with `nothing new` if all came from the store."""
    facts = Facts(run)
    last = facts.score or facts.results[-1].what if facts.release is None else facts.release["verdict"]
    return f"nothing new: {last}" if all(row.cached for row in facts.results) else last


def lines(run: Run, took: float, width: int = 200) -> Iterator[str]:
    """Yield the lines of the summary, at most `width` columns wide except for paths; the command `took` seconds."""
    facts = Facts(run)
    worked = seconds(sum(row.seconds for row in facts.results))
    cached = sum(row.cached for row in facts.results)
    yield ""
    stored = f", {cached} of {len(facts.results)} results from the store" if cached else ""
    status = facts.record["status"].replace("_", " ")
    yield f"{facts.record['flow']} {status}: {seconds(took)} in all, {worked} in the stages{stored}"
    yield ""
    if facts.score:
        yield f"  quality   {facts.score}"
    if facts.report and (simple := facts.report["splits"]["test"].get("learned_baseline")):
        yield f"  baseline  {beside_simple_model(simple, facts.report['primary']['higher_is_better'])}"
    for number, line in enumerate(seeds.summary(facts.choice) if facts.choice else []):
        yield f"  {'' if number else 'seeds':<9} {line}"
    if facts.sample:
        yield from _sample(facts.sample, width)
    if facts.variants:
        yield from _variants(facts)
    if facts.release:
        first, *rest = textwrap.wrap(facts.release["verdict"], max(width - 12, 40))
        yield f"  release   {first}"
        yield from (f"            {line}" for line in rest)
    yield f"  page      {_short(run.folder / 'page.html')}"
    if export := facts.one("export"):
        yield f"  export    {_short(export.path)}"
    yield f"  next      {_next(facts)}"


def _sample(sample: dict[str, Any], width: int) -> Iterator[str]:
    """Yield the first lines of the text that a language model generated."""
    text = str(sample["prompt"] + sample["text"]).expandtabs(4).splitlines()
    for number, line in enumerate(text[:SAMPLE_LINES]):
        yield f"  {'' if number else 'sample':<9} │ {line[: max(width - 14, 20)]}".rstrip()
    if len(text) > SAMPLE_LINES:
        yield f"{'':<12}│ …"


def _variants(facts: Facts) -> Iterator[str]:
    for number, line in enumerate(variants.lines(facts.variants, facts.judgement, facts.metric)):
        yield f"  {'' if number else 'variants':<9} {line}"
    if (chosen := facts.judgement.get("chosen")) is not None:
        yield f"  chosen    {chosen}, by compress.want"


def _next(facts: Facts) -> str:
    """Return the next command."""
    preset = _short(facts.run.folder / "config.yaml")
    if facts.release and (run := facts.release.get("awaits")):
        return f"millrace approve {run} --reason TEXT    (or reject)"
    if export := facts.one("export"):
        return f"millrace predict {export.digest[:12]} {raw_input(facts.config)}"
    if model := facts.one("model"):
        return f"millrace run release {preset} --release.model {model.digest[:12]}"
    return f"millrace run training {preset}"


def _short(path: Path) -> Path:
    """Return a path relative to the working directory, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
