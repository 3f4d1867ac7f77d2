"""What a column of raw values is, seen from a sample: its type, how its cells are written, and why."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from tasks.reader.formats import MOST_ITEMS, Dates, Format, Lists, Numbers, of_state
from tasks.reader.values import BLANKS, MISSING
from tasks.reader.values import NUMBER as DECIMAL
from tasks.records.column_types.numbers import Time
from tasks.sources.features import Feature
from tasks.sources.folders import is_image, is_sound
from tasks.sources.values import is_list, is_octets, is_text

FEW_CLASSES = 20
"""Different integers at most that are classes and not a quantity."""
WORDS, CHARACTERS = 4, 40
"""Mean words, or characters, of a value from which a column is a text."""
PLACEHOLDERS = 5
"""Different cells at most that stand for a missing value among others of one form."""
MOSTLY = 3
"""Times as many different values as placeholders that the others are, at least."""
DIGITS_OF_DATE = re.compile(r"(19|20)\d{6}(\d{6})?")
LEADING_ZERO = re.compile(r"0\d+")
LIMIT = re.compile(rf"[<>\u2264\u2265]=?\s*{DECIMAL.pattern}")
"""A value beyond what can be measured, such as `<0.1`."""
REPEATED = 3
"""Rows at least of a number that may mean a missing value."""
MEASURED = 10
"""Different numbers at least from which one is far."""
HUGE = 1e20
NO_DATA = re.compile(r"-9+(\.0)?|-8+|-32768|-2147483648")
"""Numbers that tools write where there is no value."""
RECENT = 9.5e8, 4.1e9
"""Seconds since 1970 in the years 2000 to 2100."""
TEXT_LISTS = 30
"""Mean characters of a cell at most that may be several values."""
NO_FILE = "as its bytes are neither an image nor a sound"
IMAGES = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n|GIF8[79]a|BM|RIFF....WEBP|II\*\0|MM\0\*", re.DOTALL)
SOUNDS = re.compile(rb"RIFF....WAVE|fLaC|OggS|ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", re.DOTALL)
"""How files of images and sounds begin."""

TEXT, NUMBER, CATEGORY, TIME = (
    Feature(kind, dtype)  # type: ignore[arg-type]
    for kind, dtype in (("text", "string"), ("number", "float32"), ("category", "string"), ("time", "int64"))
)


@dataclass(frozen=True)
class Column:
    """A column of the sample."""

    type: str
    """As in `source.columns`."""
    distinct: int
    missing: int
    rows: int
    values: tuple[str, ...] = ()
    """Different values of a category, sorted; none of many."""
    whole: bool = False
    """Whether all its numbers are integers."""
    why: str = ""
    """The reason of a choice that is not obvious."""
    format: Mapping[str, Any] | None = None
    """How its cells are written, as in `source.formats`; None where they are plain."""
    placeholders: Mapping[str, int] = field(default_factory=dict)
    """Cells that stand for a missing value, and are not yet taken for one, with their counts."""
    absent: Mapping[str, int] = field(default_factory=dict)
    """Cells that are taken for a missing value, `NA` or `None`, with their counts."""
    items: Mapping[str, int] = field(default_factory=dict)
    """Of lists of a few different texts, how often each occurs."""
    worries: tuple[str, ...] = ()
    """Lines for the user about its values."""
    undecided: tuple[str, ...] = ()
    """Forms of dates that fit all cells, where these differ in what they mean."""

    @property
    def unique(self) -> bool:
        """Whether every row has another value."""
        return self.distinct == self.rows and not self.missing

    @property
    def may_name(self) -> bool:
        """Whether its values may be names of rows or of groups: texts, or whole numbers."""
        return self.type in ("category", "text") or (self.type == "number" and self.whole)


def look(values: pa.Array, root: Path) -> Column:
    """Return what a column of raw values is."""
    missing, rows = values.null_count, len(values)
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pt.is_float16(values.type):  # of which Arrow counts no different values
        values = values.cast(pa.float32())
    if is_list(values.type):
        return _of_lists(values)
    present = values.drop_null()
    if pt.is_null(values.type):
        return Column("category", 0, missing, rows)
    if is_octets(values.type) or pt.is_struct(values.type):
        kind = payload_kind(_payloads(present))
        return Column(kind, len(present), missing, rows, why="by its first bytes" if kind != "ignore" else NO_FILE)
    if not _is_plain(values.type):
        return Column("ignore", 0, missing, rows, why=f"{values.type} is not read")
    distinct = len(pc.unique(present))
    if pt.is_boolean(values.type):
        return Column("category", distinct, missing, rows, ("false", "true"))
    if pt.is_timestamp(values.type) or pt.is_date(values.type):
        return Column("time", distinct, missing, rows)
    if not is_text(values.type):
        numbers = np.asarray(present.cast(pa.float64(), safe=False))
        return with_numbers(Column("number", distinct, missing, rows), numbers[np.isfinite(numbers)])
    return _of_texts(present, missing, rows, root)


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether values of a type are read as they are."""
    numeric = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind) or pt.is_boolean(kind)
    return bool(numeric or is_text(kind) or pt.is_timestamp(kind) or pt.is_date(kind))


