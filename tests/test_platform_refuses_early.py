"""A stack that cannot start is refused in one line before anything is written, without any part of a password."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from infra import databases
from tasks.errors import Failed, Refused
from tests.support.homes import DIGITS, CommandHome

PASSWORDS = [
    "T0PS3CRET",
    "T0P%S3CRET",
    "T0P@S3CRET",
    "12/S3CRET",
    "12?S3CRET",
    "T0P#S3CRET",
    "T0P S3CRET",
    "T0P%00S3CRET",
]
"""But for the first, none of them percent-encoded."""

ADDRESSES = [
    *(f"postgresql://me:{password}@127.0.0.1:9/db" for password in PASSWORDS),
    "postgresql://127.0.0.1:9/db?user=me&password=T0PS3CRET",
    "postgresql://127.0.0.1:9/db?user=me&Ssl%70assword=T0PS3CRET",
    "mysql://me:T0PS3CRET@127.0.0.1/db",
    "postgresql:///db?password=T0PS3CRET",
    "me:T0PS3CRET@127.0.0.1/db",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_password_written_out_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(Refused) as refused:
        databases.address_of(address)
    saw = str(refused.value)
    assert "env:NAME or file:PATH" in saw and "T0P" not in saw and "S3CRET" not in saw


@pytest.mark.parametrize("address", ADDRESSES[1:])
def test_an_address_that_libraries_would_repeat_is_refused_behind_a_reference_too(address: str, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(address)
    with pytest.raises(Refused) as refused:
        databases.address_of(f"file:{tmp_path / 'address'}")
    saw = str(refused.value)
    assert str(tmp_path) in saw and "T0P" not in saw and "S3CRET" not in saw


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://db.example.org/millrace",
        "postgres://me@db.example.org:5432/millrace?sslmode=require&sslrootcert=/etc/ca.pem",
        "postgresql://me@[::1]:5432/millrace",
        "postgresql://me@/millrace?host=/run/postgresql",
    ],
)
def test_an_address_without_a_password_may_be_written_out(address: str) -> None:
    assert databases.address_of(address) == address


def test_a_server_that_does_not_answer_is_named_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", "postgresql://me:T0P%40%25S3CRET@127.0.0.1:9/db")
    with pytest.raises(Failed, match="Connection refused") as failed:
        databases.prepare(databases.address_of("env:DATABASE"))
    assert "S3CRET" not in str(failed.value)


def test_a_password_stands_on_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "pg_dump"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\necho "$PGPASSWORD" > {tmp_path}/password\n')
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    databases.dump("postgresql://me:T0P%40S3CRET@127.0.0.1:9/db?sslmode=disable", tmp_path / "dump")
    assert (tmp_path / "password").read_text() == "T0P@S3CRET\n"
    words = f"--dbname=postgresql://me@127.0.0.1:9/db?sslmode=disable --format=custom --file={tmp_path}/dump\n"
    assert (tmp_path / "words").read_text() == words


REFUSALS = [
    ("up --prefect-port 70000", "--prefect-port: 70000; a port is an integer from 1 to 65535"),
    ("up --mlflow-port -1", "--mlflow-port: -1; a port"),
    ("up --mlflow-port 4211 --prefect-port 4211", "--mlflow-port: 4211; each server needs a port of its own"),
    ("up --host ::1 --auth", "--host: ::1: Address family for hostname not supported"),
    ("up --host nobody.invalid --auth", "--host: nobody.invalid: "),
    ("up --host 192.0.2.1 --auth", "--host: 192.0.2.1: Cannot assign requested address"),
    ("up --host 127.0.0.1.nip.invalid", "--host: 127.0.0.1.nip.invalid: "),
    ("up --database-url env:NOT_SET --auth", "env:NOT_SET: empty or not set"),
    ("up --database-url postgresql://h/db?user=me&password=T0PS3CRET", "a secret must be a reference"),
    ("up postgresql://me:T0PS3CRET@h/db", "Got unexpected extra argument"),
    ("restore /nowhere --database-url postgresql://me:T0PS3CRET@h/db", "a secret must be a reference"),
    ("restore /nowhere --database-url mysql://me:T0PS3CRET@h/db", "no valid address"),
]


@pytest.mark.parametrize(("words", "saw"), REFUSALS, ids=[words for words, _ in REFUSALS])
def test_a_refusal_is_one_line_and_comes_before_anything_is_written(words: str, saw: str, tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "home").here(*words.split(), "--json")
    assert answer.code == 2, answer.stderr
    assert saw in answer.stderr and len(answer.messages) == 1
    assert "T0PS3CRET" not in answer.stdout + answer.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("variable", ["PREFECT_API_URL", "MLFLOW_TRACKING_URI"])
def test_a_server_is_not_named_with_its_password(variable: str, tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home", given={variable: "http://me:T0PS3CRET@127.0.0.1:9/api"})
    for code, words in ((2, ["run", DIGITS, "--json"]), (1, ["doctor"])):
        answer = home.here(*words)
        assert answer.code == code
        output = answer.stdout + answer.stderr
        assert f"{variable}" in output and "an address with a password in it" in output and "T0PS3CRET" not in output
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/T0PS3CRET\nT0PS3CRET", "http:T0PS3CRET"])
def test_what_is_no_webhook_is_refused_and_not_repeated(address: str, tmp_path: Path) -> None:
    (tmp_path / "hook").write_text(address)
    answer = CommandHome(tmp_path / "home").here("up", "--alert", f"file:{tmp_path / 'hook'}", "--json")
    assert answer.code == 2 and "the address of a webhook begins with http:// or https://" in answer.stderr
    assert "T0PS3CRET" not in answer.stdout + answer.stderr
    assert not (tmp_path / "home").exists()


def test_a_backup_whose_database_nobody_names_is_refused_before_it_begins(tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    home.root.mkdir()
    layout = {"home": str(home.root), "project": str(tmp_path), "database": "env:NOT_SET"}
    (home.root / "stack.json").write_text(json.dumps({"layout": layout}))
    answer = home.here("backup", tmp_path / "backups")
    assert answer.code == 2 and "env:NOT_SET: empty or not set" in answer.stderr
    assert not (tmp_path / "backups").exists()
