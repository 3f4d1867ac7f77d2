"""Verification of an export: a script for a fresh process that cannot import this project.

    python -I -S verify.py EXPORT SITE_PACKAGES...

`-I -S` leave only the standard library; the folders of installed packages are arguments, so that the `.pth` files of
an editable install, which would make this project importable, are not read. Keras cannot be imported either. Every
variant runs on the golden inputs in batches of all, three and one, text also shortened; the results go to stdout as
one line of JSON.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

OWN_PACKAGES = ("tasks", "flows", "infra")
HIDDEN = ("keras", "tf_keras")
THREADS = 1


def main(export: Path, packages: list[str]) -> None:
    sys.path.extend(packages)
    for name in OWN_PACKAGES:
        assert importlib.util.find_spec(name) is None, f"{name} can be imported: this process proves nothing"
    for name in HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment]
    import numpy as np

    with np.load(export / "golden.npz") as golden:
        inputs, outputs = golden["inputs"], golden["outputs"]
    results = {}
    for path in sorted(export.glob("*/variant.json")):
        variant = json.loads(path.read_bytes())
        load = {"saved_model": load_saved_model, "litert": load_litert}[variant["format"]]
        run, interface = load(path.parent / variant["file"])
        differences, agreements = [], []
        for size, length in shapes(inputs, outputs):
            examples, expected = inputs, outputs
            if length is not None:
                examples, expected = np.ascontiguousarray(inputs[:, :length]), outputs[:, :length]
            batches = [examples[start : start + size] for start in range(0, len(examples), size)]
            actual = np.concatenate([run(batch) for batch in batches])
            assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), (actual.shape, actual.dtype)
            differences.append(float(np.abs(actual.astype("f8") - expected).max()))
            agreements.append(float((decisions(actual) == decisions(expected)).mean()))
        figures = {"max_abs_difference": max(differences), "argmax_agreement": min(agreements)}
        results[path.parent.name] = {"format": variant["format"], **interface, **figures}
    loaded = sorted({name.partition(".")[0] for name in sys.modules} & set(OWN_PACKAGES))
    assert not loaded, f"{loaded} were imported"
    print(json.dumps(results))


def shapes(inputs: Any, outputs: Any) -> list[tuple[int, int | None]]:
    """Return pairs of batch size and length; outputs at a position must not depend on later tokens."""
    sizes: list[tuple[int, int | None]] = [(len(inputs), None), (3, None), (1, None)]
    if outputs.ndim == 3:
        sizes += [(len(inputs), inputs.shape[1] // 2), (1, 1)]
    return sizes


def decisions(outputs: Any) -> Any:
    """Return the most probable class or token; of a single output its sign."""
    return outputs.argmax(-1) if outputs.shape[-1] > 1 else outputs > 0


def load_saved_model(path: Path) -> tuple[Callable[[Any], Any], dict[str, Any]]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = tf.saved_model.load(str(path))
    serve = model.signatures["serving_default"]
    specs = serve.structured_input_signature[1]
    (name,) = specs

    def run(batch: Any, model: Any = model) -> Any:  # `model` keeps the variables alive
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
