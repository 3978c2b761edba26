"""A dashboard beside a run, in the same process, for as long as the run and whoever lingers."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import serving

DashboardOption = Annotated[
    bool, typer.Option("--dashboard", help="Show and steer it in a browser; prints the address. See --linger.")
]


@contextmanager
def serve_during_run(run_store: Any, is_enabled: bool) -> Iterator[None]:
    """Serves a store while a block lasts, at the usual port or, where that is taken, at a free one.

    Raises:
        MissingExtra: The dashboard is not installed.
    """
    if not is_enabled:
        yield
        return
    try:
        from atoll.dashboard import server
    except ImportError as error:
        raise errors.MissingExtra("The dashboard is not installed: pip install 'atoll[dashboard]'.") from error
    from atoll.cli import output

    try:
        dashboard_server = server.DashboardServer(run_store, host=serving.DEFAULT_HOST, port=serving.DEFAULT_PORT)
    except errors.SetupError:
        dashboard_server = server.DashboardServer(run_store, host=serving.DEFAULT_HOST, port=0)
    output.print_line(output.get_stderr_console(), f"The dashboard is at {dashboard_server.address}")
    thread = Thread(target=dashboard_server.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        dashboard_server.stop()
        thread.join(10)
