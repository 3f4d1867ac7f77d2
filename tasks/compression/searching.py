"""The search for methods of compression: what is tried, in which order, and what of it is on the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tasks.compression.front import Point, dominated_by
from tasks.config.compress import CompressConfig
from tasks.config.methods import Chain
from tasks.config.task import TASKS

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


SEARCH_VERSION = 1
"""Incremented when the same settings would try other methods."""

NONE = "none"
ON_MODEL: dict[str, Any] = {
    NONE: (),
    "prune_30": ({"kind": "prune", "share": 0.3},),
    "prune_2of4": ({"kind": "prune", "pattern": "2:4"},),
    "cluster_64": ({"kind": "cluster", "clusters": 64},),
    "cluster_16": ({"kind": "cluster", "clusters": 16},),
}
"""What is done to the model, by name; nothing that trains."""

ON_FILE: dict[str, Any] = {
    "float16": "float16",
    "int8_dynamic": "int8_dynamic",
    "int8_weight_only": "int8_weight_only",
    "int8_static": "int8_static",
    "int4_dynamic": "int4_dynamic",
    "int4_dynamic_32": {"kind": "int4_dynamic", "block": 32},
    "int4_weight_only": "int4_weight_only",
    "gptq": "gptq",
}
"""What is done to the file, by name; `int8_selective` with several limits comes on top."""

STARTUP = 8
"""Trials with random values before those of the best trials count."""


@dataclass(frozen=True)
class Trial:
    """Methods that were tried."""

    number: int
    values: dict[str, str]
    name: str
    """Of the variant."""
    bytes: int | None = None
    loss: float | None = None
    """Of the primary metric against the float model on the validation split."""
    reason: str = ""
    """Why there is no variant; empty where there is one."""

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


@dataclass(frozen=True)
class Space:
    """What is done to the model and to the file, by name."""

    model: Mapping[str, Chain]
    file: Mapping[str, Chain]
    listed: Mapping[str, Chain]
    """What `compress.methods` makes, by the name of the variant or model."""

    def chain(self, values: Mapping[str, str]) -> Chain:
        """Return the methods of a trial: those of `compress.methods` where it has some of the same name."""
        on_model = self.model[values["model"]]
        methods = Chain((*self.listed.get(on_model.name, on_model), *self.file[values["file"]]))
        return self.listed.get(methods.name, methods)

    @property
    def chains(self) -> list[Chain]:
        """All that can be tried."""
        return [self.chain({"model": on_model, "file": on_file}) for on_model in self.model for on_file in self.file]


def space(task: str, config: CompressConfig, primary: str) -> Space:
    """Return what a search tries; with smaller limits `int8_selective` leaves more layers float."""
    limit = config.max_quality_loss(primary)
    if limit is None and not TASKS[task].in_target_units:
        limit = TASKS[task].default_quality_loss
    losses = [0.0] if limit is None else [0.0, limit / 4]
    selective: dict[str, Any] = {"int8_selective": "int8_selective"}
    selective |= {f"int8_selective_{loss:g}": {"kind": "int8_selective", "max_loss": loss} for loss in losses}
    on_file = _chains({**ON_FILE, **selective})
    if TASKS[task].generates:
        on_file = {name: chain for name, chain in on_file.items() if not any(method.one_signature for method in chain)}
    return Space(_chains(ON_MODEL), on_file, config.by_name)


def _chains(entries: Mapping[str, Any]) -> dict[str, Chain]:
    """Return the methods of entries of `compress.methods`; none of an empty one."""
    methods = CompressConfig.model_validate({"methods": [entry for entry in entries.values() if entry]}).chains
    found = iter(methods)
    return {name: next(found) if entry else Chain() for name, entry in entries.items()}


def ask(trials: Sequence[Trial], of: Space, seed: int) -> dict[str, str]:
    """Return the values of the next trial: a function of the seed and of the trials before it.

    By a tree-structured Parzen estimator of two objectives (Ozaki et al., GECCO 2020), bytes and loss.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions: dict[str, Any] = {
        key: optuna.distributions.CategoricalDistribution(list(names))
        for key, names in (("file", of.file), ("model", of.model))
    }
    sampler = optuna.samplers.TPESampler(seed=seed + len(trials), n_startup_trials=STARTUP)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    study.add_trials([_frozen(trial, distributions) for trial in trials])
    values: dict[str, str] = study.ask(distributions).params
    return values


def _frozen(trial: Trial, distributions: dict[str, Any]) -> FrozenTrial:
    import optuna

    state = optuna.trial.TrialState.COMPLETE if trial.bytes is not None else optuna.trial.TrialState.FAIL
    values = None if trial.bytes is None or trial.loss is None else [float(trial.bytes), trial.loss]
    return optuna.trial.create_trial(state=state, params=trial.values, distributions=distributions, values=values)


def on_front(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials whose variants no other one dominates, each variant once, the smallest first."""
    made = {trial.name: trial for trial in trials if trial.bytes is not None and trial.loss is not None}
    points = [Point(name, trial.bytes or 0, trial.loss or 0.0, None) for name, trial in made.items()]
    dominated = dominated_by(points)
    return sorted((made[name] for name in made if dominated[name] is None), key=lambda trial: trial.bytes or 0)
