"""What every command's answer has in common: one line for an error, an object for a program, no secret in either."""

from __future__ import annotations

import json

import pytest
import typer

from flows.reply import replying, usage_error
from tasks.errors import Failed, Refused, Stopped


def test_a_mistyped_command_shows_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["up", "--databse-url", "postgresql://me:T0PS3CRET@db.example.org/millrace", "--json"]
    error = typer.BadParameter(f"Got unexpected extra argument ({words[2]})")
    assert usage_error(error, words) == 2
    printed = capsys.readouterr()
    assert "T0PS3CRET" not in printed.out + printed.err and "://…" in printed.err
    answer = json.loads(printed.out)
    assert (answer["command"], answer["status"], answer["exit_code"]) == ("up", "refused", 2)
    assert "://…" in answer["error"]["saw"]


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (Refused("a", 1, "rule", "remedy"), 2, "refused"),
        (Failed("a", 1, "rule", "remedy"), 1, "failed"),
        (Stopped(15), 75, "stopped"),
        (Stopped(2), 130, "stopped"),
        (OSError(28, "No space left on device", "/disk/file"), 1, "failed"),
        (ValueError("ours"), 1, "failed"),
        (None, 0, "completed"),
    ],
)
def test_an_error_decides_code_and_status(
    error: BaseException | None, code: int, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, replying("list", as_json=True) as reply:
        reply.add(rows=[])
        if error is not None:
            raise error
    answer = json.loads(capsys.readouterr().out)
    assert ended.value.exit_code == answer["exit_code"] == code
    assert (answer["status"], answer["command"], answer["rows"]) == (status, "list", [])
    assert (answer["error"] is None) == (status in ("completed", "stopped"))
    if isinstance(error, OSError):
        assert answer["error"]["field"] == "/disk/file" and answer["error"]["saw"] == "No space left on device"
