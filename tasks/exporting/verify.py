"""What a format does in a fresh process that cannot import this project: a script.

    python -I -S verify.py verify FORMAT.py CLASS VARIANT -- SITE_PACKAGES...
    python -I -S verify.py footprint FORMAT.py CLASS FILE INPUTS.npz THREADS -- SITE_PACKAGES...
    python -I verify.py convert FORMAT.py CLASS FROM TO

The class of the format (`tasks.exporting.formats`) knows how to load a file, and imports nothing of this project to do
so. `-I -S` leave only the standard library; the folders of installed packages are arguments, so that the `.pth` files
of an editable install, which would make this project importable, are not read.

`verify`: this project, which a wheel installs beside the other packages, cannot be imported, and Keras and TensorFlow
cannot unless the format runs on them. The end of stdin says that the export
is complete. The variant runs on the golden inputs in batches of all, three and one, text also shortened, and where it
takes raw columns on these; then calls of one example are timed. The results go to stdout as one line of JSON:
`verified`, which is the same each time, and `measured`, which is not.

`footprint` runs a file on the inputs, once with the first example and once with all, and prints the bytes by which this
raised the largest resident set of the process, after the runtime was imported. `convert` has the class convert a file.
"""

import gc
import importlib
import json
import resource
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

OWN_PACKAGES = ("tasks", "flows", "infra")
HIDDEN = ("tensorflow", "keras", "tf_keras")
"""What cannot be imported, except for the formats that run on it."""
THREADS = 1
INPUTS, RAW_INPUTS = "inputs/", "raw/"
"""Prefixes of the names of the golden inputs, and of the raw columns that become them."""
OUTPUTS = "outputs"
"""The golden outputs of the model; with `/` and the name of a variant, those of the model that this was made from."""
SHORTER = "shorter"
"""The golden outputs for the first half of the tokens, of models whose outputs depend on later tokens."""
RAW = "raw"
"""The signature that takes raw columns."""
PREFILL, DECODE = "prefill", "decode"
"""The signatures of a language model that hand back keys and values, and take them with one token more."""
FURTHER = "further"
"""The signature that answers for the further outputs of a model, and the prefix of their golden values by name."""
PACKAGE = "formats"
"""The package that the formats' files are in here."""

STATUS = Path("/proc/self/status")
WARM_UP, CALLS, SECONDS = 3, 200, 2.0
"""Calls before the timed ones, timed calls at most, and seconds after which no other begins."""


def verify(form: Any, folder: str) -> None:
    """Print what is found of the variant in a folder."""
    variant = Path(folder)
    for name in {*OWN_PACKAGES, *HIDDEN} - {runtime.partition(".")[0] for runtime in form.runtimes}:
        sys.modules[name] = None  # type: ignore[assignment]
    import numpy as np

    gc.disable()  # until TensorFlow is imported; see tasks/environment/process.py, which cannot be imported here
    for runtime in form.runtimes:
        importlib.import_module(runtime)  # seconds, while the export is still written
    gc.freeze()
    gc.enable()
    sys.stdin.read()
    with np.load(variant.parent / "golden.npz") as golden:
        inputs, raw = (
            {name.removeprefix(prefix): golden[name] for name in golden.files if name.startswith(prefix)}
            for prefix in (INPUTS, RAW_INPUTS)
        )
        outputs = golden[own_outputs(variant.name, golden.files)]
        shorter = golden[own_outputs(variant.name, golden.files, SHORTER)] if SHORTER in golden.files else None
        further = {name.partition("/")[2]: golden[name] for name in golden.files if name.startswith(f"{FURTHER}/")}
    description = json.loads((variant / "variant.json").read_bytes())
    before = peak_bytes()
    started = time.perf_counter()
    run = form(variant / description["file"], THREADS)
    interface = run.interface
    measured = {"load_seconds": time.perf_counter() - started}
    found = compared(run, interface, inputs, raw, outputs, shorter, further)
    verified = {"format": description["format"], **interface, **found}
    measured |= timed(run, {name: np.ascontiguousarray(array[:1]) for name, array in inputs.items()})
    measured |= {"peak_bytes": peak_bytes(), "model_peak_bytes": peak_bytes() - before}
    loaded = {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}
    assert not loaded & set(OWN_PACKAGES), f"{sorted(loaded & set(OWN_PACKAGES))} were imported"
    print(json.dumps({"verified": verified, "measured": measured}))


def own_outputs(variant: str, names: Any, outputs: str = OUTPUTS) -> str:
    """Return the name of the golden outputs of a variant, of those in an export; `outputs`: the name of the model's."""
    own = f"{outputs}/{variant}"
    return own if own in names else outputs


