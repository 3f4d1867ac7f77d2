"""The scripts that write the data of presets leave nothing out: to the last square, docstring and character."""

from __future__ import annotations

import csv
import json
import unicodedata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.homes import ROOT


def script(name: str) -> Any:
    spec = spec_from_file_location(name, ROOT / f"flows/presets/scripts/{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def photos(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Photographs of sizes of which some are multiples of a square's, and some are not."""
    sizes = {"whole": (64, 96), "wide": (64, 127), "high": (95, 32), "small": (31, 31)}
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (*size, 3), np.uint8) for size in sizes.values()]
    made = SimpleNamespace(filenames=[f"/far/{name}.jpg" for name in sizes], images=images)
    patches = script("photo_patches")
    monkeypatch.setattr(patches, "load_sample_images", lambda: made)
    return patches


@pytest.mark.parametrize(
    ("photo", "number", "squares"),
    [("whole", 0, (2, 3)), ("wide", 1, (2, 3)), ("high", 2, (2, 1)), ("small", 3, (0, 0))],
)
def test_a_photograph_is_cut_into_all_the_squares_that_it_has(
    photo: str, number: int, squares: tuple[int, int], photos: Any, tmp_path: Path
) -> None:
    photos.main(tmp_path)
    paths = sorted((tmp_path / photo).iterdir())
    corners = [(32 * row, 32 * column) for row in range(squares[0]) for column in range(squares[1])]
    assert [path.name for path in paths] == [f"{top:03d}_{left:03d}.png" for top, left in corners]
    pixels = photos.load_sample_images().images[number]
    for path, (top, left) in zip(paths, corners, strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(path)), pixels[top : top + 32, left : left + 32])


CODE = '''
"""Of the module: not taken."""
class Tree:
    """A tree."""
    def leaves(self):
        """Its leaves."""
        def inner():
            """Within."""
    async def grow(self):
        """Wait."""
    def bare(self): pass
'''


def test_every_docstring_of_a_package_is_a_row_but_for_its_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docstrings = script("docstrings")
    for file in ("one/a.py", "one/deep/b.py", "one/test/c.py", "one/test_d.py", "two/__init__.py", "other/e.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(CODE)
    monkeypatch.setattr(docstrings, "PACKAGES", ("one", "two"))
    monkeypatch.setattr(docstrings, "sysconfig", SimpleNamespace(get_path=lambda name: str(tmp_path)))
    docstrings.main(tmp_path / "data/rows.jsonl")
    found = [json.loads(line) for line in (tmp_path / "data/rows.jsonl").read_text().splitlines()]
    texts = {3: "Tree: A tree.", 5: "leaves: Its leaves.", 7: "inner: Within.", 9: "grow: Wait."}
    modules = {"one/a": "one", "one/deep/b": "one", "two/__init__": "two"}
    expected = {
        (f"{module}:{line}", text, module, package)
        for module, package in modules.items()
        for line, text in texts.items()
    }
    assert {tuple(row.values()) for row in found} == expected and len(found) == len(expected)


def test_every_character_that_has_a_name_is_a_row_to_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the last one of Greek, which has a name."""
    characters = script("unicode_table")
    monkeypatch.setattr(characters, "sys", SimpleNamespace(maxunicode=0x3FF))
    characters.main(tmp_path / "data/unicode.csv")
    with open(tmp_path / "data/unicode.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == list(characters.COLUMNS)
    assert [row[0] for row in rows] == [f"U+{code:05X}" for code in range(0x400) if unicodedata.name(chr(code), "")]
    by_code = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    half = by_code["U+000BD"]
    assert (half["first_word"], half["last_word"], half["words"], half["value"]) == ("vulgar", "half", "4", "0.5")
    assert half["decomposition"] == "<fraction>" and half["category"] == "No" and half["plane"] == "0"
    assert by_code["U+00041"]["value"] == "" and by_code["U+00028"]["mirrored"] == "1"
    assert by_code["U+00301"]["combining"] == "230" and by_code["U+00041"]["width"] == "Na"
