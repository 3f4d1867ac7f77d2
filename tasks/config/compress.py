"""Compressed variants and their gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, Conflict, Section
from tasks.config.method import Method
from tasks.config.methods import Chain, Methods, chain_of, settings_needed
from tasks.config.train import TrainConfig


class CompressConfig(Section):
    """The float SavedModel and the float LiteRT file are always made; methods add to them."""

    methods: Annotated[Methods, LISTED, NOT_IDENTITY] = ("int8_dynamic",)
    """Each entry makes a variant: the name of a method, a method with its settings (`{kind: int4_dynamic, block: 32}`),
    or a list of methods that are applied in that order (`[prune, int8_dynamic]`)."""

    max_size_ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    """Largest accepted size of a compressed file, as a share of the float LiteRT file. Default: that of the methods, as
    0.35 of `int8_dynamic`; of several methods the product."""

    max_quality_loss: Annotated[float, Field(ge=0)] | None = None
    """Largest accepted upper 95 % bound of what the task's primary metric loses on the test split against float.
    Default: 0.02 of accuracy or F1, 0.01 bits per byte, 2 % of a regression's error."""

    undecided: Annotated[Literal["keep", "reject"], NOT_IDENTITY] = "keep"
    """Whether a variant that has too few test examples for a decision is exported, and marked, or rejected."""

    max_difference: Annotated[float, Field(gt=0, le=1)] = 1e-4
    """Largest accepted difference between a float form's outputs and Keras', as a share of the largest output (or of
    1, if that is smaller): on the test split, and in a fresh process on the golden inputs of the export."""

    max_latency_ratio: Annotated[Annotated[float, Field(gt=0)] | None, NOT_IDENTITY] = None
    """Largest accepted latency against float LiteRT; default: measured and reported, not judged."""

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The methods of each entry, in their order."""
        return tuple(chain_of(entry) for entry in self.methods)

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

    def fit(self, train: TrainConfig, task: str) -> None:
        """Raise `Conflict` where a method trains, and the section `train` or the task does not fit it."""
        field = "compress.methods"
        for method in (method for method in self.on_models if method.training is not None):
            if not train.strategy.alone:
                rule = f"trains a whole model in each process, and {train.strategy.kind} has none"
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
    def names_need_no_settings(self) -> CompressConfig:
        for name in (each for entry in self.methods for each in (entry if isinstance(entry, tuple) else (entry,))):
            if isinstance(name, str) and (needed := settings_needed(name)):
                rule = f"is a name alone, and needs {' and '.join(needed)}"
                raise Conflict("methods", name, rule, f"write {{kind: {name}, {needed[0]}: ...}}")
        return self

    @model_validator(mode="after")
    def chains_can_be_applied(self) -> CompressConfig:
        for chain in self.chains:
            for method, following in pairwise(chain):
                if method.on_file:
                    saw = ", ".join(each.kind for each in chain)
                    rule = f"{method.kind} changes the finished file, and {following.kind} would come after it"
                    raise Conflict("methods", saw, rule, f"put {method.kind} last, once")
        for name, count in Counter(chain.name for chain in self.chains).items():
            if count > 1:
                rule = f"make {count} variants called {name}"
                raise Conflict("methods", name, rule, "leave all but one out")
        return self
