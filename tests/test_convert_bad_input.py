"""Invalid raw data through the command: the exit code, one clear line, nothing published."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.homes import Answer, CommandHome
from tests.support.raw_data import pictures, texts


def preset(tmp_path: Path, source: str, snapshot: str) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(f"name: bad\nsource: {source}\nsnapshot: {snapshot}\ntrain: {{steps: 3}}\n")
    return path


def refusal(home: CommandHome, answer: Answer, code: int, says: str) -> None:
    """The exit code, the same line in both places, no traceback, no artifact."""
    assert answer.code == code, answer.stderr
    lines = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert says in lines[0]
    error = answer.json["error"]
    assert lines[0] == f"error: {error['field']}: {error['saw']}; {error['rule']}; {error['remedy']}"
    assert "Traceback" not in answer.stderr
    assert not list(home.root.glob("store/[!.]*/*/*"))


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    source = f"{{kind: image_folder, path: {tmp_path}/nowhere}}"
    answer = home.here("run", "dataset", preset(tmp_path, source, "{kind: image}"), "--json")
    refusal(home, answer, 2, f"source.path: {tmp_path}/nowhere: no such file or folder")


def test_a_truncated_image_fails_and_the_run_continues_once_it_is_fixed(tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    folder = pictures(tmp_path / "shapes", 60)
    broken = folder / "round/8.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:200])
    config = preset(tmp_path, f"{{kind: image_folder, path: {folder}}}", "{kind: image, height: 8, width: 8}")
    refusal(home, home.here("run", "dataset", config, "--json"), 1, "round/8.png")
    broken.write_bytes(whole)
    fixed = home.here("run", "dataset", config, "--json")
    assert fixed.code == 0, fixed.stderr
    assert fixed.json["metrics"]["convert/examples"] == 60


@pytest.mark.slow
def test_text_that_is_not_utf8_fails_by_name_and_byte(tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    folder = texts(tmp_path / "book", 30)
    (folder / "part1/latin.md").write_bytes("déjà vu".encode("latin-1"))
    source = f'{{kind: text_files, path: {folder}, glob: "**/*.md"}}'
    config = preset(tmp_path, source, "{kind: tokens, vocabulary: 300, block: 16}")
    refusal(home, home.here("run", "dataset", config, "--json"), 1, "part1/latin.md (byte 1 (0xe9) is not UTF-8)")
    skipped = home.here("run", "dataset", config, "--source.undecodable", "skip", "--json")
    assert skipped.code == 0, skipped.stderr
