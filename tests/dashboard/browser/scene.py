"""A page with the token and a copy of the sample store."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Error, Locator, Page, Request, expect

from atoll import errors, store
from atoll.dashboard import server
from tests.dashboard import sample_data

LIMIT = 60_000  # milliseconds
REFUSED = "the server responded with a status of 4"  # console message of a rejected request


@dataclass
class Seat:
    """A page for one scene after another, and the port of their servers: the browser caches the scripts of an address.

    Attributes:
        page: The page.
        port: Port of the last server; 0: none yet.
    """

    page: Page
    port: int = 0

    def serve(self, run_store: store.Store) -> server.DashboardServer:
        """Returns a server on the port of the last one, or on another if a process took it."""
        try:
            result = server.DashboardServer(run_store, host="127.0.0.1", port=self.port, token=sample_data.TOKEN)
        except errors.SetupError:
            result = server.DashboardServer(run_store, host="127.0.0.1", port=0, token=sample_data.TOKEN)
        self.port = urlsplit(result.address).port or 0
        return result


@dataclass
class Scene:
    """A page, its store, its console errors and requested hosts.

    Attributes:
        complaints: Errors of the console and of scripts.
        hosts: Hosts of all requests.
        is_refused: The test expects rejected requests.
    """

    sample_store: sample_data.SampleStore
    page: Page
    base: str
    run_store: store.Store
    console_errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    is_refused: bool = False

    def go(self, address: str) -> Page:
        """Opens a view by its address after `#`."""
        self.page.goto(f"{self.base}/#{address}")
        return self.page

    def sign(self, form: str, name: str, reason: str, button: str) -> Locator:
        """Submits a decision form and returns its status element."""
        form_element = self.page.get_by_role("form", name=form)
        form_element.get_by_label("Your name").fill(name)
        form_element.get_by_label("Reason (required)").fill(reason)
        form_element.get_by_role("button", name=button, exact=True).click()
        return form_element.get_by_role("status")

    def on_console(self, message: ConsoleMessage) -> None:
        is_known = self.is_refused and REFUSED in message.text
        if message.type in ("error", "warning") and not is_known:
            self.console_errors.append(f"{message.text} {message.location}")

    def on_page_error(self, error: Error) -> None:
        self.console_errors.append(str(error))

    def on_request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(request.url.split("/")[2])


@contextmanager
def open_scene(seat: Seat, sample_store: sample_data.SampleStore) -> Iterator[Scene]:
    """Serves a store to a page; checks console errors, requests and script injection at the end."""
    expect.set_options(timeout=LIMIT)
    page = seat.page
    with store.Store(sample_store.path) as run_store:
        running_server = seat.serve(run_store)
        thread = threading.Thread(target=running_server.run, daemon=True)
        thread.start()
        scene = Scene(sample_store, page, running_server.address.partition("/?")[0], run_store)
        listeners = {"console": scene.on_console, "pageerror": scene.on_page_error, "request": scene.on_request}
        for event, listener in listeners.items():
            page.on(event, listener)  # type: ignore[call-overload] # has one overload per event
        page.set_default_timeout(LIMIT)
        page.set_viewport_size({"width": 1280, "height": 860})
        try:
            log_in(page, running_server.address)
            yield scene
            assert page.evaluate("window.hacked") is None
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        finally:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            forget(page, scene.base)
            running_server.stop()
            thread.join(30)
    assert scene.console_errors == [], scene.console_errors
    assert scene.hosts == {scene.base.partition("//")[2]}


def log_in(page: Page, address: str) -> None:
    """Opens the address with the token; the cookie is for all pages of the context."""
    assert page.request.get(address).ok


def forget(page: Page, url: str) -> None:
    """Forgets everything that a test left in the page, and in what the browser stores for a server."""
    page.unroute_all()
    page.goto(f"{url}/ui/static/favicon.svg")  # of the same origin, without scripts
    page.evaluate("localStorage.clear(); sessionStorage.clear()")
    page.context.clear_cookies()
    page.goto("about:blank")
    page.emulate_media(color_scheme="null")


def write_turns(folder: Path, turns: str) -> Path:
    """Writes turns like `--save-run`."""
    path = folder / "episode-1-20261115-120000.jsonl"
    path.write_text(turns, encoding="utf-8")
    return path
