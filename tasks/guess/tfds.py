"""Data sets that tensorflow-datasets has prepared, by their folder or their name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks.errors import Refused
from tasks.guess.forms import Form
from tasks.guess.found import Choices, Columns, Guess, name_of
from tasks.guess.samples import sampled
from tasks.guess.splits import keep_splits
from tasks.guess.tables import counts_of, describe, guess_rows, section
from tasks.records.config import USUAL_NAMES
from tasks.sources.kinds.catalogues import NAME, TfdsSource
from tasks.sources.kinds.columns import ColumnsSource
from tasks.sources.tfds import INFO, SCHEMA, Prepared, Tfds, flat, kind_of, read_json

PREFIX = "tfds:"


def find_prepared(root: Path) -> Path | None:
    """Return the folder of the data set in this folder, or None; raises `Refused` where there are several."""
    folders = [path.parent for depth in ("", "*/", "*/*/", "*/*/*/") for path in root.glob(f"{depth}{INFO}")]
    if len(folders) > 1:
        several = ", ".join(str(path.relative_to(root)) for path in sorted(folders)[:8])
        rule, remedy = "init looks at one", "name one of these folders"
        raise Refused("PATH", f"several prepared data sets: {several}", rule, remedy)
    return folders[0] if folders else None


def named(text: str) -> str | None:
    """Return the name of a data set, `tfds:NAME` or one that is prepared on this machine; None for anything else."""
    if text.startswith(PREFIX):
        return text.removeprefix(PREFIX)
    is_prepared = NAME.fullmatch(text) and TfdsSource(dataset=text).prepared() is not None
    return text if is_prepared else None


def guess_name(name: str, choices: Choices) -> Guess:
    """Return what a data set in tensorflow-datasets' own folder is; raises `Refused` where it is not prepared there."""
    config = TfdsSource(dataset=name)
    try:
        config.open()
    except Refused as refused:
        remedy = f"prepare it first: tfds build {name.partition(':')[0]}"
        raise Refused("PATH", refused.saw, "init looks at prepared data and uses no network", remedy) from None
    folder = config.prepared()
    assert folder is not None
    return _guess(folder, {"dataset": name}, choices)


def guess_folder(folder: Path, choices: Choices) -> Guess:
    """Return what the data set in a folder is."""
    return _guess(folder, {"dataset": str(read_json(folder / INFO)["name"]), "data_dir": str(folder)}, choices)


def _guess(folder: Path, where: dict[str, Any], choices: Choices) -> Guess:
    source = {"kind": "tfds", "name": name_of(where["dataset"].partition("/")[0].partition(":")[0]), **where}
    schema = dict(flat(read_json(folder / SCHEMA)))
    labels = [name for name, feature in schema.items() if "classLabel" in feature]
    chosen = None if choices != Choices() else _automatic(folder, where)
    types = {name: kind_of(feature) for name, feature in schema.items()} if chosen is None else dict(chosen.columns)
    label = chosen.label if chosen else choices.label or (labels[0] if len(labels) == 1 else None)
    labelled, without = _by_labels(folder, where, types, label) if label in labels else ([], [])
    if labelled and without:
        source["splits"] = labelled
    unread = {name: "as its kind is not read" for name, kind in types.items() if kind == "ignore"}
    sample = sampled(source, Form(types, unread=unread), folder)
    prepared_columns = Prepared(folder, TfdsSource(**where, columns=types), source.get("splits"))
    counts = {split: sum(length for _, length in shards) for split, shards in prepared_columns.shards.items()}
    sample = replace(sample, rows=sum(counts.values()))
    if chosen is None:
        columns = guess_rows(sample, replace(choices, label=label))
        source = section(sample, columns)
        source.pop("classes" if columns.label in labels else "", None)
    else:
        columns = Columns(types, label=chosen.label, classes=counts_of(sample, chosen.label))
    kept = None
    usual = [split for split in counts if split.lower() in USUAL_NAMES]
    if columns.label or columns.targets:
        narrowed = source if len(usual) == len(counts) else {**source, "splits": usual}
        kept = keep_splits(narrowed, usual, sum(counts[split] for split in usual), sample.exact)
        source = source if kept is None else narrowed
    guess = describe(sample, columns, source, kept)
    said = [f"{name}: a split that is left out, as it has no labels" for name in without if labelled]
    return replace(guess, description=f"{guess.description} in {where['dataset']}", said=(*guess.said, *said))


def _by_labels(
    folder: Path, where: dict[str, Any], types: dict[str, str], label: str | None
) -> tuple[list[str], list[str]]:
    """Return the splits whose first examples have some of the classes, and those in which none has."""
    config = TfdsSource(**where, columns=types, label=label)
    opened = Tfds(Prepared(folder, config, None), None)
    labelled, without = list[str](), list[str]()
    for split, partition in {partition.where[0]: partition for partition in reversed(opened.partitions())}.items():
        labels = (rows.columns[str(label)] for rows in opened.read(partition))
        (labelled if any(values.null_count < len(values) for values in labels) else without).append(split)
    return sorted(labelled), sorted(without)


def _automatic(folder: Path, where: dict[str, Any]) -> ColumnsSource | None:
    """Return the columns that the source chooses by itself; None where it cannot, or a label must be chosen too."""
    try:
        columns = Prepared(folder, TfdsSource(**where), None).columns
    except Refused:
        return None
    numbers = any(columns.columns[name].startswith("number") for name in columns.inputs)
    return None if numbers and columns.label is None else columns
