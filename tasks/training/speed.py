"""The speed of a training: steps, examples, tokens and model FLOPs a second, and what it uses of its devices."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from tasks.training.engines import Compute, Engine
from tasks.training.meter import Meter

SETTLED = 5.0
"""Seconds of timed steps after which FLOPs are counted and the peak is looked up or measured, which takes a moment."""
BACKWARD = 3
"""A step is three forward passes: one, and a backward pass of two (Chowdhery et al., arXiv 2204.02311, appendix B).
What is computed again (`train.remat`) does not count."""


@dataclass
class Speed:
    """Computes the figures since the last point of the curves."""

    batch_size: int
    tokens: int = 0
    """Positions of an example of a language model; 0 for other models."""
    timed: float = 0.0
    compute: Compute | None = None

    def figures(self, meter: Meter, engine: Engine) -> dict[str, float]:
        """Return the figures by the names of metrics; none where no step was timed, as the first call compiles."""
        figures = {"memory_bytes": float(engine.memory() or psutil.Process().memory_info().rss)}
        if not meter.steps or not meter.seconds:
            return figures
        examples = self.batch_size * meter.steps / meter.seconds
        figures |= {
            "step_ms": 1e3 * meter.seconds / meter.steps,
            "examples_per_second": examples,
            "input_share": meter.waited / meter.seconds,
        }
        if self.tokens:
            figures["tokens_per_second"] = self.tokens * examples
        self.timed += meter.seconds
        if self.compute is None and self.timed >= SETTLED:
            self.compute = engine.compute()
        if self.compute is not None and self.compute.flops:
            figures["model_flops_per_second"] = BACKWARD * self.compute.flops * examples
            if self.compute.peak:
                figures["mfu"] = figures["model_flops_per_second"] / self.compute.peak
        return figures
