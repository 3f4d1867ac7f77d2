"""Checkpoints of a training, committed as pieces of the model's staging; the newest few are kept.

A checkpoint is one file: the engine's variables (weights, optimizer, seeds), the sums since the last point of the
curves, the ledger, and the best weights. The state is copied between two steps; a thread writes it while the training
goes on. An incomplete or damaged file is ignored and the one before it used.
"""

from __future__ import annotations

import io
import json
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import Failed
from tasks.store.files import canonical
from tasks.store.staging import TEMPORARY, Staging
from tasks.training.engines import Arrays, Engine
from tasks.training.meter import CALMER, FIELD, Meter, Spike
from tasks.training.primary import BestWeights
from tasks.training.sections import CheckpointConfig

log = logging.getLogger(__name__)

FORMAT = 1
"""Of checkpoints, and of the state of a finished model."""
STATE = "state/state.npz"
CHECKPOINT = f"{TEMPORARY}step-"


class StagedCheckpoints:
    """Saves and restores checkpoints `checkpoints/step-000000000100.npz` of one training."""

    def __init__(
        self,
        staging: Staging | None,
        config: CheckpointConfig,
        best: BestWeights,
        measure: Callable[[str, Any], None] = lambda *measured: None,
        saving: Callable[[int], None] = lambda size: None,
        report: Callable[[int], None] = lambda step: None,
        base: Path | None = None,
        layout: dict[str, Any] | None = None,
        settle: Callable[[int], None] | None = None,
        sync: Callable[[], None] = lambda: None,
    ) -> None:
        """Create checkpoints in a staging; without one, as of a process that is not the chief, nothing is saved.

        Args:
            config: which checkpoints are kept.
            best: the selection of weights, part of every checkpoint.
            measure: called with `train/checkpoint_seconds` (of the training, that is of the copies and of waiting for
                the thread) and `train/checkpoint_write_seconds` (of the thread).
            saving: called with the bytes of a checkpoint when it begins to be written.
            report: called with the step of a checkpoint when it is on the disk.
            base: state of the finished training to start from where there is no checkpoint.
            layout: threads, strategy, devices, micro-batches of a pipeline, and processor of this process.
            settle: waits for the scores of the evaluations up to a step by another process, which its checkpoint has.
            sync: brings to the disk what a training that goes on from the checkpoint does not write again.
        """
        self.staging, self.config, self.best, self.measure, self.base = staging, config, best, measure, base
        self._saving, self._report = saving, report
        self.spent = self.written = 0.0
        self._settle, self._sync = settle, sync
        self._writing = Writing()
        self.saved: int | None = None
        self.layout = layout or {}
        self.layouts: list[dict[str, Any]] = [{"from": 0, "to": 0, **self.layout}]
        """The layouts of the steps so far, each with the steps `from` and `to` (exclusive) that it computed."""

    def restore(self, engine: Engine, meter: Meter) -> int:
        """Restore the newest complete checkpoint, or the base; return its step, 0 where there is neither.

        All processes restore what the chief reads.
        """
        content, own = self._newest() if self.staging is not None else (None, False)
        [size, is_own] = engine.group.totals([len(content or b""), int(own)])
        if size == 0:
            return 0
        step, metadata = self._load(engine.group.share(content), engine, meter)
        if is_own:
            self.saved = step
            self._report(step)
            log.info("step %d: going on from its checkpoint", step)
            self._note_layout(step, metadata["layouts"])
        else:
            self.layouts[-1] |= {"from": step, "to": step}
            meter.ended = False
        return step

    def begin(self, engine: Engine, meter: Meter, step: int) -> None:
        """Save the state that a training begins with, where its first spike must go back to it."""
        if meter.spikes.config is not None and self.saved is None:
            self._save(engine, meter, step, anchor=True)

    def roll_back(self, engine: Engine, meter: Meter, spike: Spike) -> int:
        """Restore a checkpoint before a spike; return the step after it, whose examples come next.

        Raises:
            Failed: there is none left to go back to, or there were too many spikes.
        """
        meter.spikes.check(spike)
        self.wait()
        earlier, target = meter.spikes.rollbacks, self._target(meter, spike)
        [size] = engine.group.totals([len(target or b"")])
        if size == 0:
            saw = f"a loss of {spike.loss:.4g} at step {spike.step}; rollbacks before it: {len(earlier)}"
            rule = f"it has gone back to all checkpoints that are kept (train.checkpoint.keep {self.config.keep})"
            raise Failed(FIELD, saw, rule, f"{CALMER}, or keep more")
        step, _ = self._load(engine.group.share(target), engine, meter)
        meter.spikes.rollbacks = [*earlier, {"step": spike.step, "to": step}]
        meter.ledger.skip(step, spike.step + 1)
        meter.last, self.saved = None, None
        compared = "" if spike.highest is None else f", the highest of the steps before it {spike.highest:.4g}"
        log.warning("step %d: a loss of %.4g%s: back to the weights of step %d", spike.step, spike.loss, compared, step)
        log.warning("the examples of steps %d to %d are skipped", step, spike.step)
        return spike.step + 1

    def _target(self, meter: Meter, spike: Spike) -> bytes | None:
        """Return the checkpoint to go back to; None: there is none.

        Only those at multiples of `every`, and at the start, count: a stopped training has others. Later ones stay: a
        training that is killed now and goes on from one comes to the same spike, and back to the same checkpoint.
        """
        if self.staging is None:
            return None
        pieces = {name: sidecar["note"] for name, sidecar in self.staging.pieces(CHECKPOINT).items()}
        anchors = {note["step"]: name for name, note in pieces.items() if note["anchor"]}
        while (step := meter.spikes.target(list(anchors), spike)) is not None:
            if (content := self._whole(anchors.pop(step))) is not None:
                return content
        return None

    def _newest(self) -> tuple[bytes | None, bool]:
        """Return the newest undamaged checkpoint, or the base; and whether it is one of this training."""
        assert self.staging is not None
        for name in reversed(list(self.staging.pieces(CHECKPOINT))):
            if (content := self._whole(name)) is not None:
                return content, True
            self.staging.drop(name)
        return (None if self.base is None else self.base.read_bytes()), False

    def _whole(self, name: str) -> bytes | None:
        """Return the bytes of a checkpoint; None, with a warning, where it is damaged."""
        assert self.staging is not None
        if self.staging.adopt(name) is not None:
            return (self.staging.root / name).read_bytes()
        log.warning("%s is damaged: going back to the checkpoint before it", name)
        return None

    def _note_layout(self, step: int, layouts: list[dict[str, Any]]) -> None:
        """Record and log a change of layout: the result is then equal within rounding, not bit-identical."""
        self.layouts = layouts
        before = {name: value for name, value in layouts[-1].items() if name not in ("from", "to")}
        if before == self.layout:
            return
        names = sorted(name for name in before | self.layout if before.get(name) != self.layout.get(name))
        changes = ", ".join(f"{name} {before.get(name)} → {self.layout.get(name)}" for name in names)
        log.warning("step %d: going on under another layout (%s): no longer bit-identical", step, changes)
        self.layouts.append({"from": step, "to": step, **self.layout})

    def _load(self, content: bytes, engine: Engine, meter: Meter) -> tuple[int, dict[str, Any]]:
        step, metadata, state = unpack(content)
        self.best.load(metadata["best"], {key: state.pop(key) for key in list(state) if key.startswith("best/")})
        engine.load(state)
        meter.load(metadata)
        return step, metadata

    def content(self, engine: Engine, meter: Meter, step: int) -> bytes:
        """Return the bytes of a checkpoint that is part of the model, which do not depend on the layout."""
        best, weights = self.best.copy()
        return pack(step, {**meter.state(), "best": best}, {**engine.state(), **weights})

    def save(self, engine: Engine, meter: Meter, step: int) -> None:
        """Copy the state at `step`, unless it is saved already; a thread commits it and deletes the oldest checkpoints.

        Raises the error of the previous checkpoint's thread, which is waited for.
        """
        self._save(engine, meter, step, anchor=meter.spikes.config is not None and step % self.config.every == 0)

    def _save(self, engine: Engine, meter: Meter, step: int, anchor: bool) -> None:
        if step == self.saved or self.staging is None:
            return
        started = time.monotonic()
        self.wait()
        self.layouts[-1]["to"] = step
        state, layouts = engine.state(), [dict(layout) for layout in self.layouts]
        metadata = {**meter.state(), "layouts": layouts}
        best, weights = self.best.copy()

        def write() -> None:
            nonlocal best, weights
            if self._settle is not None:  # an evaluation at a later step may be in it as well, and changes nothing
                self._settle(step)
                best, weights = self.best.copy()
            entries = {**head(step, {**metadata, "best": best}), **state, **weights}
            self._sync()
            loss = meter.validation_losses.get(step, math.nan)
            self._write(entries, step=step, loss=loss if math.isfinite(loss) else None, anchor=anchor)

        self._saving(sum(array.nbytes for array in (*state.values(), *weights.values())))
        self._writing.start(write)
        self.saved = step
        self.spent += time.monotonic() - started
        self.measure("train/checkpoint_seconds", self.spent)

    def wait(self) -> None:
        """Wait until the last checkpoint is committed; raise the error of its thread."""
        self._writing.wait()

    def _write(self, entries: Arrays, **note: Any) -> None:
        assert self.staging is not None
        started = time.monotonic()
        with self.staging.piece(f"{CHECKPOINT}{note['step']:012d}.npz", **note) as piece:
            with open(piece.path, "wb") as file:
                np.savez(file, allow_pickle=False, **entries)
            size = piece.path.stat().st_size
        self._report(note["step"])
        log.info("step %d: checkpoint, %s bytes", note["step"], f"{size:,}")
        notes = {name: sidecar["note"] for name, sidecar in self.staging.pieces(CHECKPOINT).items()}
        for name in notes.keys() - kept(notes, self.config):
            self.staging.drop(name)
        self.written += time.monotonic() - started
        self.measure("train/checkpoint_write_seconds", self.written)


