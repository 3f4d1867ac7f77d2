"""The objective of a model of several outputs: the main one's, and beside it a weighted loss of each further one.

An example has one weight, by which all of its losses are multiplied, so that sums over examples are all that replicas
and micro-batches have to add up, as they do with one output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar, Self

from keras import ops

from tasks.models.outputs import FurtherOutput
from tasks.training.engines.objectives import Batch, Objective, Scored, Tensor, weighted_sum
from tasks.training.meter import TOTAL


@dataclass(frozen=True)
class Further:
    """A further output, and what scores it."""

    output: FurtherOutput
    objective: Objective
    weight: float
    """Of its loss in the sum that is minimised."""

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of its sums over examples, in order."""
        return tuple(f"{self.output.name}/{name}" for name in ("loss", *self.objective.metrics))

    def __call__(self, batch: Batch, outputs: Tensor) -> Scored:
        """Score its outputs (float32) as a model's that has no other."""
        own = {"weight": batch["weight"], self.output.target: batch[self.output.array]}
        return self.objective(own, outputs)


@dataclass(frozen=True)
class ScoredOutputs(Scored):
    """The scores of the main output of a batch, with those of the others."""

    further: Mapping[str, tuple[float, Scored]]
    """By output the weight of its loss, and its scores."""

    def sums(self) -> dict[str, Tensor]:
        """Return the sums of the main output; the sum that is minimised; and the loss and each metric of the others,
        means over an example's predictions of an output, which weigh as much as those of the main one."""
        sums = super().sums()
        total, others = sums["loss"], {}
        for name, (weight, scored) in self.further.items():
            others[f"{name}/loss"] = weighted_sum([scored.losses], self.weights)
            total += weight * others[f"{name}/loss"]
            others |= {f"{name}/{metric}": weighted_sum([each], self.seen) for metric, each in scored.metrics.items()}
        return {**sums, TOTAL: total, **others}


@dataclass(frozen=True)
class SeveralOutputs:
    """The losses of all outputs; what is asked of an `Objective` it has too."""

    first: Objective
    """That of the main output."""
    size: int
    """Numbers of the main output."""
    further: tuple[Further, ...]

    minimised: ClassVar[str] = TOTAL
    """The name of the sum that a training makes small."""

    @property
    def loss(self) -> str:
        """The loss of the main output, by its name in `train.loss`."""
        return self.first.loss

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of the sums over examples, in order."""
        return *self.first.sums, TOTAL, *(name for each in self.further for name in each.sums)

    def plain(self) -> Self:
        """Return the objective of evaluations: without label smoothing and class weights."""
        return replace(self, first=self.first.plain())

    def inputs(self, model: Any, batch: Batch) -> Any:
        """Return the model's inputs in their dtypes, by name if there are several."""
        return self.first.inputs(model, batch)

    def main(self, outputs: Tensor) -> Tensor:
        """Return the outputs of the main one of a model's outputs."""
        return outputs[:, : self.size]

    def __call__(self, batch: Batch, outputs: Tensor) -> ScoredOutputs:
        """Score outputs (float32) [batch, n]: those of the main one, then the others in their order."""
        sizes = [self.size, *(each.output.size for each in self.further)]
        parts = ops.split(outputs, list(accumulate(sizes))[:-1], axis=1)
        further = {
            each.output.name: (each.weight, each(batch, part))
            for each, part in zip(self.further, parts[1:], strict=True)
        }
        return ScoredOutputs(**vars(self.first(batch, parts[0])), further=further)
