"""What a sample of rows is: a table, images with a label, or texts."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import Refused
from tasks.guess.candidates import is_called_label
from tasks.guess.column import look
from tasks.guess.columns import guess_columns
from tasks.guess.examples import few_levels, image_shape, log_mel
from tasks.guess.found import Choices, Columns, Guess
from tasks.guess.samples import Sample
from tasks.guess.splits import FEW_EXAMPLES, SHARES, Splits, draw_splits, keep_splits, listed, shares_of_text
from tasks.reader.cast import EPOCH, MICROSECOND
from tasks.reader.formats import Dates
from tasks.reader.values import NO_TIME
from tasks.records import column_types
from tasks.sources.features import Feature
from tasks.sources.kinds.tables import CsvSource

MUCH_MISSING = 0.4
"""Share of missing values that is said."""
FEW_OF_CLASS = 20
"""Rows of the sample below which a class gets no weight: it would be that of a few examples."""
IMBALANCE = 5
"""Ratio of the most to the least frequent class above which classes are weighted."""
MAJORITY = 0.7
"""Share of the most frequent class above which accuracy says little: whoever always answers it is as often right."""
FEW_OF_RARE = 250
"""Examples of the rare class below which splits are larger: an average precision of 12 rare ones is mostly noise."""
NOUNS = {"image": "images", "audio": "sounds", "words": "sequences"}
"""What examples of only one such column are called; the snapshot's sizes follow from the data."""
SHOWN = 20
"""Columns whose types are said."""
DAY = 86_400_000_000
"""Microseconds that times span, at least, that are no times of day."""
SAMPLED_FILES = 200
"""Number of images or sounds whose sizes are read."""


def guess_table(sample: Sample, choices: Choices) -> Guess:
    """Return what a sample is, with types and roles; raises `Refused` where nothing can be predicted."""
    columns = guess_rows(sample, choices)
    return describe(sample, columns, section(sample, columns))


def describe(sample: Sample, columns: Columns, source: dict[str, Any], kept: Splits | None = None) -> Guess:
    """Return what a sample with these columns is.

    Args:
        kept: the splits that the source has; None for those of a column, or drawn ones.
    """
    if columns.label is None and not columns.targets:
        return _of_texts(sample, columns, source)
    if not columns.inputs:
        ignored = "; ".join(line for line in columns.said if ": ignored, " in line)
        saw = f"no column beside {columns.label or ', '.join(columns.targets)}" + (f" ({ignored})" if ignored else "")
        raise Refused("PATH", saw, "a model needs an input", "name another label")
    kinds = {name: columns.types[name] for name in columns.inputs}
    few, noun = bool(few_to_judge(columns, sample.rows)), NOUNS.get("".join(kinds.values()), "rows")
    if columns.split:
        kept = keep_splits(source, columns.splits, sample.rows, sample.exact)
    of_columns = f" of {len(columns.types)} columns" if noun == "rows" else ""
    guess = Guess(
        what="table",
        source=source,
        counts=columns.classes or columns.labels or {"rows": sample.rows},
        description=f"{'' if sample.exact else 'about '}{sample.rows:,} {noun}{of_columns}",
        splits=kept or draw_splits(source, sample.rows, f"add {noun}", SHARES[few:], sample.exact),
        examples=sample.rows,
        task=columns.task,
        columns=columns,
        sample=sample.columns,
        said=(*sample.form.said, _types(columns), *columns.said, *_worries(columns, sample, kept)),
    )
    if words := columns.tagged:
        transform = {"kind": "words", "length": words.length, "vocabulary": VOCABULARY, "min_count": 2}
        return replace(guess, what="words", transforms={words.words: transform})
    if noun == "images":
        files = _payloads(source, *kinds)
        shape, sizes = image_shape(files)
        return replace(guess, what="images", shape=shape, sizes=sizes, levels=few_levels(files))
    sized = [name for name, kind in kinds.items() if kind in ("image", "audio")]
    return replace(guess, transforms={name: _transform(source, name, kinds[name]) for name in sized})


def guess_rows(sample: Sample, choices: Choices) -> Columns:
    """Return types and roles of all columns, those that are not read included."""
    names = [*sample.columns, *sample.form.unread]
    label, key = (
        None if chosen is None else _named(flag, chosen, sample)
        for flag, chosen in (("--label", choices.label), ("--key", choices.key))
    )
    if key is not None and not look(sample.columns[key], sample.root).unique:
        rule = "a key is in every row, and differs from row to row"
        raise Refused("--key", f"{key}, with missing or repeated values", rule, "name another column, or none")
    found = guess_columns(sample.columns, sample.root, label, sample.source.get("key") or key)
    shaped = {n: kind for n, kind in sample.form.types.items() if "," in kind and found.types[n] != "ignore"}
    types = {**found.types, **shaped, **dict.fromkeys(sample.form.unread, "ignore")}
    unread = [f"{name}: ignored, {why}" for name, why in sample.form.unread.items()]
    return replace(found, types={name: types[name] for name in names}, said=(*found.said, *unread))