def kept(notes: dict[str, dict[str, Any]], config: CheckpointConfig) -> set[str]:
    """Return the names of the checkpoints that are kept, of all by name in order, each with its step and loss."""
    names = set(list(notes)[-config.keep :])
    names |= set([name for name, note in notes.items() if note["anchor"]][-config.keep :])
    if config.keep_every is not None:
        names |= {name for name, note in notes.items() if note["step"] % config.keep_every == 0}
    losses = {name: note["loss"] for name, note in notes.items() if note["loss"] is not None}
    if config.keep_best and losses:
        names.add(min(losses, key=lambda name: losses[name]))
    return names


class Writing:
    """A thread that writes one file at a time; an error is raised where the file is waited for."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._last: Future[None] | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Start writing."""
        self._last = self._threads.submit(write)

    def wait(self) -> None:
        """Wait until what was started is written; raise its error, once."""
        last, self._last = self._last, None
        if last is not None:
            last.result()


def head(step: int, metadata: dict[str, Any]) -> Arrays:
    """Return the entry of a checkpoint that is not the engine's: step and metadata, as bytes of JSON."""
    return {"head": np.frombuffer(canonical({"format": FORMAT, "step": step, "meter": metadata}), np.uint8)}


def pack(step: int, metadata: dict[str, Any], state: Arrays) -> bytes:
    """Serialise a checkpoint; the bytes are reproducible, as numpy dates the entries of its archives 1980."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **head(step, metadata), **state)
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[int, dict[str, Any], Arrays]:
    """Return step, metadata (of the meter and the best weights) and the engine's state from a checkpoint's bytes.

    Raises:
        Failed: it is of another format.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        first = json.loads(archive["head"].tobytes())
        if first.get("format") != FORMAT:
            saw, rule = f"format {first.get('format')}", f"this version of Millrace goes on from format {FORMAT}"
            raise Failed("checkpoint", saw, rule, "end the training with the version that it began with, or train anew")
        state = {name: archive[name] for name in archive.files if name != "head"}
    return first["step"], first["meter"], state
