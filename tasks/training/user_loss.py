"""The files of a loss of the user's, which decide a model."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tasks.config import TrainConfig
from tasks.data.user_code import files_of


def loss_files(config: TrainConfig) -> list[tuple[str, str]]:
    """Return path and SHA-256 of the module of `train.loss`, and of what it imports from its folder.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    if config.own_loss is None:
        return []
    files = files_of("train.loss", config.own_loss, Path(config.folder or "."))
    return [(f"loss/{path}", sha256(content).hexdigest()) for path, content in files.items()]
