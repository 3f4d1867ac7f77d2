"""Databases: rows in the order of their key, nothing is written, and no password is shown."""

from __future__ import annotations

import datetime
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tasks.config.base import identity
from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench, secrets_of
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.sources import sql
from tasks.sources.kinds.tables import SqlSource
from tests.support.rows import everything

COLUMNS = {"id": "category", "name": "text", "age": "number"}


def source(url: str, query: str = "people", columns: dict[str, str] = COLUMNS, **more: Any) -> SqlSource:
    return SqlSource.model_validate({"url": url, "query": query, "columns": columns, "key": "id", **more})


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a database with three people."""
    with sqlite3.connect(tmp_path / "people.db") as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age REAL)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", [(3, "cy", 2.5), (1, "ann", 1), (2, None, None)])
    connection.close()
    return f"sqlite:///{tmp_path}/people.db"


def execute(url: str, *statements: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_rows_are_in_the_order_of_the_key(database: str) -> None:
    read = everything(source(database))
    assert read.rows == [(1, "ann", 1), (2, None, None), (3, "cy", 2.5)]
    assert (read.keys, read.places[0]) == (["1", "2", "3"], "row with id 1")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, name, age FROM people WHERE name LIKE '%n%' AND ':x' <> '%s';",
        "WITH p AS (SELECT * FROM people) SELECT * FROM p -- all",
    ],
)
def test_a_query_is_taken_as_it_is(database: str, query: str) -> None:
    assert everything(source(database, query)).keys[0] == "1"


def test_the_name_of_a_table_is_quoted(database: str) -> None:
    execute(database, 'CREATE TABLE "my people; drop" (id, name, age)')
    assert everything(source(database, "my people; drop")).keys == []
    with pytest.raises(Failed, match="no such table"):
        everything(source(database, 'people" where 1=0 --'))


def test_nothing_can_be_written(database: str) -> None:
    opened: Any = source(database).open()
    with pytest.raises(Failed, match="readonly database"), opened._connected() as connection:
        connection.exec_driver_sql("DELETE FROM people")


def test_the_fingerprint_is_the_content_that_is_read(database: str) -> None:
    config = source(database)
    opened = config.open()
    [(_, before)] = opened.fingerprint()
    assert opened.fingerprint() == [("rows from id 1", before)] == config.open().fingerprint()
    execute(database, "UPDATE people SET age = 7 WHERE id = 3")
    with pytest.raises(Failed, match="other rows than a moment ago"):
        list(opened.read(opened.pieces()[0]))
    assert config.open().fingerprint() != [("rows from id 1", before)]
    assert str(database) not in str(identity(config))


def test_batches_grow_to_so_many_bytes(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ", ".join(f"({number}, '{'x' * 92}', 1)" for number in range(10, 2010))
    execute(database, f"INSERT INTO people VALUES {rows}")
    monkeypatch.setattr(sql, "BATCH_BYTES", 50_000)
    opened = source(database).open()
    batches = [len(rows.keys) for piece in opened.pieces() for rows in opened.read(piece)]
    assert (sum(batches), batches[0]) == (2003, 100)
    assert all(400 < size <= 520 for size in batches[1:-1])


def test_pieces_are_ranges_of_keys(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a b", "é", "A'; DROP TABLE people", "%s", "zz", ":x", "9"]
    values = ", ".join(f"('{name.replace(chr(39), 2 * chr(39))}', 'n', 1)" for name in names)
    execute(database, "CREATE TABLE words (id TEXT, name, age)", f"INSERT INTO words VALUES {values}, (NULL, 'n', 1)")
    monkeypatch.setattr(sql, "PIECE_BYTES", 40)
    opened = source(database, "words").open()
    assert len(opened.pieces()) > 3
    read = everything(opened, backwards=True)
    assert (read.keys, read.bad_keys) == (sorted(names), ["without id 000000000"])


def test_a_key_that_is_there_twice_orders_nothing(database: str) -> None:
    execute(database, "CREATE TABLE twice (id, name, age)", "INSERT INTO twice VALUES (1, 'a', 1), (1, 'b', 2)")
    with pytest.raises(Failed, match="source.key: id 1 more than once"):
        everything(source(database, "twice"))


def test_rows_become_records(database: str, bench: Workbench) -> None:
    execute(database, *(f"INSERT INTO people VALUES ({number}, 'n{number}', {number})" for number in range(10, 60)))
    outcome = conversion.build(bench, source(database), RecordsConfig())
    assert outcome.counts["examples"] == 53
    assert {name: feature["kind"] for name, feature in outcome.features.items()} == {
        "age": "number",
        "key": "key",
        "name": "text",
    }


def test_values_of_any_type_and_bad_rows(database: str) -> None:
    execute(
        database,
        "CREATE TABLE odd (id, name, age)",
        "INSERT INTO odd VALUES ('a', 1, 'x'), ('b', 1.5, 2), ('c', CAST(X'ff41' AS TEXT), 3), (NULL, 'n', 4)",
        "INSERT INTO odd VALUES ('d', X'6f6b', 5)",
    )
    read = everything(source(database, "odd"))
    assert read.rows == [("a", "1", "x"), ("b", "1.5", "2"), ("d", "ok", "5")]
    assert read.bad == {"row without id": "id: missing", "row with id c": "name: byte 0 (0xff) is not UTF-8"}


def test_images_are_bytes(database: str) -> None:
    execute(
        database, "CREATE TABLE photos (id, photo)", "INSERT INTO photos VALUES (1, X'ff00'), (2, 'a.png'), (3, NULL)"
    )
    execute(database, "INSERT INTO photos VALUES (4, 7)")
    read = everything(source(database, "photos", {"id": "category", "photo": "image"}))
    assert read.columns["photo"] == [b"\xff\0", None]
    assert read.bad == {
        "row with id 2": "photo: a text, and a database holds the bytes of images and sounds",
        "row with id 4": "photo: a number, and a database holds the bytes of images and sounds",
    }


def test_columns_are_those_of_the_config(database: str) -> None:
    with pytest.raises(Refused, match=r"age of source.query is not named"):
        everything(source(database, columns={"id": "category", "name": "text"}))
    with pytest.raises(Refused, match="id:1 of source.query is not named"):
        everything(source(database, "SELECT id, id, name, age FROM people"))
    columns = {"id": "category", "name": "text", "age": "ignore"}
    assert everything(source(database, columns=columns)).rows[0] == (1, "ann")


def test_what_is_refused(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="is what orders the rows"):
        source(database, key=None)
    for url in (
        "postgresql://me:T0PS3CRET@h/d",
        "postgresql://me:T0PS3CRET/+:%2F@h/d",
        "postgresql://:T0PS3CRET@h/d",
        "postgresql://h/d?password=T0PS3CRET",
        "postgresql://h/d?sslmode=require&SSLPassword=T0PS3CRET",
        "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3DT0PS3CRET",
        "mssql+pyodbc:///?odbc_connect=PWD%3dT0PS3CRET",
    ):
        with pytest.raises(ValueError, match="a URL with a password in it") as refused:
            source(url)
        assert "T0PS3CRET" not in str(refused.value.errors()[0]["msg"])  # type: ignore[attr-defined]
    for url in ("nonsense", "sqlite:///nowhere.db", "sqlite://", "oracle9://h/d", "env:MILLRACE_NO_SUCH"):
        with pytest.raises(Refused):
            source(url).open()
    for url in ("postgresql://me@h:5432/d?application_name=a", "sqlite:///C:/a@b.db", "env:A:b@c"):
        assert source(url).url == url
    monkeypatch.setenv("SOURCE_URL", "T0PS3CRET no url")
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(Refused, match="postgresql://h/d; must be a URL of SQLAlchemy; .* install its driver"):
        source("postgresql://h/d").open()
    with pytest.raises(Refused, match="source.url: no URL") as wrong:
        source("env:SOURCE_URL").open()
    assert "T0PS3CRET" not in str(wrong.value)


def test_a_compute_process_gets_the_variable_of_the_url_and_no_other(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no other variable with a secret in it, so that without this one it could not read the database."""
    monkeypatch.setenv("SOURCE_URL", database)
    config = RecordsConfig()
    assert secrets_of((source("env:SOURCE_URL"), config)) == {"SOURCE_URL": database}
    assert secrets_of((source("env:MILLRACE_NO_SUCH"), config)) == secrets_of((source(database), config)) == {}


