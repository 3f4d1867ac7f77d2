"""The whole config, composed of the sections. This page is the product's table of contents."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from tasks.compression.config import CompressConfig
from tasks.config.base import NOT_IDENTITY, Conflict, Name, Section
from tasks.config.notify import NotifyConfig
from tasks.config.records import RecordsConfig
from tasks.config.resources import ResourcesConfig
from tasks.config.snapshot import SNAPSHOTS, ImageSnapshot, SnapshotConfig
from tasks.config.sources import SklearnSource, SourceConfig
from tasks.config.task import TASKS
from tasks.config.train import TrainConfig
from tasks.evaluation.config import EvaluateConfig
from tasks.exporting.config import ExportConfig
from tasks.models import ModelConfig, default_model, models_for
from tasks.registry.config import PromoteConfig, ReleaseConfig
from tasks.search.config import TuneConfig


class Config(Section):
    """A whole pipeline: data, stages and gates."""

    name: Annotated[Name, NOT_IDENTITY]
    """The model's name in the registry and in the pages."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Decides the initial weights, the order of examples and dropout."""

    source: SourceConfig = SklearnSource()
    """Raw data."""

    records: RecordsConfig = RecordsConfig()
    """Stage `convert`."""

    snapshot: SnapshotConfig = ImageSnapshot()
    """Stage `snapshot`."""

    model: ModelConfig = default_model("image")
    """The task and the architecture."""

    train: TrainConfig
    """Stage `train`."""

    evaluate: EvaluateConfig = EvaluateConfig()
    """Stage `evaluate`."""

    compress: CompressConfig = CompressConfig()
    """Stage `compress`."""

    export: ExportConfig = ExportConfig()
    """Stage `export`."""

    promote: PromoteConfig = PromoteConfig()
    """Stage `promote`."""

    release: ReleaseConfig = ReleaseConfig()
    """The flow `release`."""

    tune: TuneConfig | None = None
    """The flow `tuning`."""

    notify: NotifyConfig = NotifyConfig()
    """Who is notified of the end of a run."""

    resources: ResourcesConfig = ResourcesConfig()
    """Threads and time-outs; never part of a digest."""

    @property
    def watched(self) -> tuple[str, bool]:
        """What evaluations of a training decide by, by its name in the curves, and whether higher is better."""
        score = self.evaluate.score_of(self.model.task, self.train.own_loss is not None)
        return self.evaluate.primary_of(self.model.task) if score is None else (score, score == "accuracy")

    @model_validator(mode="before")
    @classmethod
    def model_follows_the_snapshot(cls, values: Any) -> Any:
        """Set the default of `model`, so that the flow `dataset` needs no such section."""
        if isinstance(values, dict) and "model" not in values:
            snapshot = values.get("snapshot")
            if isinstance(snapshot, dict) and snapshot.get("kind") in SNAPSHOTS:
                return {**values, "model": {"kind": models_for(snapshot["kind"])[0]}}
        return values

    @model_validator(mode="after")
    def sections_fit_the_task(self) -> Config:
        self.evaluate.fit(self.model.task)
        self.train.fit(self.model.task)
        sliced = bool(self.evaluate.slices) or TASKS[self.model.task].sliced
        self.compress.fit(self.train, self.model.task, sliced)
        self.promote.fit(self.model.task, sliced)
        try:
            self.model.fit_training(self.train.strategy, self.train.remat)
            self.model.fit_start(self.train.init is not None)
        except Conflict as misfit:
            raise Conflict(f"model.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
        if self.tune is not None:
            self.tune.fit(self.watched)
            if self.train.seeds > 1:
                remedy = "leave it out, and give the best values to the flow pipeline with train.seeds"
                raise Conflict("train.seeds", self.train.seeds, "a trial is one training, of one seed", remedy)
        return self

    @model_validator(mode="after")
    def model_fits_the_snapshot(self) -> Config:
        fitting = models_for(self.snapshot.kind)
        students = [method.student_model for method in self.compress.on_models]
        for field, model in [("model", self.model), *(("compress.methods", each) for each in students if each)]:
            if model.kind not in fitting:
                rule = f"reads snapshots of kind {' or '.join(model.reads)}"
                remedy = f"use one of {', '.join(fitting)} with snapshot.kind {self.snapshot.kind}"
                raise Conflict(f"{field}.kind", model.kind, rule, remedy)
            if isinstance(self.snapshot, ImageSnapshot):
                try:
                    model.fit_image(self.snapshot.height, self.snapshot.width)
                except Conflict as misfit:
                    raise Conflict(f"{field}.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
        return self

    @model_validator(mode="after")
    def something_can_be_chosen(self) -> Config:
        want = self.compress.want
        if want is not None and not self.compress.compresses and "litert" not in self.export.formats:
            limits = ", ".join(f"{name} {value:,}" for name, value in want if value is not None)
            rule = f"chooses among LiteRT files, and export.formats {', '.join(self.export.formats)} has none"
            remedy = "add a method to compress.methods, or litert to export.formats"
            raise Conflict("compress.want", limits, rule, remedy)
        return self

    @model_validator(mode="after")
    def trials_are_configs(self) -> Config:
        if self.tune is not None:
            from tasks.config.tuned import check_space

            check_space(self)
            self.tune.fit_steps(self.train.steps)
        return self
