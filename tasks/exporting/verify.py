"""Verification of an export: a script for a fresh process that cannot import this project.

    python -I -S verify.py EXPORT FORMAT.py... -- SITE_PACKAGES...

The files of the formats (`tasks.exporting.FORMATS`) know how to load a variant, and import nothing of this project.
`-I -S` leave only the standard library; the folders of installed packages are arguments, so that the `.pth` files of
an editable install, which would make this project importable, are not read. Keras cannot be imported either. The
end of stdin says that the export is complete. Every variant runs on the golden inputs in batches of all, three and one,
text also shortened, and where it takes raw columns on these; the results go to stdout as one line of JSON.
"""

import gc
import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

OWN_PACKAGES = ("tasks", "flows", "infra")
HIDDEN = ("keras", "tf_keras")
THREADS = 1
INPUTS, RAW_INPUTS = "inputs/", "raw/"
"""Prefixes of the names of the golden inputs, and of the raw columns that become them."""
RAW = "raw"
"""The signature that takes raw columns."""


def main(export: Path, modules: list[str], packages: list[str]) -> None:
    sys.path.extend(packages)
    for name in OWN_PACKAGES:
        assert importlib.util.find_spec(name) is None, f"{name} can be imported: this process proves nothing"
    for name in HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment]
    import numpy as np

    gc.disable()  # until TensorFlow is imported; see tasks/environment/garbage.py, which cannot be imported here
    formats = load_formats(modules)
    for module in formats.values():
        importlib.import_module(module.RUNTIME)  # seconds, while the export is still written
    gc.freeze()
    gc.enable()
    sys.stdin.read()
    with np.load(export / "golden.npz") as golden:
        inputs, raw = (
            {name.removeprefix(prefix): golden[name] for name in golden.files if name.startswith(prefix)}
            for prefix in (INPUTS, RAW_INPUTS)
        )
        outputs = golden["outputs"]
    results = {}
    for path in sorted(export.glob("*/variant.json")):
        variant = json.loads(path.read_bytes())
        run, interface = formats[variant["format"]].load(path.parent / variant["file"], THREADS)
        answers, differences, agreements, differing = [], [], [], []
        for size, length in shapes(outputs):
            examples, expected = inputs, outputs
            if length is not None:
                examples = {name: np.ascontiguousarray(array[:, :length]) for name, array in inputs.items()}
                expected = outputs[:, :length]
            batches = [
                {name: array[start : start + size] for name, array in examples.items()}
                for start in range(0, len(outputs), size)
            ]
            answers.append((np.concatenate([run(batch) for batch in batches]), expected))
        if RAW in interface.get("signatures", ()):
            differing = unequal(run.preprocess(raw), inputs)
            answers.append((run.raw(raw), outputs))
        for actual, expected in answers:
            assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), (actual.shape, actual.dtype)
            differences.append(float(np.abs(actual.astype("f8") - expected).max()))
            agreements.append(float((decisions(actual) == decisions(expected)).mean()))
        figures = {
            "max_abs_difference": max(differences),
            "argmax_agreement": min(agreements),
            "raw_differs": differing,
        }
        results[path.parent.name] = {"format": variant["format"], **interface, **figures}
    loaded = sorted({name.partition(".")[0] for name in sys.modules} & set(OWN_PACKAGES))
    assert not loaded, f"{loaded} were imported"
    print(json.dumps(results))


def shapes(outputs: Any) -> list[tuple[int, int | None]]:
    """Return pairs of batch size and length; outputs at a position must not depend on later tokens."""
    sizes: list[tuple[int, int | None]] = [(len(outputs), None), (3, None), (1, None)]
    if outputs.ndim == 3:
        sizes += [(len(outputs), outputs.shape[1] // 2), (1, 1)]
    return sizes


def unequal(actual: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the names of the arrays that are not equal bit for bit."""
    assert actual.keys() == expected.keys(), sorted(actual)
    return sorted(
        name
        for name, array in expected.items()
        if (actual[name].dtype, actual[name].tobytes()) != (array.dtype, array.tobytes())
    )


def decisions(outputs: Any) -> Any:
    """Return the most probable class or token; of a single output its sign."""
    return outputs.argmax(-1) if outputs.shape[-1] > 1 else outputs > 0


def load_formats(modules: list[str]) -> dict[str, Any]:
    """Load the modules of formats from their files, by the name of the format, which is that of the file."""
    formats = {}
    for path in map(Path, modules):
        spec = importlib.util.spec_from_file_location(f"format_{path.stem}", path)
        assert spec is not None and spec.loader is not None, path
        formats[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(formats[path.stem])
    return formats


if __name__ == "__main__":
    separator = sys.argv.index("--")
    main(Path(sys.argv[1]), sys.argv[2:separator], sys.argv[separator + 1 :])
