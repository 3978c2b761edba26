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
        self._options["options"] = f"{server_options} {options['options']}" if options.get("options") else server_options
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
    return f"postgresql://{netloc}/{database}" + (f"?{urlencode(parameters, safe='/', quote_via=quote)}" if parameters else "")
