"""One browser and one stage per test process; one watched page per test."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.dashboard import sample_data, test_answers
from tests.dashboard.browser import chromium, stage
from tests.dashboard.browser import scene as scenes

# Milliseconds; high, since test machines may be slow.
LIMIT = int(os.environ.get("ATOLL_BROWSER_MS", "60000"))


class WatchedPage:
    """A page with its console errors and requested hosts.

    Attributes:
        complaints: Errors of the console and of scripts.
        hosts: Hosts of all requests.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.console_errors: list[str] = []
        self.hosts: set[str] = set()
        self.page: Page = context.new_page()
        self.page.set_default_timeout(LIMIT)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.console_errors.append(str(error)))
        context.on("request", self._on_request)

    def reset(self, url: str) -> None:
        """Forgets everything that a test left in the page, and in what the browser stores for a server."""
        scenes.forget(self.page, url)
        self.console_errors.clear()
        self.hosts.clear()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.console_errors.append(f"{message.text} {message.location}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(request.url.split("/")[2])


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=LIMIT)
    with sync_playwright() as playwright:
        chromium_browser = playwright.chromium.launch(
            executable_path=chromium.find(playwright), args=list(chromium.FLAGS)
        )
        yield chromium_browser
        chromium_browser.close()


@pytest.fixture(scope="package")
def served_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stage.Stage]:
    with stage.stage(tmp_path_factory.mktemp("stage")) as created:
        yield created


@pytest.fixture(scope="package")
def filled(served_stage: stage.Stage) -> stage.Stage:
    """The stage with one more run, `answers`: two LLM names, failures, an error output, a cross of two parents."""
    test_answers.fill(served_stage.run_store)
    return served_stage


@pytest.fixture(scope="package")
def reused_page(browser: Browser) -> Iterator[WatchedPage]:
    """One page for many tests: a new one has an empty cache, and loads the scripts again."""
    context = browser.new_context()
    yield WatchedPage(context)
    context.close()


@pytest.fixture
def watched_page(reused_page: WatchedPage, served_stage: stage.Stage) -> Iterator[WatchedPage]:
    """A page without the state of earlier tests; fails the test on console errors and external requests."""
    reused_page.page.set_viewport_size({"width": 1280, "height": 860})
    yield reused_page
    found = list(reused_page.console_errors), set(reused_page.hosts)
    reused_page.reset(served_stage.url)
    console_errors, hosts = found
    assert console_errors == []
    assert hosts <= {served_stage.host}


@pytest.fixture
def page(watched_page: WatchedPage) -> Page:
    return watched_page.page


@pytest.fixture
def authorized_page(watched_page: WatchedPage, served_stage: stage.Stage) -> Page:
    """A page with the token."""
    scenes.log_in(watched_page.page, served_stage.login)
    return watched_page.page


@pytest.fixture
def moving(served_stage: stage.Stage) -> Iterator[None]:
    """The live run makes steps."""
    served_stage.moves.set()
    yield
    served_stage.moves.clear()


@pytest.fixture(scope="package")
def seat(browser: Browser) -> Iterator[scenes.Seat]:
    context = browser.new_context()
    yield scenes.Seat(context.new_page())
    context.close()


@pytest.fixture
def scene(seat: scenes.Seat, sample_store: sample_data.SampleStore) -> Iterator[scenes.Scene]:
    """A page with the token and a copy of the sample store."""
    with scenes.open_scene(seat, sample_store) as created:
        yield created
