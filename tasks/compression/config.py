"""Compressed variants and their gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from tasks.compression.methods.method import Chain, Method
from tasks.config.base import LISTED, NOT_IDENTITY, Bytes, Conflict, Section
from tasks.config.kinds import any_of
from tasks.config.task import TASKS
from tasks.evaluation.gating import CompressGate, FloatGate, fit_gates
from tasks.training.config import TrainConfig


def names() -> list[str]:
    """Return the names of all methods; of those that change the file those that need no examples first."""
    kinds = Method.kinds()
    return sorted(kinds, key=lambda kind: (not kinds[kind].on_file, "examples" in kinds[kind].model_fields))


if TYPE_CHECKING:  # a type checker knows no types that are computed
    MethodConfig = Method
    MethodName = str
else:
    MethodConfig = any_of(Method.kinds().values())
    MethodName = Literal[tuple(names())]

Methods = tuple[
    MethodName | MethodConfig | Annotated[tuple[MethodName | MethodConfig, ...], LISTED, Field(min_length=1)], ...
]
"""The entries of `compress.methods`."""

_ADAPTER: TypeAdapter[Method] = TypeAdapter(MethodConfig)


def settings_needed(kind: str) -> list[str]:
    """Return the settings without which there is no method of a kind."""
    return [name for name, field in Method.kinds()[kind].model_fields.items() if field.is_required()]


def chain_of(entry: MethodName | MethodConfig | tuple[MethodName | MethodConfig, ...]) -> Chain:
    """Return the methods of an entry of `compress.methods`."""
    entries: tuple[Any, ...] = entry if isinstance(entry, tuple) else (entry,)
    return Chain(_ADAPTER.validate_python({"kind": each}) if isinstance(each, str) else each for each in entries)


class WantConfig(Section):
    """The limits of the variant that is chosen: of those that meet all of them, and that no other one dominates, the
    smallest. Each limit is optional."""

    bytes: Bytes | None = None
    """Largest size of the file, as a number of bytes or as `2MB`, `500kB`."""

    latency: Annotated[float, Field(gt=0)] | None = None
    """Longest time of a call, as a share of the float LiteRT file's, on one thread, at the slower
    batch size."""

    quality_loss: Annotated[float, Field(ge=0)] | None = None
    """Largest loss of the primary metric against the float model that was observed on the test split."""

    @model_validator(mode="after")
    def something_is_wanted(self) -> WantConfig:
        if self.bytes is None and self.latency is None and self.quality_loss is None:
            raise ValueError("wants nothing; give bytes, latency or quality_loss, or leave it out")
        return self


class SearchConfig(Section):
    """A search for methods, by Optuna, in which nothing is trained: pruning or clustering, a method that quantises, and
    for `int8_selective` how many layers stay float. What is on the front of size and loss on the validation split is
    added to `methods`."""

    trials: Annotated[int, Field(ge=1, le=1000)]
    """Variants that are tried, at most; another run begins with the same."""

    minutes: Annotated[float, Field(gt=0)] | None = None
    """Minutes after which no trial begins. The result then depends on the machine's speed, and cannot be repeated."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Decides the order in which methods are tried."""


