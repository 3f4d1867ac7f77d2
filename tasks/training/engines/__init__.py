"""Engines, which compute a training; their interface has integers and NumPy arrays only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.training.group import ProcessGroup
from tasks.training.meter import StepSums

Arrays = dict[str, NDArray[Any]]

Keep = Callable[[NDArray[np.float32], int], Arrays]
"""Reduces outputs for the rows from a number on to small arrays by name, first axis the row."""


class OutOfMemory(Exception):
    """A step needs more memory than its device has; the message names the tensor."""


@dataclass(frozen=True)
class Compute:
    """What a model computes, and what its devices could."""

    flops: int
    """Floating-point operations of a forward pass of an example; 0 where they are not known."""
    peak: float
    """Floating-point operations a second of all devices of the training; 0 where they are not known."""


class Batches(Protocol):
    """The batches of a split, by number: a list, or a `BatchReader` (`tasks.feed`), which reads one when asked."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Arrays: ...


class Scorer(Protocol):
    """Scores the batches of a split: an engine, or what scores its weights in another process."""

    def score(self, batches: Batches) -> dict[str, float]:
        """Return means over batches by name, `loss` first, without label smoothing, class weights and dropout."""
        ...

    def outputs(self, batches: Batches, keep: Keep) -> tuple[dict[str, float], Arrays]:
        """Return the same means, and what is kept of the outputs for each row of all batches, in their order; every
        process gets all of it."""
        ...


class ScorerOfWeights(Scorer, Protocol):
    """A model that scores weights of a training in another process."""

    def load(self, weights: Arrays) -> None:
        """Take a result of an engine's `weights`."""


class Engine(Scorer, Protocol):
    """A model, its optimizer and its input on one or more devices, of one or more processes."""

    group: ProcessGroup
    """The processes of the training."""

    loss: str
    """The loss that is minimised, by its name in `train.loss`."""

    paths: dict[str, str]
    """The paths of the variables in the model by their names in `weights`."""

    activations: int
    """An estimate of the bytes of an example's activations in a host's memory; 0 where no host computes."""

    @property
    def layout(self) -> dict[str, Any]:
        """What it adds to the layout of the computation: the types of accelerators, and how they round."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether a step may be computed in more micro-batches than `train.accumulate`, with the same result."""
        ...

    def seek(self, step: int) -> None:
        """Continue with the examples of global step `step`."""

    def step(self, rates: NDArray[np.float32]) -> StepSums:
        """Run a global step with each of these learning rates; raise `OutOfMemory` where one does not fit into
        memory."""
        ...

    def fits(self, accumulate: int, available: int) -> bool:
        """Return whether a replica's gradients of a step fit into memory in so many micro-batches.

        It is tried, or predicted from small ones where `available` bytes of the host are the limit.
        """
        ...

    def accumulate(self, micro_batches: int) -> None:
        """Compute steps in so many micro-batches from now on."""

    def compute(self) -> Compute:
        """Count what the model computes, and look up or measure what the devices could; takes up to a second."""
        ...

    def memory(self) -> int:
        """Return the bytes in use on the first device; 0 where it is the host."""
        ...

    def peak_memory(self) -> int:
        """Return the most bytes that were in use on the first device; 0 where it is the host."""
        ...

    @property
    def samples(self) -> NDArray[Any] | None:
        """The outputs for the first examples of the last split that `score` has scored, of a language model the most
        probable tokens; None where another process scored them."""
        ...

    def weights(self) -> Arrays:
        """Return the variables of the model that is made, by stable names: averages where `train.ema` makes some, and
        kernels with the matrices of `train.lora` merged."""
        ...

    def begin_with(self, weights: Arrays) -> None:
        """Assign a result of `weights`, before the first step."""

    def state(self) -> Arrays:
        """Return all variables that decide the next step, by stable names."""
        ...

    def load(self, state: Arrays) -> None:
        """Restore a result of `state`."""

    def close(self) -> None:
        """Release threads and devices."""
