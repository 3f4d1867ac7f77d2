"""Where both servers keep their history: files in the home, or one PostgreSQL database given by reference."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from infra.errors import StackError
from tasks.config.secrets import REMEDY, RULE, resolve, unreferenced

SCHEMA = "mlflow"
"""MLflow's own, beside Prefect's tables in `public`, so that two programs' tables and migrations cannot meet."""

SCHEMES = ("postgresql", "postgres")

OPTION = "--database-url"


def check(given: str) -> None:
    """Refuse what is no reference and no address, or holds a password.

    Raises:
        StackError: with what is wrong; a password in it is not repeated.
    """
    if unreferenced(given):
        _check_address(given, "the address")
        if urlsplit(given).password:
            raise StackError(OPTION, "an address with a password in it", RULE, REMEDY)


def address_of(given: str) -> str:
    """The address itself. Raises `tasks.config.secrets.Missing` for a reference to nothing, `StackError` as `check`."""
    address = given if unreferenced(given) else resolve(given)
    _check_address(address, given)
    return address


def _check_address(address: str, named: str) -> None:
    try:
        parts = urlsplit(address)
        whole = parts.scheme in SCHEMES and bool(parts.path.strip("/"))
    except ValueError:
        whole = False
    if not whole:
        rule = "a database is given as postgresql://[user[:password]@]host[:port]/name"
        raise StackError(OPTION, f"{named} is no such address", rule, "correct it")


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
        StackError: the driver is missing, or the server does not let us in.
    """
    with _connected(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")


def dump(address: str, into: Path) -> None:
    """All of the database, by PostgreSQL's own tool. Raises `StackError`."""
    _tool("pg_dump", "--format=custom", f"--file={into}", f"--dbname={_plain(address)}")


def restore(address: str, dumped: Path, moves: list[tuple[str, str]]) -> None:
    """Fill an empty database from a dump, and put every text of MLflow's that names an old place into the new one.

    Raises:
        StackError: the tool is missing or failed, or the database holds something.
    """
    from psycopg2 import sql

    with _connected(address) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema IN ('public', %s)", (SCHEMA,))
        [(tables,)] = cursor.fetchall()
        if tables:
            raise StackError(
                OPTION, f"it holds {tables} tables", "a dump goes into an empty database", "make a new one"
            )
    _tool("pg_restore", "--no-owner", f"--dbname={_plain(address)}", str(dumped))
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
        raise StackError(OPTION, "psycopg2 is not installed", rule, remedy) from None
    try:
        connection = psycopg2.connect(_plain(address), connect_timeout=10)
    except psycopg2.Error as error:
        said = " ".join(str(error).split())
        raise StackError(OPTION, f"no connection: {said}", "the database must let both servers in", "mend it") from None
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def _tool(name: str, *words: str) -> None:
    """One of PostgreSQL's programs. The password travels in the environment: a command line is everybody's to read."""
    program = shutil.which(name) or next(
        iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if program is None:
        raise StackError(
            OPTION, f"{name} is not installed", "a backup of PostgreSQL needs its tools", "install postgresql-client"
        )
    environment = dict(os.environ)
    shown = []
    for word in words:
        option, _, value = word.partition("=")
        if option == "--dbname" and (password := urlsplit(value).password):
            environment["PGPASSWORD"] = unquote(password)
            word = word.replace(f":{password}@", "@", 1)
        shown.append(word)
    done = subprocess.run([program, *shown], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise StackError(OPTION, f"{name}: {said}", "it must succeed", "mend it and try again")
