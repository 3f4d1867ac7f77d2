"""Sources of ready data sets: of scikit-learn, and of tensorflow-datasets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, Conflict, IsPath, Name
from tasks.errors import Failed, Refused
from tasks.sources.kinds import DataSource
from tasks.sources.kinds.columns import ColumnsSource, ColumnType, Text

if TYPE_CHECKING:
    from tasks.sources import Source
    from tasks.sources.tfds import Prepared

VERSION = re.compile(r"\d+\.\d+\.\d+")
NAME = re.compile(rf"(?P<name>\w+)(?:/(?P<config>[\w.-]+))?(?::(?P<version>{VERSION.pattern}))?")


class SklearnSource(DataSource, place=0):
    """A real data set that ships inside the scikit-learn package: nothing is downloaded."""

    noun: ClassVar[str | None] = None
    raw_input: ClassVar[str] = "ROWS.csv"
    listed: ClassVar[str] = "examples"

    kind: Literal["sklearn"] = "sklearn"
    """How the source is read."""

    name: Name = "digits"
    """Names the records' files."""

    dataset: Literal["digits", "digits_traits", "diabetes"] = "digits"
    """`digits`: 1,797 handwritten digits, 8 x 8 pixels of 17 grey levels, ten classes. `digits_traits`: the same with
    three labels in place of a class: even, at least five, has a closed loop. `diabetes`: 442 patients, ten numbers
    each, and how far the disease had gone a year later."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the data set."""
        from tasks.sources import sklearn

        return sklearn.open(self.dataset)


class TfdsSource(ColumnsSource, place=2):
    """A data set of tensorflow-datasets, read from where it is prepared (as TFRecord or ArrayRecord)."""

    noun: ClassVar[str | None] = None
    listed: ClassVar[str] = "files"

    kind: Literal["tfds"] = "tfds"
    """How the source is read."""

    name: Name = "tfds"
    """Names the records' files."""

    dataset: Text
    """`NAME`, `NAME/CONFIG` or `NAME/CONFIG:VERSION`; the newest prepared version where none is named."""

    data_dir: Annotated[Text | None, NOT_IDENTITY, IsPath()] = None
    """The folder of prepared data sets, or of this one, relative to the preset; default: $TFDS_DATA_DIR, else
    ~/tensorflow_datasets."""

    splits: Annotated[tuple[Text, ...], LISTED, Field(min_length=1)] | None = None
    """Which of its splits are read; they are split again by `records.splits`, unless that is `official`. Default: all
    of them."""

    columns: dict[Text, ColumnType] = {}
    """Type of each feature, a nested one by its path (`objects/name`). Default: the only image, or else the only text,
    or else all numbers; the only class label is `label`, and what a role names is read as it is needed."""

    module: Annotated[Text | None, NOT_IDENTITY, IsPath(".py")] = None
    """The Python module that registers the builder for `download`: the path of a file `.py`, relative to the preset, or
    an installed one."""

    download: Annotated[bool, NOT_IDENTITY] = False
    """Prepare the data set if it is not there yet; only then is the network used, if its builder asks for it."""

    @model_validator(mode="after")
    def features_are_no_further_outputs(self) -> TfdsSource:
        if self.outputs:
            rule = "are columns of a table, and the features of a prepared data set have other types"
            raise Conflict("outputs", list(self.outputs), rule, "leave them out, or export the data set to Parquet")
        return self

    def open(self, memory: Path | None = None) -> Source:
        """Open the data set, or one that is prepared at the first listing (`source.download`).

        Raises:
            Refused: it is not prepared and `source.download` is false, it has another format, or it lacks a feature or
                split of the config.
        """
        from tasks.sources.tfds import INFO, Prepared, Tfds

        folder = self.prepared()
        if folder is not None:
            return Tfds(Prepared(folder, self, self.splits), memory)
        if not self.download:
            infos = [path for depth in ("*/*", "*/*/*") for path in self.root.glob(f"{depth}/{INFO}")]
            known = sorted({path.parent.relative_to(self.root).as_posix() for path in infos})
            saw = f"{self.dataset} is not prepared in {self.root} (there: {', '.join(known[:8]) or 'nothing'})"
            raise Refused(
                "source.dataset",
                saw,
                "without source.download nothing is prepared and the network is not used",
                "correct source.dataset or source.data_dir, or set source.download to true",
            )
        if self.module is not None:
            _check_module(self.module)
        return Tfds(self._prepare, memory)

    @property
    def root(self) -> Path:
        """The folder of prepared data sets, by the rules of tensorflow-datasets."""
        return Path(self.data_dir or os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")).expanduser()

    def prepared(self) -> Path | None:
        """Return the folder of the data set, the newest version where none is named; None where it is not prepared."""
        from tasks.sources.tfds import INFO, read_json

        match = NAME.fullmatch(self.dataset)
        if match is None:
            rule = "must be NAME, NAME/CONFIG or NAME/CONFIG:VERSION"
            raise Refused("source.dataset", self.dataset, rule, "correct it")
        if (self.root / INFO).is_file():
            return self.root if read_json(self.root / INFO).get("name") == match["name"] else None
        under = self.root / match["name"] / (match["config"] or "")
        versions = [path.parent for path in under.glob(f"*/{INFO}") if VERSION.fullmatch(path.parent.name)]
        if match["version"]:
            versions = [path for path in versions if path.name == match["version"]]
        return max(versions, key=lambda path: [int(part) for part in path.name.split(".")], default=None)

    def _prepare(self) -> Prepared:
        """Prepare the data set, in a process that may use the network; raises `Failed` where that fails."""
        from tasks.environment.process import PYTHON, environment
        from tasks.sources.tfds import Prepared

        command = [*PYTHON, "-m", "tasks.sources.tfds_prepare", self.model_dump_json()]
        process = subprocess.run(
            command, env=environment(os.environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if process.returncode:
            sys.stderr.write(process.stderr)
            saw = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            rule = "tensorflow-datasets must be able to prepare it"
            raise Failed(f"source.dataset {self.dataset}", saw, rule, "see the log; prepare it by hand and rerun")
        folder = self.prepared()
        if folder is None:
            saw = f"not in {self.root} after it was prepared"
            raise Failed(f"source.dataset {self.dataset}", saw, "must be there", "name its version")
        return Prepared(folder, self, self.splits)


def _check_module(module: str) -> None:
    if module.endswith(".py"):
        if not Path(module).expanduser().is_file():
            raise Refused("source.module", module, "a module is the path of a file .py, or installed", "correct it")
    elif not re.fullmatch(r"[A-Za-z_][\w.]*", module) or find_spec(module.partition(".")[0]) is None:
        rule = "a module that is not the path of a file .py must be installed"
        raise Refused("source.module", module, rule, "install it, or give the path of its file")
