"""How people write cells, and how they are read as plain ones: a class per form.

A class has `read`, from the text of a cell to what `cast` takes (a decimal number, a time of ISO 8601, a list of
texts), and `recognise`, the forms that fit all of some texts. Its fields are those of `source.formats`.
"""

from __future__ import annotations

import ast
import datetime
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from .values import BLANKS, MISSING, NUMBER


class Unreadable(ValueError):
    """A cell that is not of its form; the text is the rule."""


@dataclass(frozen=True)
class Format:
    """How the cells of a column are written."""

    kind: ClassVar[str]
    """The name of the form in `transform.json`."""
    missing: tuple[str, ...] = field(default=(), kw_only=True)
    """Cells, or numbers, that mean a missing value."""

    def read(self, text: str) -> Any:
        """Return a cell as `cast` takes it; raises `Unreadable` where it is of another form."""
        raise NotImplementedError

    @classmethod
    def recognise(cls, texts: Sequence[str]) -> list[Format]:
        """Return the forms of this class in which all of some different texts are, none of them plain."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return the fields that are given, as in `source.formats`."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True)
class Plain(Format):
    """Cells as they are, of which some mean a missing value."""

    kind: ClassVar[str] = "plain"

    def read(self, text: str) -> str:
        return text

    @classmethod
    def recognise(cls, texts: Sequence[str]) -> list[Format]:
        return []


@dataclass(frozen=True)
class Dates(Format):
    """Dates and times by the codes of Python's `strptime`; without an offset they are in UTC."""

    kind: ClassVar[str] = "dates"
    date: str = ""

    def read(self, text: str) -> str:
        try:
            return datetime.datetime.strptime(text.strip(BLANKS), self.date).isoformat()
        except ValueError:
            example = datetime.datetime(2024, 5, 31, 18, 30, tzinfo=datetime.UTC).strftime(self.date)
            raise Unreadable(f"must be a date or time of the form {self.date}, such as {example}") from None

    @classmethod
    def recognise(cls, texts: Sequence[str]) -> list[Format]:
        found: list[Format] = []
        for date in _date_forms(texts[0]) if texts else ():
            form = cls(date)
            if _reads_all(form, texts):
                found.append(form)
        return found


DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d"),
    *(form.replace("-", sign) for sign in "/.-" for form in ("%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y")),
    *(
        form.replace("-", sign)
        for sign in "- "
        for form in ("%d-%b-%Y", "%d-%B-%Y", "%d-%b-%y", "%b-%d-%Y", "%B-%d-%Y")
    ),
    *("%b %d, %Y", "%B %d, %Y", "%A, %B %d, %Y", "%a, %d %b %Y", "%a %b %d %Y"),
    *("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%b %Y", "%b-%Y", "%B %Y", "%b-%y"),
)
MOMENTS = (
    *("%Y%m%d%H%M%S", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %z %Y"),
    *("%d/%b/%Y:%H:%M:%S %z", "%I%p", "%I %p"),
)
"""Times that are no day with a clock behind it: of ctime, Twitter, Apache, and full hours."""
CLOCK = re.compile(
    r"(.*?)(, |[ T])?\d?\d:\d\d(:\d\d)?(\.\d{1,6})?(?:( ?)([AP]M))?( ?)(UTC|GMT|Z|[+-]\d\d:?\d\d)?", re.I
)
"""A day, what is between it and the time, seconds and their fraction, half of the day, offset."""


def _date_forms(text: str) -> list[str]:
    """Return the forms in which a text is a day, a time of day, or both."""
    stripped = text.strip(BLANKS)
    match = CLOCK.fullmatch(stripped)
    if match is None or any(_reads(Dates(form), stripped) for form in MOMENTS):
        return [form for form in DAYS + MOMENTS if _reads(Dates(form), stripped)]
    day, between, seconds, fraction, before_half, half, before_zone, zone = match.groups(default="")
    clock = ("%I:%M" if half else "%H:%M") + (":%S" if seconds else "") + (".%f" if fraction else "")
    clock += (f"{before_half}%p" if half else "") + before_zone + ("%z" if zone.startswith(tuple(SIGNS)) else zone)
    if not day:
        return [clock] if not between and _reads(Dates(clock), stripped) else []
    return [form for form in (each + between + clock for each in DAYS) if _reads(Dates(form), stripped)]


SIGNS = "-+\u2212"
DIGITS = r"[-+\u2212]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
GROUPED = r"(?:[0-9]{{1,3}}(?:{group}[0-9]{{2,3}})*{group}[0-9]{{3}}|[0-9]+)"
"""Digits with a sign between thousands, in India also between hundreds; or with none at all."""
THOUSANDS = (",", ".", " ", "'", "\u00a0", "\u202f", "\u2019")
WRITTEN = re.compile(rf"[\d{''.join(THOUSANDS)}]*\d[\d{''.join(THOUSANDS)}]*(?:[eE][+-]?\d+)?")
"""A number with any signs between its digits."""
LEADING_ZERO = re.compile(r"[^\d.,]*0\d")
"""How a code begins, and no number."""
UNIT = re.compile(r"[^-+\u2212\d\s.,()':_]+(?:[ /][^-+\u2212\d\s.,()':_]+)?")
"""What may stand behind a number: `%`, `kg`, `EUR`, `km/h`, `sq ft`."""
BEFORE = re.compile(r"[^-+\u2212\w\s.,()':]+|[A-Za-z]{0,3}\$|[A-Z]{3}(?=\s)|Rs\.?")
"""What may stand before one: `$`, `US$`, `EUR`; `A12` is a name."""


NEGATIVE = {"brackets": re.compile(r"\((.*\d.*)\)"), "trailing": re.compile(r"(.*\d.*)[-\u2212]")}
"""Numbers below 0, by how they are written without a minus before: by accountants, and by SAP."""


@dataclass(frozen=True)
class Numbers(Format):
    """Numbers with a decimal comma, with signs between thousands, with a unit before or behind each, or with a minus
    that is not before them."""

    kind: ClassVar[str] = "numbers"
    decimal: str = ""
    """Sign before the fraction; empty: a point."""
    thousands: str = ""
    """Sign between groups of digits; empty: none."""
    unit: str = ""
    """What stands before or behind each number, and is left out."""
    negative: str = ""
    """How one below 0 is written: `brackets` around it, or a minus behind it (`trailing`); empty: a minus before."""
    offset: float = 0.0
    """Is subtracted from each number, in float64."""

    def read(self, text: str) -> str:
        bare = self._bare(_with_sign(text.strip(BLANKS), self.negative))
        if bare is None or not self._digits.fullmatch(bare):
            example = f"1{self.thousands}234{self.decimal or '.'}5"
            before = BEFORE.fullmatch(self.unit) and not self.unit.isalpha()
            written = f"{self.unit}{example}" if before else f"{example} {self.unit}".rstrip()
            raise Unreadable(f"must be a number such as {written}")
        ungrouped = bare.replace(self.thousands, "") if self.thousands else bare
        return self.less(ungrouped.replace(self.decimal or ".", ".").replace("\u2212", "-"))

    def less(self, plain: Any) -> Any:
        """Return a number, or its text, without the offset."""
        return float(plain) - self.offset if self.offset else plain

    @cached_property
    def _digits(self) -> re.Pattern[str]:
        whole = GROUPED.format(group=re.escape(self.thousands)) if self.thousands else "[0-9]+"
        return re.compile(DIGITS.format(whole=whole, point=re.escape(self.decimal or ".")))

    def _bare(self, text: str) -> str | None:
        """Return a number with its sign and without its unit; None where the unit is not there."""
        sign = text[:1] if text[:1] and text[0] in SIGNS else ""
        rest = text.removeprefix(sign).strip(BLANKS)
        if rest.startswith(self.unit):
            return sign + rest.removeprefix(self.unit).strip(BLANKS)
        return sign + rest.removesuffix(self.unit).strip(BLANKS) if rest.endswith(self.unit) else None

    @classmethod
    def recognise(cls, texts: Sequence[str]) -> list[Format]:
        stripped = [text.strip(BLANKS) for text in texts]
        negative = next((each for each in NEGATIVE if any(map(NEGATIVE[each].fullmatch, stripped))), "")
        signed = [_with_sign(text, negative) for text in stripped]
        units = {_unit_of(text) for text in signed}
        if len(units) != 1 or None in units or any(map(LEADING_ZERO.match, signed)):
            return []
        [unit] = map(str, units)
        forms = (cls(decimal, thousands, unit, negative) for decimal, thousands in _signs_of(signed))
        return list(itertools.islice((form for form in forms if _reads_all(form, texts)), 1))


def _with_sign(text: str, negative: str) -> str:
    """Return a number with a minus before it where it is written otherwise."""
    match = NEGATIVE[negative].fullmatch(text) if negative else None
    return f"-{match[1].strip(BLANKS)}" if match else text


def _unit_of(text: str) -> str | None:
    """Return what stands beside a number, empty where nothing does; None where a text is no number."""
    bare = text.lstrip(SIGNS).strip(BLANKS)
    if WRITTEN.fullmatch(bare):
        return ""
    if match := re.fullmatch(rf"({BEFORE.pattern})\s*[{SIGNS}]?(?:{WRITTEN.pattern})", bare):
        return match[1]
    match = re.fullmatch(rf"(?:{WRITTEN.pattern})\s*({UNIT.pattern})", bare)
    return match[1] if match else None


def _signs_of(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return decimal signs and signs between thousands to be tried, the likeliest first.

    A comma stands between thousands where each is followed by three digits, no number begins with 0, and none of more
    than three digits is without one; else it is the decimal sign.
    """
    grouped = all(re.search(r"(?<![\d,])[1-9]\d{0,2}(,\d{3})+(?!\d)", text) for text in texts if "," in text)
    long = any(re.search(r"\d{4}", text.partition(".")[0]) for text in texts)
    commas = [("", ","), (",", "")] if grouped and not long else [(",", ""), ("", ",")]
    others = [(decimal, sign) for sign in THOUSANDS[2:] for decimal in ("", ",")]
    return [("", ""), *commas, (",", "."), ("", "."), *others]


@dataclass(frozen=True)
class Lists(Format):
    """Several values in a cell, with a sign between them; brackets around them and quotes around each are no part."""

    kind: ClassVar[str] = "lists"
    separator: str = ""

    def read(self, text: str) -> list[str]:
        stripped = text.strip(BLANKS)
        if stripped[:1] == "[" and stripped[-1:] == "]":
            stripped = stripped[1:-1]
        items = (item.strip(BLANKS) for item in stripped.split(self.separator))
        return [_unquoted(item) for item in items if item]

    @classmethod
    def recognise(cls, texts: Sequence[str]) -> list[Format]:
        if texts and all(_listed(text) is not None for text in texts):
            return [cls(",")]
        return [form for form in map(cls, SEPARATORS) if _is_list(form, texts)]


SEPARATORS = ("|", ";", ",", "/")
MOST_ITEMS, MOST_WORDS = 200, 3


def _listed(text: str) -> list[str] | None:
    """Return the items of a list in JSON or Python; None of another text, or of items that are not plain texts."""
    stripped = text.strip(BLANKS)
    if stripped[:1] != "[" or stripped[-1:] != "]":
        return None
    try:
        items = ast.literal_eval(stripped)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    plain = all(isinstance(item, str) and "," not in item for item in items)
    return items if plain else None


def _unquoted(item: str) -> str:
    quoted = len(item) > 1 and item[0] == item[-1] and item[0] in "'\""
    return item[1:-1] if quoted else item


def _is_list(form: Lists, texts: Sequence[str]) -> bool:
    """Return whether different texts are lists: fewer items than texts, each short, and most of them in several."""
    lists = [form.read(text) for text in texts]
    counts = Counter(itertools.chain.from_iterable(lists))
    several = sum(len(items) > 1 for items in lists)
    repeated = sum(count > 1 for count in counts.values())
    return (
        2 * several >= len(texts)
        and 2 <= len(counts) <= min(MOST_ITEMS, len(texts))
        and 3 * repeated >= 2 * len(counts)
        and all(len(item.split()) <= MOST_WORDS for item in counts)
        and all(len(set(items)) == len(items) for items in lists)
        and not (form.separator in ",/" and all(map(NUMBER.fullmatch, counts)))  # 195/60: no labels
    )


FORMATS: dict[str, type[Format]] = {each.kind: each for each in Format.__subclasses__()}


def of_state(state: Mapping[str, Any]) -> Format:
    """Return the form of a description: `kind` and its fields."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in state.items()}
    kind = str(fields.pop("kind"))
    return FORMATS[kind](**fields)


def reader_of(state: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return the function that reads a raw value, a text as its form says; None is missing."""
    form, missing = of_state(state), frozenset(state.get("missing", ()))
    numbers = {float(text) for text in missing if NUMBER.fullmatch(text)}
    bare = replace(form, offset=0.0) if isinstance(form, Numbers) else Numbers()

    def read(value: Any) -> Any:
        if isinstance(value, str):
            stripped = value.strip(BLANKS)
            if stripped in MISSING or stripped in missing:
                return None
            if numbers and _reads(bare, stripped) and float(bare.read(stripped)) in numbers:
                return None
            return form.read(stripped)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return value
        return None if value in numbers else form.less(value) if isinstance(form, Numbers) else value

    return read


def _reads(form: Format, text: str) -> bool:
    try:
        form.read(text)
    except Unreadable:
        return False
    return True


def _reads_all(form: Format, texts: Sequence[str]) -> bool:
    return all(_reads(form, text) for text in texts)
