"""The address of a database, as the server's own library reads it."""

import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import conninfo

from atoll import errors
from atoll.store.versions.errors import Interrupted

CONNECT_SECONDS = 10
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
# The server looks after a silent client, so that the claims of a machine that is gone are free after a minute.
KEEPALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"


class ConnectionInfo:
    """How to reach a database.

    Attributes:
        name: Its address without secrets: it opens the same database where a password is not needed, or is found in
            `PGPASSWORD` or a password file.

    Raises:
        SetupError: The address is not understood. What it says of it holds no password.
    """

    def __init__(self, url: str, busy_seconds: float) -> None:
        normalized_url = f"postgresql://{url.partition('://')[2]}"
        try:
            options: Mapping[str, Any] = conninfo.conninfo_to_dict(normalized_url)
        except psycopg.ProgrammingError:
            raise errors.SetupError(
                "postgresql://... is no address of a database: give postgresql://USER@HOST/DATABASE, "
                "or postgresql:///DATABASE?host=FOLDER for a socket."
            ) from None  # it repeats what it could not read, which may be a password
        _check_parts(options)
        self.name = _format_url(options)
        self._options = {**options}
        server_options = f"-c lock_timeout={max(1, round(busy_seconds * 1000))} {KEEPALIVE}"
        self._options["options"] = (
            f"{server_options} {options['options']}" if options.get("options") else server_options
        )
        self._options.setdefault("connect_timeout", CONNECT_SECONDS)
        self._options["client_encoding"] = "utf8"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Opens a connection of automatic commits that says whose it is."""
        return psycopg.connect(**{"application_name": make_application_name(), **self._options}, autocommit=True)


def make_application_name() -> str:
    """Returns what the server knows this process by: it shows 63 characters."""
    return f"atoll {os.getpid()}@{socket.gethostname()}"[:63]


def parse_application_name(application: str) -> tuple[int, str] | None:
    """Reads what `whose` wrote: the process and its machine; None for somebody else."""
    program, _, address = application.partition(" ")
    pid, _, machine = address.partition("@")
    return (int(pid), machine) if program == "atoll" and pid.isdigit() else None


def _check_parts(options: Mapping[str, Any]) -> None:
    """Refuses what comes of a password with `@` or `/` in it: its rest would be shown as a host or a database."""
    host, port = str(options.get("host") or ""), str(options.get("port") or "")
    is_split = "@" in host.removeprefix("@") or "@" in str(options.get("dbname") or "")
    if is_split or not (port.replace(",", "") or "0").isdecimal():
        raise errors.SetupError(
            "postgresql://... is no address of a database: in a user and a password write @ as %40, / as %2F and : as "
            "%3A; a port is a number. Better leave the password out, and set PGPASSWORD."
        )


def _format_url(options: Mapping[str, Any]) -> str:
    parameters = {name: value for name, value in options.items() if name not in SECRETS}
    user, host, port = (str(parameters.pop(name, "") or "") for name in ("user", "host", "port"))
    netloc = f"{quote(user, safe='')}@" if user else ""
    if host.startswith(("/", "@")) or "," in host:
        parameters |= {"host": host, **({"port": port} if port else {})}
    else:
        netloc += f"[{host}]" if ":" in host else host
        netloc += f":{port}" if port else ""
    database = quote(str(parameters.pop("dbname", "") or ""), safe="")
    return f"postgresql://{netloc}/{database}" + (
        f"?{urlencode(parameters, safe='/', quote_via=quote)}" if parameters else ""
    )


CONNECTION_LOST_CODES = ("57P01", "57P02", "57P03", "57P05")  # shut down, crashed, still starting, too long idle
UNIQUE_VIOLATION = "23505"  # a row of that key is there already
RETRY_CODES = ("40001", "40P01")  # serialization failure, deadlock

# By the code, or by how it begins.
MESSAGES = {
    "53100": "The disk of {name} is full: make room and go on, all that was committed is there.",
    "53300": "{name} has no connection left: end some, or raise its max_connections.",
    "53": "{name} is short of resources: make room and go on, all that was committed is there.",
    "25006": "{name} is read-only: give the address of the server that takes writes.",
    "55P03": "{name} stayed locked by another program: end its transaction or wait longer.",
    "42501": "{name} does not let you in everywhere: get the right to use and create tables in its schema.",
    "3F000": "{name} has no schema to put tables in: create one, or name it in the search path.",
    "22021": "A text holds a character that {name} cannot keep: leave it out.",
    "58": "The disk under {name} failed: all that was committed before is there.",
    "XX": "{name} is damaged: see the server's log, and restore a backup.",
}

# The server's library gives no code when there is no connection, only words.
CONNECT_MESSAGES = {
    "password authentication failed": "{name} does not take that user or password: correct them, or set PGPASSWORD.",
    "no password supplied": "{name} wants a password: set PGPASSWORD, or write it into ~/.pgpass.",
    "fe_sendauth": "{name} wants a password: set PGPASSWORD, or write it into ~/.pgpass.",
    "no pg_hba.conf entry": "{name} does not let this machine or user in: add them to the server's pg_hba.conf.",
    "authentication failed": "{name} does not take that user: give another in the address.",
    'database "': "There is no such database as {name}: create it with `createdb`, or give another.",
    'role "': "{name} does not know that user: give another in the address.",
    "too many clients": "{name} has no connection left: end some, or raise its max_connections.",
    "remaining connection slots": "{name} has no connection left: end some, or raise its max_connections.",
    "starting up": "{name} is still starting: try again in a moment.",
    "resolve host": "There is no machine of the name that is in {name}: correct the address.",
    "translate host": "There is no machine of the name that is in {name}: correct the address.",
}
NO_SERVER_MESSAGE = "Nobody answers at {name}: start the server, or give another address."


def is_connection_lost(error: BaseException) -> bool:
    """Says whether a connection is gone, or could not be had."""
    code: str | None = getattr(error, "sqlstate", None)
    if not isinstance(error, psycopg.OperationalError):
        return False
    return code is None or code.startswith("08") or code in CONNECTION_LOST_CODES


def explain(error: BaseException, name: str, *, is_open: bool) -> errors.AtollError:
    """Returns what happened and what to do, in one sentence."""
    code: str = getattr(error, "sqlstate", None) or ""
    error_text = " ".join(str(error).split())
    if code in RETRY_CODES:
        return Interrupted(f"Somebody else was faster at {name}: try again. ({error_text})")
    if code == UNIQUE_VIOLATION:
        return errors.Conflict(f"Somebody else wrote the same into {name}: claim the run, and let only one go on.")
    if is_connection_lost(error):
        if is_open:
            return Interrupted(f"{name} was lost on the way: what was committed before is there. ({error_text})")
        messages = (message for pattern, message in CONNECT_MESSAGES.items() if pattern in error_text)
        return errors.SetupError(f"{next(messages, NO_SERVER_MESSAGE).format(name=name)} ({error_text})")
    sentence = next(
        (MESSAGES[prefix] for prefix in (code, code[:2]) if prefix in MESSAGES), "{name} could not be read or written."
    )
    if not code and "NUL" in error_text:
        sentence = MESSAGES["22021"]
    error_type = errors.StoreFailed if is_open else errors.SetupError
    return error_type(f"{sentence.format(name=name)} ({error_text})")
