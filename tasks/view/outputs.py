"""What a run says of the further outputs of its model, which decide nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.config.task import TASKS
from tasks.snapshots.transforms import own_array
from tasks.view import in_words
from tasks.view.facts import Facts
from tasks.view.words import score, span


def lines(facts: Facts) -> Iterator[str]:
    """Yield the first metric of each further output on the test split, with what it is without a model."""
    for column, output in facts.config.train.losses.items():
        task, name = TASKS[output.task], f"test/{own_array(column)}"
        if f"{name}/{task.metrics[0]}" in facts.metrics:
            beside = (f"{each} {value:.4f}" for each, value in task.baselines_in(facts.metrics, name).items())
            yield f"{column}: {score(facts.metrics, f'{name}/{task.metrics[0]}')} ({', '.join(beside)})"


def metrics(facts: Facts) -> Iterator[tuple[str, str, list[tuple[str, str] | None]]]:
    """Yield each metric of each further output, what it means, and its value and interval on validation and test."""
    for column, output in facts.config.train.losses.items():
        task, array = TASKS[output.task], own_array(column)
        for name in (*task.metrics, *task.baselines):
            values = [span(facts.metrics, f"{split}/{array}/{name}") for split in ("validation", "test")]
            if any(values):
                better = "lower is better" if name in task.lower_is_better else "higher is better"
                yield f"{column}: {in_words(name)}", task.baselines.get(name, better), values
