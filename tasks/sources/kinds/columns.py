"""The columns of a source: their types, and the ones that are not inputs of the model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import LATER, LISTED, NOT_IDENTITY, PATTERNS, Conflict, IsPath
from tasks.errors import Refused
from tasks.sources.features import DTYPES, KEY, OTHER, Feature
from tasks.sources.kinds import DataSource
from tasks.sources.kinds.formats import TYPES, CellFormat

Text = Annotated[str, StringConstraints(min_length=1)]

NUMBER = re.compile(r"number(?:\[(?P<shape>\d+(?:, ?\d+)*)\])?")
NAMED_TYPES = "category|text|words|tags|labels|image|audio|time|ignore"
ColumnType = Annotated[str, StringConstraints(pattern=rf"^({NAMED_TYPES}|number(\[[1-9]\d*(, ?[1-9]\d*)*\])?)$")]
"""`number` (float32), `number[128]` (an array of that shape), `category` (a string of few values), `text`, `words` (a
list of texts), `tags` (a list with the class of each word), `labels` (a list of the classes that apply), `image` and
`audio` (the bytes of a file, or its path relative to the source), `time`, or `ignore`."""


def shape_of(column_type: str) -> tuple[int, ...]:
    """Return the shape of a number's type: () for `number`, (8, 8) for `number[8, 8]`."""
    match = NUMBER.fullmatch(column_type)
    assert match is not None, column_type
    return tuple(int(size) for size in (match["shape"] or "").split(",") if size)


