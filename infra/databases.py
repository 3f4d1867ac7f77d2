"""Where both servers keep their history: files in the home, or one PostgreSQL database given by reference."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

from tasks.config.secrets import REMEDY, RULE, resolve, unreferenced

SCHEMA = "mlflow"
"""MLflow's own, beside Prefect's tables in `public`: both have a table called `configuration`, `tags` or the like."""

SCHEMES = ("postgresql", "postgres")


class Unusable(Exception):
    """A database that cannot be used: what was seen (never its password), the rule, the remedy."""

    def __init__(self, saw: str, rule: str, remedy: str) -> None:
        super().__init__(f"{saw}; {rule}; {remedy}")
        self.saw, self.rule, self.remedy = saw, rule, remedy


def check(given: str) -> None:
    """Refuse what is no reference and no address, or holds a password.

    Raises:
        Unusable: with what is wrong; a password in it is not repeated.
    """
    if unreferenced(given):
        _check_address(given, "the address")
        if urlsplit(given).password:
            raise Unusable("an address with a password in it", RULE, REMEDY)


def address_of(given: str) -> str:
    """The address itself. Raises `tasks.config.secrets.Missing` for a reference to nothing, `Unusable` as `check`."""
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
        raise Unusable(f"{named} is no such address", rule, "correct it")


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
        Unusable: the driver is missing, or the server does not let us in.
    """
    try:
        import psycopg2
    except ImportError:
        rule = "PostgreSQL needs its driver"
        raise Unusable("psycopg2 is not installed", rule, "make setup EXTRAS=test,postgres") from None
    try:
        connection = psycopg2.connect(urlunsplit(urlsplit(address)._replace(scheme="postgresql")), connect_timeout=10)
    except psycopg2.Error as error:
        said = " ".join(str(error).split())
        raise Unusable(f"no connection: {said}", "the database must let both servers in", "mend it") from None
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    connection.close()
