"""A format whose model returns its inputs, and whose interface describes the fresh process of an export."""

import os

RUNTIMES = ("json",)


class Toy:
    """Returns its inputs; raw columns are inputs already."""

    def __call__(self, batch):
        return batch["numbers"]

    raw = __call__

    def preprocess(self, columns):
        return columns


def load(path, threads):
    """Return the identity; the interface names the threads, and whether Keras can be imported."""
    try:
        import keras
    except ImportError:
        keras = None
    variables = {name: value for name, value in os.environ.items() if name.startswith(("TF_", "MLFLOW_"))}
    return Toy(), {"signatures": ["raw"], "threads": threads, "keras": keras is not None, "variables": variables}
