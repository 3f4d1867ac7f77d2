"""`millrace init` and a conversion read the files of samples in the same form; names with dots are explained."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flows.preset_text import preset_of
from tasks.config.compose import load
from tasks.errors import Refused
from tasks.guess import guess_source
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tests.test_init_sources import tar


def picture(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8), number, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("end", ["\n", "\r\n", " "])
def test_a_class_with_a_line_end_is_the_class(tmp_path: Path, benches: Callable[[str], Workbench], end: str) -> None:
    files: dict[str, bytes] = {}
    for number in range(40):
        name = f"train.v1/{number:03d}"
        files |= {f"{name}.PNG": picture(number), f"{name}.CLS": f"{'ab'[number % 2]}{end}".encode()}
    guess = guess_source(tar(tmp_path / "samples.tar", files))
    assert guess.counts == {"a": 20, "b": 20}
    (tmp_path / "samples.yaml").write_text(preset_of(guess, Path("samples.yaml")))
    config = load(tmp_path / "samples.yaml")
    outcome = conversion.build(benches("records"), config.source, config.records)
    assert (outcome.counts["examples"], outcome.counts["quarantined"]) == (40, 0)


@pytest.mark.parametrize("name", ["22.{:02d}", "v1.0/cam{:02d}.2024.{:02d}"], ids=("one sample", "many samples"))
def test_dots_in_names_are_explained(tmp_path: Path, name: str) -> None:
    files = {f"{name.format(n, n)}.{ending}": picture(n) for n in range(40) for ending in ("png", "cls")}
    with pytest.raises(Refused, match=r"80 endings in .* samples: .*png.*up to the first dot; replace the other dots"):
        guess_source(tar(tmp_path / "dots.tar", files))


def test_several_files_of_each_sample_are_no_dots(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    for n in range(40):
        files |= {f"{n:02d}.frame{f}.png": picture(n + f) for f in range(6)} | {f"{n:02d}.cls": b"%d" % (n % 2)}
    assert len(guess_source(tar(tmp_path / "films.tar", files)).columns.types) == 7
