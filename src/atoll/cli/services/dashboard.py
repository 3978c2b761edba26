"""The verb `atoll dashboard`."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8765


def dashboard(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = DEFAULT_HOST,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0: one that is free.")
    ] = DEFAULT_PORT,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="T", envvar="ATOLL_TOKEN", help="What opens changes; without it a new one is made."
        ),
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> int:
    """Shows every run of a store in a browser, live and finished, and steers those under way.

    Prints an address with a token in it: whoever opens that may pause, stop and change runs. Without the token the
    page only shows, and only on this machine. An address that others can reach needs --token, also to look.

    \b
    Examples:
      atoll dashboard                                   http://127.0.0.1:8765
      atoll dashboard --store other.db --port 9000
      atoll dashboard --host 0.0.0.0 --token "$SECRET"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console

    try:
        from atoll.dashboard import server
    except ImportError as error:
        raise errors.MissingExtra("The dashboard is not installed: pip install 'atoll[dashboard]'.") from error
    with options.open_existing_store(store) as run_store:
        dashboard_server = server.DashboardServer(run_store, host=host, port=port, token=token)
        console.print_line(
            console.get_stdout_console(),
            f"Open {dashboard_server.address}\nIt shows {run_store.database.name}. Ctrl-C ends it.",
        )
        dashboard_server.run()
    return 0


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
    from atoll.cli.terminal import console

    try:
        dashboard_server = server.DashboardServer(run_store, host=DEFAULT_HOST, port=DEFAULT_PORT)
    except errors.SetupError:
        dashboard_server = server.DashboardServer(run_store, host=DEFAULT_HOST, port=0)
    console.print_line(console.get_stderr_console(), f"The dashboard is at {dashboard_server.address}")
    thread = Thread(target=dashboard_server.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        dashboard_server.stop()
        thread.join(10)