def _named(flag: str, chosen: str, sample: Sample) -> str:
    """Return the column that a flag names, blanks at its ends aside; raises `Refused` with the nearest name."""
    if chosen in sample.columns:
        return chosen
    bare = [name for name in sample.columns if name.strip() == chosen.strip()]
    if len(bare) == 1:
        return bare[0]
    if why := sample.form.unread.get(chosen):
        raise Refused(flag, chosen, f"is ignored, {why}", "name another column")
    near = difflib.get_close_matches(chosen, list(sample.columns), n=1, cutoff=0.5)
    shown = ", ".join([*sample.columns][:SHOWN]) + (", …" if len(sample.columns) > SHOWN else "")
    raise Refused(flag, chosen, f"must be one of {shown}", f"did you mean {near[0]}?" if near else "correct it")


def section(sample: Sample, columns: Columns) -> dict[str, Any]:
    """Return the config section of the source."""
    roles = {"key": columns.key, "label": columns.label, "targets": list(columns.targets), "split": columns.split}
    roles["group"] = columns.group
    source = {**sample.source, "columns": columns.types} | {role: name for role, name in roles.items() if name}
    formats = {name: dict(form) for name, form in columns.formats.items()}
    if sample.source["kind"] == "csv":
        usual = CsvSource.model_fields["missing"].default
        missing = [*(text for text in usual if text not in columns.kept), *columns.placeholders]
        if missing != list(usual):
            source["missing"] = missing
    else:
        for name, placeholders in columns.placeholders_of.items():
            formats.setdefault(name, {}).setdefault("missing", []).extend(placeholders)
    if formats:
        source["formats"] = formats
    if columns.labels:
        return {**source, "classes": list(columns.labels)}
    if (named := sample.form.classes.get(columns.label or "")) and columns.classes.keys() <= set(named):
        return {**source, "classes": named}
    # Of a part of the rows not all classes are known: those of the data are taken when it is converted.
    return {**source, "classes": list(columns.classes)} if columns.classes and sample.exact else source


def counts_of(sample: Sample, label: str | None) -> dict[str, int]:
    """Return the rows of each class in a sample, by class."""
    return dict(sorted(Counter(sample.columns[label].drop_null().to_pylist()).items())) if label else {}


def weighted(classes: dict[str, int]) -> bool:
    """Return whether classes differ so much in size that the loss weighs them, and none is too small for it."""
    sizes = list(classes.values())
    return bool(sizes) and max(sizes) > IMBALANCE * min(sizes) and min(sizes) >= FEW_OF_CLASS


def deciding(classes: dict[str, int]) -> tuple[str, str | None] | None:
    """Return the metric that decides and the class that it calls positive, where accuracy says little; else None.

    With a class of a few examples alone neither is known well enough to decide.
    """
    sizes = list(classes.values())
    if len(sizes) < 2 or max(sizes) <= MAJORITY * sum(sizes) or min(sizes) < FEW_OF_CLASS:
        return None
    return ("average_precision", min(classes, key=classes.__getitem__)) if len(sizes) == 2 else ("macro_f1", None)


def few_to_judge(columns: Columns, rows: int, noun: str = "rows") -> str:
    """Return what, of all rows, is too few for a test split of a tenth, in words; empty where there are enough."""
    classes = columns.classes
    if rows < FEW_EXAMPLES:
        return f"few {noun}"
    if columns.tagged is not None or deciding(classes) is None:
        return ""
    least = min(classes, key=classes.__getitem__)
    return f"few {noun} of {least}" if classes[least] / sum(classes.values()) * rows < FEW_OF_RARE else ""


def _of_texts(sample: Sample, columns: Columns, source: dict[str, Any]) -> Guess:
    """Return texts for a language model, where they are all that there is."""
    texts = [name for name in columns.inputs if columns.types[name] == "text"]
    if len(texts) != 1 or len(columns.inputs) > 1:
        rule, names = "one column is predicted from the others", ", ".join(columns.types)
        unfit = "".join(f"; {each} {_of_values(sample, each)}" for each in columns.types if is_called_label(each))
        raise Refused("--label", f"nothing, and the columns are {names}{unfit}", rule, "name it: --label COLUMN")
    held = pc.sum(pc.binary_length(sample.columns[texts[0]])).as_py() or 0
    size = held * sample.rows // max(len(sample.columns[texts[0]]), 1)
    shares = shares_of_text(size, sample.rows)
    return Guess(
        what="text",
        source=source,
        counts={"texts": sample.rows},
        description=f"{'' if sample.exact else 'about '}{sample.rows:,} texts",
        splits=draw_splits(source, sample.rows, "add texts", shares, sample.exact),
        examples=sample.rows,
        task="language_model",
        columns=columns,
        bytes=size,
        said=(*sample.form.said, _types(columns), *columns.said, "no label: a language model (or add --label)"),
    )