class ColumnsSource(DataSource):
    """A source whose columns are named in the config."""

    noun: ClassVar[str | None] = "rows"
    raw_input: ClassVar[str] = "ROWS.csv"
    listed: ClassVar[str] = "files"
    lists: ClassVar[bool] = False
    """Whether a column can hold lists of words and of their tags."""

    columns: Annotated[dict[Text, ColumnType], Field(min_length=1)]
    """Type of each column: `number` (float32), `number[128]` (an array of that shape), `category`, `text`, `words` (a
    list of texts), `tags` (a list with the class of each word), `labels` (a list of the classes that apply, one of
    `targets`), `image` or `audio` (bytes, or the path of a file below the source), `time`, or `ignore`. Lists are in
    JSON, Parquet and what a function yields, and in texts with a separator (`formats`). Every column of the data is
    named."""

    formats: Annotated[dict[Text, CellFormat], LATER] = {}
    """By column, how its cells are written, where they are no plain numbers (1234.5), times of ISO 8601, or lists."""

    key: Text | None = None
    """The column that is each example's key; default: its file and its number there."""

    label: Text | None = None
    """The column with the class, of type `category`, or with the classes of words, of type `tags`."""

    targets: Annotated[tuple[Text, ...], LISTED] = ()
    """The columns with the numbers that are predicted; of `multilabel`, `anomaly` and `ranking` 0 or 1."""

    outputs: Annotated[tuple[Text, ...], LATER, LISTED] = ()
    """The columns that further outputs of the model predict, beside the label or the targets: of type `category` or
    `number`, each with its loss in `train.losses`. They are no inputs."""

    weight: Text | None = None
    """The column with the weight of an example in the loss and in no metric."""

    group: Text | None = None
    """The column whose value keeps examples in one split (a patient, a writer, the query of a ranking)."""

    split: Text | None = None
    """The column, of type `category`, with the split of each example, for `records.splits: official`."""

    time: Text | None = None
    """The column, of type `time`, by which `records.splits` separates earlier from later examples."""

    classes: Annotated[tuple[Text, ...], LISTED] = ()
    """The classes of the label, or of a column of type `labels`, in the order of their numbers; default: those of the
    data, sorted. Named here they keep their numbers when the data grows."""

    labels: Annotated[dict[str, Text], LATER] = {}
    """Classes that are called by another name, by the name in the data: `{Yes: yes}` merges two of them."""

    unknown_class: Literal["error", "bucket"] = "error"
    """Handling of an example whose label is not in `classes`: an error, counted against `records.bad_budget`, or a
    further class `(other)`."""

    @property
    def roles(self) -> dict[str, str]:
        """The role of each column that is not an input: key, label, target, output, weight, group, split or time."""
        return {name: field.removesuffix("s") for field, name in self._named}

    @property
    def _named(self) -> list[tuple[str, str]]:
        """Field and column of each role that is given."""
        fields = ("key", "label", "weight", "group", "split", "time")
        single = [(field, getattr(self, field)) for field in fields if getattr(self, field) is not None]
        several = [(field, name) for field in ("targets", "outputs") for name in getattr(self, field)]
        return [*single, *several]

    @property
    def predicted(self) -> tuple[str, ...]:
        """The columns of the main output: the label, or the targets."""
        return self.targets if self.label is None else (self.label,)

    @property
    def inputs(self) -> list[str]:
        """The columns that the model reads, sorted."""
        return sorted(set(self.columns) - set(self.roles) - {n for n, kind in self.columns.items() if kind == "ignore"})

    def _lists_fit(self) -> None:
        """Raise `Conflict` for columns of words or tags that the source has not, or that no label is made of."""
        words, tags = ([name for name, kind in self.columns.items() if kind == each] for each in ("words", "tags"))
        lists = [name for name, kind in self.columns.items() if kind in ("words", "tags", "labels")]
        if not self.lists and (unread := [name for name in lists if name not in self.formats]):
            rule = "are lists, which JSON lines, Parquet and functions have"
            remedy = f"set source.formats.{unread[0]}.separator, or convert the data to one of them"
            raise Conflict("columns", unread[0], rule, remedy)
        for name in (name for name in lists if self.columns[name] == "labels"):
            if name not in self.targets:
                raise Conflict("columns", name, "is of type labels, which are targets", "name it in source.targets")
            if not self.classes:
                raise Conflict("targets", name, "is one of several classes", "list them as source.classes")
            if len(self.targets) > 1:
                raise Conflict("targets", list(self.targets), "are all of the labels", "name this column alone")
        for name in tags:
            if name != self.label:
                rule = "is of type tags, which is a label"
                raise Conflict("columns", name, rule, f"set source.label to {name}, or make it `ignore`")
            if not words:
                raise Conflict("label", name, "has a class for each word", "give a column the type words")

    @model_validator(mode="after")
    def formats_fit(self) -> ColumnsSource:
        for name, form in self.formats.items():
            if name not in self.columns:
                rule = f"must be one of source.columns: {', '.join(self.columns)}"
                raise Conflict("formats", name, rule, "correct the name")
            if self.columns[name] not in TYPES[form.kind]:
                rule = f"is of type {self.columns[name]}, and its format is one of {form.kind}"
                raise Conflict("formats", name, rule, f"set source.columns.{name} to {' or '.join(TYPES[form.kind])}")
            if form.offset is not None and self.roles.get(name, "input") != "input":
                rule = f"is a {self.roles[name]}, whose numbers keep their scale"
                raise Conflict(f"formats.{name}.offset", form.offset, rule, "leave the offset out")
        return self

    @model_validator(mode="after")
    def roles_fit(self) -> ColumnsSource:
        if not self.columns:  # of a source that has types of its own: they are checked with it
            return self
        wanted: dict[str, tuple[str, ...]] = {
            "label": ("category", "tags"),
            "targets": ("number", "labels"),
            "outputs": ("category", "number"),
            "weight": ("number",),
            "time": ("time",),
            "split": ("category",),
            **dict.fromkeys(("key", "group"), ("category", "text", "number")),
        }
        seen: dict[str, str] = {}
        for role, name in self._named:
            if name not in self.columns:
                known = ", ".join(self.columns)
                raise Conflict(role, name, "must be one of source.columns", f"name one of {known}, or add it there")
            if (kind := self.columns[name]) not in wanted[role]:
                rule = f"is of type {kind}, and {role} must be {' or '.join(wanted[role])}"
                raise Conflict(role, name, rule, f"change source.columns.{name}, or name another column")
            if name in seen:
                raise Conflict(role, name, f"is the {seen[name]} too", "a column has one role; name another")
            seen[name] = role
        self._lists_fit()
        if self.label is not None and self.targets:
            raise Conflict("targets", list(self.targets), "cannot be predicted beside a label", "leave one of them out")
        of_labels = "labels" in self.columns.values()
        if self.outputs and self.label is None and not self.targets:
            rule = "are predicted beside a label or targets, the main output, which decides"
            raise Conflict("outputs", list(self.outputs), rule, "name one of them as source.label or source.targets")
        if self.classes and self.label is None and not of_labels:
            raise Conflict("classes", list(self.classes), "need a label", "name source.label, or leave them out")
        if self.labels and self.label is None and not of_labels:
            raise Conflict("labels", dict(self.labels), "need a label", "name source.label, or leave them out")
        if self.labels and (lost := [name for name in self.labels if name in self.classes]):
            rule = f"is called {self.labels[lost[0]]}, and is no class"
            raise Conflict("labels", lost[0], rule, "leave it out of source.classes")
        if self.unknown_class == "bucket" and not self.classes:
            raise Conflict("unknown_class", "bucket", "needs classes that are known", "list source.classes")
        if len(set(self.classes)) < len(self.classes):
            raise Conflict("classes", list(self.classes), "must differ", "name each class once")
        if KEY in self.inputs:
            raise Conflict("columns", KEY, "names the key of an example in records", "make it source.key, or ignore it")
        if not self.inputs:
            raise Conflict("columns", list(self.columns), "leave no input for a model", "add one that is not ignored")
        return self


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


