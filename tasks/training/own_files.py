"""Files of the user's that decide a model: those with initial weights, and the module of a loss."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

from tasks.config.fine_tune import InitConfig
from tasks.config.train import TrainConfig
from tasks.environment.user_code import deciding, files_of
from tasks.errors import Refused

FIELD = "train.init"


def init_files(config: InitConfig | None) -> list[tuple[str, str]]:
    """Return the names and content hashes of the files with initial weights, for the digest."""
    if config is None or config.place is None or not config.is_path:
        return []
    path = Path(config.place[1])
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return [(f"init/{each.relative_to(path.parent).as_posix()}", _sha256(each)) for each in files if each.exists()]


def check_init(config: InitConfig | None) -> None:
    """Raise `Refused` where a file or folder with initial weights is not there."""
    if config is None or config.place is None or config.may_be_absent:
        return
    name, path = config.place
    if not config.is_path or not Path(path).exists():
        can_download = "download" in type(config).model_fields
        rule = f"no such file or folder{', and nothing is downloaded unasked' if can_download else ''}"
        remedy = f"correct it{f', as in ./folder, or set {FIELD}.download to true' if can_download else ''}"
        raise Refused(f"{FIELD}.{name}", path, rule, remedy)


def loss_files(config: TrainConfig) -> list[tuple[str, str]]:
    """Return path and SHA-256 of the module of `train.loss`, and of what it imports from its folder; and name and
    version of the packages that these import.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    if config.own_loss is None:
        return []
    folder = Path(config.folder or ".")
    files = files_of("train.loss", config.own_loss, folder)
    return [(f"loss/{name}", value) for name, value in deciding(files, folder)]


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()