def _of_texts(present: pa.Array, missing: int, rows: int, root: Path) -> Column:
    counts = Counter(text.strip(BLANKS) for text in present.to_pylist())
    absent = {text: counts.pop(text) for text in sorted(MISSING & counts.keys())}
    missing += sum(absent.values())
    seen = Column("category", len(counts), missing, rows, absent=absent)
    if not counts:
        return seen
    for placeholders in _placeholders(counts):
        texts = [text for text in counts if text not in placeholders]
        if found := _of_one_form(texts):
            gone = sum(placeholders.values())
            column = replace(found, distinct=len(texts), missing=missing + gone, rows=rows)
            column = replace(column, absent=absent, placeholders=placeholders)
            return _with_numbers_of(column, {text: counts[text] for text in texts})
    return _of_words(counts, seen, present, root)


def _with_numbers_of(column: Column, counts: Mapping[str, int]) -> Column:
    """Return a column with what its cells say as numbers, where they are."""
    if column.type != "number":
        return column
    form = of_state({"kind": Numbers.kind, **(column.format or {})})
    values = [float(form.read(text)) for text in counts]
    return with_numbers(column, np.repeat(values, list(counts.values())))


def with_numbers(column: Column, numbers: NDArray[np.float64]) -> Column:
    """Return a column with what its numbers, of the rows that have one, ask for: some that mean a missing value, and an
    offset where float32 cannot tell them apart."""
    column = replace(column, whole=bool(len(numbers)) and bool((numbers == np.trunc(numbers)).all()))
    values, counts = np.unique(numbers, return_counts=True)
    missing, worries = list[str](), list[str]()
    for value, count, sure in _no_data(values, counts):
        text = _shortest(value)
        if sure:
            missing.append(text)
            worries.append(f"{text} in {count:,} rows is read as missing, as it is far from all others")
        else:
            line = f"source.formats: {{COLUMN: {{missing: [{json.dumps(text)}]}}}}"
            worries.append(f"{text} in {count:,} rows is far from all others; if it means no value: {line}")
    form = dict(column.format or {}) | ({"missing": missing} if missing else {})
    rest = values[~np.isin(values, [float(text) for text in missing])]
    together = len(rest) - len(np.unique(rest.astype(np.float32)))
    if together:
        step = 10.0 ** (np.floor(np.log10(rest[-1] - rest[0])) + 1)
        offset = float(np.floor(rest[0] / step) * step)
        left = len(rest) - len(np.unique((rest - offset).astype(np.float32)))
        why = f"{together:,} of its {len(rest):,} values fall together in float32, which has 7 digits"
        if offset and left < together:
            form["offset"] = offset
            worries.append(f"{why}; without {_shortest(offset)}, {left or 'none'} do{_as_time(rest)}")
        else:
            worries.append(why + _as_time(rest))
    return replace(column, format=form or None, worries=(*column.worries, *worries))


