"""What there is to tell of a run, read once from its folder and from the store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.artifacts import KINDS, Artifact
from tasks.display.words import MODELS, baselines, describe, kilobytes, noun, one, score, standing
from tasks.evaluation import MIN_EXAMPLES, primary_metric
from tasks.runs.runs import Run

STAGES = ("convert", "snapshot", "train", "evaluate", "compress", "export", "promote")
"""In the order they run; run.json, being JSON, knows no order."""

UNEVEN, TIMES = 0.1, 5
"""Classes are uneven where one has that much more than its even share, or so many times the examples of another."""


@dataclass(frozen=True)
class Handed:
    """What a stage handed on in the last attempt."""

    stage: str
    name: str
    kind: str
    digest: str
    cached: bool
    seconds: float
    what: str


class Facts:
    """A run, the artifacts that its stages handed on, and all those that they were made from."""

    def __init__(self, run: Run) -> None:
        self.run, self.record, self.config = run, run.record, run.config
        self.stages = {name: self.record["stages"][name] for name in STAGES if name in self.record["stages"]}
        self.named: dict[str, Artifact] = {}
        """What stages handed on, by digest, and their ancestors, nearest last."""
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
        """The artifact of a kind, handed on or an ancestor of what was."""
        return next((artifact for artifact in self.named.values() if artifact.kind == kind), None)

    @property
    def variants(self) -> list[Artifact]:
        """The variants that `compress` handed on or kept out, in the order they were made."""
        rows = self.stages.get("compress", [])
        return [self.named[row["digest"]] for row in rows if row["digest"] in self.named]

    @cached_property
    def handed(self) -> list[Handed]:
        """What the stages handed on, in their order."""
        found = []
        for stage, rows in self.stages.items():
            for row in rows:
                artifact = self.named.get(row["digest"])
                if row["kind"] == "release":
                    what = (self.release or {}).get("verdict", "")
                else:
                    what = describe(artifact) if artifact else "is no longer in the store"
                fields = (row["name"], row["kind"], row["digest"], row["cached"], row["seconds"])
                found.append(Handed(stage, *fields, what))
        return found

    @cached_property
    def release(self) -> dict[str, Any] | None:
        """release.json, if this attempt came so far."""
        path = self.run.folder / "release.json"
        return json.loads(path.read_bytes()) if "promote" in self.stages and path.exists() else None

    @cached_property
    def report(self) -> dict[str, Any] | None:
        """report.json."""
        found = self.one("report")
        return json.loads((found.path / "report.json").read_bytes()) if found else None

    @cached_property
    def metrics(self) -> dict[str, float]:
        """All metrics of what stages handed on, by flat name."""
        digests = [row.digest for row in self.handed]
        return {name: value for d in digests if d in self.named for name, value in self.named[d].metrics.items()}

    @property
    def minimised(self) -> str | None:
        """The loss that the training minimised, as the report has it: `test/loss` compares where it is the same."""
        return (self.report or {}).get("loss")

    @property
    def metric(self) -> str:
        """The metric by which models of this task are compared."""
        return primary_metric(self.config.model.task)[0]

    @property
    def counted(self) -> str:
        """What a judgement counts: intervals are over these."""
        return noun(self.config)

    @property
    def sample(self) -> dict[str, Any] | None:
        """What a language model wrote."""
        return (self.report or {}).get("sample")

    @property
    def score(self) -> str | None:
        """The score on the test split with its interval."""
        name = f"test/{self.metric}"
        if name not in self.metrics:
            return None
        count = self.report["splits"]["test"]["examples"] if self.report else MIN_EXAMPLES
        few = f" ({self.few(count)})" if count < MIN_EXAMPLES else ""
        return f"test {score(self.metrics, name)}{few}{self.balance}{baselines(self.metrics)}"

    def few(self, count: int) -> str:
        """What so few examples are worth."""
        if count == 1:
            return f"one {one(self.counted)}: no interval"
        return f"{count} {self.counted}: too few for a 95 % interval"

    @property
    def balance(self) -> str:
        """Of classes with uneven numbers of test examples: the macro-F1, and what the most frequent one makes up."""
        test = self.report["splits"]["test"] if self.report else {}
        if "majority_share" not in test.get("figures", {}):
            return ""
        held = [row["support"] for row in test["classes"] if row["support"]]
        share = test["figures"]["majority_share"]
        if share < 1 / len(held) + UNEVEN and max(held) < TIMES * min(held):
            return ""
        return f" (macro F1 {test['figures']['macro_f1']:.4f}, the most frequent class alone {share:.4f})"

    @property
    def made(self) -> list[Handed]:
        """What was made in this attempt and not found in the store."""
        return [row for row in self.handed if not row.cached and row.kind != "release"]

    def maker(self, artifact: Artifact) -> Path | None:
        """The folder of the run that made an artifact, as long as it is kept: curves and timings lie there."""
        folder = self.run.home.runs / artifact.manifest["produced_by"]["run"]
        return folder if folder.is_dir() else None

    @property
    def verdict(self) -> tuple[str, str]:
        """One word for the run, and whether that is `good`, `bad`, or between (`mixed`, `plain`)."""
        status = self.record["status"]
        if status == "failed":
            return "failed", "bad"
        if status == "awaiting_approval":
            return "awaiting approval", "mixed"
        if self.release is not None:
            alias = self.release["alias"]
            return alias, "good" if alias == "champion" else "mixed"
        return status, "plain" if status == "completed" else "mixed"

    @property
    def summary(self) -> str:
        """What came of it, in one to three sentences."""
        told = []
        source, model, records = self.config.source.name, self.one("model"), self.one("records")
        snapshot, report = self.one("snapshot"), self.report
        if model is not None and snapshot is not None:
            counts = model.manifest["counts"]
            kind = model.manifest["inputs"]["config"]["model"]["kind"]
            fed = "rows" if "tokens" in snapshot.manifest["features"] else self.counted
            rows = f"{snapshot.manifest['counts']['train']:,} {fed} of {source}"
            line = f"A {MODELS.get(kind, kind)} of {counts['parameters']:,} weights, "
            line += f"trained for {counts['steps']:,} steps on {rows}"
            if report is not None:
                unseen = report["splits"]["test"]["examples"]
                line += f", reaches {self.score} on {unseen:,} {self.counted} that it never saw"
            told.append(line)
        elif snapshot is not None:
            told.append(f"{describe(snapshot)}: {source}, ready for training")
        elif records is not None:
            told.append(f"{describe(records)}, converted from {source}")
        marks = {
            v.name: standing(v.manifest["statistics"].get("gates", []), self.config.compress) for v in self.variants
        }
        kept = [variant for variant in self.variants if not marks[variant.name].startswith("kept out")]
        smallest = min(kept, key=lambda variant: variant.manifest["statistics"]["bytes"], default=None)
        if smallest is not None:
            size = kilobytes(smallest.manifest["statistics"]["bytes"])
            mark = f" ({marks[smallest.name]})" if marks[smallest.name] else ""
            told.append(f"Its smallest accepted form, {smallest.name}, takes {size}{mark}")
        if self.release is not None:
            told.append(str(self.release["verdict"]))
        if self.record["status"] == "failed":
            done = ", ".join(dict.fromkeys(row.stage for row in self.handed))
            told.append(f"It failed after {done}" if done else "It failed before anything was handed on")
        if self.record["status"] == "stopped":
            told.append("It was stopped after saving; the same command goes on from there")
        return ". ".join(told) + "." if told else "Nothing was made."


def _name(artifact: Artifact) -> str:
    config = artifact.manifest["inputs"]["config"]
    return str(config.get("variant", artifact.kind)) if artifact.kind == "variant" else artifact.kind
