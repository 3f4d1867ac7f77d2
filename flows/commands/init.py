"""millrace init: write a preset for raw data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.reply import AsJson, replying
from tasks.errors import Refused, one_line

if TYPE_CHECKING:
    from tasks.guess import Guess


def init(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Raw data: FILE, FOLDER, a database's URL, or tfds:NAME.")
    ],
    suffix: Annotated[str | None, typer.Option(help="Which of several kinds of files to read: --suffix .md.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of a table to predict.")] = None,
    key: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that is each row's key.")] = None,
    table: Annotated[str | None, typer.Option(help="Which of several tables of a database to read.")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Also write rules for a table's columns, and use them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Inspect raw data, and write a preset with comments into the working directory.

    It understands files and folders of CSV, JSON lines, Parquet, TFRecord and WebDataset; databases; folders and
    archives (.zip, .tar) of images or sounds by class, or of texts; and data sets prepared by tensorflow-datasets.
    """
    with replying("init", as_json) as reply:
        from flows.preset_text import description, preset_of
        from tasks.guess import Choices, guess_source

        guess = guess_source(path, Choices(suffix, label, key, table))
        preset = Path(f"{guess.name}.yaml")
        rules = preset.with_suffix(".schema.yaml") if schema else None
        texts = {preset: preset_of(guess, preset, rules)}
        if rules is not None:
            texts[rules] = _rules_of(guess)
            reply.add(schema=str(rules.resolve()))
        _write(texts)
        reply.add(preset=str(preset.resolve()), source=guess.source, counts=guess.counts, left_out=guess.left_out)
        of_classes = "" if guess.counts.keys() <= {"rows", "texts"} else f": {_counted(guess.counts)}"
        reply.say(f"{description(guess)}{of_classes}")
        for line in (*guess.said, guess.splits.said) if guess.splits.said else guess.said:
            reply.say(f"  {one_line(line)}")
        if guess.left_out:
            reply.say(f"left out: {_counted(guess.left_out)}")
        if rules is not None:
            reply.say(f"wrote {rules}: a row that breaks one of its rules goes to quarantine/; read it once")
        reply.say(f"wrote {preset}; next: millrace run {preset}")


def _rules_of(guess: Guess) -> str:
    from tasks.guess.schema import schema_of

    if not guess.sample:
        raise Refused("--schema", guess.description, "rules are of a table's columns", "leave it out")
    return schema_of(guess.name, guess.columns, guess.sample)


def _write(texts: dict[Path, str]) -> None:
    """Write new files; raises `Refused` where one of them is there, or cannot be written."""
    for path in texts:
        if path.exists():
            raise Refused(str(path), "it exists", "init overwrites no file", "move or remove it")
    for path, text in texts.items():
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            rule, remedy = "init writes into the working directory", "change the directory"
            raise Refused(str(path), error.strerror, rule, remedy) from None


def _counted(counts: dict[str, int]) -> str:
    shown = list(counts.items())[:8]
    counted = one_line(", ".join(f"{name} {count:,}" for name, count in shown))
    return counted + (", …" if len(counts) > len(shown) else "")
