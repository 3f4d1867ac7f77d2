"""`python -m tasks.sources.tfds_prepare SOURCE`: prepare a data set with tensorflow-datasets.

Runs in a process of its own, as it imports TensorFlow; SOURCE is the JSON of a `TfdsSource` with `download: true`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from tasks.sources.kinds.catalogues import TfdsSource

PR_SET_PDEATHSIG = 1
RETRIES = 1
TIMEOUT = (10, 60)
"""Timeouts of a download in seconds, to connect and to read: the library's ten retries without a timeout
take minutes where there is no network."""


def load(module: str) -> None:
    """Import the module that registers a builder: a file, or one that is installed."""
    if not module.endswith(".py"):
        import_module(module)
        return
    path = Path(module).expanduser()
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(loaded)


def prepare(config: TfdsSource) -> None:
    """Download the data set where necessary and write it as TFRecord; raises what the builder raises."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow_datasets as tfds
    from requests.adapters import HTTPAdapter
    from tensorflow_datasets.core.download import downloader

    downloader.MAX_RETRIES = RETRIES
    send = HTTPAdapter.send

    def send_with_timeout(*arguments: Any, **options: Any) -> Any:
        return send(*arguments, **{**options, "timeout": options.get("timeout") or TIMEOUT})

    HTTPAdapter.send = send_with_timeout  # type: ignore[method-assign]
    tfds.disable_progress_bar()
    if config.module:
        load(config.module)
    builder = tfds.builder(config.dataset, data_dir=config.data_dir, file_format="tfrecord")
    settings = tfds.download.DownloadConfig(try_download_gcs=False)
    builder.download_and_prepare(download_config=settings)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prepare(TfdsSource.model_validate_json(sys.argv[1]))
