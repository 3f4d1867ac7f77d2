"""Tables beside images or sounds, whose cells name the files: by their paths, or without folder or ending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tasks.errors import Refused
from tasks.guess.candidates import is_binary
from tasks.guess.columns import with_several
from tasks.guess.found import Choices, Columns, Guess, name_of
from tasks.guess.samples import Sample, kind_of_file, sample_files
from tasks.guess.tables import describe, guess_rows, guess_table, section
from tasks.sources.folders import is_image, is_sound
from tasks.sources.values import is_text

TABLES = ("csv", "jsonl", "parquet")
TRIED = 100
"""Cells of a column by which the pattern of paths is found."""
MOST_NAMED = 0.5
"""Share of the cells of a column that name files, from which they are meant; of cells without an ending, which may be
any numbers, also the share of the files in that folder."""
CELL = "{}"
MOST_TABLES = 10
"""Tables beside a folder that are looked at, which may have much else beside it."""
DEPTHS = ("*", "*/*", "*/*/*")
"""Where files are looked for below the folder of a table, which may be one with much else."""


@dataclass(frozen=True)
class Named:
    """A column whose cells name files."""

    column: str
    kind: str
    pattern: str
    """The path of a file, with `{}` in place of the cell."""
    lacking: list[str]
    """Cells of the sample that have no file."""
    unnamed: list[str]
    """Files that no cell of the sample names."""


def guess_beside(sample: Sample, choices: Choices) -> Guess:
    """Return what a table is, with the files that its cells name as inputs, where there are such."""
    named = named_files(sample)
    if named is None or named.column == choices.key:
        return guess_table(sample, choices)
    columns = _with_files(guess_rows(sample, choices), named, sample, choices)
    patterns = {} if named.pattern == CELL else {"files": {named.column: named.pattern}}
    return describe(sample, columns, {**section(sample, columns), **patterns})


def table_of(root: Path, names: list[str]) -> Sample | None:
    """Return rows of the table in a folder whose cells name the most files of it; None where there is none."""
    found: list[tuple[int, str, Sample]] = []
    for name in names:
        if kind_of_file(name) not in TABLES or "/" in name:
            continue
        try:
            sample = sample_files(root / name, str(kind_of_file(name)), name_of(root))
        except Refused:  # a table of something else may be anything
            continue
        if (named := named_files(sample)) is not None:
            found.append((len(named.unnamed), name, sample))
    return min(found, key=lambda each: each[:2])[2] if found else None


def table_above(root: Path) -> Path | None:
    """Return the table beside a folder whose cells name files of the folder; None where there is none."""
    names = sorted(path.name for path in root.parent.iterdir() if kind_of_file(path.name) in TABLES)
    if (table := table_of(root.parent, names[:MOST_TABLES])) is None or (named := named_files(table)) is None:
        return None
    cells = table.columns[named.column].drop_null().to_pylist()
    within = any(named.pattern.replace(CELL, cell).startswith(f"{root.name}/") for cell in cells)
    return Path(table.source["path"]) if within else None


def named_files(sample: Sample) -> Named | None:
    """Return the first column whose cells name files below the table's folder, one each; None where there is none."""
    found = (path.relative_to(sample.root).as_posix() for depth in DEPTHS for path in sample.root.glob(depth))
    files = sorted(name for name in found if is_image(name) or is_sound(name))
    places: dict[str, list[str]] = {}
    for file in files:
        base = file.rpartition("/")[2]
        for name in dict.fromkeys((base, base.rpartition(".")[0])):
            places.setdefault(name, []).append(file)
    for column, values in sample.columns.items():
        cells = _texts(values)
        if len(set(cells)) == len(cells) and (pattern := _pattern(cells, places)) is not None:
            paths = {pattern.replace(CELL, cell): cell for cell in cells}
            present = set(files)
            lacking = [cell for path, cell in paths.items() if path not in present]
            if len(lacking) <= (1 - MOST_NAMED) * len(cells) and _is_of_folder(pattern, paths, files, sample):
                kind = "image" if is_image(pattern.replace(CELL, cells[0])) else "audio"
                return Named(column, kind, pattern, lacking, [file for file in files if file not in paths])
    return None


def _is_of_folder(pattern: str, paths: Collection[str], files: Iterable[str], sample: Sample) -> bool:
    """Return whether cells without an ending name most files of their folder, as far as all cells were seen."""
    if not sample.exact or pattern.endswith(CELL):
        return True
    folder = pattern.rpartition("/")[0]
    here = [file for file in files if file.rpartition("/")[0] == folder]
    return sum(file in paths for file in here) >= MOST_NAMED * len(here)


def _texts(values: pa.Array) -> list[str]:
    """Return the cells of a column of texts; none of another one."""
    return [cell for cell in values.drop_null().to_pylist() if cell] if is_text(values.type) else []


def _pattern(cells: Iterable[str], places: dict[str, list[str]]) -> str | None:
    """Return the most frequent form of the paths that end in a cell, or in a cell and an ending."""
    forms: Counter[str] = Counter()
    for cell in list(cells)[:TRIED]:
        for file in places.get(cell.rpartition("/")[2], []):
            ending = "" if file.endswith(cell) else f".{file.rpartition('.')[2]}"
            before = file.removesuffix(f"{cell}{ending}")
            if before != file and (not before or before.endswith("/")):
                forms[f"{before}{CELL}{ending}"] += 1
    return min(forms, key=lambda form: (-forms[form], form)) if forms else None


def _with_files(columns: Columns, named: Named, sample: Sample, choices: Choices) -> Columns:
    """Return the columns with the one that names files as their input; further columns of 0 and 1 are targets."""
    name = named.column
    said = [line for line in columns.said if not line.startswith(f"{name}: ")]
    where = "" if named.pattern == CELL else f", as {named.pattern} with the cell in place of {CELL}"
    said.append(f"{name}: {named.kind}, files beside the table{where}")
    for count, what, first in (
        (len(named.lacking), "rows have no file and are bad: correct them, or raise records.bad_budget", named.lacking),
        (len(named.unnamed) if sample.exact else 0, "files are in no row and are left out", named.unnamed),
    ):
        if count:
            said.append(f"{count:,} {what} ({first[0]})")
    types = {**columns.types, name: named.kind}
    key = None if columns.key == name else columns.key
    found = replace(columns, types=types, key=key, said=tuple(said))
    others = [each for each in columns.types if each not in (name, key, columns.split)]
    read = [sample.columns[each] for each in others if each in sample.columns]
    if choices.label is None and 1 < len(others) == len(read) and all(map(is_binary, read)):
        outdated = tuple(f"{each}: " for each in (*others, ", ".join(others)))
        kept = [line for line in said if not line.startswith(outdated)]
        return with_several(replace(found, label=None, classes={}, said=tuple(kept)), others)
    return found
