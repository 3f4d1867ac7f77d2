"""Tokens that an exported language model generates in the same time with a cache of keys and values and without.

    python -m tests.benchmarks.decoding

SavedModel and LiteRT on one thread, a transformer of 3 blocks of width 256 over 4,096 tokens that is not trained: 128
tokens after a prompt of 64. Without the cache every token is computed again at every step.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tasks.exporting import FORMATS
from tasks.exporting.predict import with_cache
from tasks.models.architectures.transformer import TransformerModel
from tasks.processes import threads
from tests.benchmarks.pairs import compare

FEATURES = {"tokens": {"shape": [256], "dtype": "int32", "vocabulary": 4096, "bos": 4095}}
PROMPT, COUNT = 64, 128


def generate(call: Any) -> None:
    tokens = np.random.default_rng(0).integers(0, 4095, PROMPT).tolist()
    for _ in range(COUNT):
        tokens.append(int(call({"tokens": np.array([tokens], np.int32)})[0, -1].argmax()))


def main() -> None:
    threads.pin(1)
    config = TransformerModel(task="language_model")
    network = config.build(FEATURES, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[str, Path] = {}
        for name in ("saved_model", "litert"):
            form = FORMATS[name]
            paths[name] = Path(folder) / form.file
            given = config.functions(FEATURES, network)
            form.write(network, None, paths.get(form.parent or ""), paths[name], given)
            model = form(paths[name], 1)
            ways = {"recomputed": lambda model=model: generate(model)}  # type: ignore[misc]
            ways["cached"] = lambda model=model: generate(with_cache(model))  # type: ignore[misc]
            compare(name, ways, rounds=3)
            for way, run in ways.items():
                started = time.perf_counter()
                run()
                print(f"  {way}: {COUNT / (time.perf_counter() - started):.0f} tokens/s")


if __name__ == "__main__":
    main()
