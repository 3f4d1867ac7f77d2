"""Identities: what decides the result of each stage, from which the artifact's digest is computed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifacts import Artifact, Model, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.methods.method import Chain, Method
from tasks.config.base import identity
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.exporting.config import ExportConfig
from tasks.models import ModelConfig
from tasks.records.config import RecordsConfig
from tasks.search.config import TuneConfig
from tasks.snapshots.config import SnapshotConfig
from tasks.sources.kinds import SourceConfig
from tasks.training.config import TrainConfig

if TYPE_CHECKING:
    from tasks.compression.forms import Form
    from tasks.compression.search import Space

installed = functools.cache(version)
"""Returns the installed version of a package."""


@dataclass(frozen=True)
class Code:
    """The version of a stage's code, and the packages that decide its bytes."""

    version: int
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Identity:
    """Everything that decides a stage's result."""

    config: Any
    parents: dict[str, Artifact]
    code: Code
    sources: Callable[[], Sequence[tuple[str, str]]] = tuple
    """Returns the current (key, content hash) of every raw example or file."""

    def inputs(self, kind: type[Artifact]) -> dict[str, Any]:
        """Return the inputs of the digest."""
        libraries = {name: installed(name) for name in sorted(self.code.libraries)}
        return {
            "kind": kind.kind,
            "format": kind.format,
            "config": identity(self.config),
            "parents": {name: parent.digest for name, parent in sorted(self.parents.items())},
            "sources": self._listed(),
            "code": {"version": self.code.version, "libraries": libraries},
        }

    def check_sources(self, inputs: dict[str, Any]) -> None:
        """Raise `Failed` where a source has changed since the inputs were computed."""
        if self._listed() != inputs["sources"]:
            raise Failed("source", "it changed during the run", "a source must not change during a run", "run again")

    def _listed(self) -> list[list[str]]:
        return [list(source) for source in self.sources()]


def records(source: SourceConfig, config: RecordsConfig, memory: Path) -> Identity:
    """Return the identity of records: source content, reading and splits; `memory` caches file hashes."""
    from tasks.records import RECORDS_LIBRARIES, RECORDS_VERSION

    def listed() -> list[tuple[str, str]]:
        files = source.open(memory).fingerprint()
        if config.schema_file is None:
            return files
        from tasks.records.rules import schema_file

        return [*files, schema_file(Path(config.schema_file))]

    sections: dict[str, Any] = {"source": source, "records": config}
    code = Code(RECORDS_VERSION, RECORDS_LIBRARIES)
    if config.near_duplicates is not None:
        from tasks.records.near import NEAR_LIBRARIES, NEAR_VERSION

        sections["near_duplicates"] = {"version": NEAR_VERSION}
        code = Code(RECORDS_VERSION, RECORDS_LIBRARIES + NEAR_LIBRARIES)
    return Identity(sections, {}, code, sources=listed)


def snapshot(made_from: Artifact, config: SnapshotConfig) -> Identity:
    """Return the identity of a snapshot: the records, the config, and the user's own code in it."""
    code = Code(config.version, config.libraries)
    return Identity({"snapshot": config}, {"records": made_from}, code, sources=config.own_files)


def model(
    examples: Artifact,
    config: ModelConfig,
    train: TrainConfig,
    seed: int,
    base: Artifact | None = None,
    start: Artifact | None = None,
    evaluate: EvaluateConfig | None = None,
) -> Identity:
    """Return the identity of a model: the examples, the training's config without its layout over devices, the metric
    that its evaluations decide by, and what it continues (`base`) or begins with (`start`)."""
    from tasks.training import MODEL_VERSION, libraries_of
    from tasks.training.starting import init_files, loss_files

    others = {"base": base, "init": start}
    parents = {"snapshot": examples, **{role: other for role, other in others.items() if other is not None}}
    sections: dict[str, Any] = {"model": config, "train": train, "seed": seed}
    own_metrics: list[tuple[str, str]] = []
    if train.by_primary and evaluate is not None and (judged := _decided_by(evaluate)):
        sections["evaluate"] = judged
        own_metrics = _own_metric_files(evaluate)
    code = Code(MODEL_VERSION, libraries_of(train))

    def sources() -> list[tuple[str, str]]:
        return [*config.source_files(), *init_files(train.init), *loss_files(train), *own_metrics]

    return Identity(sections, parents, code, sources=sources)


