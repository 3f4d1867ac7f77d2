"""A plain `model.fit` script against the run of the same model by Millrace, whole commands.

    python -m tests.benchmarks.ported

The script of docs/how-to-bring-a-model.md, with scores of a test split and a saved model, and `millrace run training`
of the ported one: in an empty home, and in one whose servers are up. Then the seconds from the start of the command to
the end of the first step.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.pairs import compare
from tests.support.homes import MILLRACE, surroundings

MODEL = """keras.Sequential([
    layers.Rescaling(1 / 16), layers.Flatten(), layers.Dense(128, "relu"), layers.Dropout(0.2), layers.Dense(10),
])"""
PLAIN = f"""
import sys
import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

digits = load_digits()
rows = np.random.default_rng(0).permutation(len(digits.images))
train, validation, test = np.split(rows, [1437, 1617])
images = (digits.images * 255 / 16).astype("uint8")[..., None]
model = {MODEL}
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.002), loss, metrics=["accuracy"])
model.fit(
    images[train], digits.target[train], batch_size=64, epochs=20, verbose=0,
    validation_data=(images[validation], digits.target[validation]),
)
print(model.evaluate(images[test], digits.target[test], verbose=0))
model.save(sys.argv[1] + "/model.keras")
"""
NETS = f"import keras\nfrom keras import layers\n\ndef make():\n    return {MODEL}\n"
PRESET = """
name: ported
source: {kind: sklearn, dataset: digits}
snapshot: {kind: image, height: 8, width: 8, channels: 1}
model: {kind: import, target: "nets:make"}
train: {epochs: 20, batch_size: 64, learning_rate: 0.002}
"""


def plain(folder: Path) -> None:
    subprocess.run([sys.executable, "plain.py", str(folder)], cwd=folder, check=True, capture_output=True)


def ours(folder: Path, home: Path, *, empty: bool) -> None:
    if empty:
        shutil.rmtree(home, ignore_errors=True)
    command = [str(MILLRACE), "run", "training", "ported.yaml", "--seed", str(time.time_ns() % 10**6)]
    subprocess.run(command, cwd=folder, env=environment(home), check=True, capture_output=True)


def environment(home: Path) -> dict[str, str]:
    return {**surroundings(), "MILLRACE_HOME": str(home)}


def first_step(folder: Path, home: Path) -> float:
    """Seconds from the start of the command to the end of the first step."""
    began = time.time()
    ours(folder, home, empty=False)
    newest = max((home / "runs").iterdir(), key=lambda run: run.stat().st_mtime)
    measured: dict[str, Any] = json.loads((newest / "measurements.json").read_bytes())
    [(name, parts)] = [entry for entry in measured.items() if entry[0].startswith("train/goodput/")]
    return float(name.rpartition("/")[2]) + parts["setting up"] + parts["compiling"] - began


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder, home = Path(temporary), Path(temporary) / "home"
        for name, content in {"plain.py": PLAIN, "nets.py": NETS, "ported.yaml": PRESET}.items():
            (folder / name).write_text(content)
        subprocess.run([str(MILLRACE), "up"], env=environment(home), check=True, capture_output=True)
        try:
            ways = {
                "plain script": partial(plain, folder),
                "millrace run, empty home": partial(ours, folder, Path(temporary) / "empty", empty=True),
                "millrace run, servers up": partial(ours, folder, home, empty=False),
            }
            compare("a ported script, whole commands", ways, rounds=5)
            seconds = sorted(first_step(folder, home) for _ in range(5))
            print(f"to the end of the first step, servers up: {seconds[2]:.1f} s [{seconds[0]:.1f}, {seconds[-1]:.1f}]")
        finally:
            subprocess.run([str(MILLRACE), "down"], env=environment(home), check=True, capture_output=True)


if __name__ == "__main__":
    main()
