"""The search for methods of compression: what is tried, in which order, and what of it is on the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tasks.compression.config import CompressConfig
from tasks.compression.judgement import FrontEntry, dominated_by
from tasks.compression.methods.method import Chain, Method
from tasks.config.task import TASKS

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


SEARCH_VERSION = 1
"""Incremented when the same settings would try other methods."""

NONE = "none"
"""The choice to change no weights of the model."""

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
    """Return what a search tries: what each method says, those that read the limit of the gate last."""
    limit = config.max_quality_loss(primary)
    if limit is None and not TASKS[task].in_target_units:
        limit = TASKS[task].default_quality_loss
    kinds = sorted(Method.kinds().values(), key=lambda kind: kind.reads_limit)
    if TASKS[task].generates:
        kinds = [kind for kind in kinds if not kind.one_signature]
    on_model: dict[str, Chain] = {NONE: Chain()}
    on_file: dict[str, Chain] = {}
    for kind in kinds:
        tried = {name: Chain([method]) for name, method in kind.tried(limit).items()}
        (on_file if kind.on_file else on_model).update(tried)
    return Space(on_model, on_file, config.by_name)


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
    points = [FrontEntry(name, trial.bytes or 0, trial.loss or 0.0, None) for name, trial in made.items()]
    dominated = dominated_by(points)
    return sorted((made[name] for name in made if dominated[name] is None), key=lambda trial: trial.bytes or 0)
