"""How each task is judged: a class a task, which `make_judge` finds by its name."""

from __future__ import annotations

from tasks.config.base import subclasses
from tasks.config.kinds import import_kinds
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Judge
from tasks.evaluation.splits import Split
from tasks.evaluation.units import Units, numbered

import_kinds(__name__, __path__)


def judge_of(task: str) -> type[Judge]:
    """Return the class that judges a task."""
    return next(each for each in subclasses(Judge) if each.task == task)


def make_judge(task: str, split: Split, config: EvaluateConfig, loss: str | None = None) -> Judge:
    """Create the judge of a task over a split.

    `loss` is the loss that training minimised; None for the task's default.

    Raises:
        Failed: the split has no examples.
    """
    if not len(next(iter(split.arrays.values()))):
        rule = "a model is judged on examples"
        raise Failed(f"split {split.name}", "0 examples", rule, "enlarge it in records.splits")
    judge = judge_of(task)(split, config, loss or TASKS[task].losses[0])
    judge.units = _units(judge, split)
    return judge


def _units(judge: Judge, split: Split) -> Units | None:
    groups = split.groups()
    if groups is None:
        return None
    if judge.example_of is not None:
        of_rows = dict(zip(judge.example_of.tolist(), groups, strict=True))
        groups = [of_rows[number] for number in range(judge.examples)]
    return numbered(groups)
