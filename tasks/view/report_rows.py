"""Single examples that a report names: the worst of a task, and what a language model generated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file by the bits per byte of a language model."""

    key: str
    bits_per_byte: float
    bytes: int = 0
    row: int | None = None


@dataclass(frozen=True)
class Missed:
    """An example of a regression with its targets and predictions."""

    key: str
    true: tuple[float, ...]
    predicted: tuple[float, ...]
    row: int | None = None

    @property
    def answers(self) -> list[str]:
        """The cells after its key: each target with its prediction."""
        pairs = zip(self.true, self.predicted, strict=True)
        return [f"{value:.5g}" for pair in pairs for value in pair]


@dataclass(frozen=True)
class Wrong:
    """An example that a classifier took for one of another class."""

    key: str
    label: str
    predicted: str
    confidence: float
    row: int | None = None

    @property
    def answers(self) -> list[str]:
        """The cells after its key."""
        return [self.label, self.predicted, f"{self.confidence:.0%}"]


@dataclass(frozen=True)
class Sequence:
    """A sequence of tokens with those that were tagged wrong."""

    key: str
    tokens: int
    wrong: int
    row: int | None = None

    @property
    def answers(self) -> list[str]:
        """The cells after its key."""
        return [f"{self.wrong:,}", f"{self.tokens:,}"]


@dataclass(frozen=True)
class Sample:
    """The text that a language model generated, and its prompt."""

    prompt: str
    text: str
    temperature: float = 1.0
