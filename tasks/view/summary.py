"""A run in a few lines: as Markdown, and at its end in the terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.evaluation import gates
from tasks.runs.runs import Run
from tasks.training.board import written_in
from tasks.view import seeds, variants
from tasks.view.evaluation import beside_simple_model
from tasks.view.facts import Facts
from tasks.view.numbers import seconds
from tasks.view.words import raw_input

WORD = {gates.PASS: "passed", gates.FAIL: "FAILED", gates.UNDECIDED: "UNDECIDED"}

PAGE = "full page: `page.html` in the artifacts"

MODE = "?workflowType=machine_learning"
"""Appended to the addresses of MLflow's pages, which otherwise open in their mode for prompts and agents."""


def describe_run(facts: Facts) -> str:
    """Return outcome, links, summary, a table of results, and the command that repeats the run."""
    return "\n\n".join(_paragraphs(facts)) + "\n"


def describe_version(facts: Facts, version: str, verdict: str, export: str) -> str:
    """Return the verdict on a model version, its summary, and the results of the gates of its variants."""
    lines = [f"{verdict[0].upper()}{verdict[1:]}.", facts.summary]
    results = [(name, gate) for name, verdicts in facts.judgement.get("verdicts", {}).items() for gate in verdicts]
    if results:
        rows = (f"- {name}, {gate['gate']} {WORD[gate['verdict']]}: {gate['text']}" for name, gate in results)
        lines.append("\n".join(rows))
    lines.append(f"`millrace predict {facts.record['name']}@{version} {raw_input(facts.config)}`")
    lines.append(" · ".join([f"export `{export[:12]}`", *list(links(facts))[1:]]))
    return "\n\n".join(lines) + "\n"


def _paragraphs(facts: Facts) -> Iterator[str]:
    word, _ = facts.verdict
    yield " · ".join([f"**{word}**", *links(facts)])
    yield facts.summary
    if error := facts.record["error"]:
        yield f"**error** · `{error['field']}`: {error['saw']}; {error['rule']}; {error['remedy']}"
    if facts.results:
        yield "\n".join(_table(facts))
    if written_in(facts.run.folder) is not None:
        yield f"TensorBoard: `millrace board {facts.run.run_id}`"
    yield f"Repeat it: `millrace run {facts.record['flow']} config.yaml --new` (`config.yaml` is among the artifacts)"


def _table(facts: Facts) -> Iterator[str]:
    """Yield a Markdown table of the results of all stages."""
    yield "| stage | result | store |"
    yield "| --- | --- | --- |"
    for row in facts.results:
        kind = "export" if row.kind == "release" else row.kind
        where = ", from the store" if row.cached and row.kind != "release" else ""
        yield f"| {row.stage} | {row.what.replace('|', '/')}{where} | `{kind}/{row.digest[:12]}` |"


def links(facts: Facts) -> Iterator[str]:
    """Yield links to the page and to the run in Prefect and MLflow, or their ids where no server is known."""
    yield PAGE
    yield f"run `{facts.run.run_id}`"
    if flow_run := facts.record["attempts"][-1]["prefect_flow_run_id"]:
        base = prefect_ui()
        yield f"[Prefect flow run]({base}/runs/flow-run/{flow_run})" if base else f"Prefect flow run `{flow_run}`"
    if mlflow_run := facts.record["mlflow_run_id"]:
        base = facts.run.home.mlflow_uri
        served = base.startswith("http")
        yield f"[MLflow run]({base.rstrip('/')}/#/runs/{mlflow_run}{MODE})" if served else f"MLflow run `{mlflow_run}`"


def prefect_ui() -> str | None:
    """Return the address of Prefect's pages; None without a server."""
    if given := os.environ.get("PREFECT_UI_URL"):
        return given.rstrip("/")
    api = os.environ.get("PREFECT_API_URL", "")
    return api.rstrip("/").removesuffix("/api") if api.startswith("http") else None


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