def test_no_option_of_a_url_that_is_a_password_is_shown(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_URL", f"{database}?password=T0PS%2B3CRET&odbc_connect=PWD%3DT0P+KEY")
    opened: Any = source("env:SOURCE_URL").open()
    for shown in ("T0PS+3CRET", "T0PS%2B3CRET", "PWD=T0P KEY", "PWD%3DT0P+KEY"):
        assert opened._without_password(f"of {shown} no use") == "of *** no use"


def test_postgresql(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine(postgres)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA shop"))
        connection.execute(text("CREATE TABLE shop.people (id int, name text, age numeric, day date, photo bytea)"))
        rows = "SELECT n, 'é' || n, n + 0.5, DATE '2024-01-01' + n, '\\xff00'::bytea FROM generate_series(1, 500) n"
        connection.execute(text(f"INSERT INTO shop.people {rows} ORDER BY random()"))
    columns = {**COLUMNS, "day": "time", "photo": "image"}
    monkeypatch.setenv("SOURCE_URL", postgres)
    (tmp_path / "url").write_text(postgres + "\n")
    config = source("env:SOURCE_URL", "shop.people", columns)
    read = everything(config)
    assert read.keys == [str(number) for number in range(1, 501)]
    assert read.rows[0] == (1, "é1", 1.5, datetime.date(2024, 1, 2), b"\xff\0")
    assert read.rows == everything(source(f"file:{tmp_path}/url", "SELECT * FROM shop.people", columns)).rows

    odd = "SELECT *, id AS \"%a:b\" FROM shop.people WHERE name LIKE '%1%' AND ':x' <> '%s' AND id::text < '200';"
    assert everything(source("env:SOURCE_URL", odd, {**columns, "%a:b": "number"})).rows[0][-1] == 1
    with pytest.raises(Refused, match="id more than once"):
        everything(source("env:SOURCE_URL", "SELECT id, * FROM shop.people", columns))

    monkeypatch.setattr(sql, "PIECE_BYTES", 2000)
    for key in ("md5(id::text)::uuid", "DATE '2024-01-01' + id", "id + 0.5", "md5(id::text)"):
        ranged = source("env:SOURCE_URL", f"SELECT {key} AS id, name, age FROM shop.people").open()
        assert len(ranged.pieces()) > 3 and len(everything(ranged).keys) == 500
    monkeypatch.undo()
    monkeypatch.setenv("SOURCE_URL", postgres)

    opened: Any = config.open()
    with pytest.raises(Failed, match="read-only transaction"), opened._connected() as connection:
        connection.execution_options(stream_results=False).exec_driver_sql("DELETE FROM shop.people")
    with opened._connected() as connection:
        plain = connection.execution_options(stream_results=False)
        assert plain.exec_driver_sql("SHOW transaction_isolation").scalar() == "repeatable read"
    assert "T0PS3CRET" in postgres and "T0PS3CRET" not in opened._without_password(f"cannot connect to {postgres}")
    before, rows = opened.fingerprint(), opened.read(opened.pieces()[0])
    first = next(rows)
    with engine.begin() as connection:
        connection.execute(text("UPDATE shop.people SET age = 0"))
    assert sum((len(later.keys) for later in rows), len(first.keys)) == 500
    assert opened.fingerprint() != before

    monkeypatch.setenv("SOURCE_URL", postgres.replace("postgres:", "x").replace("millrace:", "nobody:"))
    with pytest.raises(Failed) as failed:
        everything(config)
    assert "T0PS3CRET" not in repr(failed.value)
    assert failed.value.__cause__ is None
