"""How far each layout is from one device: the table of docs/exactness.md.

Trainings of 40 steps of a tiny model (without dropout, batches of 12 examples, a clipped norm), by
optimizer and precision; the largest difference of a weight or of an optimizer's variable at the end. `resized` goes
from one process to two, three and one again.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks.artifacts import Snapshot
from tasks.errors import Stopped
from tasks.training.optimizers import Adam, AdamW, Sgd
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import Horovod, Mirrored, MultiWorker, OneDevice, Pipeline
from tests.support.benches import published, workbench
from tests.support.tiny import write_snapshot
from tests.support.training import PLAIN, Training, distance

STEPS = 40
OPTIMIZERS = {"SGD": Sgd(), "Adam": Adam(), "AdamW": AdamW()}
LAYOUTS: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "train.accumulate: 3": [(OneDevice(), {"accumulate": 3})],
    "mirrored, 2 devices": [(Mirrored(devices=2), {})],
    "multi_worker, 2 workers": [(MultiWorker(workers=2), {})],
    "multi_worker, 3 workers": [(MultiWorker(workers=3), {})],
    "pipeline, 2 devices, 3 micro-batches": [(Pipeline(devices=2, micro_batches=3), {})],
    "horovod, 2 workers": [(Horovod(workers=2), {})],
    "resized 1, 2, 3, 1": [(one, {}) for one in (OneDevice(), MultiWorker(), MultiWorker(workers=3), OneDevice())],
}


def differences(folder: Path, snapshot: Snapshot, optimizer: Any, precision: str) -> Iterator[tuple[str, float]]:
    """Yield each layout's largest difference from one device."""
    options = {
        "steps": STEPS,
        "batch_size": 12,
        "clip_norm": 0.5,
        "optimizer": optimizer,
        "precision": precision,
        "checkpoint": CheckpointConfig(every=1),  # a call for each step, so that a signal is in time
    }
    reference = Training(snapshot, workbench(folder / "reference"), folder / "logs")
    reference(PLAIN, **options, strategy=OneDevice())
    for name, parts in LAYOUTS.items():
        training = Training(snapshot, workbench(folder / name.replace(" ", "-")), folder / "logs")
        for number, (strategy, also) in enumerate(parts, 1):
            stop = stop_at(STEPS * number // len(parts)) if number < len(parts) else lambda step, _: None
            stopped = False
            try:
                training(PLAIN, at=stop, **{**options, **also, "strategy": strategy})
            except Stopped:
                stopped = True
            assert stopped == (number < len(parts)), f"{name}: part {number} was too fast to be stopped"
        yield name, distance(reference.bench, training.bench)


def stop_at(step: int) -> Callable[[int, list[int]], None]:
    """Let all save and leave at about this step."""
    import signal

    from tests.support.training import send

    return send(signal.SIGTERM, 0, step)


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        bench = workbench(root / "snapshot")
        snapshot = published(Snapshot, bench, write_snapshot(bench))
        rows: dict[str, list[float]] = {layout: [] for layout in LAYOUTS}
        columns = [(precision, kind) for precision in ("float32", "bfloat16") for kind in OPTIMIZERS]
        for precision, kind in columns:
            found = differences(root / f"{precision}-{kind}", snapshot, OPTIMIZERS[kind], precision)
            for layout, difference in found:
                rows[layout].append(difference)
    print("| compared with one device | " + " | ".join(f"{kind}, {precision}" for precision, kind in columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for layout, values in rows.items():
        print(f"| {layout} | " + " | ".join(f"{value:.0e}" for value in values) + " |")


if __name__ == "__main__":
    main()
