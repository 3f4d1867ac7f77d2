"""Proof that an export works without us: a script for a fresh process that can import none of our code.

    python -I -S verify.py EXPORT SITE_PACKAGES...

`-I -S` leave only the standard library; the folders of installed packages are given, without the `.pth` files by
which an editable install would let our own packages in. Keras is hidden too. Every variant answers the golden
inputs, all at once, in threes and one by one, text also cut short; the findings go to stdout as one line of JSON.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS = ("tasks", "flows", "infra")
HIDDEN = ("keras", "tf_keras")
THREADS = 1


def main(export: Path, packages: list[str]) -> None:
    sys.path.extend(packages)
    for name in OURS:
        assert importlib.util.find_spec(name) is None, f"{name} can be imported: this process proves nothing"
    for name in HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment]
    import numpy as np

    with np.load(export / "golden.npz") as golden:
        inputs, outputs = golden["inputs"], golden["outputs"]
    found = {}
    for path in sorted(export.glob("*/variant.json")):
        variant = json.loads(path.read_bytes())
        load = {"saved_model": load_saved_model, "litert": load_litert}[variant["format"]]
        run, interface = load(path.parent / variant["file"])
        differences, agreements = [], []
        for size, length in shapes(inputs, outputs):
            asked, expected = inputs, outputs
            if length is not None:
                asked, expected = np.ascontiguousarray(inputs[:, :length]), outputs[:, :length]
            batches = [asked[start : start + size] for start in range(0, len(asked), size)]
            answers = np.concatenate([run(batch) for batch in batches])
            assert (answers.shape, answers.dtype) == (expected.shape, expected.dtype), (answers.shape, answers.dtype)
            differences.append(float(np.abs(answers.astype("f8") - expected).max()))
            agreements.append(float((decisions(answers) == decisions(expected)).mean()))
        figures = {"max_abs_difference": max(differences), "argmax_agreement": min(agreements)}
        found[path.parent.name] = {"format": variant["format"], **interface, **figures}
    loaded = sorted({name.partition(".")[0] for name in sys.modules} & set(OURS))
    assert not loaded, f"{loaded} were imported"
    print(json.dumps(found))


def shapes(inputs: Any, outputs: Any) -> list[tuple[int, int | None]]:
    """Batch sizes, and with an answer at every place also lengths: what comes later must not change what was said."""
    sizes: list[tuple[int, int | None]] = [(len(inputs), None), (3, None), (1, None)]
    if outputs.ndim == 3:
        sizes += [(len(inputs), inputs.shape[1] // 2), (1, 1)]
    return sizes


def decisions(outputs: Any) -> Any:
    """The likeliest class or token; of a single number its sign."""
    return outputs.argmax(-1) if outputs.shape[-1] > 1 else outputs > 0


def load_saved_model(path: Path) -> tuple[Callable[[Any], Any], dict[str, Any]]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = tf.saved_model.load(str(path))
    serve = model.signatures["serving_default"]
    specs = serve.structured_input_signature[1]
    (name,) = specs

    def run(batch: Any, model: Any = model) -> Any:  # holds the model, whose variables die with it
        (output,) = serve(**{name: tf.constant(batch)}).values()
        return output.numpy()

    return run, {
        "signatures": sorted(model.signatures),
        "inputs": {key: [list(spec.shape), spec.dtype.name] for key, spec in specs.items()},
        "outputs": {key: [list(spec.shape), spec.dtype.name] for key, spec in serve.structured_outputs.items()},
    }


def load_litert(path: Path) -> tuple[Callable[[Any], Any], dict[str, Any]]:
    from ai_edge_litert.interpreter import Interpreter

    model = Interpreter(str(path), num_threads=THREADS)
    signatures = model.get_signature_list()
    (name,) = signatures["serving_default"]["inputs"]
    (output,) = signatures["serving_default"]["outputs"]
    into, out = model.get_input_details()[0], model.get_output_details()[0]

    def run(batch: Any) -> Any:
        model.resize_tensor_input(into["index"], batch.shape)
        model.allocate_tensors()
        model.set_tensor(into["index"], batch)
        model.invoke()
        return model.get_tensor(out["index"])

    return run, {
        "signatures": sorted(signatures),
        "inputs": {name: [[int(size) for size in into["shape_signature"]], into["dtype"].__name__]},
        "outputs": {output: [[int(size) for size in out["shape_signature"]], out["dtype"].__name__]},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
