"""The address of a database, as the server's own library reads it."""

import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import conninfo

from atoll import errors

CONNECT_SECONDS = 10
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
# The server looks after a silent client, so that the claims of a machine that is gone are free after a minute.
KEEPALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"


class Conninfo:
    """How to reach a database.

    Attributes:
        name: Its address without secrets: it opens the same database where a password is not needed, or is found in
            `PGPASSWORD` or a password file.

    Raises:
        SetupError: The address is not understood. What it says of it holds no password.
    """

    def __init__(self, url: str, busy_seconds: float) -> None:
        plain = f"postgresql://{url.partition('://')[2]}"
        try:
            found: Mapping[str, Any] = conninfo.conninfo_to_dict(plain)
        except psycopg.ProgrammingError:
            raise errors.SetupError(
                "postgresql://... is no address of a database: give postgresql://USER@HOST/DATABASE, "
                "or postgresql:///DATABASE?host=FOLDER for a socket."
            ) from None  # it repeats what it could not read, which may be a password
        _check(found)
        self.name = _spell(found)
        self._given = {**found}
        locks = f"-c lock_timeout={max(1, round(busy_seconds * 1000))} {KEEPALIVE}"
        self._given["options"] = f"{locks} {found['options']}" if found.get("options") else locks
        self._given.setdefault("connect_timeout", CONNECT_SECONDS)
        self._given["client_encoding"] = "utf8"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Opens a connection of automatic commits that says whose it is."""
        return psycopg.connect(**{"application_name": whose(), **self._given}, autocommit=True)


def whose() -> str:
    """Returns what the server knows this process by: it shows 63 characters."""
    return f"atoll {os.getpid()}@{socket.gethostname()}"[:63]


def process_of(application: str) -> tuple[int, str] | None:
    """Reads what `whose` wrote: the process and its machine; None for somebody else."""
    word, _, rest = application.partition(" ")
    number, _, machine = rest.partition("@")
    return (int(number), machine) if word == "atoll" and number.isdigit() else None


def _check(found: Mapping[str, Any]) -> None:
    """Refuses what comes of a password with `@` or `/` in it: its rest would be shown as a host or a database."""
    host, port = str(found.get("host") or ""), str(found.get("port") or "")
    is_split = "@" in host.removeprefix("@") or "@" in str(found.get("dbname") or "")
    if is_split or not (port.replace(",", "") or "0").isdecimal():
        raise errors.SetupError(
            "postgresql://... is no address of a database: in a user and a password write @ as %40, / as %2F and : as "
            "%3A; a port is a number. Better leave the password out, and set PGPASSWORD."
        )


def _spell(found: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in found.items() if name not in SECRETS}
    user, host, port = (str(rest.pop(name, "") or "") for name in ("user", "host", "port"))
    where = f"{quote(user, safe='')}@" if user else ""
    if host.startswith(("/", "@")) or "," in host:
        rest |= {"host": host, **({"port": port} if port else {})}
    else:
        where += f"[{host}]" if ":" in host else host
        where += f":{port}" if port else ""
    database = quote(str(rest.pop("dbname", "") or ""), safe="")
    return f"postgresql://{where}/{database}" + (f"?{urlencode(rest, safe='/', quote_via=quote)}" if rest else "")
