"""A home with a real registry, and `promote` on it without the stages before it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tasks.artifacts import Export, Records
from tasks.config.compose import load
from tasks.evaluation.gates import Beside, Champion
from tasks.evaluation.measured import Interval
from tasks.evaluation.paired import PairedDifference
from tasks.processes.workbench import Work
from tasks.registry import registry
from tasks.runner import releasing
from tasks.runs.audit import Audit, Decision
from tasks.runs.home import Home
from tasks.runs.runs import Run, opened
from tasks.store.files import pretty, write
from tasks.tracking.runs import connect
from tests.support import versions
from tests.support.homes import DIGITS

YES, NO = Decision(True, "ada", "as stated", "looked at"), Decision(False, "bob", "system user", "too slow")
METRIC = "test/accuracy"


def export_of(number: int) -> str:
    """The digest of an export."""
    return versions.digest(Export, str(number))


def champion_beside(
    before: float, after: float, change: PairedDifference | None = None, metric: str = METRIC, *, higher: bool = True
) -> Champion:
    """Version 1 as champion, compared on 100 examples; by default the difference may be noise."""
    if change is None:
        change = PairedDifference(
            Interval(after - before, after - before - 9, after - before + 9, "", 100), False, same=False
        )
    return Champion("1", metric, before, Beside(before, after, change, 100, higher))


class AtPromote:
    """An attempt that has come to `promote`, without a process of its own: work is done in the test's."""

    def __init__(self, run: Run, workbench: Any = None) -> None:
        self.run, self.config, self.store, self.workbench = run, run.config, run.store, workbench
        self.shipper = SimpleNamespace(tags=lambda tags: None)

    def decision_on(self, export: str) -> Decision | None:
        return None

    def work(self, stage: str, work: Work[Any], staging: None) -> Any:
        return work.function(self.workbench, *work.arguments)


class RegistryHome:
    """A home with a registry, and what `promote` does there once an export is registered."""

    def __init__(self, root: Path, database: Path) -> None:
        os.environ["MLFLOW_TRACKING_URI"] = ""  # where MLflow's client leaves the address of another registry
        self.home = Home(root).make()
        shutil.copy(database, self.home.mlflow_file)
        self.client: Any = connect(self.home.mlflow_uri)
        self.audit = Audit(self.home)

    def copied_to(self, root: Path) -> RegistryHome:
        """A copy as it stands."""
        shutil.copytree(self.home.root, root)
        return RegistryHome(root, self.home.mlflow_file)

    def run(
        self,
        number: int,
        required: bool = True,
        task: str = "classification",
        baseline: str = "constant",
        more: Sequence[tuple[str, str]] = (),
    ) -> Run:
        """A run that has made the export `number`, as it stands before `promote`; `more`: flags."""
        approval = "required" if required else "none"
        flags = [("seed", str(number)), ("promote.approval", approval), ("promote.baseline", baseline)]
        flags += [("model.task", task), *more]
        with opened(self.home, "pipeline", load(DIGITS, flags), new=True, prefect_id=None, waiting=print) as run:
            return run

    def register(
        self, run: Run, number: int, score: float, records: str = "R", metric: str = "test/accuracy"
    ) -> registry.Registered:
        """The version of an export."""
        if registry.find(self.client, "digits", export_of(number)) is None:
            if not self.client.search_registered_models("name = 'digits'"):
                self.client.create_registered_model("digits")
            tags = {"export": export_of(number), "run": run.run_id, "records": records, "score": repr(score)}
            named = {f"millrace.{name}": value for name, value in {**tags, "metric": metric}.items()}
            self.client.create_model_version("digits", f"file:///nowhere/{number}", tags=named)
        version_now = registry.find(self.client, "digits", export_of(number))
        assert version_now is not None
        return version_now

    def promote(
        self,
        run: Run,
        number: int,
        score: float,
        records: str | Records = "R",
        margin: float = 0,
        workbench: Any = None,
        baselines: dict[str, float] | None = None,
        trained: np.ndarray | None = None,
        unknown: Sequence[str] = (),
        simple: float | None = None,
    ) -> str:
        """As `promote` does it, by its own decision, with an export that is registered; the run's last status.

        Args:
            trained: hashes of rows that the model was trained on.
            unknown: weights that it began from, in words.
            simple: the score of the learned baseline.
        """
        task = run.config.model.task
        metric = "test/" + run.config.evaluate.primary_of(task)[0]
        of_records = records if isinstance(records, str) else records.digest
        self.register(run, number, score, of_records, metric)
        examples = versions.ROWS if isinstance(records, str) else records.manifest["counts"]["test"]
        metrics = {metric: score, **(baselines or {})}
        report = versions.evaluated(run.store, task, of_records, score, metrics, examples, simple)
        run.made("evaluate", report, 0.0)
        export = versions.exported(run.store, str(number), trained, unknown)
        made = releasing._decide(
            AtPromote(run, workbench),  # type: ignore[arg-type]
            self.client,
            "",
            export,
            report,
            Records(records, self.home.root, "records") if isinstance(records, str) else records,
            run.config.promote.model_copy(update={"margin": margin}),
        )
        write(run.folder / "release.json", pretty({**vars(made)}))
        status = "awaiting_approval" if made.awaits else "completed" if made.alias == "champion" else "rejected"
        run.end(0 if status == "completed" else 3, status, None)
        return status

    def champion(self) -> registry.Registered | None:
        return registry.aliased(self.client, "digits", "champion")

    def at(self, alias: str) -> str | None:
        version_now = registry.aliased(self.client, "digits", alias)
        return version_now.version if version_now else None

    def tags(self, version: str) -> dict[str, str]:
        version_now = registry.version(self.client, "digits", version)
        assert version_now is not None
        return {name.removeprefix("millrace."): value for name, value in version_now.tags.items()}

    def audit_lines(self) -> list[tuple[str, str, str | None, str | None, str]]:
        return [(row["action"], row["version"], row["before"], row["after"], row["who"]) for row in self.audit.rows()]

    def champions(self, *scores: float) -> None:
        """Versions that became champion one after the other, by their gate."""
        for number, score in enumerate(scores, 1):
            assert self.promote(self.run(number, required=False), number, score) == "completed"
