"""Training's state at a step, committed with the store's code in the model's staging, the newest few kept.

One file holds everything: the engine's variables (weights, optimizer, seeds), the sums since the last point of the
curves, the ledger. A file that is not whole is not seen; the one before it is used.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tasks.store.files import canonical
from tasks.store.staging import PASSING, Staging
from tasks.training.engine import Arrays, Engine
from tasks.training.meter import Meter

STATE = "state/state.npz"


class StagedCheckpoints:
    """Checkpoints `checkpoints/step-000000000100.npz` of one training."""

    def __init__(self, staging: Staging, keep: int, measure: Callable[[str, Any], None] = lambda *timed: None) -> None:
        self.staging, self.keep, self.measure = staging, keep, measure
        self.spent = 0.0
        self.saved: int | None = None

    def restore(self, engine: Engine, meter: Meter) -> int:
        """Load the newest whole checkpoint; returns its step, 0 if there is none."""
        for name in reversed(list(self.staging.pieces(PASSING))):
            if self.staging.adopt(name) is None:
                self.staging.drop(name)
                continue
            step, told, state = unpack((self.staging.root / name).read_bytes())
            engine.load(state)
            meter.load(told)
            self.saved = step
            return step
        return 0

    def save(self, engine: Engine, meter: Meter, step: int) -> None:
        """Commit the state at `step`, once; then let the oldest go."""
        if step == self.saved:
            return
        started = time.monotonic()
        self.staging.put(f"{PASSING}step-{step:012d}.npz", pack(step, meter.state(), engine.state()), step=step)
        self.saved = step
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
