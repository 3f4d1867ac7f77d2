"""Names of columns and classes with line ends: `millrace init` writes and says them in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from flows.preset_text import preset_of
from tasks.config.compose import load
from tasks.errors import Refused, one_line
from tasks.guess import guess_source

BREAKS = ("\n", "\r\n", "\u2028", "\x85", "\t", "\x1b[31m")


@pytest.mark.parametrize("sign", BREAKS)
def test_a_preset_of_names_with_line_ends_loads(sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    column, common, rare = f"size{sign}# cm", f"a{sign}b: [", f"c {sign}d"
    with open("t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([column, f"label{sign}of it"])
        writer.writerows([[n % 17, rare if n % 10 == 0 else common] for n in range(400)])
    guess = guess_source("t.csv")
    text = preset_of(guess, Path("t.yaml"))
    source = yaml.safe_load(text)["source"]
    assert (source["columns"][column], source["classes"]) == ("number", sorted([common, rare]))
    Path("t.yaml").write_text(text)
    assert load(Path("t.yaml")).source.label == f"label{sign}of it"  # type: ignore[union-attr]
    assert all(len(one_line(line).splitlines()) == 1 for line in guess.said)


def test_an_error_is_one_line() -> None:
    assert str(Refused("a\nb", "c\u2028", "rule", "remedy\x1b")) == "a\\nb: c\\u2028; rule; remedy\\x1b"


def test_a_json_array_is_told_how_to_be_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"a": 1}, {"a": 2}], indent=1))
    with pytest.raises(Refused, match=r"a JSON array; read are JSON lines.*jq -c '\.\[\]' rows\.json"):
        guess_source(tmp_path / "rows.json")
