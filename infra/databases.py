"""The PostgreSQL database that both servers may use instead of files in the home."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from tasks.environment.secrets import REMEDY, RULE, resolve, unreferenced
from tasks.errors import Failed, Refused

SCHEMA = "mlflow"
"""Schema of MLflow's tables; Prefect's are in `public`."""

_CHARACTER = r"(?:[\w.~!$&'()*+,;=-]|%(?!00)[0-9A-Fa-f]{2})"
ADDRESS = re.compile(
    rf"postgres(ql)?://({_CHARACTER}+(:{_CHARACTER}*)?@)?"
    rf"({_CHARACTER}*|\[[0-9A-Fa-f:.]+\])(:\d+)?/{_CHARACTER}+(\?({_CHARACTER}|[/:])*)?",
    re.ASCII,
)
"""Strict, as libraries parse unusual addresses differently and print them, with the password, in their errors."""

OPTION = "--database-url"


def address_of(given: str) -> str:
    """Return the address, or the one that a reference names.

    Raises:
        Refused: it is no valid address, or has a literal password; the message does not contain it.
        tasks.environment.secrets.Missing: the variable or file of the reference does not exist.
    """
    named = not unreferenced(given)
    address = resolve(given) if named else given
    parts = _parts(address)
    if parts is None:
        saw = f"{given} names no valid address" if named else "no valid address"
        rule = "the address of a database is postgresql://[user[:password]@]host[:port]/name, percent-encoded"
        raise Refused(OPTION, saw, rule, "correct it" if named else f"correct it; if it has a password, {REMEDY}")
    trailing = "password=" in unquote(parts.query).lower()
    if not named and (trailing or parts.password):
        raise Refused(OPTION, "an address with a password in it", RULE, REMEDY)
    if trailing:
        raise Refused(OPTION, f"{given} has a password after the ?", "a password comes before the @", "correct it")
    return address


def _parts(address: str) -> SplitResult | None:
    with contextlib.suppress(ValueError):
        if ADDRESS.fullmatch(address) and (parts := urlsplit(address)).netloc:
            return parts
    return None


def for_prefect(address: str) -> str:
    """Return the address for SQLAlchemy's asynchronous driver."""
    return urlunsplit(urlsplit(address)._replace(scheme="postgresql+asyncpg"))


def for_mlflow(address: str) -> str:
    """Return the address for SQLAlchemy's default driver, in MLflow's schema."""
    parts = urlsplit(address)
    query = "&".join(filter(None, [parts.query, f"options={quote(f'-csearch_path={SCHEMA}')}"]))
    return urlunsplit(parts._replace(scheme="postgresql", query=query))


def prepare(address: str) -> None:
    """Create MLflow's schema if it does not exist.

    Raises:
        Failed: the driver is not installed, or the server refuses the connection.
    """
    with _connected(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")


def dump(address: str, into: Path) -> None:
    """Dump the whole database with pg_dump. Raises `Failed`."""
    _tool("pg_dump", address, "--format=custom", f"--file={into}")


def restore(address: str, dumped: Path, moves: list[tuple[str, str]]) -> None:
    """Restore a dump into an empty database, and replace old paths in MLflow's texts.

    Raises:
        Failed: pg_restore is not installed or failed, or the database is not empty.
    """
    from psycopg2 import sql

    with _connected(address) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema IN ('public', %s)", (SCHEMA,))
        [(tables,)] = cursor.fetchall()
        if tables:
            raise Failed(
                OPTION, f"it has {tables} tables", "a dump is restored into an empty database", "create a new one"
            )
    _tool("pg_restore", address, "--no-owner", str(dumped))
    with _connected(address) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = %s AND data_type IN ('text', 'character varying')",
            (SCHEMA,),
        )
        for table, column in cursor.fetchall():
            names = {"table": sql.Identifier(SCHEMA, table), "column": sql.Identifier(column)}
            change = sql.SQL("UPDATE {table} SET {column} = replace({column}, %s, %s) WHERE strpos({column}, %s) > 0")
            for old, new in moves:
                cursor.execute(change.format(**names), (old, new, old))


def _plain(address: str) -> str:
    return urlunsplit(urlsplit(address)._replace(scheme="postgresql"))


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Connect, and commit when the block ends without an error."""
    try:
        import psycopg2
    except ImportError:
        rule, remedy = "PostgreSQL needs its driver", "run make setup EXTRAS=test,postgres"
        raise Failed(OPTION, "psycopg2 is not installed", rule, remedy) from None
    try:
        connection = psycopg2.connect(_plain(address), connect_timeout=10)
    except psycopg2.Error as error:
        message = " ".join(str(error).split())
        rule, remedy = "both servers must be able to connect", "check the address and the database's permissions"
        raise Failed(OPTION, f"no connection: {message}", rule, remedy) from None
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def _tool(name: str, address: str, *words: str) -> None:
    """Run one of PostgreSQL's programs; the password is in the environment, as all users can read command lines."""
    parts, environment = urlsplit(address), dict(os.environ)
    if parts.password:
        environment["PGPASSWORD"] = unquote(parts.password)
        parts = parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@", 1))
    command = [f"--dbname={_plain(parts.geturl())}", *words]
    program = shutil.which(name) or next(
        iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if program is None:
        raise Failed(
            OPTION, f"{name} is not installed", "a backup of PostgreSQL needs its tools", "install postgresql-client"
        )
    done = subprocess.run([program, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Failed(OPTION, f"{name}: {last}", f"{name} must succeed", "fix the cause and try again")
