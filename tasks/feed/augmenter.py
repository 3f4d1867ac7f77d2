"""Augmentation: training examples change when they are read, as functions of (seed, epoch, row) (`train.augment`).

Nothing has a state: an example of an epoch is the same after a kill, in any batch and on any number of devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import ARRAY, IMAGE, LABEL, NUMBERS, PREDICTED, SOUND, TARGET, TOKENS, WEIGHT, is_input
from tasks.draws import Draws, Rows, permutation
from tasks.errors import Refused
from tasks.feed.augmentations import Augmentation, Shares, Values

OTHER_LABEL, OTHER_WEIGHT, MIXED = "label.other", "weight.other", "mixed"
"""Arrays of a batch of mixed examples: the label of the other one, its weight where examples have one, its share."""

PARTNERS = "train/partners"
"""Names the permutation by which each row has another one to be mixed with."""

Arrays = dict[str, Values]


@dataclass(frozen=True)
class Step:
    """An augmentation, its place in the list, and the input that it changes, with what the snapshot says of it."""

    place: int
    augmentation: Augmentation
    input: str
    feature: Mapping[str, Any]


class Augmenter:
    """Applies a list of augmentations to examples of the train split."""

    def __init__(
        self, configs: Sequence[Augmentation], features: Mapping[str, Any], arrays: Mapping[str, Any], seed: int
    ) -> None:
        """Create it from `train.augment`, a snapshot's features, and the arrays of its train split.

        Raises:
            Refused: an augmentation does not fit the inputs.
        """
        self._arrays, self._seed = arrays, seed
        kinds = input_kinds(features)
        steps = [
            Step(place, config, name := input_of(place, config, kinds), features[name])
            for place, config in enumerate(configs)
        ]
        self._changes = [step for step in steps if not step.augmentation.mixes]
        self._mix = next((step for step in steps if step.augmentation.mixes), None)

    def layout(self, layout: Mapping[str, tuple[tuple[int, ...], Any]]) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Return shape and dtype of an example's arrays after augmentation, from those before it."""
        after = dict(layout)
        if self._mix is None:
            return after
        if LABEL in after:
            after |= {OTHER_LABEL: after[LABEL], MIXED: ((), np.dtype(np.float32))}
            if WEIGHT in after:
                after[OTHER_WEIGHT] = after[WEIGHT]
        if TARGET in after:
            after[TARGET] = (after[TARGET][0], np.dtype(np.float32))
        return after

    def __call__(self, batch: Arrays, epochs: NDArray[np.uint64]) -> Arrays:
        """Return a batch with its inputs changed: [steps, examples, ...] by name, with `row`; `epochs` of its rows."""
        shape = epochs.shape
        rows, passes = batch["row"].ravel(), epochs.ravel()
        flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in batch.items()}
        changed = self._changed(flat, rows, passes)
        if self._mix is not None:
            changed = self._mixed(self._mix, changed, rows, passes)
        return {name: values.reshape(*shape, *values.shape[1:]) for name, values in changed.items()}

    def _changed(self, examples: Arrays, rows: Rows, epochs: NDArray[np.uint64]) -> Arrays:
        for step in self._changes:
            draws = self._draws(step, rows, epochs)
            values = step.augmentation.change(examples[step.input], draws, step.feature)
            examples = {**examples, step.input: values}
        return examples

    def _mixed(self, step: Step, examples: Arrays, rows: Rows, epochs: NDArray[np.uint64]) -> Arrays:
        """Mix examples with their partners, which are changed as they are themselves in this epoch."""
        partners = np.empty_like(rows)
        count = len(self._arrays[step.input])
        for epoch in np.unique(epochs):
            now = epochs == epoch
            partners[now] = permutation(rows[now], count, self._seed, int(epoch), PARTNERS)
        read = [name for name in (step.input, LABEL, TARGET, WEIGHT) if name in self._arrays]
        others = {name: np.asarray(self._arrays[name][partners]) for name in read}
        others = self._changed(others, partners, epochs)
        draws = self._draws(step, rows, epochs)
        values, shares = step.augmentation.mix(examples[step.input], others[step.input], draws)
        mixed = {**examples, step.input: values}
        if WEIGHT in others:  # weights are above 0, but after the last epoch
            others[WEIGHT] = others[WEIGHT] * (examples[WEIGHT] > 0)
        if LABEL in others:
            mixed |= {OTHER_LABEL: others[LABEL], MIXED: shares}
            if WEIGHT in others:
                mixed[OTHER_WEIGHT] = others[WEIGHT]
        if TARGET in others:
            for name in (TARGET, *([WEIGHT] if WEIGHT in others else [])):
                mixed[name] = _mean(examples[name], others[name], shares)
        return mixed

    def _draws(self, step: Step, rows: Rows, epochs: NDArray[np.uint64]) -> Draws:
        return Draws(self._seed, step.place, epochs, rows)


def _mean(own: Values, others: Values, shares: Shares) -> Values:
    own = own.astype(np.float32)
    return own + (others.astype(np.float32) - own) * shares.reshape(-1, *[1] * (own.ndim - 1))


def input_kinds(features: Mapping[str, Any]) -> dict[str, str]:
    """Return what the inputs of a snapshot are to augmentations, by name, from its features."""
    return {name: _kind(each) for name, each in features.items() if is_input(name)}


def _kind(feature: Mapping[str, Any]) -> str:
    dtype, dimensions = np.dtype(feature["dtype"]), len(feature["shape"])
    if dtype == np.uint8 and dimensions == 3:
        return IMAGE
    if dtype == np.float32 and dimensions == 2:
        return SOUND
    if "vocabulary" in feature and dimensions == 1:
        return PREDICTED if "bos" in feature else TOKENS
    return ARRAY if dimensions > 1 else NUMBERS


def input_of(place: int, config: Augmentation, kinds: Mapping[str, str]) -> str:
    """Return the input that an augmentation changes, of those by `input_kinds`; raises `Refused` if there is none."""
    field = f"train.augment.{place}"
    fitting = sorted(name for name, kind in kinds.items() if kind in config.reads)
    readable = " or ".join(config.reads)
    if not fitting:
        had = ", ".join(f"{name} ({kind})" for name, kind in sorted(kinds.items()))
        raise Refused(f"{field}.kind", config.kind, f"changes an input of kind {readable}, not {had}", "leave it out")
    if config.input is not None and config.input not in fitting:
        rule = f"must be an input of kind {readable}"
        raise Refused(f"{field}.input", config.input, rule, f"use {' or '.join(fitting)}")
    if config.input is None and len(fitting) > 1:
        rule = f"there are several inputs of kind {readable}"
        raise Refused(f"{field}.input", "none", rule, f"name one of {', '.join(fitting)}")
    if config.mixes and len(kinds) > 1:
        rule = f"mixes whole examples, and there are several inputs: {', '.join(sorted(kinds))}"
        raise Refused(f"{field}.kind", config.kind, rule, "leave it out")
    return config.input or fitting[0]


def check(configs: Sequence[Augmentation], kinds: Mapping[str, str]) -> None:
    """Raise `Refused` where an augmentation does not fit a snapshot's inputs, by `input_kinds`."""
    for place, config in enumerate(configs):
        input_of(place, config, kinds)
