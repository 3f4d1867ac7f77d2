"""A format whose model returns its inputs, and whose interface describes the fresh process of an export."""

import os


class ToyFormat:
    """Returns its inputs; raw columns are inputs already."""

    runtimes = ("json",)

    def __init__(self, path, threads):
        self.threads = threads

    @property
    def interface(self):
        """The threads, and whether Keras can be imported."""
        try:
            import keras
        except ImportError:
            keras = None
        variables = {name: value for name, value in os.environ.items() if name.startswith(("TF_", "MLFLOW_"))}
        named = {"threads": self.threads, "keras": keras is not None, "variables": variables}
        return {"signatures": ["raw"], **named}

    def __call__(self, batch):
        return batch["numbers"]

    raw = __call__

    def preprocess(self, columns):
        return columns
