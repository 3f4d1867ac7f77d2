"""A run in a few lines of Markdown: the description of an MLflow run, a Prefect run or a model version."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tasks.display.words import raw_input
from tasks.evaluation import gates
from tasks.pages.facts import Facts
from tasks.training.board import written_in

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
