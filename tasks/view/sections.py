"""The sections of a run's page that no other view has: quality, data, lineage, config and environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from tasks.artifacts import Artifact
from tasks.config.task import CONSTANT, TASKS
from tasks.evaluation import MIN_EXAMPLES
from tasks.view import in_words, kilobytes, outputs
from tasks.view.columns import Column, profiled
from tasks.view.columns import span as time_span
from tasks.view.facts import Facts
from tasks.view.report import Split
from tasks.view.words import span

CLASSES = 40
"""Classes that a table shows; of more, the most frequent."""

LISTED = 100
"""Keys of excluded examples that the page lists, at most; the manifest of the records has all."""

FIGURES = {"macro_f1": "mean of the classes' F1, higher is better"}
"""Descriptions of figures that are no metrics."""


def metrics(facts: Facts) -> list[tuple[str, str, list[tuple[str, str] | None]]]:
    """Return each metric that was measured, what it means, and its value and interval on validation and test."""
    task, own = TASKS[facts.config.model.task], facts.config.evaluate.own_metrics
    splits = {} if facts.report is None else facts.report.splits
    rows = []
    constant = f"{CONSTANT}{facts.metric}"
    for name in (*task.metrics, *own, *task.figures, *task.baselines, constant):
        values = [
            (each[0], each[1] + splits.get(split, Split()).unsure(name))
            if (each := span(facts.metrics, f"{split}/{name}")) is not None
            else None
            for split in ("validation", "test")
        ]
        if any(values):
            losses = (*facts.config.evaluate.lower_is_better, *task.lower_is_better)
            better = "lower is better" if name in losses else "higher is better"
            described = {**FIGURES, **task.baselines, **own, constant: "of the best constant answer"}.get(name, better)
            rows.append((in_words(name), described + (", decides" if name == facts.metric else ""), values))
    return [*rows, *outputs.metrics(facts)]


def few(facts: Facts) -> dict[str, int]:
    """Return the splits that have too few examples for an interval, with their number of examples."""
    splits = {} if facts.report is None else facts.report.splits
    counts = {name: splits[name].examples for name in ("validation", "test") if splits}
    return {name: count for name, count in counts.items() if count < MIN_EXAMPLES}


def over(facts: Facts, split: str) -> str:
    """Return over what the intervals of a split are, as text: its examples, in how many groups."""
    found = Split() if facts.report is None else facts.report.splits[split]
    examples = f"{found.examples:,} {split} {facts.judged}"
    return examples if found.units is None else f"{examples} in {found.units:,} groups"


def chosen_on_validation(facts: Facts) -> str:
    """Return what was chosen by the scores of the validation split, as text: they flatter it."""
    train, evaluate, compress = facts.config.train, facts.config.evaluate, facts.config.compress
    what = {
        "weights": train.select == "best" or train.early_stopping is not None,
        "seed": train.seeds > 1,
        "trial": facts.trials is not None,
        "temperature": evaluate.calibrate is not None,
        "thresholds": evaluate.threshold is not None,
        "compression": compress.search is not None,
    }
    return ", ".join(name for name, chosen in what.items() if chosen)


def looks(facts: Facts) -> str:
    """Return how many models were judged on this test split before, as text; empty where none was."""
    count = facts.judged_before
    if not count:
        return ""
    models = "model was" if count == 1 else "models were"
    return f"{count:,} other {models} judged on this test split before: the best of several looks better than it is."


def places(test: Split) -> list[tuple[float, float, float]]:
    """Return where each of `scored_slices` is in the range of all intervals, in percent: the value, the beginning of
    its interval, and the width of that."""
    ends = [(row.value or 0.0, row.low or 0.0, row.high or 0.0) for row in test.scored_slices]
    low, high = min((each[1] for each in ends), default=0.0), max((each[2] for each in ends), default=0.0)
    share = 100 / ((high - low) or 1)
    return [(share * (at - low), share * (start - low), share * (end - start)) for at, start, end in ends]


@dataclass(frozen=True)
class Conflict:
    """Equal or similar examples with different labels."""

    keys: tuple[str, ...]
    labels: tuple[Any, ...]


@dataclass(frozen=True)
class Similar:
    """Two similar examples."""

    keys: tuple[str, str]
    splits: tuple[str, str]
    similarity: float


@dataclass(frozen=True)
class Duplicates:
    """Examples with the content of others, or with a text in a column similar to that of others."""

    handling: str
    examples: int = 0
    across_splits: int = 0
    label_conflicts: int = 0
    conflicts: tuple[Conflict, ...] = ()
    column: str = ""
    similarity: float = 0.0
    groups: int = 0
    pairs: tuple[Similar, ...] = ()

    @property
    def fate(self) -> str:
        """What became of those in several splits."""
        return {
            "report": "are in more than one split: a score on test may be too high",
            "group": "would be in more than one split, and are whole in that of their first example",
            "drop": "would be in more than one split; only their first example is kept",
        }[self.handling]

    @property
    def harmful(self) -> bool:
        """Whether some stay in several splits."""
        return self.handling == "report" and self.across_splits > 0


@dataclass(frozen=True)
class Data:
    """What is shown of the records: examples, classes and statistics of each split, and what is suspicious."""

    splits: dict[str, int]
    left_out: list[tuple[str, int, list[tuple[str, str, str]]]]
    """Why examples of the source are in no split, how many, and the first ones, each by key, reason and place."""
    duplicates: Duplicates | None
    near: Duplicates | None
    balance: list[tuple[str, list[tuple[str, list[tuple[int, float]]]], int]]
    """Feature, the examples of each class by split with their percentage of the largest, and the classes left out."""
    figures: list[tuple[str, str, list[str]]]
    """Feature, statistic, and its value in each split."""
    columns: list[Column]
    suspicions: list[str]
    predicted: str


def data(facts: Facts) -> Data | None:
    """Return what is shown of the records; None without any."""
    records = facts.one("records")
    if records is None:
        return None
    statistics = records.manifest["statistics"]
    splits: dict[str, Any] = statistics.get("splits", {})
    order: list[str] = [name for name in ("train", "validation", "test") if name in splits]
    order += [name for name in splits if name not in order]
    balance, figures = [], []
    for feature in next(iter(splits.values()), {}):
        columns = [splits[split].get(feature, {}) for split in order]
        if any("classes" in column for column in columns):
            balance.append((feature, *_balance(columns)))
        figures += [(feature, what, values) for what, values in _figures(columns)]
    features = records.manifest["features"].items()
    return Data(
        splits={name: records.manifest["counts"][name] for name in order},
        left_out=_left_out(statistics),
        duplicates=TypeAdapter(Duplicates | None).validate_python(statistics.get("duplicates")),
        near=TypeAdapter(Duplicates | None).validate_python(statistics.get("near_duplicates")),
        balance=balance,
        figures=figures,
        columns=profiled(records),
        suspicions=statistics.get("profile", {}).get("suspicions", []),
        predicted=next((name for name, each in features if each.get("role") in ("label", "target")), ""),
    )


def _left_out(statistics: Mapping[str, Any]) -> list[tuple[str, int, list[tuple[str, str, str]]]]:
    reasons = [
        ("skipped (source.undecodable: skip)", "skipped"),
        ("quarantined (within records.bad_budget)", "quarantined"),
    ]
    found = [(what, statistics.get(name, [])) for what, name in reasons]
    return [(what, len(rows), rows[:LISTED]) for what, rows in found if rows]


def _balance(columns: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[str, list[tuple[int, float]]]], int]:
    """Return the examples of each class by split, each also as a percentage of the largest class there, and the number
    of classes that are not shown."""
    counts: list[dict[str, int]] = [column.get("classes", {}) for column in columns]
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    names = list(total) if len(total) <= CLASSES else [name for name, _ in total.most_common(CLASSES)]
    most = [max(each.values(), default=0) or 1 for each in counts]
    rows = [
        (name, [(each.get(name, 0), 100 * each.get(name, 0) / high) for each, high in zip(counts, most, strict=True)])
        for name in names
    ]
    return rows, len(total) - len(names)


def _figures(columns: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    rows = []
    if any("shapes" in column for column in columns):
        rows.append(("shapes", [_shapes(column.get("shapes", {})) for column in columns]))
        for channels in {key: None for column in columns for key in column.get("pixels", {})}:
            pixels = [column.get("pixels", {}).get(channels) for column in columns]
            spread = [f"{_list(row['mean'])} ± {_list(row['std'])}" if row else "" for row in pixels]
            rows.append((f"pixels, {channels} channel{'s' if channels != '1' else ''}", spread))
    if any("std" in column for column in columns):
        rows.append(
            ("mean ± standard deviation", [f"{c['mean']:.4g} ± {c['std']:.3g}" if "std" in c else "" for c in columns])
        )
        rows.append(("range", [f"{c['min']:.4g} to {c['max']:.4g}" if "std" in c else "" for c in columns]))
    if any(column.get("kind") == "time" for column in columns):
        rows.append(("range", [time_span(column) for column in columns]))
    if any("bytes" in column for column in columns):
        sizes = [column.get("bytes") for column in columns]
        rows.append(("bytes, mean (range)", [_range(size) if size else "" for size in sizes]))
    return rows


def _shapes(shapes: dict[str, int]) -> str:
    shown = [shape.replace("x", " x ") for shape in list(shapes)[:3]]
    return ", ".join(shown) + (f" and {len(shapes) - 3} more" if len(shapes) > 3 else "")


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _range(size: dict[str, float]) -> str:
    return f"{size['mean']:,.0f} ({size['min']:,} to {size['max']:,})"


@dataclass(frozen=True)
class Leaf:
    """An artifact in the tree from the source down; `digest` and `by` (the run that made it) where they are shown."""

    kind: str
    name: str
    what: str
    under: list[Leaf] = field(default_factory=list)
    digest: str = ""
    by: str = ""


def lineage(facts: Facts) -> list[Leaf]:
    """Return the tree of artifacts from the source down, each below its deepest parent."""
    depth: dict[str, int] = {}
    under: dict[str | None, list[Artifact]] = {}
    for artifact in facts.named.values():  # parents first
        parents = [digest for digest in artifact.manifest["parents"].values() if digest in depth]
        if (chosen := artifact.manifest["statistics"].get("chosen")) in artifact.manifest["parents"]:
            parents = [artifact.manifest["parents"][chosen]]
        if artifact.kind == "export":
            parents = [digest for digest in parents if facts.named[digest].kind == "model"] or parents
        nearest = max(parents, key=lambda digest: depth[digest], default=None)
        depth[artifact.digest] = 0 if nearest is None else depth[nearest] + 1
        under.setdefault(nearest, []).append(artifact)
    roots = [_leaf(facts, artifact, under) for artifact in under.get(None, [])]
    records = facts.one("records")
    if records is None:
        return roots
    raw = sum(not path.startswith("package/") for path, _ in records.manifest["inputs"]["sources"])
    source = facts.config.source
    what = f"{raw:,} raw {source.listed} of {source.name}, each by key and SHA-256"
    return [Leaf("source", f"{source.kind} {source.name}", what, roots)]


def _leaf(facts: Facts, artifact: Artifact, under: dict[str | None, list[Artifact]]) -> Leaf:
    children = [_leaf(facts, child, under) for child in under.get(artifact.digest, [])]
    manifest = artifact.manifest
    by = manifest["produced_by"]["run"]
    what = kilobytes(sum(file["bytes"] for file in manifest["files"]))
    if artifact.kind == "export":
        contents = [facts.named[d].name for d in manifest["parents"].values() if d in facts.named]
        what += " with " + ", ".join(name for name in contents if name not in ("model", "snapshot"))
        if (release := facts.release) is not None:
            children.append(Leaf("release", f"{release.name} version {release.version}", f"as {release.alias}"))
    name = artifact.name if artifact.name != artifact.kind else ""
    return Leaf(artifact.kind, name, what, children, artifact.digest, "" if by == facts.run.run_id else by)


def environment(facts: Facts) -> dict[str, str]:
    """Return host, layout and commit of the last attempt, and its ids in MLflow and Prefect."""
    attempt = facts.attempts[-1]
    layouts = [
        facts.named[row.digest].manifest["produced_by"]["layout"] for row in facts.made if row.digest in facts.named
    ]
    rows = {
        "host": attempt.host,
        "threads": layouts[-1]["threads"] if layouts else facts.config.resources.threads or "",
        "strategy": layouts[-1]["strategy"] if layouts else "",
        "layouts": "; ".join(_spans(layouts)),
        "git commit": attempt.git_commit or "",
        "MLflow run": facts.record["mlflow_run_id"] or "",
        "Prefect flow run": attempt.prefect_flow_run_id or "",
    }
    return {key: str(value) for key, value in rows.items() if value != ""}


def _spans(layouts: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the layouts of a training that was continued under another one, with their steps."""
    for steps in (steps for layout in layouts for steps in layout.get("spans", [])):
        under = ", ".join(f"{name} {value}" for name, value in steps.items() if name not in ("from", "to"))
        yield f"steps {steps['from']} to {steps['to']}: {under}"