def choice(
    trained: Mapping[str, Artifact],
    examples: Artifact,
    config: ModelConfig,
    train: TrainConfig,
    seed: int,
    evaluate: EvaluateConfig,
) -> Identity:
    """Return the identity of the model that is chosen among those of several seeds, by the names of their trainings."""
    from tasks.training import MODEL_VERSION
    from tasks.training.seeds import CHOICE_LIBRARIES, CHOICE_VERSION

    sections = {"model": config, "train": train, "seed": seed, "choice": {"version": CHOICE_VERSION}}
    sections["evaluate"] = _judged_by(evaluate)
    code = Code(MODEL_VERSION, CHOICE_LIBRARIES)
    parents = {"snapshot": examples, **trained}
    return Identity(sections, parents, code, sources=lambda: _own_metric_files(evaluate))


def study(
    examples: Artifact,
    config: ModelConfig,
    train: TrainConfig,
    seed: int,
    tune: TuneConfig,
    base: Artifact | None = None,
    start: Artifact | None = None,
    searched: Sequence[tuple[ModelConfig, TrainConfig]] = (),
    evaluate: EvaluateConfig | None = None,
) -> dict[str, Any]:
    """Return what decides the trials of a study, one at a time: what all trainings have in common, as of a `model`, the
    search with the files that its choices name (`searched`), and where evaluations are."""
    from tasks.search import STUDY_LIBRARIES, STUDY_VERSION

    libraries = {name: installed(name) for name in STUDY_LIBRARIES}
    return {
        "kind": "study",
        "model": model(examples, config, train, seed, base, start, evaluate).inputs(Model),
        "tune": identity(tune),
        **({"decided_by": judged} if evaluate is not None and (judged := _decided_by(evaluate)) else {}),
        "sources": sorted({source for each in searched for source in model(examples, *each, seed).sources()}),
        "evaluate_every": train.evaluate_every,
        "code": {"version": STUDY_VERSION, "libraries": libraries},
    }


def report(trained: Artifact, examples: Artifact, config: EvaluateConfig) -> Identity:
    """Return the identity of a report: the model, the examples and the evaluation's config."""
    from tasks.evaluation import REPORT_LIBRARIES, REPORT_VERSION

    parents = {"model": trained, "snapshot": examples}
    code = Code(REPORT_VERSION, REPORT_LIBRARIES)
    return Identity({"evaluate": config}, parents, code, sources=config.source_files)


def changed(model: Artifact, examples: Artifact, method: Method) -> Identity:
    """Return the identity of a model that a method has changed: the model before, and the method."""
    from tasks.compression import MODEL_LIBRARIES

    code = Code(method.version, MODEL_LIBRARIES + method.libraries)
    return Identity({"method": method}, {"changed": model, "snapshot": examples}, code)


def prepared(model: Artifact, examples: Artifact, method: Method, seed: int) -> Identity:
    """Return the identity of a model that a method will train: the model before, the method, and the seed of what is
    new in it."""
    from tasks.compression import MODEL_LIBRARIES

    code = Code(method.version, MODEL_LIBRARIES + method.libraries)
    return Identity({"prepared": method, "seed": seed}, {"changed": model, "snapshot": examples}, code)


def retrained(
    prepared: Artifact, examples: Artifact, train: TrainConfig, seed: int, teacher: Artifact | None = None
) -> Identity:
    """Return the identity of a model that a method has trained: the prepared one, which has architecture and method,
    and the model that it learns from."""
    from tasks.training import MODEL_VERSION, libraries_of
    from tasks.training.starting import loss_files

    parents = {"prepared": prepared, "snapshot": examples, **({} if teacher is None else {"teacher": teacher})}
    code = Code(MODEL_VERSION, libraries_of(train))
    return Identity({"train": train, "seed": seed}, parents, code, sources=lambda: loss_files(train))