def _no_data(values: NDArray[np.float64], counts: NDArray[np.int64]) -> Iterator[tuple[float, int, bool]]:
    """Yield the smallest or largest number where it repeats and is further from all others than these from each other,
    its rows, and whether it can be no measured value."""
    for end, rest in ((0, slice(1, None)), (-1, slice(None, -1))):
        others = values[rest]
        if len(others) < MEASURED:
            continue
        value, count = float(values[end]), int(counts[end])
        gap = min(abs(value - others[0]), abs(value - others[-1]))
        if count >= REPEATED and gap > others[-1] - others[0]:
            yield value, count, abs(value) >= HUGE or (bool(NO_DATA.fullmatch(_shortest(value))) and others[0] >= 0)


def _as_time(values: NDArray[np.float64]) -> str:
    """Return what is said of numbers that may be times since 1970."""
    for unit, size in (("seconds", 1.0), ("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9)):
        if values[0] >= RECENT[0] * size and values[-1] <= RECENT[1] * size:
            return f"; as {unit} since 1970 they are times: convert them, and give the column the type time"
    return ""


def _shortest(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _placeholders(counts: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield what of the cells may stand for a missing value: nothing, then the few without a digit, or of a limit."""
    yield {}
    wordy = {
        text: count
        for text, count in counts.items()
        if not any(sign.isdigit() for sign in text) or LIMIT.fullmatch(text)
    }
    if 0 < len(wordy) <= PLACEHOLDERS and MOSTLY * len(wordy) <= len(counts) - len(wordy):
        yield wordy


def _of_one_form(texts: Sequence[str]) -> Column | None:
    """Return what texts are that are all numbers, or all times; None of others."""
    if all(map(DECIMAL.fullmatch, texts)):
        if any(map(LEADING_ZERO.fullmatch, texts)):
            zeros = next(text for text in texts if LEADING_ZERO.fullmatch(text))
            return Column("category", 0, 0, 0, why=f"as {zeros} begins with 0, which a number does not")
        if all(map(DIGITS_OF_DATE.fullmatch, texts)) and (dates := Dates.recognise(texts)):
            return _of_dates(dates, texts)
        return Column("number", 0, 0, 0)
    if not Time(TIME).typed(pa.array(texts, pa.string())).bad:
        return Column("time", 0, 0, 0)
    if numbers := Numbers.recognise(texts):
        [form] = numbers
        example = next(text for text in texts if text != form.read(text))
        return Column("number", 0, 0, 0, why=f"{example!r} is read as {form.read(example)}", format=form.state())
    dates = Dates.recognise(texts)
    return _of_dates(dates, texts) if dates else None


def _of_dates(forms: Sequence[Format], texts: Sequence[str]) -> Column:
    """Return a time; where several forms fit, with different times, the user is asked."""
    different = {tuple(form.read(text) for text in texts): form for form in reversed(forms)}
    if len(different) == 1:
        state = forms[0].state()
        example = f"{texts[0]!r} is read as {forms[0].read(texts[0])} by {state['date']}"
        return Column("time", 0, 0, 0, why=example, format=state)
    chosen = [form.state()["date"] for form in different.values()][::-1]
    return Column("ignore", 0, 0, 0, why=f"as {texts[0]!r} may be {' or '.join(chosen)}", undecided=tuple(chosen))


def _of_words(counts: Mapping[str, int], seen: Column, present: pa.Array, root: Path) -> Column:
    """Return what other texts are: paths of files, lists, texts, or categories."""
    some = [text for text in present.slice(0, 100).to_pylist() if text.strip(BLANKS) in counts] or list(counts)
    for kind, matches in (("image", is_image), ("audio", is_sound)):
        if all(matches(value) for value in some) and all((root / value).is_file() for value in some):
            return replace(seen, type=kind, why="paths of files that are there")
    if np.mean([len(value) for value in some]) <= TEXT_LISTS and (forms := Lists.recognise(list(counts))):
        return _of_lists_in_texts(forms[0], counts, seen)
    odd = sum(count for text, count in counts.items() if not DECIMAL.fullmatch(text))
    why = f"{odd:,} of its values are no numbers" if 0 < odd < 0.1 * len(present) else ""
    words = np.mean([len(value.split()) for value in some])
    long = words >= WORDS or np.mean([len(value) for value in some]) >= CHARACTERS
    if seen.distinct > FEW_CLASSES and long:
        return replace(seen, type="text", why=f"{words:.0f} words each on average")
    values = tuple(sorted(counts)) if seen.distinct <= FEW_CLASSES else ()
    return replace(seen, values=values, why=why)


def _of_lists_in_texts(form: Format, counts: Mapping[str, int], seen: Column) -> Column:
    items = Counter[str]()
    for text, count in counts.items():
        items.update(dict.fromkeys(form.read(text), count))
    state = form.state()
    why = f"lists with {state['separator']!r} between their values"
    return replace(seen, type="words", why=why, format=state, items=dict(sorted(items.items())))


def _of_lists(values: pa.Array) -> Column:
    if is_list_of_texts(values):
        why = "as its lists are not numbers of one shape"  # read as texts, as they might be tags
        if not is_numeric(values):
            why = "as its lists of words have no tags; join them to texts for other tasks"
        return replace(Column("ignore", 0, values.null_count, len(values), why=why), items=_items(values.drop_null()))
    flat, rows, shape = values.drop_null(), len(values), list[int]()
    while is_list(flat.type):
        lengths = set(np.asarray(pc.list_value_length(flat)).tolist())
        if len(lengths) > 1:
            return Column("ignore", 0, values.null_count, rows, why="its lists are of different lengths")
        shape, flat = [*shape, *lengths], flat.flatten()
    if not len(flat) or not (pt.is_integer(flat.type) or pt.is_floating(flat.type)):
        return Column("ignore", 0, values.null_count, rows, why=f"{values.type} is not read")
    sides = ", ".join(map(str, shape))
    return Column(f"number[{sides}]", rows - values.null_count, values.null_count, rows)


def _items(lists: pa.Array) -> dict[str, int]:
    """Return how many lists of texts each text is in; nothing where there are many."""
    counts = Counter(item for texts in lists.to_pylist() for item in dict.fromkeys(texts) if item is not None)
    return dict(sorted(counts.items())) if len(counts) <= min(MOST_ITEMS, max(len(lists) // 2, 2)) else {}


def payload_kind(payloads: Iterable[bytes]) -> str:
    """Return the type of a column by the first bytes of its values: image, audio, or ignore."""
    heads = [payload[:16] for payload in payloads]
    for kind, pattern in (("image", IMAGES), ("audio", SOUNDS)):
        if heads and all(pattern.match(head) for head in heads):
            return kind
    return "ignore"


def _payloads(values: pa.Array) -> list[bytes]:
    """Return the bytes of some values, of a struct as Hugging Face writes it too."""
    some = [value.get("bytes") if isinstance(value, dict) else value for value in values.slice(0, 100).to_pylist()]
    return [value for value in some if isinstance(value, bytes)]


WHOLE_OR_DECIMAL = re.compile(r"-?\d+(\.\d+)?")


def is_list_of_texts(values: pa.Array) -> bool:
    """Return whether a column has lists of texts."""
    item = item_of(values)
    return item is not None and is_text(item)


def item_of(values: pa.Array) -> pa.DataType | None:
    """Return the type of the items of lists of any length; None for another column."""
    kind = values.type
    return kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None


def is_numeric(values: pa.Array) -> bool:
    """Return whether all items of lists are numbers, or texts of some."""
    flat = pc.unique(flat_texts(values))
    return all(WHOLE_OR_DECIMAL.fullmatch(value) for value in flat.drop_null().slice(0, 1000).to_pylist())


def flat_texts(values: pa.Array) -> pa.Array:
    """Return the items of all lists as texts."""
    return pc.list_flatten(values).cast(pa.large_string())
