"""One browser and one stage for each process of tests; a page that nothing escapes for each test."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.dashboard import filled
from tests.dashboard.browser import chromium, stage
from tests.dashboard.browser import scene as scenes

# Milliseconds: a loaded machine is slow, and no test waits longer than it must.
LIMIT = int(os.environ.get("ATOLL_BROWSER_MS", "60000"))


class Watched:
    """A page with all that it said and asked for.

    Attributes:
        complaints: Errors of its console and of its scripts.
        hosts: Whom it asked.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.page: Page = context.new_page()
        self.page.set_default_timeout(LIMIT)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        context.on("request", self._note)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} {message.location}")

    def _note(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(request.url.split("/")[2])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=LIMIT)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium.find(playwright), args=list(chromium.FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stage.Stage]:
    with stage.stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture
def watched(browser: Browser, shown: stage.Stage) -> Iterator[Watched]:
    """A page; afterwards: it never complained, and it asked nobody but its own server."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    made = Watched(context)
    yield made
    context.close()
    assert made.complaints == []
    assert made.hosts <= {shown.host}


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page


@pytest.fixture
def steering(watched: Watched, shown: stage.Stage) -> Page:
    """A page of somebody who has the token."""
    watched.page.goto(shown.login)
    return watched.page


@pytest.fixture
def scene(browser: Browser, place: filled.Filled) -> Iterator[scenes.Scene]:
    """A page over a copy of the library, of somebody who has the token."""
    with scenes.opened(browser, place) as made:
        yield made
