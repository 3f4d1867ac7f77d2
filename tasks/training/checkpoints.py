"""Training's state at a step, committed with the store's code in the model's staging, the newest few kept.

One file holds everything: the engine's variables (weights, optimizer, seeds), the sums since the last point of the
curves, the ledger. A file that is not whole is not seen; the one before it is used.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tasks.store.files import canonical
from tasks.store.staging import PASSING, Staging
from tasks.training.best_weights import BestWeights
from tasks.training.engines import Arrays, Engine
from tasks.training.meter import Meter

log = logging.getLogger(__name__)

STATE = "state/state.npz"


class StagedCheckpoints:
    """Checkpoints `checkpoints/step-000000000100.npz` of one training."""

    def __init__(
        self,
        staging: Staging,
        keep: int,
        best: BestWeights,
        measure: Callable[[str, Any], None] = lambda *timed: None,
        base: Path | None = None,
        layout: dict[str, Any] | None = None,
    ) -> None:
        """`base` is the state of a finished training to go on from where there is no checkpoint yet; `layout` is
        under what this process computes."""
        self.staging, self.keep, self.best, self.measure, self.base = staging, keep, best, measure, base
        self.spent = 0.0
        self.saved: int | None = None
        self.layout = layout or {}
        self.layouts: list[dict[str, Any]] = [{"from": 0, "to": 0, **self.layout}]
        """Under what the steps so far were computed, each with its first step and the one after its last."""

    def restore(self, engine: Engine, meter: Meter) -> int:
        """Load the newest whole checkpoint; returns its step, 0 if there is none."""
        for name in reversed(list(self.staging.pieces(PASSING))):
            if self.staging.adopt(name) is None:
                self.staging.drop(name)
                continue
            step, told = self._load((self.staging.root / name).read_bytes(), engine, meter)
            self.saved = step
            log.info("step %d: going on from its checkpoint", step)
            self._note_layout(step, told["layouts"])
            return step
        if self.base is None:
            return 0
        step, _ = self._load(self.base.read_bytes(), engine, meter)
        self.layouts[-1] |= {"from": step, "to": step}
        meter.ended = False
        return step

    def _note_layout(self, step: int, layouts: list[dict[str, Any]]) -> None:
        """Say where this process computes otherwise than the one before: the result is then equal, not identical."""
        self.layouts = layouts
        before = {name: value for name, value in layouts[-1].items() if name not in ("from", "to")}
        if before == self.layout:
            return
        names = sorted(name for name in before | self.layout if before.get(name) != self.layout.get(name))
        changes = ", ".join(f"{name} {before.get(name)} → {self.layout.get(name)}" for name in names)
        log.warning("step %d: going on under another layout (%s): no longer bit-identical", step, changes)
        self.layouts.append({"from": step, "to": step, **self.layout})

    def _load(self, content: bytes, engine: Engine, meter: Meter) -> tuple[int, dict[str, Any]]:
        step, told, state = unpack(content)
        self.best.load(told["best"], {key: state.pop(key) for key in list(state) if key.startswith("best/")})
        engine.load(state)
        meter.load(told)
        return step, told

    def content(self, engine: Engine, meter: Meter, step: int, also: dict[str, Any] | None = None) -> bytes:
        """A checkpoint of what is now: engine, sums, ledger, the best weights so far, and what is to be kept `also`."""
        told = {**meter.state(), "best": self.best.state(), **(also or {})}
        return pack(step, told, {**engine.state(), **self.best.weights})

    def save(self, engine: Engine, meter: Meter, step: int) -> None:
        """Commit the state at `step`, once; then let the oldest go."""
        if step == self.saved:
            return
        started = time.monotonic()
        self.layouts[-1]["to"] = step
        content = self.content(engine, meter, step, {"layouts": self.layouts})
        self.staging.put(f"{PASSING}step-{step:012d}.npz", content, step=step)
        self.saved = step
        log.info("step %d: checkpoint, %s bytes", step, f"{len(content):,}")
        for name in list(self.staging.pieces(PASSING))[: -self.keep]:
            self.staging.drop(name)
        self.spent += time.monotonic() - started
        self.measure("train/checkpoint_seconds", self.spent)


def pack(step: int, told: dict[str, Any], state: Arrays) -> bytes:
    """A checkpoint's bytes, a function of its content alone: numpy dates its archives 1980."""
    head = np.frombuffer(canonical({"step": step, "meter": told}), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, head=head, **state)
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[int, dict[str, Any], Arrays]:
    """The step, the meter's state and the engine's, from a checkpoint's bytes."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        head = json.loads(archive["head"].tobytes())
        state = {name: archive[name] for name in archive.files if name != "head"}
    return head["step"], head["meter"], state
