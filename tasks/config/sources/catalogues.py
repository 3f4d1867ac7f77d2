"""Sources of ready data sets: of scikit-learn, and of tensorflow-datasets."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LISTED, NOT_IDENTITY, IsPath, Name, Section
from tasks.config.sources.columns import ColumnsSource, ColumnType, Text


class SklearnSource(Section):
    """A real data set that ships inside the scikit-learn package: nothing is downloaded."""

    noun: ClassVar[str | None] = None
    """Plural name of the records; None where that depends on the snapshot."""
    raw_input: ClassVar[str] = "ROWS.csv"
    listed: ClassVar[str] = "examples"
    """Plural name of what is listed with a content hash in digests."""

    kind: Literal["sklearn"] = "sklearn"
    """How the source is read."""

    name: Name = "digits"
    """Names the records' files."""

    dataset: Literal["digits", "digits_traits", "diabetes"] = "digits"
    """`digits`: 1,797 handwritten digits, 8 x 8 pixels of 17 grey levels, ten classes. `digits_traits`: the same with
    three labels in place of a class: even, at least five, has a closed loop. `diabetes`: 442 patients, ten numbers
    each, and how far the disease had gone a year later."""


class TfdsSource(ColumnsSource):
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