def _of_values(sample: Sample, name: str) -> str:
    """Return how many values a column has that is called like a label, in words."""
    if name not in sample.columns:
        return "is not read"
    different = len(pc.unique(sample.columns[name].drop_null()))
    return "has one value alone" if different == 1 else f"has {different:,} values, too many for classes"


def _types(columns: Columns) -> str:
    """Return the types of the columns, as the preset has them, of the first ones."""
    shown = [f"{name} {kind}" for name, kind in columns.types.items()]
    return f"columns: {', '.join(shown[:SHOWN])}" + (f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else "")


def _worries(columns: Columns, sample: Sample, kept: Splits | None) -> Iterator[str]:
    """Yield what of the data deserves attention."""
    for name in columns.inputs:
        missing = sample.columns[name].null_count / max(len(sample.columns[name]), 1)
        if missing >= MUCH_MISSING:
            yield f"{name}: {missing:.0%} are missing"
    if columns.tagged is None:
        yield from worries_of_classes(columns.classes)
    if columns.classes and not sample.exact:
        yield "a part of the rows was looked at, so the classes are those of the data (source.classes)"
    if kept is None and columns.group is None:
        yield from _offers_of_times(columns, sample)
    if kept is None and (few := few_to_judge(columns, sample.rows)):
        yield larger_splits(few)


def larger_splits(few: str) -> str:
    """Return what is done where too few can be judged by a test split of a tenth."""
    return f"{few}: {SHARES[1]['validation']:.0%} each for validation and test, and wide intervals in the report"


def _offers_of_times(columns: Columns, sample: Sample) -> Iterator[str]:
    """Yield how the first time could split the rows, those of the last tenth into test."""
    for name in columns.inputs:
        if columns.types[name] != "time":
            continue
        form = columns.formats.get(name)
        feature = Feature("time", "int64", format=None if form is None else {"kind": Dates.kind, **form})
        times = np.sort(np.asarray(column_types.typed(feature, sample.columns[name], 0).values))
        begin, *later = times[[0, len(times) * 8 // 10, len(times) * 9 // 10]].tolist()
        if begin == NO_TIME or not begin < later[0] < later[1] or later[1] - begin < DAY:
            continue
        validation, test = (_as_written(time) for time in later)
        yield (
            f"{name}: a time; to predict later rows from earlier ones, split by it: source.time: {name}, "
            "records.splits: time, and in place of the shares "
            f"records.split_times: {{validation: {validation}, test: {test}}}"
        )
        return


def _as_written(time: int) -> str:
    """Return microseconds since 1970 in ISO 8601, a day alone where it is midnight."""
    text = (EPOCH + time * MICROSECOND).replace(tzinfo=None).isoformat()
    return text.removesuffix("T00:00:00")


def worries_of_classes(classes: dict[str, int]) -> Iterator[str]:
    """Yield what of the sizes of classes deserves attention."""
    least, most = min(classes.values(), default=1), max(classes.values(), default=1)
    if weighted(classes):
        yield f"imbalanced classes (1 to {most / least:.0f}): each class gets the same weight in the loss"
    elif most > IMBALANCE * least:
        yield f"a class with {least} of the examples looked at: too few to be learned, so classes have no weights"
    if decided := deciding(classes):
        metric, positive = decided
        decides = metric.replace("_", " ") + ("" if positive is None else f" of {positive}")
        yield f"{most / sum(classes.values()):.0%} are of one class: {decides} decides, not accuracy"


def _transform(source: dict[str, Any], name: str, kind: str) -> dict[str, Any]:
    payloads = _payloads(source, name)
    if kind == "audio":
        return log_mel(payloads)[0]
    (height, width, channels), _ = image_shape(payloads)
    levels = {"range": "auto"} if few_levels(payloads) else {}
    return {"kind": "image", "height": height, "width": width, "channels": channels, **levels}


def _payloads(source: dict[str, Any], name: str) -> Iterable[bytes]:
    """Return the first values of a column of files."""
    opened = listed(source)

    def values() -> Iterator[bytes]:
        for partition in opened.partitions():
            for rows in opened.read(partition):
                column = rows.columns[name]
                if pa.types.is_struct(column.type):
                    column = column.combine_chunks().field("bytes")
                yield from (value for value in column.to_pylist() if value)

    return list(islice(values(), SAMPLED_FILES))


VOCABULARY = 20_000
