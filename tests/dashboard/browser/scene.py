"""A page of somebody who has the token, over a store of minds, lives, playbooks and much to decide on."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from atoll import store
from atoll.dashboard import server
from tests.dashboard import filled

LIMIT = 60_000  # milliseconds
REFUSED = "the server responded with a status of 4"  # what a browser says of a refusal, which the page tells itself


@dataclass
class Scene:
    """A page, what is in its store, and all that it said and asked for.

    Attributes:
        complaints: Errors of its console and of its scripts.
        hosts: Whom it asked.
        is_refused: Whether the test makes the server refuse something.
    """

    place: filled.Filled
    page: Page
    base: str
    kept: store.Store
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    is_refused: bool = False

    def go(self, address: str) -> Page:
        """Opens a view by what stands behind the `#`."""
        self.page.goto(f"{self.base}/#{address}")
        return self.page

    def sign(self, form: str, name: str, reason: str, button: str) -> Locator:
        """Fills in a decision, takes it, and returns where the answer stands."""
        found = self.page.get_by_role("form", name=form)
        found.get_by_label("Your name").fill(name)
        found.get_by_label("Reason (required)").fill(reason)
        found.get_by_role("button", name=button, exact=True).click()
        return found.get_by_role("status")

    def hear(self, message: ConsoleMessage) -> None:
        is_known = self.is_refused and REFUSED in message.text
        if message.type in ("error", "warning") and not is_known:
            self.complaints.append(f"{message.text} {message.location}")

    def note(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(request.url.split("/")[2])


@contextmanager
def opened(browser: Browser, place: filled.Filled) -> Iterator[Scene]:
    """Serves a store and opens a page; afterwards: it never complained, nothing of what it showed has run."""
    expect.set_options(timeout=LIMIT)
    with store.Store(place.path) as kept:
        served = server.DashboardServer(kept, host="127.0.0.1", port=0, token=filled.TOKEN)
        thread = threading.Thread(target=served.run, daemon=True)
        thread.start()
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        try:
            made = Scene(place, context.new_page(), served.address.partition("/?")[0], kept)
            made.page.set_default_timeout(LIMIT)
            made.page.on("console", made.hear)
            made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
            context.on("request", made.note)
            made.page.goto(served.address)
            yield made
            assert made.page.evaluate("window.hacked") is None
            assert made.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        finally:
            context.close()
            served.stop()
            thread.join(30)
    assert made.complaints == [], made.complaints
    assert made.hosts == {made.base.partition("//")[2]}


def file_of(folder: Path, turns: str) -> Path:
    """Writes turns as `--save-run` does."""
    path = folder / "episode-1-20261115-120000.jsonl"
    path.write_text(turns, encoding="utf-8")
    return path