IMAGE_SHAPE, ANY_LENGTH = (-1, -1, -1), (-1,)
SHAPES = {"image": IMAGE_SHAPE, "words": ANY_LENGTH, "tags": ANY_LENGTH}
"""By kind, the shape of features that are no single values."""


def features_of(config: ColumnsSource) -> dict[str, Feature]:
    """Return the features by column, without ignored columns."""
    features: dict[str, Feature] = {}
    roles, renamed = config.roles, config.labels
    for name, column_type in sorted(config.columns.items()):
        state = config.formats[name].state() if name in config.formats else None
        role: Any = roles.get(name, "input")
        kind: Any = column_type if column_type in DTYPES else "number"
        shape = SHAPES.get(kind, ())
        if column_type == "labels":
            names = config.classes
            marks = Feature("number", DTYPES["number"], (len(names),), role, names=names, format=state)
            features[name] = replace(marks, renamed=renamed, of_labels=True)
        elif role == "output" and column_type == "category":
            features[name] = Feature("label", DTYPES["label"], (), role)
        elif role == "label":
            kind = "tags" if kind == "tags" else "label"
            bucket = (OTHER,) if config.unknown_class == "bucket" else ()
            classes = (*config.classes, *bucket) or None
            features[name] = Feature(kind, DTYPES[kind], shape, role, classes=classes, renamed=renamed)
        elif column_type != "ignore":
            shape = shape_of(column_type) if kind == "number" else shape
            features[name] = Feature(kind, DTYPES[kind], shape, role, format=state)
    return features


def name_of_place(place: int) -> str:
    """Return what a column is called that has no name, by its place from 0 on."""
    return f"column{place}"


def header_names(header: Iterable[str]) -> list[str]:
    """Return the names of the columns in a line of names, which may lack some, as of an index of pandas."""
    return [name if name.strip() else name_of_place(place) for place, name in enumerate(header)]


def read_columns(config: ColumnsSource) -> list[str]:
    """Return the columns that are read: all but the ignored ones."""
    return [name for name, kind in config.columns.items() if kind != "ignore"]


class OtherColumns(Refused):
    """The columns of the data are not those of `source.columns`."""

    has: str
    """What has which columns, as the beginning of a sentence."""


def check_columns(config: ColumnsSource, found: Iterable[str], where: str) -> None:
    """Raise `OtherColumns` where the columns of the data at `where` are not those of `source.columns`."""
    named, present = config.columns, list(found)
    has = f"{where} has the columns {', '.join(present)}"
    if missing := [name for name in named if name not in present]:
        field, remedy = f"source.columns.{missing[0]}", "correct the name, or leave it out"
        refused = OtherColumns(field, named[missing[0]], has, remedy)
    elif extra := [name for name in present if name not in named]:
        saw, remedy = f"{extra[0]} of {where} is not named", f"add `{extra[0]}: ignore`, or its type"
        refused = OtherColumns("source.columns", saw, "source.columns names every column of the data", remedy)
    else:
        return
    refused.has = has
    raise refused