def shortened(array: Any) -> Any:
    """Return the first half of the tokens of golden inputs or outputs."""
    return array[:, : max(1, array.shape[1] // 2)]


def compared(
    run: Any,
    interface: dict[str, Any],
    inputs: dict[str, Any],
    raw: dict[str, Any],
    outputs: Any,
    shorter: Any = None,
    further: Any = None,
) -> dict[str, Any]:
    """Return the largest difference from Keras' outputs, the smallest share of equal decisions, and the inputs that
    the graph makes otherwise of raw columns.

    A further output, whose unit is another, counts as if it were as large as the main one.
    """
    import numpy as np

    answers, differing = [], []
    for count, length in shapes(outputs, ahead=shorter is not None):
        examples, expected = inputs, outputs
        if length is not None:
            examples = {name: np.ascontiguousarray(array[:, :length]) for name, array in inputs.items()}
            expected = outputs[:, :length]
        batches = [
            {name: array[start : start + count] for name, array in examples.items()}
            for start in range(0, len(outputs), count)
        ]
        answers.append((np.concatenate([run(batch) for batch in batches]), expected))
    if shorter is not None:
        answers.append((run({name: np.ascontiguousarray(shortened(array)) for name, array in inputs.items()}), shorter))
    if RAW in interface.get("signatures", ()):
        differing = unequal(run.preprocess(raw), inputs)
        answers.append((run.raw(raw), outputs))
    if DECODE in interface.get("signatures", ()):
        answers.append((decoded(run, inputs["tokens"]), outputs))
    if FURTHER in interface.get("signatures", ()):
        results = run.run(FURTHER, inputs)
        assert results.keys() == further.keys(), sorted(results)
        scales = {name: np.float32(size(outputs) / size(expected)) for name, expected in further.items()}
        answers += [(results[name] * scales[name], expected * scales[name]) for name, expected in further.items()]
    for actual, expected in answers:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), (
            f"outputs {actual.dtype} {actual.shape} for {expected.dtype} {expected.shape}"
        )
        assert np.isfinite(actual).all(), "outputs that are not finite"
    return {
        "max_abs_difference": max(float(np.abs(actual.astype("f8") - expected).max()) for actual, expected in answers),
        "argmax_agreement": min(
            float((decisions(actual) == decisions(expected)).mean()) for actual, expected in answers
        ),
        "raw_differs": differing,
    }


def shapes(outputs: Any, ahead: bool = False) -> list[tuple[int, int | None]]:
    """Return pairs of batch size and length; outputs at a position must not depend on later tokens, unless a model
    looks `ahead`."""
    sizes: list[tuple[int, int | None]] = [(len(outputs), None), (3, None), (1, None)]
    if outputs.ndim == 3 and not ahead:
        sizes += [(len(outputs), outputs.shape[1] // 2), (1, 1)]
    return sizes


def decoded(run: Any, tokens: Any) -> Any:
    """Return the outputs of the first half of the tokens at once, and of each other token with what is kept of those
    before it."""
    import numpy as np

    half, length = (tokens.shape[1] + 1) // 2, tokens.shape[1]
    results = run.run(PREFILL, {"tokens": np.ascontiguousarray(tokens[:, :half])})
    outputs = [results.pop("logits")]
    ends = {name: array.ndim - (1 if array.ndim == 2 else 2) for name, array in results.items()}
    cache = {
        name: np.pad(array, [(0, length - half if axis == ends[name] else 0) for axis in range(array.ndim)])
        for name, array in results.items()
    }
    for position in range(half, length):
        token = np.ascontiguousarray(tokens[:, position : position + 1])
        cache = run.run(DECODE, {"tokens": token, "position": np.full(len(tokens), position, np.int32), **cache})
        outputs.append(cache.pop("logits"))
    return np.concatenate(outputs, axis=1)


def unequal(actual: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the names of the arrays that are not equal bit for bit."""
    assert actual.keys() == expected.keys(), sorted(actual)
    return sorted(
        name
        for name, array in expected.items()
        if (actual[name].dtype, actual[name].tobytes()) != (array.dtype, array.tobytes())
    )


def size(outputs: Any) -> float:
    """Return the largest of outputs without their signs, or 1 where that is smaller."""
    return max(1.0, float(abs(outputs).max()))


def decisions(outputs: Any) -> Any:
    """Return the most probable class or token; of a single output its sign."""
    return outputs.argmax(-1) if outputs.shape[-1] > 1 else outputs > 0


def timed(run: Any, example: dict[str, Any]) -> dict[str, Any]:
    """Return the number of timed calls with one example, and the median and the 99th percentile of their seconds."""
    import numpy as np

    for _ in range(WARM_UP):
        run(example)
    seconds: list[float] = []
    while len(seconds) < CALLS and sum(seconds) < SECONDS:
        started = time.perf_counter()
        run(example)
        seconds.append(time.perf_counter() - started)
    middle, high = np.percentile(seconds, [50, 99])
    return {"calls": len(seconds), "p50_seconds": float(middle), "p99_seconds": float(high)}


def peak_bytes() -> int:
    """Return the most memory that this process has had at a time (its resident set size)."""
    if not STATUS.exists():  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    # of this process alone: on Linux `getrusage` counts that of the process that started it as well
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def footprint(form: Any, file: str, arrays: str, threads: str) -> None:
    """Print the bytes that loading a file and running it on the inputs of another adds to this process."""
    import numpy as np

    for runtime in form.runtimes:
        importlib.import_module(runtime)
    with np.load(arrays) as inputs:
        batch = {name: inputs[name] for name in inputs.files}
    before = peak_bytes()
    run = form(Path(file), int(threads))
    run({name: np.ascontiguousarray(array[:1]) for name, array in batch.items()})
    run(batch)
    print(peak_bytes() - before)


def convert(form: Any, source: str, target: str) -> None:
    """Convert a file to the format."""
    form.convert(Path(source), Path(target))


def load_format(path: str, name: str) -> Any:
    """Load the class of a format from its file, as one of a package in which it can import those beside it."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(Path(path).parent)]
    sys.modules[PACKAGE] = package
    return getattr(importlib.import_module(f"{PACKAGE}.{Path(path).stem}"), name)


if __name__ == "__main__":
    [command, file, class_name, *arguments] = sys.argv[1:]
    if "--" in arguments:
        end = arguments.index("--")
        sys.path.extend(arguments[end + 1 :])
        del arguments[end:]
    commands: dict[str, Callable[..., None]] = {"verify": verify, "footprint": footprint, "convert": convert}
    commands[command](load_format(file, class_name), *arguments)
