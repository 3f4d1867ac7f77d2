"""Checks whether a snapshot fits its source and a task its snapshot, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tasks.config.task import LABEL, TASKS, TOKENS
from tasks.errors import Refused
from tasks.feed import augmenter
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.orders import Order
from tasks.snapshots.config import SNAPSHOTS, SnapshotConfig, TableSnapshot, TokensSnapshot
from tasks.snapshots.fitting import choose
from tasks.sources.features import Feature, of_role

ClassWeights = Literal["balanced"] | dict[str, float] | None
"""`train.class_weights`."""


def check_snapshot(features: Mapping[str, Any], config: SnapshotConfig) -> None:
    """Raise `Refused` where this snapshot cannot be made from these features.

    `features`: those of a source or of records, as of `Feature.as_json`.
    """
    known = {name: Feature.from_json(feature) for name, feature in features.items()}
    inputs = of_role(known, "input")
    if not inputs:
        rule = f"is made of the inputs, and the source has only {', '.join(sorted(known))}"
        raise Refused("snapshot.kind", config.kind, rule, "give source.columns a column without another role")
    kinds = [feature.kind for feature in inputs.values()]
    had = ", ".join(f"{name} ({feature.kind})" for name, feature in inputs.items())
    if isinstance(config, TokensSnapshot) and config.prompt is not None:
        if kinds != ["text", "text"] or config.prompt not in inputs:
            rule = f"pairs are made of two inputs of type text, the prompt and another, and the source has {had}"
            raise Refused("snapshot.prompt", config.prompt, rule, "correct it, or let source.columns ignore the others")
    elif config.made_of not in (None, *kinds) or (config.made_of is not None and len(kinds) > 1):
        rule = f"is made of one input, of type {config.made_of}, and the source has {had}"
        fitting = [
            other for other, section in SNAPSHOTS.items() if section.made_of is None or [section.made_of] == kinds
        ]
        raise Refused("snapshot.kind", config.kind, rule, f"use snapshot.kind {' or '.join(fitting)}")
    if isinstance(config, TableSnapshot):
        choose(known, config.transforms)


def check_training(
    features: Mapping[str, Any], task: str, class_weights: ClassWeights, augment: Sequence[AugmentConfig], order: Order
) -> None:
    """Raise `Refused` where a snapshot of these features does not have what the task and the training need."""
    check_task(features, task, class_weights)
    augmenter.check(augment, augmenter.input_kinds(features))
    _check_order(order, any("padding" in feature for feature in features.values()), features)


def check_inputs(
    features: Mapping[str, Any], config: SnapshotConfig, augment: Sequence[AugmentConfig], order: Order
) -> None:
    """Raise `Refused` where the snapshot of these features of a source will have no input for `train.augment` or
    `train.order`.

    Inputs that the user's own code or arrays of the source make are known when the snapshot is there.
    """
    kinds = config.input_kinds({name: Feature.from_json(each) for name, each in features.items()})
    if kinds is None:
        return
    augmenter.check(augment, kinds)
    _check_order(order, TOKENS in kinds.values(), kinds)


def _check_order(order: Order, padded: bool, names: Iterable[str]) -> None:
    if order == "lengths" and not padded:
        rule = f"needs a text of tokens or ids of words, which are padded, and the inputs are {', '.join(names)}"
        raise Refused("train.order", order, rule, "use another order, or the transform tokens")


def check_positive(features: Mapping[str, Any], positive: str | None) -> None:
    """Raise `Refused` where `evaluate.positive` is none of the classes; those of the data alone are not known yet."""
    for label in of_role({name: Feature.from_json(each) for name, each in features.items()}, "label").values():
        if positive is not None and label.classes is not None and positive not in label.classes:
            rule = f"the classes are {', '.join(label.classes)}"
            raise Refused("evaluate.positive", positive, rule, "name one of them")


def check_task(features: Mapping[str, Any], task: str, class_weights: ClassWeights) -> None:
    """Raise `Refused` where these features do not have what the task, or `train.class_weights`, needs.

    `features`: those of a source, of records or of a snapshot; a snapshot's `label` and `target` are named for their
    role. A label has `classes`.
    """
    needed = TASKS[task].target
    if needed is None:
        return
    roles = {feature.get("role", name): feature for name, feature in features.items()}
    if needed in roles and needed == LABEL and (each := bool(roles[LABEL].get("shape"))) != TASKS[task].of_tokens:
        learned, given = ("one class of an example", "one for each word") if each else ("one class of each word", "one")
        fitting = [name for name, other in TASKS.items() if other.target == LABEL and other.of_tokens == each]
        rule = f"learns {learned}, and an example has {given}"
        raise Refused("model.task", task, rule, f"use model.task {' or '.join(fitting)}")
    if needed not in roles:
        fitting = [name for name, other in TASKS.items() if other.target in roles]
        rule = f"learns a {needed}, and there are {', '.join(sorted(features))}"
        remedy = f"use model.task {' or '.join(fitting)}" if fitting else "choose a source that has one"
        raise Refused("model.task", task, rule, remedy)
    if (classes := roles[needed].get("classes")) is not None:  # those of the data, perhaps, which is not read yet
        check_classes(class_weights, classes)


def check_classes(weights: ClassWeights, classes: Sequence[str]) -> None:
    """Raise `Refused` where class weights do not name exactly these classes."""
    if isinstance(weights, dict) and set(weights) != set(classes):
        saw = ", ".join(sorted(set(weights) ^ set(classes)))
        rule = f"must name every class: {', '.join(classes)}"
        raise Refused("train.class_weights", saw, rule, "add or remove these")
