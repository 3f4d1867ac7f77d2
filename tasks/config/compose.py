"""The whole config, composed of the sections: this page is the product's table of contents.

It is loaded from a preset and flags, or is that of a trial: the config of the tuning with other values of some keys.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from tasks.compression.config import CompressConfig
from tasks.config.base import NOT_IDENTITY, Conflict, IsPath, Name, Section, identity
from tasks.config.flags import apply_flags, put
from tasks.config.notify import NotifyConfig
from tasks.config.paths import add_folders, change_paths, change_searched, has_own_code, located, relative
from tasks.config.refusals import explain, quoted
from tasks.config.task import TASKS
from tasks.config.yaml_values import read_yaml
from tasks.errors import Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gating import PromoteConfig, ReleaseConfig
from tasks.exporting.config import ExportConfig
from tasks.models import ModelConfig, default_model, models_for
from tasks.processes.config import ResourcesConfig
from tasks.records.config import RecordsConfig
from tasks.search.config import TuneConfig, Values
from tasks.snapshots.config import SNAPSHOTS, ImageSnapshot, SnapshotConfig, TableSnapshot
from tasks.sources.kinds import SourceConfig
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.sources.kinds.columns import ColumnsSource
from tasks.training.config import TrainConfig
from tasks.training.initial import ChampionInit

FORMAT = 1
"""Of presets; one may say `format: 1`."""

SEARCHED = ("model", "train")
"""The sections after the snapshot, of which all trials are made."""

FIXED = {
    "model.task": "trials of different tasks cannot be compared",
    "train.seeds": "a trial is one training, of one seed",
}
"""Keys that are no part of a search, each with the reason."""

STARTS = ("train", "train.init", "train.init.kind")
"""Keys whose values may name another start of the training."""


class Config(Section):
    """A whole pipeline: data, stages and gates."""

    form_first: ClassVar[tuple[str, ...]] = ("name", "seed", "train", "model", "evaluate", "compress", "promote")

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
    def outputs_can_be_trained(self) -> Config:
        source, losses = self.source, ", ".join(self.train.losses)
        columns = source.columns if isinstance(source, ColumnsSource) else {}
        outputs, main = ((), ()) if not isinstance(source, ColumnsSource) else (source.outputs, source.predicted)
        try:
            self.train.fit_outputs(columns, outputs, main)
        except Conflict as misfit:
            raise Conflict(f"train.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
        if not losses:
            return self
        if not isinstance(self.snapshot, TableSnapshot):
            rule = f"are of columns, which a snapshot of kind {self.snapshot.kind} does not have"
            raise Conflict("train.losses", losses, rule, "use snapshot.kind table, which reads images and texts too")
        if TASKS[self.model.task].of_tokens:
            rule = f"has an answer for an example, and {self.model.task} one for each token"
            raise Conflict("train.losses", losses, rule, "leave it out, or use another model.task")
        if changing := [*(method.kind for method in self.compress.on_models), *["search"] * bool(self.compress.search)]:
            rule = "makes another model with the main output alone, and train.losses has further ones"
            raise Conflict("compress", changing[0], rule, "use methods that change the file, such as int8_dynamic")
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
            check_space(self)
            self.tune.fit_steps(self.train.steps)
        return self


def load(
    preset: Path | None, flags: Iterable[tuple[str, str]] = (), say: Callable[[str], None] = lambda line: None
) -> Config:
    """Load a config: flags (`("train.steps", "200")`) override the preset, it the defaults; raises `Refused`."""
    values: dict[str, Any] = {}
    if preset is not None:
        values = read_preset(preset)
        resolve(values, preset.parent)
    apply_flags(values, flags, Config, say)
    resolve(values, Path.cwd())
    code = Path.cwd() if preset is None else preset.parent
    add_folders(values, [Config], code)
    change_searched(values, lambda whole: add_folders(whole, [Config], code))
    return validate(values)


def resolve(values: dict[str, Any], folder: Path) -> None:
    """Make relative paths absolute, in place; also those among the choices of `tune.space`."""
    _change_paths(values, partial(located, folder=folder))


def portable(config: Config, folder: Path) -> dict[str, Any]:
    """Return the values of a config as JSON, with paths in a folder relative to it."""
    values: dict[str, Any] = config.model_dump(mode="json")
    _change_paths(values, partial(relative, folder=folder))
    return values


def in_folder(config: Config, folder: Path) -> Config:
    """Return a config whose relative paths are in a folder."""
    values: dict[str, Any] = config.model_dump(mode="json")
    resolve(values, folder)
    return validate(values)


def _change_paths(values: dict[str, Any], change: Callable[[str], str]) -> None:
    change_paths(values, [Config], change)
    change_searched(values, lambda whole: change_paths(whole, [Config], change))


def read_preset(preset: Path) -> dict[str, Any]:
    """Return the mapping in a preset file."""
    if not preset.is_file():
        presets = {*Path("flows/presets").glob("*.yaml"), *Path().glob("*.yaml")} - {Path("prefect.yaml")}
        known = ", ".join(sorted(path.as_posix() for path in presets))
        saw = "a folder" if preset.is_dir() else "no such file"
        others = known and f", or take one of {known}"
        raise Refused(str(preset), saw, "a preset is a YAML file", f"correct the path{others}")
    try:
        values = read_yaml(preset.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        saw = " ".join(str(error).replace('in "<unicode string>", ', "").split())
        raise Refused(str(preset), saw, "a preset is a YAML file", "fix that line") from None
    if not isinstance(values, dict):
        saw = "nothing" if values is None else f"a {type(values).__name__}"
        raise Refused(str(preset), saw, "a preset is a mapping of sections", "see docs/reference.md")
    made_for = values.pop("format", FORMAT)
    if made_for != FORMAT:
        rule = f"this Millrace reads presets of format {FORMAT}"
        raise Refused(
            f"{preset}: format", quoted(made_for), rule, "use the Millrace that it was made for, or write a new one"
        )
    return values


def validate(values: dict[str, Any]) -> Config:
    """Return the config of these values; the first invalid one is refused with its field, the rule and a remedy."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise explain(error, Config) from None