class CompressConfig(Section):
    """Methods add compressed LiteRT files to the float forms of `export.formats`. The float LiteRT file, with which
    they are compared, is made for them where it is not listed."""

    methods: Annotated[Methods, LISTED, NOT_IDENTITY] = ("int8_dynamic",)
    """Each entry makes a variant: the name of a method, a method with its settings (`{kind: int4_dynamic, block: 32}`),
    or a list of methods that are applied in that order (`[prune, int8_dynamic]`)."""

    gates: Annotated[tuple[CompressGate, ...], LISTED, NOT_IDENTITY] = (FloatGate(metric="bytes"), FloatGate())
    """What a compressed file must meet to be exported. A list replaces the default: the size that its methods promise,
    and the loss of quality that the task accepts."""

    undecided: Annotated[Literal["keep_if_few", "keep", "reject"], NOT_IDENTITY] = "keep_if_few"
    """Whether a variant of which a gate says "not enough data" is exported, and marked, or rejected. `keep_if_few`: it
    is exported where the test split is so small that even the best variant could not have passed."""

    max_difference: Annotated[float, Field(gt=0, le=1)] = 1e-4
    """Largest accepted difference between a float form's outputs and Keras', as a share of the largest output on the
    test split (or of 1, if that is smaller): there, on inputs drawn like its examples, and in a fresh process on the
    golden inputs of the export."""

    search: Annotated[SearchConfig | None, NOT_IDENTITY] = None
    """Which further methods are tried; default: none."""

    want: Annotated[WantConfig | None, NOT_IDENTITY] = None
    """What the variant that the run chooses must meet; without it none is chosen."""

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The methods of each entry, in their order."""
        return tuple(chain_of(entry) for entry in self.methods)

    @property
    def by_name(self) -> dict[str, Chain]:
        """The methods of each entry, and their beginnings, by the name of the variant or model that they make."""
        return {part.name: part for chain in self.chains for part in chain.parts}

    def max_quality_loss(self, primary: str) -> float | None:
        """Return the largest loss of the primary metric that its gates accept; None for the default of the task."""
        of_quality = (None, primary)
        limits = [gate.max_loss for gate in self.gates if gate.kind == "float" and gate.metric in of_quality]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def on_models(self) -> tuple[Method, ...]:
        """The methods of all entries that change the model."""
        return tuple(method for chain in self.chains for method in chain.on_model)

    def taught_by(self, digest_of: Callable[[str], str]) -> CompressConfig:
        """Return the same with digests in place of registered teachers, NAME@ALIAS."""

        def pinned(method: Method) -> Method:
            registered = "@" in (method.teacher_model or "")
            return method.with_teacher(digest_of(method.teacher_model or "")) if registered else method

        if not any("@" in (method.teacher_model or "") for method in self.on_models):
            return self
        return self.model_copy(update={"methods": tuple(tuple(map(pinned, chain)) for chain in self.chains)})

    @property
    def compresses(self) -> bool:
        """Whether there is a compressed file."""
        return bool(self.methods) or self.search is not None

    def fit(self, train: TrainConfig, task: str, sliced: bool) -> None:
        """Raise `Conflict` for a gate that judges nothing of the task, and where a method trains, and the section
        `train` or the task does not fit it; `sliced`: whether the report has slices."""
        try:
            fit_gates(self.gates, task, sliced)
        except Conflict as misfit:
            raise Conflict(f"compress.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
        field = "compress.methods"
        several = TASKS[task].generates
        if several and (one := next((m for chain in self.chains for m in chain if m.one_signature), None)):
            rule = f"{one.kind} looks at one signature of a file, and that of a language model has three"
            raise Conflict(field, one.kind, rule, "use int8_dynamic, int4_dynamic or qat")
        for method in (method for method in self.on_models if method.training is not None):
            if train.strategy.asynchronous:
                rule = f"trains a whole model in each process, and {train.strategy.kind} has none"
                raise Conflict(field, method.kind, rule, "choose another train.strategy, or leave it out")
            if method.adds_loss and not train.strategy.adds_losses:
                rule = f"has a loss besides that of the outputs, which {train.strategy.kind} does not compute"
                raise Conflict(field, method.kind, rule, "choose another train.strategy, or leave it out")
            if method.adds_loss and train.remat:
                rule = "has a loss besides that of the outputs, which train.remat does not compute"
                raise Conflict(field, method.kind, rule, "set train.remat to false, or leave it out")
            if (student := method.student_model) is not None:
                if student.task != task:
                    rule = f"the student of {method.kind} has another task than the model, {task}"
                    raise Conflict(field, student.task, rule, f"set the student's task to {task}")
                student.fit_training(train.strategy, train.remat)

    @model_validator(mode="after")
    def gates_judge_something(self) -> CompressConfig:
        fields = type(self).model_fields
        if not self.compresses and self.gates and self.gates != fields["gates"].default:
            gates = ", ".join(gate.kind for gate in self.gates)
            rule = "judge compressed files, and without methods or search there are none"
            raise Conflict("gates", gates, rule, "leave them out, or add a method to compress.methods")
        if not (self.compresses and self.gates) and self.undecided != fields["undecided"].default:
            rule = "is of compressed files that gates judge, and there are none"
            raise Conflict("undecided", self.undecided, rule, "leave it out, or add a method and a gate")
        return self

    @model_validator(mode="after")
    def names_need_no_settings(self) -> CompressConfig:
        for name in (each for entry in self.methods for each in (entry if isinstance(entry, tuple) else (entry,))):
            if isinstance(name, str) and (needed := settings_needed(name)):
                rule = f"is a name alone, and needs {' and '.join(needed)}"
                raise Conflict("methods", name, rule, f"write {{kind: {name}, {needed[0]}: ...}}")
        return self

    @model_validator(mode="after")
    def chains_can_be_applied(self) -> CompressConfig:
        for chain in self.chains:
            for number, method in enumerate(chain, start=1):
                method.check_behind(chain[number:])
        for name, count in Counter(chain.name for chain in self.chains).items():
            if count > 1:
                rule = f"make {count} variants called {name}"
                raise Conflict("methods", name, rule, "leave all but one out")
        return self

    @model_validator(mode="after")
    def a_name_has_one_meaning(self) -> CompressConfig:
        known = self.by_name
        for part in (part for chain in self.chains for part in chain.parts):
            if part != (other := known[part.name]):
                fields = [field for one, two in zip(other, part, strict=True) for field in one.differing(two)]
                rule = f"names the models of two entries, whose settings differ: {', '.join(fields)}"
                remedy = "give both the same settings, or leave one out; of distill set name"
                raise Conflict("methods", part.name, rule, remedy)
        return self
