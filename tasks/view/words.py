"""What people read: metrics, sizes, durations, states and summaries in words."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tasks.artifacts import Artifact, Release
from tasks.config.compose import Config
from tasks.config.task import CONSTANT, TASKS
from tasks.search.table import COMPLETE, STATES, Table, Trial
from tasks.training.seeds import choice_of
from tasks.view import kilobytes, seconds

COPIES = {"group": "kept in one split", "drop": "dropped", "keep": "split apart"}
"""Descriptions of the values of `records.duplicates`."""
NEAR = {"report": "found", "group": "kept in one split", "drop": "dropped"}
"""Descriptions of the values of `records.near_duplicates.handling`."""


def noun(config: Config) -> str:
    """Return the plural noun for the records of a source, which are split and resampled."""
    return config.source.noun or config.snapshot.noun


def raw_input(config: Config) -> str:
    """Return an input of `millrace predict`, by way of example."""
    return config.snapshot.raw_input or config.source.raw_input


def one(counted: str) -> str:
    """Return the singular of `noun`."""
    return "query" if counted == "queries" else counted.removesuffix("s")


def describe(artifact: Artifact) -> str:
    """Describe an artifact (`1,797 records in 6 shards`)."""
    manifest = artifact.manifest
    counts, metrics = manifest["counts"], artifact.metrics
    if artifact.kind == "records":
        shards = sum(1 for file in manifest["files"] if ".tfrecord-" in file["path"] and "/" not in file["path"])
        bad = f", {counts['quarantined']:,} quarantined" if counts.get("quarantined") else ""
        skipped = f", {counts['skipped']:,} skipped" if counts.get("skipped") else ""
        copies = ""
        if number := counts.get("duplicates"):
            handling = COPIES[manifest["statistics"]["duplicates"]["handling"]]
            copies = f", {number:,} {'copy' if number == 1 else 'copies'} {handling}"
        if number := counts.get("near_duplicates"):
            handling = NEAR[manifest["statistics"]["near_duplicates"]["handling"]]
            copies += f", {number:,} near-duplicate{'s' * (number > 1)} {handling}"
        return f"{counts['examples']:,} records in {shards} shards{bad}{skipped}{copies}"
    if artifact.kind == "snapshot" and (tokens := manifest["features"].get("tokens")):
        block = tokens["shape"][0] - 1
        fitted = manifest["statistics"]["tokenizer"]
        sampled = fitted["bytes"] < fitted["of_bytes"]
        of = f" fitted on {kilobytes(fitted['bytes'])} of {kilobytes(fitted['of_bytes'])}" if sampled else ""
        rows = f"{sum(counts.values()):,} rows of {block:,} tokens, vocabulary {tokens['vocabulary']:,}{of}"
        return rows + _losses(manifest["statistics"]["splits"].values(), block)
    if artifact.kind == "snapshot":
        columns = columns_of(artifact.path)
        shapes = ", ".join(
            f"{columns.get(name, name)} {' x '.join(map(str, row['shape']))}"
            for name, row in manifest["features"].items()
            if row["shape"]
        )
        return f"{sum(counts.values()):,} examples, {shapes}"
    if artifact.kind == "model":
        name = "" if artifact.name == artifact.kind else f"{artifact.name}: "
        choice = choice_of(artifact)
        chosen = "" if choice is None else f", {choice.verdict}"
        zeros = f", {counts['zeros']:,} of them 0," if counts.get("zeros") else ""
        return f"{name}{counts['parameters']:,} weights{zeros} after {counts['steps']:,} steps{chosen}"
    if artifact.kind == "report":
        beside = baselines(metrics)
        return f"test {score(metrics, f'test/{primary_of(metrics)}')}{f' ({beside})' if beside else ''}"
    if artifact.kind == "variant":
        return describe_variant(artifact.name, metrics, manifest)
    if artifact.kind == "export":
        return f"{counts['variants']} variants checked in a fresh process"
    return artifact.digest[:12]


def columns_of(snapshot: Path) -> dict[str, str]:
    """Return the column of each array of a snapshot that is of one column alone: letters that no file or layer may
    have are replaced in the array's name, and people know the column's."""
    description = snapshot / "transform" / "transform.json"
    layout = json.loads(description.read_bytes())["layout"] if description.is_file() else []
    return {place["array"]: place["column"] for place in layout if "start" not in place}


def _losses(splits: Collection[Mapping[str, int]], block: int) -> str:
    """Describe how much of the rows is padding, and how many pairs are cut at the end of a row."""
    padding, cut = (sum(split.get(name, 0) for split in splits) for name in ("padding", "cut"))
    padded = f", {padding / sum(split['rows'] * (block + 1) for split in splits):.1%} padding" if padding else ""
    return padded + (f", {cut:,} of {sum(split['documents'] for split in splits):,} pairs cut" if cut else "")


def plain(value: Any) -> str:
    """Return a value of the config as text."""
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value)


def setting(key: str, value: Any) -> str:
    """Return a key of the config with a value as text (`train.learning_rate 0.0123`)."""
    return f"{key} {plain(value)}"


def describe_search(table: Table) -> str:
    """Describe a search by its best trial."""
    counts = ", ".join(f"{table.count(state)} {state}" for state in STATES if table.count(state))
    if (best := table.best) is None or best.value is None:
        return f"{len(table.trials)} trials ({counts})"
    values = ", ".join(setting(key, value) for key, value in best.values.items())
    of = f"trial {best.number} of {len(table.trials)} ({counts})"
    return f"{of}: validation {table.metric.replace('_', ' ')} {best.value:.4f}, {values}"


def describe_trial(trial: Trial, table: Table) -> str:
    """Describe an ended trial of a tuning: score, state, values, duration, reason."""
    words = [f"{table.metric.replace('_', ' ')} {trial.value:.4f}"] if trial.value is not None else []
    if trial.state != COMPLETE:
        words.append(f"{trial.state} at step {trial.steps}" if trial.steps else trial.state)
    elif table.best == trial:
        words.append("the best")
    words += [setting(key, value) for key, value in trial.values.items()]
    words += [seconds(trial.seconds)] if trial.seconds is not None else []
    words += ["from the store"] if trial.cached else []
    return ", ".join(words) + (f": {trial.reason}" if trial.reason else "")


def state_message(made: Any, *, cached: bool) -> str:
    """Describe the result of a stage, and whether it came from the store."""
    if isinstance(made, Release):
        return made.verdict
    words = "; ".join(map(describe, made)) if isinstance(made, list) else describe(made)
    return f"from the store: {words}" if cached else words


def describe_variant(name: str, metrics: dict[str, float], manifest: dict[str, Any]) -> str:
    """Describe the size and quality of a variant."""
    size = manifest["statistics"]["bytes"]
    ratio = metrics.get(f"{name}/size_ratio")
    share = f" ({size_of_float(name, metrics)})" if ratio and ratio != 1 else ""
    metric = primary_of(metrics, f"{name}/")
    value = metrics.get(f"{name}/test/{metric}", float("nan"))
    return f"{name}: {kilobytes(size)}{share}, {metric.replace('_', ' ')} {value:.4f}"


def size_of_float(variant: str, metrics: Mapping[str, float]) -> str:
    """Return the size of a variant as a share of the float file's, and after gzip where that makes it much smaller."""
    ratio, after_gzip = (metrics.get(f"{variant}/{name}") for name in ("size_ratio", "gzip_ratio"))
    if ratio is None:
        return ""
    smaller = f", {after_gzip:.2f} after gzip" if after_gzip is not None and after_gzip < 0.9 * ratio else ""
    return f"{ratio:.2f} of float{smaller}"


