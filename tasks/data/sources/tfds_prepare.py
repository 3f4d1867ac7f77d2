"""`python -m tasks.data.sources.tfds_prepare SOURCE`: have tensorflow-datasets prepare a data set, and leave.

A process of its own, because it imports TensorFlow; SOURCE is the JSON of a `TfdsSource` with `download: true`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from importlib import import_module
from typing import Any

from tasks.config import TfdsSource

PR_SET_PDEATHSIG = 1
RETRIES = 1
PATIENCE = (10, 60)
"""Of a download, and seconds until it connects and between two answers; the library's own ten retries without a limit
take minutes to say that there is no network."""


def prepare(config: TfdsSource) -> None:
    """Download (where the builder asks for it) and write the data set as TFRecord; raises what the builder raises."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow_datasets as tfds
    from requests.adapters import HTTPAdapter
    from tensorflow_datasets.core.download import downloader

    downloader.MAX_RETRIES = RETRIES
    send = HTTPAdapter.send

    def patient(*told: Any, **more: Any) -> Any:
        return send(*told, **{**more, "timeout": more.get("timeout") or PATIENCE})

    HTTPAdapter.send = patient  # type: ignore[method-assign]
    tfds.disable_progress_bar()
    if config.module:
        import_module(config.module)
    builder = tfds.builder(config.dataset, data_dir=config.data_dir, file_format="tfrecord")
    settings = tfds.download.DownloadConfig(try_download_gcs=False)
    builder.download_and_prepare(download_config=settings)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prepare(TfdsSource.model_validate_json(sys.argv[1]))
