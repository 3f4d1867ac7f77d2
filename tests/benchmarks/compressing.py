"""The latency of a quantised language model against its float file, and the time of compress against its bare tools.

    python -m tests.benchmarks.compressing

The language model has the shape of `flows/presets/stdlib_lm.yaml` and is not trained. The bare tools make the default
variants of the digits' model: Keras' export, TensorFlow's converter, ai-edge-quantizer, a pass of the test split
through each file, and SciPy's bootstrap of its accuracy.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe
from scipy import stats

from tasks.artifacts import Model, Records, Report, Snapshot, Variant
from tasks.compression import variants
from tasks.compression.config import CompressConfig
from tasks.compression.methods.quantise import int8
from tasks.compression.specs import VariantSpec, compressed
from tasks.evaluation.config import EvaluateConfig
from tasks.exporting import FORMATS
from tasks.exporting.formats.litert import LiteRT
from tasks.feed import open_snapshot
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.keras_file import load
from tasks.processes import threads
from tests.benchmarks.pairs import compare
from tests.support.benches import published, workbench
from tests.support.homes import DIGITS, ROOT, SMALL, finished_home

POSITIONS, CALLS = 128, 10
FEATURES = {"tokens": {"shape": [256], "dtype": "int32", "vocabulary": 4096, "bos": 4095}}


def latency(folder: Path) -> None:
    """Compare the int8 file of a language model with the float one: one row of 128 tokens, one thread."""
    config = TransformerModel(task="language_model", width=256, layers=2, heads=4, hidden=1024)
    network, paths = config.build(FEATURES, seed=1), dict[str, Path]()
    for name in ("saved_model", "litert"):
        form = FORMATS[name]
        paths[name] = folder / form.file
        form.write(network, None, paths.get(form.parent or ""), paths[name], config.functions(FEATURES, network))
    paths["int8"] = folder / "int8.tflite"
    paths["int8"].write_bytes(int8(paths["litert"].read_bytes()))
    tokens = {"tokens": np.random.default_rng(0).integers(0, 4095, (1, POSITIONS)).astype(np.int32)}

    def run(path: Path) -> Callable[[], None]:
        model = LiteRT(path, 1)

        def calls() -> None:
            for _ in range(CALLS):
                model(tokens)

        return calls

    title = f"a language model in LiteRT, batch 1 of {POSITIONS} tokens, 1 thread"
    compare(title, {"float": run(paths["litert"]), "int8_dynamic": run(paths["int8"])}, rounds=9)


def stage(folder: Path) -> None:
    """Compare the stage that makes and judges the default variants of the digits' model with the bare tools.

    In one process that has done it before, and as it is in a run against a program of its own.
    """
    home = finished_home()
    rows = home.newest_run()["stages"]

    def artifact(kind: Any, name: str) -> Any:
        [row] = rows[name]
        return kind(row["digest"], Path(row["path"]), row["digest"])

    model, report = artifact(Model, "train"), artifact(Report, "evaluate")
    snapshot, records = artifact(Snapshot, "snapshot"), artifact(Records, "convert")
    config, evaluate, number = CompressConfig(), EvaluateConfig(), iter(range(1000))

    def ours() -> None:
        made: dict[str, Variant] = {}
        for form in (VariantSpec("saved_model"), VariantSpec("litert"), *map(compressed, config.chains)):
            parent = None if form.parent is None else made[form.parent.name]
            reference = made["litert"] if form.methods else None
            bench = workbench(folder / f"ours{next(number)}")
            given = (form, model, snapshot, records, report, parent, reference, config, evaluate)
            made[form.name] = published(Variant, bench, variants.build(bench, *given))

    def bare() -> None:
        bare_tools(model.path, snapshot.path, folder / f"bare{next(number)}")

    compare("the default variants of the digits' model", {"bare tools": bare, "compress": ours}, rounds=5)

    program = [sys.executable, "-m", "tests.benchmarks.compressing", str(model.path), str(snapshot.path)]
    ratios = []
    for each in range(5):
        copy = home.copied_to(folder / f"home{each}")
        for published_variant in copy.root.glob("store/variant/*"):
            shutil.rmtree(published_variant)
        started = time.perf_counter()
        subprocess.run([*program, str(folder / f"program{each}")], check=True, capture_output=True, cwd=ROOT)
        taken = time.perf_counter() - started
        answer = copy("run", "pipeline", DIGITS, *SMALL)
        assert answer.code == 0, answer.stderr
        ratios.append(sum(row["seconds"] for row in copy.newest_run()["stages"]["compress"]) / taken)
    print(f"\nthe stage in a run, in times of a program of the bare tools: {statistics.median(ratios):.2f}x {ratios}")


def bare_tools(model: Path, snapshot: Path, place: Path) -> None:
    """Make the default variants of a model, and the interval of each one's accuracy on the test split."""
    network = load(model)
    archive = keras.export.ExportArchive()
    spec = [tf.TensorSpec((None, *each.shape[1:]), each.dtype, each.name) for each in network.inputs]
    archive.add_endpoint("serve", lambda *given: network(given[0], training=False), input_signature=spec)
    archive.write_out(str(place), verbose=False)
    float_file = tf.lite.TFLiteConverter.from_saved_model(str(place)).convert()
    work = quantizer.Quantizer(bytearray(float_file))
    work.load_quantization_recipe(recipe.dynamic_wi8_afp32())
    served = tf.saved_model.load(str(place))
    arrays = open_snapshot(snapshot).arrays("test")
    inputs, labels = np.asarray(arrays["image"]).astype(network.inputs[0].dtype), np.asarray(arrays["label"])
    outputs = [np.asarray(served.serve(tf.constant(inputs)))]
    outputs += [invoked(bytes(file), inputs) for file in (float_file, work.quantize().quantized_model)]
    for each in outputs:
        right = (each.argmax(-1) == labels).astype(float)
        stats.bootstrap((right,), np.mean, n_resamples=EvaluateConfig().resamples, method="BCa")


def invoked(content: bytes, inputs: np.ndarray) -> np.ndarray:
    """Return the outputs of a LiteRT file."""
    interpreter = Interpreter(model_content=content, num_threads=2)
    [given], [answer] = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(given["index"], inputs.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], inputs)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(answer["index"]))


def main(paths: list[str]) -> None:
    """Measure both; with the paths of a model, a snapshot and an empty place, use the bare tools once."""
    threads.pin(2)
    if paths:
        bare_tools(*map(Path, paths))
        return
    with tempfile.TemporaryDirectory() as folder:
        latency(Path(folder))
        stage(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
