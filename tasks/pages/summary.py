"""The end of a run in the terminal: what was made, how good it is, where it is, what to type next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.display.words import INPUTS, kilobytes, seconds, span, standing
from tasks.pages.facts import Facts
from tasks.runs.runs import Run

SAMPLE_LINES = 12
"""Of a generated text that the summary shows; the page has it whole."""


def metrics_of(run: Run) -> dict[str, float]:
    """All metrics that the stages of the last attempt found, by flat name."""
    return Facts(run).metrics


def in_a_line(run: Run) -> str:
    """What a finished run came to: `nothing new` where all of it was in the store."""
    facts = Facts(run)
    last = facts.score or facts.handed[-1].what if facts.release is None else facts.release["verdict"]
    return f"nothing new: {last}" if all(row.cached for row in facts.handed) else last


def lines(run: Run, width: int = 200) -> Iterator[str]:
    """The summary, line by line, of at most `width` columns but for paths."""
    facts = Facts(run)
    spent = seconds(sum(row.seconds for row in facts.handed))
    found = sum(row.cached for row in facts.handed)
    yield ""
    stored = f", {found} of {len(facts.handed)} results from the store" if found else ""
    yield f"{facts.record['flow']} {facts.record['status'].replace('_', ' ')}: {spent} of work{stored}"
    yield ""
    if facts.score:
        yield f"  quality   {facts.score}"
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
    """The beginning of what a language model wrote."""
    text = str(sample["prompt"] + sample["text"]).expandtabs(4).splitlines()
    for number, line in enumerate(text[:SAMPLE_LINES]):
        yield f"  {'' if number else 'it writes':<9} │ {line[: max(width - 14, 20)]}".rstrip()
    if len(text) > SAMPLE_LINES:
        yield f"{'':<12}│ …"


def _variants(facts: Facts) -> Iterator[str]:
    longest = max(len(variant.name) for variant in facts.variants)
    for number, variant in enumerate(facts.variants):
        statistics, metrics, name = variant.manifest["statistics"], variant.metrics, variant.name
        value = span(metrics, f"{name}/test/{facts.metric}")
        ratio = metrics.get(f"{name}/size_ratio")
        size = f"{kilobytes(statistics['bytes']):>9}  {'' if ratio is None else f'{ratio:.2f} of float':<13}"
        mark = standing(statistics.get("gates", []), facts.config.compress)
        score = f"  {facts.metric.replace('_', ' ')} {value[0]}" if value else ""
        yield f"  {'' if number else 'variants':<9} {name:<{longest}} {size}{score}{'  ' if mark else ''}{mark}"


def _next(facts: Facts) -> str:
    """The command that goes on from here."""
    preset = _short(facts.run.folder / "config.yaml")
    if facts.release and (run := facts.release.get("awaits")):
        return f"millrace approve {run} --reason TEXT    (or reject)"
    if export := facts.one("export"):
        return f"millrace predict {export.digest[:12]} {INPUTS[facts.config.snapshot.kind]}"
    if model := facts.one("model"):
        return f"millrace run release {preset} --release.model {model.digest[:12]}"
    return f"millrace run training {preset}"


def _short(path: Path) -> Path:
    """As one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