def primary_of(metrics: dict[str, float], prefix: str = "") -> str:
    """Return the primary metric of these metrics: the one with a constant baseline of its own, of a variant the one
    whose loss is known, or the task's first."""
    of_baseline, of_test, lost = f"{prefix}test/{CONSTANT}", f"{prefix}test/", "_loss"
    chosen = [name.removeprefix(of_baseline) for name in metrics if name.startswith(of_baseline)]
    of_variant = [name for name in metrics if prefix and name.startswith(of_test) and name.endswith(lost)]
    chosen += [name.removeprefix(of_test).removesuffix(lost) for name in of_variant]
    known = [task.metrics[0] for task in TASKS.values()]
    return next((name for name in (*chosen, *known) if f"{prefix}test/{name}" in metrics), "score")


def baselines(metrics: dict[str, float]) -> str:
    """Return the baselines of the test split as text (`majority 0.5000, simple model 0.9100`); empty without any."""
    rows = {name: value for task in TASKS.values() for name, value in task.baselines_in(metrics).items()}
    learned = f"test/learned_baseline/{primary_of(metrics)}"
    rows |= {"simple model": metrics[learned]} if learned in metrics else {}
    return ", ".join(f"{name} {value:.4f}" for name, value in rows.items())


def score(metrics: dict[str, float], name: str) -> str:
    """Return a metric with its 95 % interval as text (`accuracy 0.9889 [0.9815, 0.9963]`)."""
    word = name.rpartition("/")[2].replace("_", " ")
    if name not in metrics:
        return f"{word} unknown"
    text = f"{word} {metrics[name]:.4f}"
    if (ends := interval(metrics, name)) is not None:
        text += f" [{ends[0]:.4f}, {ends[1]:.4f}]"
    return text


def interval(metrics: dict[str, float], name: str) -> tuple[float, float] | None:
    """Return the 95 % interval of a metric; None if it has none (that of one example is stored as its value twice)."""
    low, high = metrics.get(f"{name}/low"), metrics.get(f"{name}/high")
    return None if low is None or high is None or low == high else (low, high)


def span(metrics: dict[str, float], name: str) -> tuple[str, str] | None:
    """Return a metric and its 95 % interval as two texts; None if it was not measured."""
    if name not in metrics:
        return None
    ends = interval(metrics, name)
    if (p_value := metrics.get(f"{name}/p_value")) is not None:
        return f"{metrics[name]:.4f}", f"{metrics[f'{name}/expected']:.4f} by noise alone, p = {p_value:.3f}"
    return f"{metrics[name]:.4f}", "" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"