def with_values(config: Config, values: Values) -> Config:
    """Return the config with these values and without `tune`; a new `kind` drops the fields that it does not have.

    Raises:
        Refused: it is not valid.
    """
    raw: dict[str, Any] = config.model_dump(mode="json", exclude={"tune"})
    for key in sorted(values, key=lambda key: (key.count("."), not key.endswith(".kind"))):
        put(raw, key.split("."), copy.deepcopy(values[key]), Config, set(values), lambda line: None)
    if isinstance(train := raw["train"], dict) and not has_own_code([train.get("loss"), train.get("losses")]):
        train["folder"] = None  # it is that of another trial's loss
    return validate(raw)


def searched(config: Config) -> list[Config]:
    """Return the config with each of the choices of `tune.space`, and with the ends of each range."""
    assert config.tune is not None
    return [with_values(config, {key: value}) for key, space in config.tune.space.items() for value in space.examples]


def check_space(config: Config) -> None:
    """Raise `Conflict` where a key of `tune.space` is none that can be searched, or does not take one of its values."""
    assert config.tune is not None
    for key, space in config.tune.space.items():
        field = f"tune.space.{key}"
        section = key.partition(".")[0]
        if section not in SEARCHED and section in Config.model_fields:
            rule = "all trials are made of one snapshot, so that only model and train are searched"
            raise Conflict(field, key, rule, "run the flow once for each value, or leave it out")
        if key in FIXED:
            raise Conflict(field, key, FIXED[key], "leave it out")
        changed = [_with_value(config, field, key, value) for value in space.examples]
        if key in STARTS and any(isinstance(each.train.init, ChampionInit) for each in changed):
            rule = "the champion is looked up once, when a run begins, and not for each of its trials"
            raise Conflict(field, "champion", rule, "name its model by digest: {kind: model, model: DIGEST}")
        if missing := next(
            (each.train.own_losses[0][1] for each in changed if each.train.own_losses and not each.train.folder), None
        ):
            rule = "is looked for in train.folder, which is the preset's where its own train.loss is one of yours"
            raise Conflict(field, missing, rule, "set train.loss to one of them")
        decided = [_deciding(each) for each in changed]
        if decided.count(decided[0]) == len(decided) > 1:
            rule = "changes no model by itself, only how, where or how fast it is trained"
            raise Conflict(field, key, rule, "leave it out")


def _with_value(config: Config, field: str, key: str, value: Any) -> Config:
    """Return the config with a value; raise `Conflict` where it is not valid."""
    try:
        return with_values(config, {key: value})
    except Refused as refused:
        where = field if refused.field == key else f"{field} ({quoted(value)}), {refused.field}"
        raise Conflict(where, refused.saw, refused.rule, refused.remedy) from None


def _deciding(config: Config) -> Any:
    """Return what of a config decides the model; of files and of a model in the store their names."""
    model, train, init = config.model, config.train, config.train.init
    paths = [_paths(section) for section in (model, train, init)]
    return identity(model), identity(train), paths, None if init is None else init.artifact


def _paths(section: BaseModel | None) -> list[Any]:
    """Return the values of a section that are paths."""
    fields = {} if section is None else type(section).model_fields
    return [
        getattr(section, name) for name, field in fields.items() if any(isinstance(m, IsPath) for m in field.metadata)
    ]
