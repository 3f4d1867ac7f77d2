"""A training for TensorBoard: its curves, histograms of its weights, and a trace of some steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.training.actions import Curves
from tasks.training.engines import Engine
from tasks.training.event_file import EventFile
from tasks.training.loop import Action
from tasks.training.meter import Meter
from tasks.training.sections import TensorBoard

if TYPE_CHECKING:
    from tasks.processes.workbench import Journal

FOLDER = "tensorboard"
"""The folder, in that of the run, or of a training of several seeds or trials."""

TRAINING, WORST = "training", "worst"
"""In that folder, the training, and the worst examples of the test split: the names of runs in TensorBoard."""


def written_in(run: Path) -> Path | None:
    """Return the folder to show of a run: what its training wrote, or all of it where several did; None for nothing."""
    folders = [folder for folder in run.rglob(FOLDER) if folder.is_dir()]
    return run if len(folders) > 1 else next(iter(folders), None)


class Board:
    """Writes to the event file of a folder; a training that goes on continues it."""

    def __init__(self, folder: Path, config: TensorBoard, evaluate_every: int) -> None:
        self._events = EventFile(folder)
        self._trace = Trace(folder, config.trace)
        self.actions: list[Action] = [self._trace]
        """What the loop runs."""
        if config.histograms:
            self.actions.append(Histograms(evaluate_every, self))

    def curves(self, journal: Journal) -> Curves:
        """Return what takes points for the journal, and writes them here too."""
        return Copied(journal, self)

    def scalars(self, step: int, metrics: dict[str, float]) -> None:
        """Write a point of the curves."""
        self._events.scalars(step, metrics)

    def histograms(self, step: int, engine: Engine) -> None:
        """Write the distributions of the weights: of numbers that are learned, and not of counters and random state."""
        weights = {engine.paths[name]: values for name, values in engine.weights().items()}
        self._events.histograms(step, {name: each for name, each in weights.items() if each.dtype.kind not in "iub"})

    def close(self) -> None:
        """End the trace and the file."""
        self._trace.stop()
        self._events.close()


@dataclass
class Copied:
    """A journal, and the board that gets the same points."""

    journal: Journal
    board: Board

    def append(self, step: int, metrics: dict[str, float]) -> None:
        """Append metrics at a step."""
        self.journal.append(step, metrics)
        self.board.scalars(step, metrics)


@dataclass
class Histograms:
    """Writes the weights' distributions."""

    every: int
    board: Board

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        self.board.histograms(step, engine)


@dataclass
class Trace:
    """Runs TensorFlow's profiler between two steps, once."""

    folder: Path
    steps: tuple[int, int]
    every: int = 1
    running: bool = False

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        first, last = self.steps
        if self.running and step >= last:
            self.stop()
        elif not self.running and first <= step < last:
            import tensorflow as tf

            tf.profiler.experimental.start(str(self.folder))
            self.running = True

    def stop(self) -> None:
        """Write what was traced."""
        if self.running:
            import tensorflow as tf

            tf.profiler.experimental.stop()
            self.running = False
