"""Live updates and commands to a run, with and without the token."""

import itertools
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from atoll.journal import Record
from tests import fixtures
from tests.dashboard.browser import stage
from tests.dashboard.browser.stage import Stage

NUMBERS = itertools.count(1)


@pytest.fixture
def live(served_stage: Stage) -> Iterator[str]:
    """Id of a live run for one test."""
    name = f"live-{next(NUMBERS)}"
    created = stage.Live(served_stage.run_store, name, fixtures.Walker(delays=1.5))  # a page draws each step
    yield name
    created.close()


def list_commands(served_stage: Stage, run: str) -> list[Record]:
    return list(served_stage.run_store.journal(run).read_kinds("controlled"))


def evaluations(page: Page) -> int:
    text = page.locator(".run-facts .fact", has_text="evaluations").locator("b").text_content() or ""
    return int(text.replace(",", ""))


@pytest.mark.usefixtures("moving")
def test_running_run_is_followed_without_reload(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.LIVE}/overview"))
    expect(page.locator(".state")).to_have_text("live")
    first = evaluations(page)
    page.wait_for_function(
        "(first) => Number(document.querySelector('.run-facts').textContent.match(/evaluations ([\\d,]+)/)[1]"
        ".replaceAll(',', '')) > first",
        arg=first,
    )
    page.goto(served_stage.at(f"runs/{stage.LIVE}/events"))
    items = page.get_by_role("list", name="Events, newest first").get_by_role("listitem")
    expect(items.first).to_be_visible()
    page.get_by_label("Show new events at once").check()
    before = items.first.text_content()
    expect(items.first).not_to_have_text(before or "")
    page.get_by_label("Show new events at once").uncheck()
    page.get_by_label("Kind").select_option("applied")
    expect(items.first).to_contain_text("accept")


@pytest.mark.usefixtures("moving")
def test_page_polls_when_stream_fails(watched_page, served_stage: Stage):
    page = watched_page.page
    page.route("**/sse/timeline**", lambda route: route.abort())
    page.goto(served_stage.at(f"runs/{stage.LIVE}/overview"))
    expect(page.locator(".state")).to_have_text("polling")
    first = evaluations(page)
    page.wait_for_function(
        "(first) => Number(document.querySelector('.run-facts').textContent.match(/evaluations ([\\d,]+)/)[1]"
        ".replaceAll(',', '')) > first",
        arg=first,
    )
    watched_page.console_errors.clear()  # the browser itself notes every failed request


def test_run_is_paused_resumed_and_stopped(authorized_page: Page, served_stage: Stage, live: str):
    page = authorized_page
    page.goto(served_stage.at(f"runs/{live}/overview"))
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".run-header .badge")).to_have_text("paused")
    expect(page.locator(".answer")).to_contain_text(f"Sent to run {live}: pause")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".run-header .badge")).to_have_text("running")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Stop").click()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".run-header .badge")).to_have_text("stopped")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    assert [record.data["kind"] for record in list_commands(served_stage, live)] == ["pause", "resume", "stop"]


def test_budget_and_settings_are_synchronized_and_logged(authorized_page: Page, served_stage: Stage, live: str):
    page, other = authorized_page, authorized_page.context.new_page()
    for item in (page, other):
        item.goto(served_stage.at(f"runs/{live}/overview"))
        item.get_by_text("Adjust", exact=True).click()
    expect(page.get_by_text("current: 5000")).to_be_visible()
    page.get_by_role("spinbutton", name="iterations").fill("6000")
    page.get_by_role("button", name="Raise").click()
    expect(other.get_by_text("current: 6000")).to_be_visible()  # other pages see it
    expect(page.get_by_label("Danger threshold")).to_have_value("0.7")
    page.get_by_label("Danger threshold").fill("0.25")
    page.get_by_label("Exploration bonus").fill("2")
    page.get_by_label("Log detail").select_option("verbose")
    page.get_by_label("Notifications").select_option("alerts")
    page.get_by_label("Seconds between turns").fill("7")
    page.get_by_role("button", name="Apply").click()
    expect(other.get_by_label("Danger threshold")).to_have_value("0.25")
    expect(other.get_by_label("Exploration bonus")).to_have_value("2")
    expect(other.get_by_label("Log detail")).to_have_value("verbose")
    expect(other.get_by_label("Notifications")).to_have_value("alerts")
    expect(other.get_by_label("Seconds between turns")).to_have_value("7")
    expect(page.get_by_role("table", name="Commands to this run")).to_contain_text("danger_threshold=0.25")
    stage.wait(lambda: len(list_commands(served_stage, live)) == 2)
    assert list_commands(served_stage, live)[1].data["data"]["danger_threshold"] == 0.25
    served_stage.run_store.inbox(live).post("set", danger_threshold=0.5)  # from a terminal
    expect(page.get_by_label("Danger threshold")).to_have_value("0.5")


def test_invalid_commands_are_rejected_with_reason(watched_page, authorized_page: Page, served_stage: Stage, live: str):
    page = authorized_page
    page.goto(served_stage.at(f"runs/{live}/overview"))
    page.get_by_text("Adjust", exact=True).click()
    page.get_by_role("button", name="Raise").click()
    expect(page.locator(".answer")).to_have_text("Enter a higher limit.")
    page.get_by_role("spinbutton", name="iterations").fill("40")
    page.get_by_role("button", name="Raise").click()
    expect(page.locator(".answer")).to_contain_text("Limits can only be raised. Now iterations is 5000")
    page.get_by_label("Another setting").fill("danger_treshold")
    page.get_by_label("New value").fill("0.5")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".answer")).to_contain_text("Rejected:")
    expect(page.locator(".answer")).to_contain_text("danger_threshold")  # the nearest valid name
    watched_page.console_errors.clear()  # the browser itself notes every 422


def test_token_form_opens_without_token(watched_page, served_stage: Stage, live: str):
    page = watched_page.page
    page.goto(served_stage.at(f"runs/{live}/overview"))
    expect(page.get_by_role("button", name="Read only")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Control the runs")
    dialog.get_by_label("Token").fill("a wrong one")
    dialog.get_by_role("button", name="Use").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The token is wrong")
    dialog.get_by_label("Token").fill(stage.TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Can change")).to_be_visible()
    assert list_commands(served_stage, live) == []
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".run-header .badge")).to_have_text("paused")
    left = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert stage.TOKEN not in left
    watched_page.console_errors.clear()  # the browser itself notes the 401
