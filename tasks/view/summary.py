"""A run in lines: at its end and by `millrace show` in the terminal, and as Markdown."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from tasks.evaluation import gates
from tasks.runs.runs import Run
from tasks.training.board import written_in
from tasks.training.seeds import Choice
from tasks.view import in_words, outputs, report, seconds, trainings, variants, when
from tasks.view.facts import Facts
from tasks.view.report import ReportContent
from tasks.view.report_rows import Sample
from tasks.view.try_it import command, example_of, short
from tasks.view.words import describe_search, describe_trial, raw_input

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
    judged = [(name, gate) for name, verdicts in facts.judgement.verdicts.items() for gate in verdicts]
    if judged:
        lines.append("\n".join(f"- {name}, {each.gate} {WORD[each.verdict]}: {each.text}" for name, each in judged))
    lines.append(f"`millrace predict {facts.record['name']}@{version} {raw_input(facts.config)}`")
    lines.append(" · ".join([f"export `{export[:12]}`", *list(links(facts))[1:]]))
    return "\n\n".join(lines) + "\n"


def _paragraphs(facts: Facts) -> Iterator[str]:
    word, _ = facts.verdict
    yield " · ".join([f"**{word}**", *links(facts)])
    yield facts.summary
    if (problem := facts.problem) is not None:
        yield f"**error** · `{problem.field}`: {problem}"
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
        where = f", {row.how}" if row.cached and row.kind != "release" else ""
        yield f"| {row.stage} | {row.what.replace('|', '/')}{where} | `{row.artifact}` |"


def links(facts: Facts) -> Iterator[str]:
    """Yield links to the page and to the run in Prefect and MLflow, or their ids where no server is known."""
    yield PAGE
    yield f"run `{facts.run.run_id}`"
    if flow_run := facts.attempts[-1].prefect_flow_run_id:
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
    last = facts.score or facts.results[-1].what if facts.release is None else facts.release.verdict
    return f"nothing new: {last}" if all(row.cached for row in facts.results) else last


def labelled(label: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of the terminal with a label before the first one."""
    for number, line in enumerate(lines):
        yield f"  {'' if number else label:<9} {line}".rstrip()


def lines(run: Run, took: float, width: int = 200) -> Iterator[str]:
    """Yield lines about a finished run, at most `width` columns wide except for paths; the command `took` seconds."""
    facts = Facts(run)
    worked = seconds(sum(row.seconds for row in facts.results))
    cached = sum(row.cached for row in facts.results)
    yield ""
    stored = f", {cached} of {len(facts.results)} results from the store" if cached else ""
    status = in_words(facts.record["status"])
    yield f"{facts.record['flow']} {status}: {seconds(took)} in all, {worked} in the stages{stored}"
    yield ""
    if facts.score:
        yield from labelled("quality", [facts.score])
    if facts.report and facts.report.beside_simple_model:
        yield from labelled("baseline", [facts.report.beside_simple_model])
    yield from labelled("outputs", outputs.lines(facts))
    if facts.choice:
        yield from labelled("seeds", trainings.summary(facts.choice))
    if facts.sample:
        yield from labelled("sample", _sample(facts.sample, width))
    yield from _variants(facts)
    if facts.release:
        yield from labelled("release", textwrap.wrap(facts.release.verdict, max(width - 12, 40)))
    yield from labelled("page", [str(short(run.folder / "page.html"))])
    if export := facts.one("export"):
        yield from labelled("export", [str(short(export.path))])
    yield from labelled("next", _next(facts))


def run_lines(facts: Facts, ledgers: Mapping[str, str]) -> Iterator[str]:
    """Yield all lines about a run; `ledgers` has the result of checking each of its trainings, by name."""
    record = facts.record
    yield f"{facts.run.run_id}: {record['flow']}, {record['status']}, exit code {record['exit_code']}"
    for each in facts.attempts:
        ended = f"to {when(each.ended)}, {each.status}" if each.ended else "and has not ended"
        yield f"  attempt {each.attempt} from {when(each.started)} {ended}"
    for row in facts.results:
        if row.kind != "study":
            yield from labelled(row.stage, [f"{row.artifact}  {row.name}  {row.how} in {seconds(row.seconds)}"])
    if (table := facts.trials) is not None:
        yield from labelled("tune", [describe_search(table)])
        yield from labelled("trials", (f"{each.number}: {describe_trial(each, table)}" for each in table.trials))
        if table.importances:
            shares = ", ".join(f"{key} {share:.0%}" for key, share in table.shares)
            yield from labelled("variance", [f"of {table.metric} by key: {shares}"])
    if (problem := facts.problem) is not None:
        yield from labelled("error", [f"{problem.field}; {problem}"])
    yield from labelled("mlflow", [str(record["mlflow_run_id"])])
    if facts.choice is not None:
        yield from seed_lines(facts.choice)
    if facts.report is not None:
        yield from report_lines(facts.report)
    yield from labelled("outputs", outputs.lines(facts))
    yield from _variants(facts, with_gates=True)
    for name, text in ledgers.items():
        yield from labelled("ledger", [f"{name}: {text}" if len(ledgers) > 1 else text])


def seed_lines(choice: Choice) -> Iterator[str]:
    """Yield lines about several seeds."""
    yield from labelled("seeds", trainings.lines(choice))


def report_lines(content: ReportContent) -> Iterator[str]:
    """Yield what a report says besides its metrics."""
    for word, text in report.lines(content):
        yield from labelled(word, [text])


def _sample(sample: Sample, width: int) -> Iterator[str]:
    """Yield the first lines of the text that a language model generated."""
    text = (sample.prompt + sample.text).expandtabs(4).splitlines()
    yield from (f"│ {line[: max(width - 14, 20)]}" for line in text[:SAMPLE_LINES])
    if len(text) > SAMPLE_LINES:
        yield "│ …"


def _variants(facts: Facts, *, with_gates: bool = False) -> Iterator[str]:
    yield from labelled("variants", variants.lines(facts))
    if with_gates:
        judged = facts.judgement.verdicts.items()
        rows = (f"{name}: {each.gate} {each.verdict}: {each.text}" for name, verdicts in judged for each in verdicts)
        yield from labelled("gates", rows)
    if facts.judgement.chosen is not None:
        yield from labelled("chosen", [f"{facts.judgement.chosen}, by compress.want"])


def _next(facts: Facts) -> Iterator[str]:
    """Yield the next commands."""
    preset = short(facts.run.folder / "config.yaml")
    if facts.release and (run := facts.release.awaits):
        yield f"{command('approve', run)} --reason TEXT    (or reject)"
    elif export := facts.one("export"):
        example = example_of(facts.run.folder)
        yield command("predict", export.digest[:12], short(example) if example else raw_input(facts.config))
    elif model := facts.one("model"):
        yield command("run", "release", preset, "--release.model", model.digest[:12])
    else:
        yield command("run", "training", preset)
    yield f"{command('init')} YOURDATA    (a preset for data of your own)"
