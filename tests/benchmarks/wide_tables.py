"""CPU time to write, load and first call a SavedModel with the signature `raw`, and to convert it to LiteRT, of a wide
table: this checkout, twice (A/A), against another one, in turn.

    python -m tests.benchmarks.wide_tables --base FOLDER [--columns 2000] [--rounds 5]

FOLDER is a worktree of the commit to compare with, such as `git worktree add FOLDER 430cc63`. Each measurement is a
process of its own; figures are medians of CPU seconds [lowest, highest].
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parents[2]
MEASURE = """
import json, os, pathlib, sys, tempfile, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, tensorflow as tf
from tasks.exporting import FORMATS
from tasks.exporting.preprocess import of_description

description = json.loads(sys.stdin.read())
count = len(description["columns"])
source = keras.Input((count,), name="numbers")
model = keras.Model(source, keras.layers.Dense(2)(keras.layers.Dense(32)(source)))
folder = pathlib.Path(tempfile.mkdtemp())
FORMATS["saved_model"].write(model, None, None, folder / "warm")
seconds, begun = {}, time.process_time()

def done(what):
    global begun
    seconds[what] = time.process_time() - begun
    begun = time.process_time()

preprocess = of_description(description)
FORMATS["saved_model"].write(model, preprocess, None, folder / "model")
done("write")
loaded = tf.saved_model.load(str(folder / "model"))
done("load")
specs = loaded.signatures["raw"].structured_input_signature[1]
begun = time.process_time()
loaded.signatures["raw"](**{name: tf.zeros([1, *spec.shape[1:]], spec.dtype) for name, spec in specs.items()})
done("first call")
FORMATS["litert"].write(model, None, folder / "model", folder / "model.tflite")
done("to LiteRT")
seconds["graph MB"] = (folder / "model/saved_model.pb").stat().st_size / 1e6
print(json.dumps(seconds))
"""


def description(count: int) -> dict[str, Any]:
    """Return the contents of a `transform.json` of numbers."""
    columns, transforms, layout, stop = [], {}, [], 0
    for number in range(count):
        name = f"gene_{number}"
        columns.append({"name": name, "kind": "number", "shape": []})
        transforms[name] = {"kind": "standardise", "shape": [], "fill": number / 7, "indicator": False}
        layout.append({"column": name, "array": "numbers", "start": stop, "stop": (stop := stop + 1)})
    return {
        "format": 1,
        "kind": "table",
        "columns": columns,
        "missing": [],
        "csv": None,
        "transforms": transforms,
        "arrays": {"numbers": {"dtype": "float32", "shape": [stop]}},
        "layout": layout,
        "classes": ["no", "yes"],
        "targets": [],
    }


def measured(folder: Path, given: str) -> dict[str, float]:
    """Return the figures of a checkout."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], input=given, cwd=folder, capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    given = json.dumps(description(asked.columns))
    places = {"here": HERE, "here again": HERE} | ({"base": asked.base} if asked.base else {})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in places}
    for _ in range(asked.rounds):
        for name, folder in places.items():
            found[name].append(measured(folder, given))
    for figure in found["here"][0]:
        row = {name: sorted(each[figure] for each in every) for name, every in found.items()}
        told = [f"{name} {median(all_of):.2f} [{all_of[0]:.2f}, {all_of[-1]:.2f}]" for name, all_of in row.items()]
        against = [f"{median(row['here']) / median(row['here again']):.2f} x here again"]
        against += [f"{median(row['here']) / median(row['base']):.4f} x base"] if asked.base else []
        print(f"{asked.columns:,} columns, {figure}: {', '.join(told)}: {', '.join(against)}", flush=True)


if __name__ == "__main__":
    main()
