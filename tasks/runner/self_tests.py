"""The test of a strategy's arithmetic: once for these versions of the libraries, its verdict kept in the home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.config.train import TrainConfig
from tasks.display import terminal
from tasks.runner.attempt import current
from tasks.runner.identities import installed
from tasks.store.files import pretty, write
from tasks.store.store import digest_of
from tasks.training import MODEL_LIBRARIES, SELF_TEST_VERSION

WORK = "tasks.training.engines.tensorflow.self_test:run"


def check_strategy(config: TrainConfig) -> None:
    """Test the strategy and precision of a config, unless that was done before, and record the result in the run.

    One device computes float32 and bfloat16 as Keras does, and an asynchronous strategy has no result to compare with:
    there is nothing to test.

    Raises:
        Failed: the arithmetic is wrong.
    """
    strategy = config.strategy.as_tested
    if not strategy.exact:
        terminal.say(
            f"  … train     {config.strategy.kind} is asynchronous: it can be resumed, and its result is not repeatable"
        )
        return
    if strategy.processes * strategy.devices_of_each == 1 and config.precision != "float16":
        return
    attempt = current.get()
    verdicts = attempt.run.home.root / "self_tests.json"
    inputs = {
        "libraries": {name: installed(name) for name in (*MODEL_LIBRARIES, *config.strategy.packages)},
        "strategy": strategy.model_dump(mode="json"),
        "precision": config.precision,
        "version": SELF_TEST_VERSION,
    }
    known, key = read_verdicts(verdicts), digest_of(inputs)[:16]
    if key not in known:
        terminal.say(f"  … train     testing the arithmetic of {config.strategy.kind}, {config.precision}")
        arguments = (strategy, config.precision)
        result = attempt.work("train", WORK, None, arguments, roles=strategy.roles)
        known = {**read_verdicts(verdicts), key: {**inputs, "result": result}}
        write(verdicts, pretty(known))
    attempt.run.measure("train/self_test", known[key])


def read_verdicts(path: Path) -> dict[str, Any]:
    """Return the verdicts of a home by key; none where the file is missing or damaged."""
    try:
        verdicts: dict[str, Any] = json.loads(path.read_bytes())
        return verdicts
    except (OSError, ValueError):
        return {}
