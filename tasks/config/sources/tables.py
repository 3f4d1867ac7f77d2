"""Sources of rows: files of tables, databases, and functions."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER, LISTED, NOT_IDENTITY, PATTERNS, Conflict, IsPath, Name, OwnCode
from tasks.config.sources.columns import ColumnsSource, Text
from tasks.environment.secrets import REMEDY, RULE, unreferenced

PASSWORD = re.compile(r"^[^/]*//[^:/]*:[^@]*@|([?&;=]|%3B|%3D)(password|passwd|pwd|sslpassword)(=|%3D)", re.IGNORECASE)
"""A password in a URL, which may have any character but @, or in a connection string of ODBC in one."""


FILE = r"^[^{}]*\{\}[^{}]*$"
"""A path with `{}` in place of the cell."""
PATTERNS[FILE] = "must be a path with {} in place of the cell"
FilePattern = Annotated[str, Field(pattern=FILE)]


class TableFiles(ColumnsSource):
    """Files of rows: one, or those of a folder."""

    path: Annotated[Text, NOT_IDENTITY, IsPath()]
    """The file, or the folder of files, relative to the preset. The content enters digests, the path does not."""

    exclude: Annotated[tuple[Text, ...], LISTED] = ()
    """Names of folders and files that are left out at any depth."""


class ReferringTables(TableFiles):
    """Files of rows whose cells may be the paths of images and sounds."""

    files: Annotated[dict[Text, FilePattern], LATER] = {}
    """Path of the file that a cell of a column means, below the source: with `{image_id: "train/{}.jpg"}` the cell
    `Train_7` means `train/Train_7.jpg`. Without it a cell is the path."""

    @model_validator(mode="after")
    def files_are_of_columns_of_files(self) -> ReferringTables:
        for name in self.files:
            if self.columns.get(name) not in ("image", "audio"):
                saw, rule = self.columns.get(name, "no such column"), "is for columns of type image or audio"
                raise Conflict(f"files.{name}", saw, rule, "correct the name or its type")
        return self


class CsvSource(ReferringTables):
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


class JsonlSource(ReferringTables):
    """Files with a JSON object on each line; also compressed (.gz, .zst, .bz2)."""

    raw_input: ClassVar[str] = "ROWS.jsonl"
    lists: ClassVar[bool] = True

    kind: Literal["jsonl"] = "jsonl"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    glob: Text = "**/*.jsonl*"
    """Which files of a folder; with a further suffix only compressed ones."""


class ParquetSource(ReferringTables):
    """Parquet files; nested columns by dotted name."""

    raw_input: ClassVar[str] = "ROWS.parquet"
    lists: ClassVar[bool] = True

    kind: Literal["parquet"] = "parquet"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    glob: Text = "**/*.parquet"
    """Which files of a folder."""


class TfrecordSource(TableFiles):
    """TFRecord files of `tf.train.Example`, also compressed (.gz, .zst, .bz2; GZIP also where no name says so). A
    column is a feature: one value, or an array of a shape."""

    kind: Literal["tfrecord"] = "tfrecord"
    """How the source is read."""

    name: Name = "table"
    """Names the records' files."""

    glob: Text = "**/*.tfrecord*"
    """Which files of a folder, `x.tfrecord-00000-of-00010` too."""


class WebdatasetSource(TableFiles):
    """Tar files, also compressed (.gz, .zst, .bz2), whose files `a/b.jpg`, `a/b.cls` and `a/b.json` are an example. A
    column is an ending, `jpg`, or a field of JSON, `json.size`. They are read without being extracted."""

    noun: ClassVar[str | None] = "examples"

    kind: Literal["webdataset"] = "webdataset"
    """How the source is read."""

    name: Name = "examples"
    """Names the records' files."""

    glob: Text = "**/*.t*"
    """Which files of a folder, of those with the ending of a tar file (.tar, .tar.gz, .tgz, .tar.zst, .tar.bz2)."""


class SqlSource(ColumnsSource):
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


class PythonSource(ColumnsSource):
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
