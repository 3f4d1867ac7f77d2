"""Sources of rows: files of tables, databases, and functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, Conflict, IsPath, Name, OwnCode
from tasks.environment.secrets import REMEDY, RULE, unreferenced
from tasks.sources.kinds.columns import ColumnsSource, ReferringTables, TableFiles, Text

if TYPE_CHECKING:
    from tasks.sources import Source

PASSWORD = re.compile(r"^[^/]*//[^:/]*:[^@]*@|([?&;=]|%3B|%3D)(password|passwd|pwd|sslpassword)(=|%3D)", re.IGNORECASE)
"""A password in a URL, which may have any character but @, or in a connection string of ODBC in one."""


class CsvSource(ReferringTables, place=3):
    """Files of separated values with a line of column names; also compressed (.gz, .zst, .bz2)."""

    kind: Literal["csv"] = "csv"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    glob: Text = "**/*.csv*"
    """Which files of a folder; with a further suffix only compressed ones."""

    encoding: Text = "utf-8"
    """Encoding of the text, by its name in Python; a byte order mark is skipped."""

    delimiter: Annotated[str, Field(pattern=r"^[\t -~]$")] = ","
    """Character between cells."""

    quote: Annotated[str, Field(pattern=r"^[!-~]?$")] = '"'
    """Character around cells; empty: none. Twice in a quoted cell it is the character itself."""

    escape: Annotated[str, Field(pattern=r"^[!-~]?$")] = ""
    """Character before one that is not special; empty: none."""

    header: Literal[True] | Annotated[tuple[Text, ...], LISTED] = True
    """`true`: the first line names the columns; without one the names of the columns in their order."""

    missing: Annotated[tuple[str, ...], LISTED] = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")
    """Cells that mean a missing value."""

    @model_validator(mode="after")
    def signs_differ(self) -> CsvSource:
        signs = [sign for sign in (self.delimiter, self.quote, self.escape) if sign]
        if len(set(signs)) < len(signs):
            raise Conflict("delimiter", self.delimiter, "differs from quote and escape", "choose three characters")
        return self

    @model_validator(mode="after")
    def header_names_the_columns(self) -> CsvSource:
        if self.header is not True and sorted(self.header) != sorted(self.columns):
            rule = f"names each of source.columns once: {', '.join(self.columns)}"
            raise Conflict("header", list(self.header), rule, "list these, in the order of the file")
        return self

    def open(self, memory: Path | None = None) -> Source:
        """Open the files."""
        from tasks.sources.csv import Csv
        from tasks.sources.delimited import Dialect

        dialect = Dialect(self.delimiter.encode(), self.quote.encode(), self.escape.encode())
        return Csv(self, memory, dialect=dialect, encoding=self.encoding, header=self.header, missing=self.missing)


class JsonlSource(ReferringTables, place=3):
    """Files with a JSON object on each line; also compressed (.gz, .zst, .bz2)."""

    raw_input: ClassVar[str] = "ROWS.jsonl"
    lists: ClassVar[bool] = True

    kind: Literal["jsonl"] = "jsonl"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    glob: Text = "**/*.jsonl*"
    """Which files of a folder; with a further suffix only compressed ones."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the files."""
        from tasks.sources.jsonl import Jsonl

        return Jsonl(self, memory)


class ParquetSource(ReferringTables, place=3):
    """Parquet files; nested columns by dotted name."""

    raw_input: ClassVar[str] = "ROWS.parquet"
    lists: ClassVar[bool] = True

    kind: Literal["parquet"] = "parquet"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    glob: Text = "**/*.parquet"
    """Which files of a folder."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the files."""
        from tasks.sources.parquet import Parquet

        return Parquet(self, memory)


class TfrecordSource(TableFiles, place=3):
    """TFRecord files of `tf.train.Example`, also compressed (.gz, .zst, .bz2; GZIP also where no name says so). A
    column is a feature: one value, or an array of a shape."""

    kind: Literal["tfrecord"] = "tfrecord"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    glob: Text = "**/*.tfrecord*"
    """Which files of a folder, `x.tfrecord-00000-of-00010` too."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the files."""
        from tasks.sources.tfrecord import Tfrecord

        return Tfrecord(self, memory)


class WebdatasetSource(TableFiles, place=3):
    """Tar files, also compressed (.gz, .zst, .bz2), whose files `a/b.jpg`, `a/b.cls` and `a/b.json` are an example. A
    column is an ending, `jpg`, or a field of JSON, `json.size`. They are read without being extracted."""

    noun: ClassVar[str | None] = "examples"

    kind: Literal["webdataset"] = "webdataset"
    """How the source is read."""

    name: Name = "examples"
    """Names the records' files."""

    glob: Text = "**/*.t*"
    """Which files of a folder, of those with the ending of a tar file (.tar, .tar.gz, .tgz, .tar.zst, .tar.bz2)."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the files."""
        from tasks.sources.webdataset import Webdataset

        return Webdataset(self, memory)


class SqlSource(ColumnsSource, place=3):
    """The rows of a database query, read in a transaction that changes nothing, in the order of the key."""

    noun: ClassVar[str | None] = "rows"
    listed: ClassVar[str] = "rows"

    kind: Literal["sql"] = "sql"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    url: Annotated[Text, NOT_IDENTITY]
    """SQLAlchemy URL; one with a password by reference: `env:NAME` or `file:PATH`."""

    query: Text
    """The name of a table, `table` or `schema.table`, or a SELECT."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The variable that `url` refers to."""
        kind, _, name = self.url.partition(":")
        return (name,) if kind == "env" else ()

    @model_validator(mode="after")
    def rows_have_an_order(self) -> SqlSource:
        if self.key is None:
            rule, remedy = "is what orders the rows of a database", "name a column whose values are there and differ"
            raise Conflict("key", "nothing", rule, remedy)
        if unreferenced(self.url) and PASSWORD.search(self.url):
            raise Conflict("url", "a URL with a password in it", RULE, REMEDY)
        return self

    def open(self, memory: Path | None = None) -> Source:
        """Open the query."""
        from tasks.sources.sql import Sql

        return Sql(self, self.url, self.query)


class PythonSource(ColumnsSource, place=3):
    """A function of the user's that yields a dict for each example, always the same ones: its modules enter digests,
    and files that it reads do not. A missing value is None."""

    noun: ClassVar[str | None] = "examples"
    listed: ClassVar[str] = "modules"
    lists: ClassVar[bool] = True

    kind: Literal["python"] = "python"
    """How the source is read."""

    name: Name = "examples"
    """Names the records' files."""

    function: OwnCode
    """`package.module:function`, importable from the preset's folder; it takes `arguments` and yields dicts, whose
    values are text, numbers, bytes, times, arrays of numbers and lists of words."""

    folder: Annotated[Text, NOT_IDENTITY, IsPath()] = "."
    """The folder from which the module is imported, relative to the preset."""

    arguments: dict[str, str | int | float | bool | None] = {}
    """Arguments of the function by name, which are passed in order of their names."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the function."""
        from tasks.sources.python import Python

        return Python(self, self.function, Path(self.folder), self.arguments)
