"""Peak memory of a variant: a script for a fresh process, so that nothing else is counted.

    python -I -S footprint.py FORMAT.py FILE INPUTS.npz THREADS SITE_PACKAGES...

Loads the file by the module of its format (see `verify.py`) and runs it on the inputs, once with the first example and
once with all. Prints the bytes by which this raised the largest resident set of the process, after the runtime was
imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any


def main(module: Path, file: Path, inputs: Path, threads: int, packages: list[str]) -> None:
    """Print the bytes."""
    sys.path.extend(packages)
    verify = _verify()
    form = verify.load_format(module)
    import numpy as np

    for runtime in form.RUNTIMES:
        importlib.import_module(runtime)
    with np.load(inputs) as arrays:
        batch = {name: arrays[name] for name in arrays.files}
    before = verify.peak_bytes()
    run, _ = form.load(file, threads)
    run({name: np.ascontiguousarray(array[:1]) for name, array in batch.items()})
    run(batch)
    print(verify.peak_bytes() - before)


def _verify() -> Any:
    """Return the module of `verify.py`, beside this file; the folder itself hides packages of the same names."""
    spec = importlib.util.spec_from_file_location("verify", Path(__file__).with_name("verify.py"))
    assert spec is not None and spec.loader is not None
    verify = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(verify)
    return verify


if __name__ == "__main__":
    module, file, inputs = map(Path, sys.argv[1:4])
    main(module, file, inputs, int(sys.argv[4]), sys.argv[5:])
