"""Trials per minute: the flow `tuning` against Optuna with a bare script of `model.fit`, on the same data and model.

    python -m tests.benchmarks.tuning

Both search three keys by TPE without pruning, a study in SQLite, trials of 200 steps with an evaluation every 50, one
at a time on the same threads. The script keeps all in one process, saves a model for each trial, and promises nothing.
Its model is compiled without XLA, which takes seconds for each trial. The search is timed, not the start of a command.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tests.benchmarks.pairs import compare
from tests.support.homes import MILLRACE, ROOT, surroundings

TRIALS = 8
PRESET = ROOT / "flows/presets/digits_tuning.yaml"
BARE = f"""
import os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras, numpy as np, optuna, tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits

folder, seed = sys.argv[1], int(sys.argv[2])
optuna.logging.set_verbosity(optuna.logging.WARNING)
digits = load_digits()
rows = np.random.default_rng(0).permutation(len(digits.images))
train, validation, test = np.split(rows, [1084, 1450])
images = (digits.images * 255 / 16).astype("uint8")[..., None]

def objective(trial):
    keras.utils.set_random_seed(seed)
    rate = trial.suggest_float("rate", 1e-4, 3e-2, log=True)
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    dense = trial.suggest_categorical("dense", [32, 64, 128])
    model = keras.Sequential([
        keras.Input((8, 8, 1), dtype="uint8"), layers.Rescaling(1 / 127.5, -1),
        layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(dense, "relu"), layers.Dropout(dropout), layers.Dense(10),
    ])
    schedule = keras.optimizers.schedules.CosineDecay(0.0, 180, warmup_target=rate, warmup_steps=20)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((images[train], digits.target[train]))
    data = data.shuffle(2000, seed=seed).repeat().batch(64).prefetch(2)
    history = model.fit(
        data, epochs=4, steps_per_epoch=50, verbose=0,
        validation_data=(images[validation], digits.target[validation]),
    )
    model.save(f"{{folder}}/trial-{{trial.number}}.keras")
    return history.history["val_loss"][-1]

began = time.perf_counter()
study = optuna.create_study(
    storage=f"sqlite:///{{folder}}/study.db", sampler=optuna.samplers.TPESampler(n_startup_trials=5, seed=seed)
)
study.optimize(objective, n_trials={TRIALS})
print(time.perf_counter() - began)
"""


class Seconds:
    """A clock that the ways advance by what they measure themselves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def bare(seed: int) -> float:
    """The seconds of the script's search."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", BARE, folder, str(seed)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def ours(seed: int) -> float:
    """The seconds of the stage `tune`."""
    with tempfile.TemporaryDirectory() as home:
        flags = ["--tune.trials", str(TRIALS), "--tune.pruner", "{kind: none}", "--seed", str(seed)]
        command = [str(MILLRACE), "run", "tuning", str(PRESET), *flags, "--json"]
        environment = {**surroundings(), "MILLRACE_HOME": home}
        answer = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        reply = json.loads(answer.stdout.splitlines()[-1])
        return float(reply["artifacts"]["tune"][0]["seconds"])


def main() -> None:
    clock = Seconds()

    def way(search: Callable[[int], float]) -> Callable[[], None]:
        def run() -> None:
            clock.now += search(time.time_ns() % 10**6)

        return run

    ways = {"Optuna with model.fit": way(bare), "millrace run tuning": way(ours)}
    compare(f"a search of {TRIALS} trials", ways, rounds=3, clock=clock)


if __name__ == "__main__":
    main()
