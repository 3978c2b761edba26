"""Every view passes axe-core, in both color schemes, on a wide screen and on a phone."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser import scene as scenes
from tests.dashboard.browser import stage
from tests.dashboard.browser.stage import Stage

RUN = "answers"
# Views of a search: finished with failures, with a map of features, with an LLM, and live.
SEARCH_VIEWS = [
    "runs",
    f"runs?compare={stage.FINISHED},{stage.OTHER}",
    *(f"runs/{RUN}/{view}" for view in ("overview", "lineage", "candidate", "candidate/3.0", "islands", "events")),
    f"runs/{RUN}/candidate?failed=true",
    f"runs/{RUN}/overview?candidate=4.0",  # the side panel
    *(f"runs/{stage.ELITES}/{view}" for view in ("overview", "lineage", "islands")),
    f"runs/{stage.LLM_RUN}/models",
    *(f"runs/{stage.LIVE}/{view}" for view in ("overview", "lineage", "events")),
]
GOVERNANCE_PARTS = ("proposals", "parameters", "rollouts", "audit")


@pytest.fixture
def search_page(browser: Browser, filled: Stage) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(filled.login)
    yield page
    context.close()


def check(page: Page, address: str) -> list[str]:
    """Opens a view and returns the violations that axe-core finds in both color schemes."""
    page.emulate_media(color_scheme="light")
    page.evaluate("document.querySelector('main h1')?.setAttribute('data-before', '')")
    page.goto(address)  # changes what follows "#" alone: the page draws another view and loads no script again
    expect(page.locator("main h1:not([data-before])")).to_be_attached()
    expect(page.get_by_text("Loading …")).to_have_count(0)
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE_SCRIPT)
    violations = find_violations(page, {"resultTypes": ["violations"]})
    page.emulate_media(color_scheme="dark")  # changes colors alone
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    violations += find_violations(page, {"runOnly": ["color-contrast"], "resultTypes": ["violations"]})
    return [f"{address.partition('#')[2]}: {line}" for line in violations]


def find_violations(page: Page, options: dict[str, Any]) -> list[str]:
    found = page.evaluate("async (options) => (await axe.run(document, options)).violations", options)
    return [f"{each['id']}: {node['html'][:200]}: {node['failureSummary']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.slow)])
def test_views_of_a_search_pass_axe(search_page: Page, filled: Stage, width: int):
    search_page.set_viewport_size({"width": width, "height": 900})
    violations = [line for view in SEARCH_VIEWS for line in check(search_page, filled.at(view))]
    assert violations == [], "\n".join(violations)


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.slow)])
def test_views_for_agents_pass_axe(scene: scenes.Scene, width: int):
    scene.page.set_viewport_size({"width": width, "height": 900})
    sample = scene.sample_store
    first = sample.proposals[0]
    views = [
        *(f"/runs/{sample.lives}/{view}" for view in ("overview", "life", "playbook", "candidate", "events")),
        *(f"/runs/{run}/{view}" for run in (sample.texts, sample.workspace) for view in ("overview", "worldlines")),
        f"/runs/{sample.workspace}/worldlines/1",
        "/playbooks?key=playbook/cook",
        *(f"/governance/{part}" for part in GOVERNANCE_PARTS),
        f"/governance/proposals/{first}",
    ]
    violations = [line for view in views for line in check(scene.page, f"{scene.base}/ui/#{view}")]
    assert violations == [], "\n".join(violations)
