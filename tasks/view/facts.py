"""The facts about a run that pages and messages show, read once from its folder and from the store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tasks.artifacts import KINDS, Artifact, Model, Release
from tasks.compression import judgement
from tasks.compression.judgement import Judgement
from tasks.config.task import TASKS
from tasks.evaluation import MIN_EXAMPLES
from tasks.models import MODELS
from tasks.models.usage import USES
from tasks.runs.runs import Run, find_runs, part_of
from tasks.search.table import Table
from tasks.search.table import read as read_table
from tasks.store.journal import FILE as JOURNAL
from tasks.store.journal import read as journal_points
from tasks.training.seeds import Choice, choice_of
from tasks.view import kilobytes
from tasks.view.attempts import Attempt, TimedAttempt, timed
from tasks.view.report import ReportContent, Split, read, report_of
from tasks.view.report_rows import Sample
from tasks.view.words import baselines, describe, describe_search, noun, one, score

STAGES = ("convert", "snapshot", "tune", "train", "evaluate", "compress", "export", "promote")
"""In the order of the DAG, which the JSON object in run.json does not keep."""

UNEVEN, TIMES = 0.1, 5
"""Classes are imbalanced if the share of one is higher than 1 / classes by `UNEVEN`, or if it has `TIMES` times the
examples of another."""


@dataclass(frozen=True)
class StageResult:
    """A result of a stage in the last attempt."""

    stage: str
    name: str
    kind: str
    digest: str
    cached: bool
    seconds: float
    what: str

    @property
    def artifact(self) -> str:
        """Kind and beginning of the digest: of a release those of its export."""
        return f"{'export' if self.kind == 'release' else self.kind}/{self.digest[:12]}"

    @property
    def how(self) -> str:
        """Whether it was made, or taken from the store; of a release, whether an alias was moved."""
        if self.kind == "release":
            return "unchanged" if self.cached else "moved"
        return "from the store" if self.cached else "made"


@dataclass(frozen=True)
class Problem:
    """The error that ended a run."""

    field: str
    saw: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.saw}; {self.rule}; {self.remedy}"


class Facts:
    """A run, the artifacts that its stages returned, and all their ancestors."""

    def __init__(self, run: Run) -> None:
        self.run, self.record, self.config = run, run.record, run.config
        self.stages = {name: self.record["stages"][name] for name in STAGES if name in self.record["stages"]}
        self.named: dict[str, Artifact] = {}
        """Artifacts by digest: those that the stages returned, each after its ancestors."""
        for rows in self.stages.values():
            for row in rows:
                if row["kind"] in KINDS:
                    self._take(
                        KINDS[row["kind"]](row["digest"], run.store.path(row["kind"], row["digest"]), row["name"])
                    )

    def _take(self, artifact: Artifact) -> None:
        if artifact.digest in self.named or not (artifact.path / "manifest.json").exists():
            return
        for parent in self.run.store.parents_of(artifact).values():
            self._take(type(parent)(parent.digest, parent.path, _name(parent)))
        self.named[artifact.digest] = artifact

    def one(self, kind: str) -> Artifact | None:
        """Return the result of a kind, or else the nearest ancestor of the results: a model may have a base.

        Of several results it is the one with the name of its kind, and not that of one of several seeds.
        """
        digests = [row["digest"] for rows in self.stages.values() for row in rows]
        while generation := [self.named[digest] for digest in digests if digest in self.named]:
            found = [artifact for artifact in generation if artifact.kind == kind]
            if found:
                return next((artifact for artifact in found if artifact.name == kind), found[0])
            digests = [digest for artifact in generation for digest in artifact.manifest["parents"].values()]
        return None

    @property
    def model(self) -> Model | None:
        """The model that the run made, or began with."""
        model = self.one(Model.kind)
        return model if isinstance(model, Model) else None

    @property
    def variants(self) -> list[Artifact]:
        """The variants that `compress` made, accepted or rejected, in order."""
        rows = self.stages.get("compress", [])
        return [self.named[row["digest"]] for row in rows if row["kind"] == "variant" and row["digest"] in self.named]

    @cached_property
    def results(self) -> list[StageResult]:
        """The results of all stages, in order."""
        results = []
        for stage, rows in self.stages.items():
            for row in rows:
                artifact = self.named.get(row["digest"])
                if row["kind"] == "release":
                    what = "" if self.release is None else self.release.verdict
                elif row["kind"] == "study":
                    what = "" if self.trials is None else describe_search(self.trials)
                else:
                    what = describe(artifact) if artifact else "is no longer in the store"
                fields = (row["name"], row["kind"], row["digest"], row["cached"], row["seconds"])
                results.append(StageResult(stage, *fields, what))
        return results

    @property
    def parts(self) -> list[str]:
        """What stages spent their time on in the last attempt, in order."""
        return [part_of(stage, row) for stage, rows in self.stages.items() for row in rows]

    @cached_property
    def attempts(self) -> list[Attempt]:
        """All attempts, the last one at the end."""
        return TypeAdapter(list[Attempt]).validate_python(self.record["attempts"])

    @cached_property
    def timed_attempts(self) -> list[TimedAttempt]:
        """All attempts with the seconds that they took."""
        signs = (point.time for point in journal_points(self.run.folder / JOURNAL))
        return timed(self.attempts, signs)

    @property
    def problem(self) -> Problem | None:
        """The error that ended the run; None without one."""
        return None if self.record["error"] is None else Problem(**self.record["error"])

    @cached_property
    def release(self) -> Release | None:
        """The content of release.json; None if this attempt did not get to `promote`."""
        path = self.run.folder / "release.json"
        if "promote" not in self.stages or not path.exists():
            return None
        return TypeAdapter(Release).validate_json(path.read_bytes())

    @cached_property
    def trials(self) -> Table | None:
        """The trials of a tuning; None of another run."""
        return read_table(self.run.folder)

    @cached_property
    def judgement(self) -> Judgement:
        """The judgement of the variants; empty where this attempt did not get to it."""
        return judgement.read(self.run.folder) if self.variants else Judgement()

    @cached_property
    def report(self) -> ReportContent | None:
        """The content of report.json; None without a report."""
        report = self.one("report")
        return None if report is None else read(report_of(report))

    @property
    def test(self) -> Split:
        """What was measured on the test split."""
        return Split() if self.report is None else self.report.test

    @cached_property
    def choice(self) -> Choice | None:
        """What was chosen among the models of several seeds; None for that of one training."""
        model = self.one("model")
        return None if model is None else choice_of(model)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """All metrics of the results, by flat name."""
        digests = [row.digest for row in self.results]
        return {name: value for d in digests if d in self.named for name, value in self.named[d].metrics.items()}

    @property
    def minimised(self) -> str | None:
        """The name of the loss that training minimised; values of `test/loss` are comparable where it is the same."""
        return None if self.report is None else self.report.loss

    @property
    def metric(self) -> str:
        """The primary metric."""
        return self.config.evaluate.primary_of(self.config.model.task)[0]

    @property
    def counted(self) -> str:
        """The plural noun for the examples, over which intervals are computed."""
        return noun(self.config)

    @property
    def judged(self) -> str:
        """The plural noun for what intervals are over: queries of a ranking, else the examples."""
        counted = TASKS[self.config.model.task].counted
        return counted if counted == "queries" else self.counted

    @property
    def sample(self) -> Sample | None:
        """The text that a language model generated, and its prompt."""
        return None if self.report is None else self.report.sample

    @property
    def score(self) -> str | None:
        """The primary metric on the test split with its interval, as text."""
        name = f"test/{self.metric}"
        if name not in self.metrics:
            return None
        count = self.test.examples if self.report else MIN_EXAMPLES
        few = self.few(count) if count < MIN_EXAMPLES else ""
        beside = ", ".join(filter(None, (few, self.balance, baselines(self.metrics))))
        return f"test {score(self.metrics, name)}" + (f" ({beside})" if beside else "")

    @property
    def seen(self) -> str:
        """Whether the test examples were seen before, as text: by the model or by what it began from."""
        found = self.test.seen
        counts = [f"{use} on {found[use]:,}" for use in USES if use in found]
        unknown = ", ".join(found.get("unknown", ()))
        if counts:
            not_known = f"; not known: what {unknown} was trained on" if unknown else ""
            return f", of which it, or what it began from, was {' and '.join(counts)}{not_known}"
        if unknown:
            return f" not seen in its own training, and perhaps in that of {unknown}"
        return " not seen in training"

    @cached_property
    def judged_before(self) -> int:
        """How many other models of this home were judged on the same test split before this one."""
        records, own = self.one("records"), self.one("report")
        if records is None or own is None:
            return 0
        same, reports = {f"{records.kind}/{records.digest}": True}, set()
        for run in find_runs(self.run.home):
            if run.run_id >= self.run.run_id:
                break
            uses = run.folder / "uses"
            used = uses.read_text().split() if uses.exists() else []
            for name in used:
                if name.startswith(f"{records.kind}/") and name not in same:
                    same[name] = _test_rows(self.run.store.root / name) == _test_rows(records.path)
            if any(same.get(name) for name in used):
                reports |= {each for each in used if each.startswith(f"{own.kind}/")}
        return len(reports - {f"{own.kind}/{own.digest}"})

    def few(self, count: int) -> str:
        """Return why there is no 95 % interval for so few examples."""
        if count == 1:
            return f"one {one(self.judged)}: no interval"
        return f"{count} {self.judged}: too few for a 95 % interval"

    @property
    def balance(self) -> str:
        """Macro F1 as text; empty if the classes of the test split are balanced."""
        if "macro_f1" not in self.test.figures:
            return ""
        supports = [row.support for row in self.test.classes if row.support]
        if max(supports) / sum(supports) < 1 / len(supports) + UNEVEN and max(supports) < TIMES * min(supports):
            return ""
        return f"macro F1 {self.test.figures['macro_f1']:.4f}"

    @property
    def made(self) -> list[StageResult]:
        """The results that were made in this attempt instead of coming from the store."""
        return [row for row in self.results if not row.cached and row.kind != "release"]

    def maker(self, artifact: Artifact) -> Path | None:
        """Return the folder of the run that made an artifact, with its curves and timings; None if it was deleted."""
        folder = self.run.home.runs / artifact.manifest["produced_by"]["run"]
        return folder if folder.is_dir() else None

    def measured(self, kind: str) -> dict[str, Any]:
        """Return the measurements of the run that made the result of a kind, without one those of this run; empty where
        it was deleted."""
        artifact = self.one(kind)
        folder = self.run.folder if artifact is None else self.maker(artifact)
        return measurements(folder) if folder else {}

    @property
    def verdict(self) -> tuple[str, str]:
        """The outcome of the run, and its style: `good`, `bad`, `mixed` or `plain`."""
        status = self.record["status"]
        if status == "failed":
            return "failed", "bad"
        if status == "awaiting_approval":
            return "awaiting approval", "mixed"
        if self.release is not None:
            return str(self.release.alias), "good" if self.release.alias == "champion" else "mixed"
        return status, "plain" if status == "completed" else "mixed"

    @property
    def summary(self) -> str:
        """The result of the run in one to three sentences."""
        sentences = []
        source, model, records = self.config.source.name, self.model, self.one("records")
        snapshot, report = self.one("snapshot"), self.report
        if model is not None and snapshot is not None:
            counts = model.manifest["counts"]
            fed = "rows" if "tokens" in snapshot.manifest["features"] else self.counted
            rows = f"{snapshot.manifest['counts']['train']:,} {fed} of {source}"
            noun = noun_of(model)
            line = f"{'An' if noun[0] in 'aeiou' else 'A'} {noun} of {counts['parameters']:,} weights, "
            line += f"trained for {counts['steps']:,} steps on {rows}"
            if self.trials is not None:
                line += f", the best of {len(self.trials.trials)} trials"
            if report is not None:
                line += f", reaches {self.score} on {self.test.examples:,} {self.judged}{self.seen}"
            sentences.append(line)
        elif snapshot is not None:
            sentences.append(f"{describe(snapshot)}: {source}, ready for training")
        elif records is not None:
            sentences.append(f"{describe(records)}, converted from {source}")
        marks = {variant.name: self.judgement.words(variant.name) for variant in self.variants}
        kept = [variant for variant in self.variants if not marks[variant.name].startswith(("rejected", "not judged"))]
        smallest = min(kept, key=lambda variant: variant.manifest["statistics"]["bytes"], default=None)
        if smallest is not None:
            size = kilobytes(smallest.manifest["statistics"]["bytes"])
            mark = f" ({marks[smallest.name]})" if marks[smallest.name] else ""
            sentences.append(f"Its smallest accepted form, {smallest.name}, takes {size}{mark}")
        if self.judgement.chosen is not None:
            sentences.append(f"Chosen by compress.want: {self.judgement.chosen}")
        if self.release is not None:
            sentences.append(self.release.verdict)
        if self.record["status"] == "failed":
            done = ", ".join(dict.fromkeys(row.stage for row in self.results))
            sentences.append(f"It failed after {done}" if done else "It failed before the first stage had ended")
        if self.record["status"] == "stopped":
            sentences.append("It was stopped after saving; the same command goes on from there")
        return ". ".join(sentences) + "." if sentences else "Nothing was made."


def noun_of(model: Model) -> str:
    """Return what a model is; of one that a method has made, what it was before."""
    architecture = model.architecture
    while architecture["kind"] not in MODELS:
        architecture = architecture["model"]
    return MODELS[architecture["kind"]].noun


def _name(artifact: Artifact) -> str:
    config = artifact.manifest["inputs"]["config"]
    return str(config.get("variant", artifact.kind)) if artifact.kind == "variant" else artifact.kind


def _test_rows(records: Path) -> list[str]:
    """Return the SHA-256 of the files that name the test rows of records; empty where these are gone."""
    path = records / "manifest.json"
    files = json.loads(path.read_bytes())["files"] if path.exists() else []
    return [file["sha256"] for file in files if file["path"].startswith("rows/") and "-test." in file["path"]]


def measurements(folder: Path) -> dict[str, Any]:
    """Return the measurements of a run by its folder."""
    path = folder / "measurements.json"
    return json.loads(path.read_bytes()) if path.exists() else {}
