"""Write the table of the preset `unicode`: a row for each character that Python's own Unicode database names.

python flows/presets/scripts/unicode_table.py flows/presets/data/unicode.csv
"""

from __future__ import annotations

import csv
import sys
import unicodedata
from pathlib import Path

COLUMNS = (
    "code", "plane", "first_word", "last_word", "words", "bidirectional", "combining", "width", "mirrored",
    "decomposition", "value", "category",
)  # fmt: skip


def rows() -> list[list[object]]:
    """Return the rows in the order of their code points; `value` is empty where a character is no number."""
    collected: list[list[object]] = []
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        name = unicodedata.name(character, "")
        if not name or name.startswith(("CJK UNIFIED", "HANGUL SYLLABLE", "TANGUT IDEOGRAPH")):
            continue  # tens of thousands that are all alike
        words = name.split()
        collected.append([
            f"U+{code:05X}",
            code >> 16,
            words[0].lower(),
            words[-1].lower(),
            len(words),
            unicodedata.bidirectional(character),
            unicodedata.combining(character),
            unicodedata.east_asian_width(character),
            unicodedata.mirrored(character),
            unicodedata.decomposition(character).partition(" ")[0] if unicodedata.decomposition(character) else "",
            unicodedata.numeric(character, ""),
            unicodedata.category(character),
        ])  # fmt: skip
    return collected


def main(target: Path) -> None:
    """Write the file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
