"""Where raw data is and how to read it: a class per `source.kind`."""

from __future__ import annotations

from typing import Annotated

from tasks.config.kinds import BY_KIND
from tasks.config.sources.catalogues import SklearnSource, TfdsSource
from tasks.config.sources.columns import ColumnsSource
from tasks.config.sources.folders import AudioFolderSource, ImageFolderSource, TextFilesSource
from tasks.config.sources.tables import (
    CsvSource,
    JsonlSource,
    ParquetSource,
    PythonSource,
    SqlSource,
    TfrecordSource,
    WebdatasetSource,
)

AnySource = (
    SklearnSource
    | TextFilesSource
    | ImageFolderSource
    | AudioFolderSource
    | TfdsSource
    | CsvSource
    | JsonlSource
    | ParquetSource
    | TfrecordSource
    | WebdatasetSource
    | SqlSource
    | PythonSource
)
SourceConfig = Annotated[AnySource, BY_KIND]

__all__ = [
    "AnySource",
    "AudioFolderSource",
    "ColumnsSource",
    "CsvSource",
    "ImageFolderSource",
    "JsonlSource",
    "ParquetSource",
    "PythonSource",
    "SklearnSource",
    "SourceConfig",
    "SqlSource",
    "TextFilesSource",
    "TfdsSource",
    "TfrecordSource",
    "WebdatasetSource",
]
