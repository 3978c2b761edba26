"""The application, and what serves it."""

import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

import atoll
from atoll import errors, store
from atoll.dashboard import assets, plain, security, stream
from atoll.dashboard.digest import RunTotalsCache
from atoll.dashboard.finding import RecordSearchCache
from atoll.dashboard.memo import ResponseCache
from atoll.dashboard.routes import ROUTERS
from atoll.dashboard.warmth import Prefetcher

DESCRIPTION = "Runs of a store: read by anybody who may, changed by who has the token. All lists are paged."


def create_app(
    store_or_path: store.Store | str | os.PathLike[str], *, token: str | None = None, host: str = "127.0.0.1"
) -> FastAPI:
    """Returns the dashboard of a store as an ASGI application.

    Args:
        kept: A store, which stays the caller's, or where it is: then it is closed with the application.
        token: What opens changes, and everything where `host` is not of this machine; None: a new one.
        host: The address that it will be bound to, by which browsers must call it.

    Raises:
        SetupError: An address that others can reach needs a token; or that is no store.
    """
    if token is None and not security.is_loopback(host):
        raise errors.SetupError(f"Others can reach {host}: give a token with --token, or keep to 127.0.0.1.")
    access_token = security.AccessToken(token or security.make_token(), host)
    owns_store = not isinstance(store_or_path, store.Store)
    run_store = store_or_path if isinstance(store_or_path, store.Store) else store.Store(store_or_path)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        prefetcher = Prefetcher(run_store, app.state.digests, app.state.finders)
        prefetcher.start()
        try:
            yield
        finally:
            prefetcher.stop()
            if owns_store:
                run_store.close()

    app = FastAPI(
        title="Atoll", version=atoll.__version__, description=DESCRIPTION, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.store, app.state.lock, app.state.digests = run_store, access_token, RunTotalsCache(run_store)
    app.state.ancestors, app.state.finders, app.state.tails = {}, RecordSearchCache(run_store), stream.RunTails(run_store)
    app.state.calls, app.state.memo = {}, ResponseCache()
    app.add_middleware(security.SecurityMiddleware, lock=access_token)
    for router in (assets.router, stream.router, *ROUTERS):
        app.include_router(router)
    app.mount(assets.STATIC, assets.static_files(), name="static")
    _add_error_handlers(app)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    """Answers what goes wrong in one sentence, as the command line does."""
    statuses = {
        errors.NotFound: 404,
        errors.Conflict: 409,
        errors.SetupError: 422,
        errors.StoreFailed: 503,
        errors.AtollError: 500,
    }

    async def handle_error(_: Request, error: Exception) -> JSONResponse:
        status = next(status for kind, status in statuses.items() if isinstance(error, kind))
        return JSONResponse({"detail": plain.limit_text(str(error))}, status)

    async def handle_invalid_request(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError), "added for it"
        # What was sent is not sent back: it may be long, and no JSON can hold NaN or half a character.
        details = [{name: problem[name] for name in ("type", "loc", "msg")} for problem in error.errors()]
        return JSONResponse({"detail": plain.to_json_data(details, 1000)}, 422)

    for kind in statuses:
        app.add_exception_handler(kind, handle_error)
    app.add_exception_handler(RequestValidationError, handle_invalid_request)


class _Server(uvicorn.Server):
    """Ends the live streams before it waits for all answers to end."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI), "made so"
        await app.state.tails.close()
        await super().shutdown(sockets)


class DashboardServer:
    """A dashboard at an address; the port is taken as soon as this is made.

    Attributes:
        address: What to open, with the token in it.
        app: The application.

    Raises:
        SetupError: The address cannot be taken, or needs a token.
    """

    def __init__(self, run_store: store.Store, *, host: str, port: int, token: str | None = None) -> None:
        self.app = app = create_app(run_store, token=token, host=host)
        self._socket = _bind(host, port)
        bound_host, bound_port = self._socket.getsockname()[:2]
        url_host = f"[{bound_host}]" if ":" in bound_host else bound_host
        self.address = f"http://{url_host}:{bound_port}/?token={quote(app.state.lock.token)}"
        config = uvicorn.Config(
            app, lifespan="on", log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
        )
        logging.getLogger("uvicorn.error").addFilter(_is_relevant)
        self._server = _Server(config)

    def run(self) -> None:
        """Serves until Ctrl-C or `stop`."""
        with self._socket, contextlib.suppress(KeyboardInterrupt):
            self._server.run([self._socket])

    def stop(self) -> None:
        """Ends `run`; called from any thread."""
        self._server.should_exit = True


def _is_relevant(record: logging.LogRecord) -> bool:
    """Leaves out what the server says of every stream that was cut."""
    return "without completing response" not in record.getMessage()


def _bind(host: str, port: int) -> socket.socket:
    try:
        address_info = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        # Named TCP, or asyncio would not send small pieces at once: every answer would take 40 ms more.
        listener = socket.socket(address_info[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # so that a client that takes nothing is gone after a while
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
            listener.bind(address_info[4])
            listener.listen(128)  # who comes before the first answer waits
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise errors.SetupError(f"{host}:{port} cannot be taken ({error.strerror}): give another --port.") from error
    return listener
