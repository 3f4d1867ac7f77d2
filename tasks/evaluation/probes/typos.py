"""Typing errors in texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.config.probes import TyposProbe
from tasks.evaluation.probes import Draws

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ERRORS = 4
"""Kinds of errors: exchanged with the next letter, left out, doubled, another letter."""


def change(values: list[Any], draws: Draws, config: TyposProbe, feature: Mapping[str, Any]) -> list[Any]:
    """Return texts, or lists of words, each with errors in its own letters; other characters stay."""
    if feature.get("kind") == "words":
        return [
            [_with_errors(word, draw, config.share) for word in words]
            for words, draw in zip(values, draws, strict=True)
        ]
    return [_with_errors(text, draw, config.share) for text, draw in zip(values, draws, strict=True)]


def _with_errors(text: str, draw: np.random.Generator, share: float) -> str:
    letters = list(text)
    wrong = np.flatnonzero(draw.random(len(letters)) < share)
    kinds, others = draw.integers(ERRORS, size=len(wrong)), draw.integers(len(LETTERS), size=len(wrong))
    for place, kind, other in zip(wrong.tolist(), kinds.tolist(), others.tolist(), strict=True):
        letter = letters[place]
        if not letter.isalpha():
            continue
        if kind == 0 and place + 1 < len(letters):
            letters[place], letters[place + 1] = letters[place + 1], letter
        elif kind == 1:
            letters[place] = ""
        elif kind == 2:
            letters[place] = letter * 2
        else:
            letters[place] = LETTERS[other]
    return "".join(letters)
