"""Metrics as sums over examples, so that a resample costs a gather and not an evaluation.

Each metric gives every example K numbers; its value is a function of their means. That is all a bootstrap needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """What a classifier said, and what was true."""

    log_probabilities: Floats
    """[N, classes]."""

    labels: npt.NDArray[np.int64]
    """[N]."""

    bins: int = 15
    """Equal-width confidence bins of the calibration error."""

    @classmethod
    def of(cls, logits: npt.NDArray, labels: npt.NDArray, bins: int = 15) -> Answers:
        """From logits [N, classes] and labels [N]; the softmax is taken in float64."""
        return cls(log_softmax(logits.astype(np.float64), axis=-1), labels.astype(np.int64), bins)

    @property
    def probabilities(self) -> Floats:
        """[N, classes]."""
        return np.exp(self.log_probabilities)

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        """The most probable class of each example, [N]."""
        return self.log_probabilities.argmax(axis=-1)

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Whether that is the label, [N]."""
        return self.predicted == self.labels

    @property
    def confidence(self) -> Floats:
        """The probability of the predicted class, [N]."""
        return np.exp(self.log_probabilities.max(axis=-1))


@dataclass(frozen=True)
class Metric:
    """A function of the mean over examples of K contributions."""

    contributions: Callable[[Answers], Floats]
    """[N, K]."""

    value: Callable[[Floats], Floats]
    """Means [..., K] to values [...]."""

    share: bool = False
    """Whether it counts examples: contributions are 0 or 1, the value is their mean."""

    def __call__(self, answers: Answers) -> float:
        return float(self.value(self.contributions(answers).mean(axis=0)))


def accuracy(answers: Answers) -> Floats:
    """Share of examples whose most probable class is the label."""
    return answers.correct[:, None].astype(np.float64)


def loss(answers: Answers) -> Floats:
    """Cross-entropy in nats, straight from the logits: what training minimises."""
    return -np.take_along_axis(answers.log_probabilities, answers.labels[:, None], axis=-1)


def log_loss(answers: Answers) -> Floats:
    """Cross-entropy of the probabilities, which scikit-learn's `log_loss` clips at the float's epsilon."""
    epsilon = np.finfo(np.float64).eps
    chosen = np.take_along_axis(answers.probabilities, answers.labels[:, None], axis=-1)
    return -np.log(np.clip(chosen, epsilon, 1 - epsilon))


def calibration_gaps(answers: Answers) -> Floats:
    """Confidence minus correctness in the column of each example's confidence bin (Guo et al., arXiv 1706.04599).

    The expected calibration error is the sum over bins of the absolute mean of its column.
    """
    column = np.minimum((answers.confidence * answers.bins).astype(np.int64), answers.bins - 1)
    gaps = np.zeros((len(answers.labels), answers.bins))
    gaps[np.arange(len(column)), column] = answers.confidence - answers.correct
    return gaps


def _mean(means: Floats) -> Floats:
    return means[..., 0]


METRICS = {
    "accuracy": Metric(accuracy, _mean, share=True),
    "loss": Metric(loss, _mean),
    "log_loss": Metric(log_loss, _mean),
    "calibration_error": Metric(calibration_gaps, lambda means: np.abs(means).sum(axis=-1)),
}
"""By the names that `evaluate.metrics` knows."""
