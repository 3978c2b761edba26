"""A page with the token and a copy of the sample store."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from atoll import store
from atoll.dashboard import server
from tests.dashboard import sample_data

LIMIT = 60_000  # milliseconds
REFUSED = "the server responded with a status of 4"  # console message of a rejected request


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

    def on_request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(request.url.split("/")[2])


@contextmanager
def open_scene(browser: Browser, sample_store: sample_data.SampleStore) -> Iterator[Scene]:
    """Serves a store and opens a page; checks console errors, requests and script injection at the end."""
    expect.set_options(timeout=LIMIT)
    with store.Store(sample_store.path) as run_store:
        running_server = server.DashboardServer(run_store, host="127.0.0.1", port=0, token=sample_data.TOKEN)
        thread = threading.Thread(target=running_server.run, daemon=True)
        thread.start()
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        try:
            scene = Scene(sample_store, context.new_page(), running_server.address.partition("/?")[0], run_store)
            scene.page.set_default_timeout(LIMIT)
            scene.page.on("console", scene.on_console)
            scene.page.on("pageerror", lambda error: scene.console_errors.append(str(error)))
            context.on("request", scene.on_request)
            scene.page.goto(running_server.address)
            yield scene
            assert scene.page.evaluate("window.hacked") is None
            assert scene.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        finally:
            context.close()
            running_server.stop()
            thread.join(30)
    assert scene.console_errors == [], scene.console_errors
    assert scene.hosts == {scene.base.partition("//")[2]}


def write_turns(folder: Path, turns: str) -> Path:
    """Writes turns like `--save-run`."""
    path = folder / "episode-1-20261115-120000.jsonl"
    path.write_text(turns, encoding="utf-8")
    return path