def variant(
    form: Form,
    trained: Artifact,
    examples: Artifact,
    made_from: Artifact | None,
    reference: Artifact | None,
    task: str,
    config: CompressConfig,
    evaluate: EvaluateConfig,
) -> Identity:
    """Return the identity of a variant: form and methods, model, float parents, the limits that methods read, and the
    evaluation's config."""
    from tasks.compression import VARIANT_VERSION
    from tasks.compression.forms import libraries_of

    parents = {"model": trained, "snapshot": examples}
    if made_from is not None:
        parents["made_from"] = made_from
    if reference is not None:
        parents["float"] = reference
    made_by = {"format": form.format, "methods": list(form.methods), "versions": form.methods.versions}
    limits: dict[str, Any] = {"max_difference": config.max_difference}
    if any(method.reads_limit for method in form.methods):
        limits["max_quality_loss"] = config.max_quality_loss(evaluate.primary_of(task)[0])
    sections = {"variant": form.name, "form": made_by, "compress": limits, "evaluate": _judged_by(evaluate)}
    code = Code(VARIANT_VERSION, libraries_of(form.name) + form.methods.libraries)
    return Identity(sections, parents, code, sources=lambda: _own_metric_files(evaluate))


def _judged_by(evaluate: EvaluateConfig) -> dict[str, Any]:
    """Return what of the evaluation's config decides what variants are judged by."""
    names = {"bins", "at", "primary", "positive"}
    if evaluate.threshold is not None:  # which is fitted to calibrated probabilities
        names |= {"threshold", "calibrate"}
    if evaluate.primary in evaluate.own_metrics:
        names |= {"own_metrics", "lower_is_better"}
    return evaluate.model_dump(mode="json", include=names - evaluate.later())


def _decided_by(evaluate: EvaluateConfig) -> dict[str, Any]:
    """Return what of the evaluation's config decides by which metric evaluations of a training decide; empty where that
    is the default one of the task."""
    return {
        name: value for name, value in _judged_by(evaluate).items() if name not in ("bins", "threshold", "calibrate")
    }


def _own_metric_files(evaluate: EvaluateConfig) -> list[tuple[str, str]]:
    """Return the files of own metrics where one of them decides."""
    return evaluate.source_files() if evaluate.primary in evaluate.own_metrics else []


def search(
    model: Artifact, report: Artifact, space: Space, task: str, config: CompressConfig, evaluate: EvaluateConfig
) -> dict[str, Any]:
    """Return what decides the trials of a search for methods, besides its seed."""
    from tasks.compression import MODEL_LIBRARIES, VARIANT_VERSION
    from tasks.compression.forms import libraries_of
    from tasks.compression.search import SEARCH_VERSION

    tried = {chain.name: chain for chain in space.chains}
    of_all = Chain(method for chain in tried.values() for method in chain)
    libraries = {*MODEL_LIBRARIES, *(library for name in tried for library in libraries_of(name)), "optuna"}
    libraries |= set(of_all.libraries)
    return {
        "model": model.digest,
        "report": report.digest,
        "methods": {name: identity(chain) for name, chain in tried.items()},
        "versions": of_all.versions,
        "limits": [config.max_quality_loss(evaluate.primary_of(task)[0]), config.max_difference],
        "evaluate": _judged_by(evaluate),
        "code": [SEARCH_VERSION, VARIANT_VERSION],
        "libraries": {name: installed(name) for name in sorted(libraries)},
    }


def judgement(
    variants: Sequence[Artifact], report: Artifact, config: CompressConfig, evaluate: EvaluateConfig
) -> dict[str, Any]:
    """Return what decides the judgement of variants, besides what was measured of them."""
    from tasks.evaluation import GATING_VERSION

    return {
        "variants": {variant.name: variant.digest for variant in variants},
        "report": report.digest,
        "compress": config.model_dump(mode="json"),
        "evaluate": _judged_by(evaluate),
        "code": GATING_VERSION,
    }


def export(
    trained: Artifact,
    examples: Artifact,
    variants: Sequence[Variant],
    config: ExportConfig,
    fitted: Artifact | None = None,
) -> Identity:
    """Return the identity of an export: the accepted variants, what the README says of them, the config, and the report
    where its temperature or thresholds are part of the export."""
    from tasks.compression.forms import libraries_of
    from tasks.exporting import EXPORT_LIBRARIES, EXPORT_VERSION

    parents = {"model": trained, "snapshot": examples, **{variant.name: variant for variant in variants}}
    if fitted is not None:
        parents["report"] = fitted
    libraries = {*EXPORT_LIBRARIES, *(package for variant in variants for package in libraries_of(variant.name))}
    chosen = [variant.name for variant in variants if variant.chosen]
    notes = {variant.name: variant.note for variant in variants if variant.note}
    judged = {**({"chosen": chosen} if chosen else {}), **({"notes": notes} if notes else {})}
    return Identity({"export": config, **judged}, parents, Code(EXPORT_VERSION, tuple(libraries)))
