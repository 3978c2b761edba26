"""ASGI application of the dashboard and its HTTP server."""

import asyncio
import contextlib
import hashlib
import logging
import mimetypes
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

import atoll
from atoll import errors, store
from atoll.dashboard import connections, event_stream, security, text_limits
from atoll.dashboard.record_search import RecordSearchCache
from atoll.dashboard.response_cache import ResponseCache
from atoll.dashboard.routes import ROUTERS
from atoll.dashboard.run_totals import RunTotalsCache
from atoll.governed import approval
from atoll.governed import errors as governed_errors
from atoll.governed.evidence import log_stores
from atoll.store import access

PAGE = Path(__file__).parent / "page"
STATIC = "/ui/static"
REVALIDATE = {"cache-control": "no-cache"}

router = APIRouter(include_in_schema=False)


class PageFiles:
    """ASGI application for the files of the page.

    It keeps them in memory, since a page has thirty. Browsers revalidate them, so a new version appears at once.
    """

    def __init__(self, folder: Path = PAGE) -> None:
        self._paths = {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}
        self._responses: dict[Path, tuple[int, Response]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._paths.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if path is None:
            response: Response = JSONResponse({"detail": "Not Found"}, 404)
        elif scope["method"] not in ("GET", "HEAD"):
            response = JSONResponse({"detail": "Method Not Allowed"}, 405, {"allow": "GET, HEAD"})
        else:
            response = self.load(path)
            if Headers(scope=scope).get("if-none-match") == response.headers["etag"]:
                response = Response(status_code=304, headers={"etag": response.headers["etag"], **REVALIDATE})
        await response(scope, receive, send)

    def load(self, path: Path) -> Response:
        """Returns a file as a response; reads it again after a change."""
        changed_at = path.stat().st_mtime_ns
        known = self._responses.get(path)
        if known is None or known[0] != changed_at:
            body = path.read_bytes()
            headers = {"etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"', **REVALIDATE}
            known = changed_at, Response(body, media_type=mimetypes.guess_type(path.name)[0], headers=headers)
            self._responses[path] = known
        return known[1]


_page_files = PageFiles()


@router.get("/")
@router.get("/ui")
@router.get("/ui/")
async def serve_page() -> Response:
    """Returns the page, which contains all views."""
    return _page_files.load(PAGE / "index.html")


@router.get("/docs")
def serve_docs(request: Request) -> Response:
    """Lists the API as text, since an interactive page would need scripts from another server."""
    paths = request.app.openapi()["paths"]
    lines = [f"Atoll {request.app.version}: HTTP API. Full description: /openapi.json", ""]
    for path, methods in paths.items():
        for method, operation in methods.items():
            lines += [f"{method.upper():5} {path}", *_describe_operation(operation), ""]
    return Response("\n".join(lines), media_type="text/plain; charset=utf-8")


def _describe_operation(operation: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"      {line.strip()}" for line in str(operation.get("description", "")).splitlines() if line.strip())
    for parameter in operation.get("parameters", ()):
        yield f"        {parameter['name']:14} {parameter.get('description', '')}".rstrip()


NUM_NEWEST_RUNS = 20  # runs to prefetch
PAUSE_SECONDS = 30.0
QUIET_SECONDS = 0.25  # after the last request, until the prefetcher works
MAX_QUIET_SECONDS = 2.0  # to wait for this before each slice


class Prefetcher:
    """Fills the totals and search indexes of requested and of the newest runs in a background thread.

    It works when the server has nothing else to do, so that the first view of a long run does not wait for it.
    """

    def __init__(
        self,
        run_store: store.Store,
        totals_cache: RunTotalsCache,
        search_cache: RecordSearchCache,
        activity: connections.Activity | None = None,
    ) -> None:
        self._run_store, self._totals_cache, self._search_cache = run_store, totals_cache, search_cache
        self._activity = activity or connections.Activity()
        self._requested: deque[str] = deque(maxlen=NUM_NEWEST_RUNS)
        self._woken, self._stopped = Event(), Event()
        self._thread: Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        self._stopped.clear()
        self._thread = Thread(target=self._read, name="atoll-dashboard-prefetch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread and waits until it no longer uses the store."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def request(self, run: str) -> None:
        """Asks for the totals of a run before all others."""
        if run not in self._requested:
            self._requested.append(run)
            self._woken.set()

    def _read(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            with contextlib.suppress(errors.AtollError):  # a request for the run reports the error
                self._read_requested()
                for run in self._run_store.list_runs()[:NUM_NEWEST_RUNS]:
                    self._run_in_slices(self._totals_cache.get(run.id).advance)
                    self._read_requested()
                    search = self._search_cache.get(run.id)
                    self._run_in_slices(lambda _: not search.index_next_segment())  # noqa: B023 - called at once
            if not self._stopped.is_set():  # checked after `clear`, so that no stop is missed
                self._woken.wait(PAUSE_SECONDS)

    def _read_requested(self) -> None:
        while self._requested and not self._stopped.is_set():
            self._run_in_slices(self._totals_cache.get(self._requested[0]).advance)
            self._requested.popleft()

    def _run_in_slices(self, run_slice: Callable[[float], bool]) -> None:
        """Works until nothing is left, and sleeps half of the time."""
        is_done = False
        while not is_done and not self._stopped.is_set():
            self._wait_until_quiet()
            start_time = time.monotonic()
            is_done = run_slice(0.0)
            self._stopped.wait(time.monotonic() - start_time)

    def _wait_until_quiet(self) -> None:
        deadline = time.monotonic() + MAX_QUIET_SECONDS
        while time.monotonic() < deadline and (quiet := self._activity.get_quiet_seconds()) < QUIET_SECONDS:
            if self._stopped.wait(QUIET_SECONDS - quiet):
                return


BACKLOG = 128  # connections accepted in one cycle; fewer than may wait, so that each is read before it is ended

DESCRIPTION = "Runs of a store. Changes need the token. All lists are paged."


def create_app(
    store_or_path: store.Store | str | os.PathLike[str],
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    clock: Callable[[], datetime] = log_stores.now,
) -> FastAPI:
    """Returns the dashboard of a store as an ASGI application.

    Args:
        store_or_path: A store, which the caller closes, or a path or URL, which the application opens and closes.
        token: Token for changes, and for reads unless `host` is a loopback address; None: a random token.
        host: Address that the server will be bound to; browsers must use it.
        clock: Current time of decisions, feedback, proposals and rollouts.

    Raises:
        SetupError: `host` is reachable from other machines and `token` is None, or the store cannot be opened.
    """
    if token is None and not security.is_loopback(host):
        raise errors.SetupError(f"Other machines can reach {host}. Pass --token, or use 127.0.0.1.")
    access_token = security.AccessToken(token or security.make_token(), host)
    owns_store = not isinstance(store_or_path, store.Store)
    run_store = store_or_path if isinstance(store_or_path, store.Store) else store.Store(store_or_path)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        prefetcher: Prefetcher = app.state.prefetcher
        prefetcher.start()
        try:
            yield
        finally:
            prefetcher.stop()
            if owns_store:
                run_store.close()

    app = FastAPI(
        title="Atoll",
        version=atoll.__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.store, app.state.access_token, app.state.clock = run_store, access_token, clock
    app.state.totals_cache, app.state.search_cache = RunTotalsCache(run_store), RecordSearchCache(run_store)
    app.state.tails, app.state.cache = event_stream.RunTails(run_store), ResponseCache()
    app.state.ancestors, app.state.llm_totals = {}, {}
    app.state.activity = connections.Activity()
    app.state.prefetcher = Prefetcher(run_store, app.state.totals_cache, app.state.search_cache, app.state.activity)
    app.add_middleware(
        security.SecurityMiddleware, access_token=access_token, is_principal=_make_principal_check(run_store)
    )
    app.mount(STATIC, _page_files, name="static")  # first, since most requests are for files
    for api_router in (router, event_stream.router, *ROUTERS):
        app.include_router(api_router)
    _add_error_handlers(app)
    return app


def _make_principal_check(run_store: store.Store) -> Callable[[str], bool]:
    """Returns a function that checks whether a token is that of a principal of the store."""

    def is_principal(token: str) -> bool:
        try:
            access.load_control(run_store.change_log()).authenticate(token)
        except governed_errors.AccessDenied:
            return False
        return True

    return is_principal


def _add_error_handlers(app: FastAPI) -> None:
    """Returns errors as one sentence, like the command line."""
    statuses = {
        errors.NotFound: 404,
        errors.Conflict: 409,
        governed_errors.AccessDenied: 403,
        errors.SetupError: 422,
        errors.StoreFailed: 503,
        approval.InvalidSignature: 401,
        approval.SecretFound: 422,
        errors.AtollError: 500,
    }

    async def handle_error(_: Request, error: Exception) -> JSONResponse:
        status = next(status for kind, status in statuses.items() if isinstance(error, kind))
        return JSONResponse({"detail": text_limits.limit_text(str(error))}, status)

    async def handle_invalid_request(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError), "added for it"
        # The input is omitted: it may be long, and JSON cannot contain NaN or lone surrogates.
        details = [{name: problem[name] for name in ("type", "loc", "msg")} for problem in error.errors()]
        return JSONResponse({"detail": text_limits.to_json_data(details, 1000)}, 422)

    for kind in statuses:
        app.add_exception_handler(kind, handle_error)
    app.add_exception_handler(RequestValidationError, handle_invalid_request)


class _Server(uvicorn.Server):
    """Ends the live streams before it waits for open responses."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI), "made so"
        await app.state.tails.close()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # those that did not end in time
            if (transport := getattr(connection, "transport", None)) is not None:
                transport.abort()
        for _ in range(3):  # closed transports release their sockets in the next cycles of the loop
            await asyncio.sleep(0)


class DashboardServer:
    """HTTP server of a dashboard. The constructor binds the port.

    Attributes:
        address: URL to open, with the token.
        app: The application.

    Raises:
        SetupError: The address is not available, or needs a token.
    """

    def __init__(
        self,
        run_store: store.Store,
        *,
        host: str,
        port: int,
        token: str | None = None,
        clock: Callable[[], datetime] = log_stores.now,
    ) -> None:
        self.app = app = create_app(run_store, token=token, host=host, clock=clock)
        self._socket = _bind(host, port)
        bound_host, bound_port = self._socket.getsockname()[:2]
        url_host = f"[{bound_host}]" if ":" in bound_host else bound_host
        self.address = f"http://{url_host}:{bound_port}/?token={quote(app.state.access_token.token)}"
        config = uvicorn.Config(
            app,
            http=connections.make_protocol(connections.ConnectionGuard()),
            ws="none",
            backlog=BACKLOG,
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_relevant)
        for name in ("uvicorn.error", "asyncio"):
            logger = logging.getLogger(name)
            if not any(isinstance(item, connections.LogLimit) for item in logger.filters):
                logger.addFilter(connections.LogLimit())
        self._server = _Server(config)

    def run(self) -> None:
        """Serves until Ctrl-C or `stop`."""
        with self._socket, contextlib.suppress(KeyboardInterrupt):
            self._server.run([self._socket])

    def stop(self) -> None:
        """Ends `run`; thread-safe."""
        self._server.should_exit = True


def _is_relevant(record: logging.LogRecord) -> bool:
    """Filters out the warning about each closed stream."""
    return "without completing response" not in record.getMessage()


def _bind(host: str, port: int) -> socket.socket:
    try:
        address_info = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        # With the protocol set, asyncio enables TCP_NODELAY, which saves 40 ms per response.
        listener = socket.socket(address_info[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # closes connections of stalled clients
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
            listener.bind(address_info[4])
            listener.listen(BACKLOG)  # early connections wait
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise errors.SetupError(f"Cannot listen on {host}:{port} ({error.strerror}). Pass another --port.") from error
    return listener
