"""The further outputs of a model in its report: the metrics of each, with intervals.

They decide nothing: the primary metric, gates, compression and promotion are those of the main output.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.config.task import TASKS
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import flat, intervals
from tasks.evaluation.judging import largest_of
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.models.features import input_arrays, output_size
from tasks.models.forward import predict
from tasks.models.outputs import FurtherOutput, further_outputs

if TYPE_CHECKING:
    import keras


class OutputSplit(SnapshotSplit):
    """A split of a snapshot in which the column of a further output is all that is predicted."""

    def __init__(self, snapshot: Path, records: Path, name: str, output: FurtherOutput) -> None:
        super().__init__(snapshot, records, name)
        self.features, self.arrays = output.seen_by(self.features), output.seen_by(self.arrays)


def measured(
    network: keras.Model, losses: dict[str, str], snapshot: Path, records: Path, split: str, config: EvaluateConfig
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the field `outputs` of a split in the report, and its metrics by flat name; nothing of a single output.

    Args:
        network: the model with all of its outputs.
        losses: those that training minimised, by column.

    Raises:
        Failed: outputs that are not finite.
    """
    examples = SnapshotSplit(snapshot, records, split)
    outputs = further_outputs(examples.features)
    if not outputs:
        return {}, {}
    answers = predict(network, input_arrays(examples.features, examples.arrays))
    ends = accumulate((each.size for each in outputs), initial=output_size(examples.features))
    rows: dict[str, Any] = {}
    flattened: dict[str, float] = {}
    for output, (start, stop) in zip(outputs, pairwise(ends), strict=True):
        own = answers[:, start:stop]
        largest_of(own, split)
        general = EvaluateConfig(bins=config.bins, resamples=config.resamples)
        judge = make_judge(output.task, OutputSplit(snapshot, records, split, output), general, losses[output.column])
        names = tuple(name for name in TASKS[output.task].metrics if name in judge.metrics)
        metrics = intervals(judge.metrics, names, judge.predictions(judge.keep(own, 0)), judge.units)
        rows[output.column] = {
            "task": output.task,
            "loss": losses[output.column],
            "metrics": {name: item.as_json() for name, item in metrics.items()},
            "baselines": judge.baselines,
        }
        flattened |= flat(f"{split}/{output.name}", metrics)
        flattened |= {f"{split}/{output.name}/{name}": value for name, value in judge.baselines.items()}
    return {"outputs": rows}, flattened
