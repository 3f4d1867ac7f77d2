"""Where both servers keep their history: files in the home, or one PostgreSQL database given by reference."""

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

from tasks.config.secrets import REMEDY, RULE, resolve, unreferenced
from tasks.errors import Failed, Refused

SCHEMA = "mlflow"
"""MLflow's own, beside Prefect's tables in `public`, so that two programs' tables and migrations cannot meet."""

_CHARACTER = r"(?:[\w.~!$&'()*+,;=-]|%(?!00)[0-9A-Fa-f]{2})"
ADDRESS = re.compile(
    rf"postgres(ql)?://({_CHARACTER}+(:{_CHARACTER}*)?@)?"
    rf"({_CHARACTER}*|\[[0-9A-Fa-f:.]+\])(:\d+)?/{_CHARACTER}+(\?({_CHARACTER}|[/:])*)?",
    re.ASCII,
)
"""Narrow on purpose: what libraries read in different ways they also repeat, and the password with it."""

OPTION = "--database-url"


def address_of(given: str) -> str:
    """The address that is given or that a reference names.

    Raises:
        Refused: it is none, or a password in it is written out; of what may hold one nothing is repeated.
        tasks.config.secrets.Missing: the reference names nothing.
    """
    named = not unreferenced(given)
    address = resolve(given) if named else given
    parts = _parts(address)
    if parts is None:
        saw = f"{given} names no such address" if named else "what is given is no such address"
        rule = "a database is given as postgresql://[user[:password]@]host[:port]/name, percent-encoded"
        raise Refused(OPTION, saw, rule, "correct it" if named else f"correct it; if it has a password, {REMEDY}")
    trailing = "password=" in unquote(parts.query).lower()
    if not named and (trailing or parts.password):
        raise Refused(OPTION, "an address with a password in it", RULE, REMEDY)
    if trailing:
        raise Refused(OPTION, f"{given} has a password after its ?", "a password stands before the @", "correct it")
    return address


def _parts(address: str) -> SplitResult | None:
    with contextlib.suppress(ValueError):
        if ADDRESS.fullmatch(address) and (parts := urlsplit(address)).netloc:
            return parts
    return None


def for_prefect(address: str) -> str:
    """As SQLAlchemy's asynchronous driver takes it."""
    return urlunsplit(urlsplit(address)._replace(scheme="postgresql+asyncpg"))


def for_mlflow(address: str) -> str:
    """As SQLAlchemy's usual driver takes it, in MLflow's own schema."""
    parts = urlsplit(address)
    query = "&".join(filter(None, [parts.query, f"options={quote(f'-csearch_path={SCHEMA}')}"]))
    return urlunsplit(parts._replace(scheme="postgresql", query=query))


def prepare(address: str) -> None:
    """Make MLflow's schema where there is none.

    Raises:
        Failed: the driver is missing, or the server does not let us in.
    """
    with _connected(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")


def dump(address: str, into: Path) -> None:
    """All of the database, by PostgreSQL's own tool. Raises `Failed`."""
    _tool("pg_dump", address, "--format=custom", f"--file={into}")


def restore(address: str, dumped: Path, moves: list[tuple[str, str]]) -> None:
    """Fill an empty database from a dump, and put every text of MLflow's that names an old place into the new one.

    Raises:
        Failed: the tool is missing or failed, or the database holds something.
    """
    from psycopg2 import sql

    with _connected(address) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema IN ('public', %s)", (SCHEMA,))
        [(tables,)] = cursor.fetchall()
        if tables:
            raise Failed(OPTION, f"it holds {tables} tables", "a dump goes into an empty database", "make a new one")
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
    """A connection whose work counts when the block ends."""
    try:
        import psycopg2
    except ImportError:
        rule, remedy = "PostgreSQL needs its driver", "make setup EXTRAS=test,postgres"
        raise Failed(OPTION, "psycopg2 is not installed", rule, remedy) from None
    try:
        connection = psycopg2.connect(_plain(address), connect_timeout=10)
    except psycopg2.Error as error:
        said = " ".join(str(error).split())
        raise Failed(OPTION, f"no connection: {said}", "the database must let both servers in", "mend it") from None
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def _tool(name: str, address: str, *words: str) -> None:
    """One of PostgreSQL's programs. The password travels in the environment: a command line is everybody's to read."""
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
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise Failed(OPTION, f"{name}: {said}", "it must succeed", "mend it and try again")
