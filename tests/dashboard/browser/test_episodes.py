"""Lives as a person watches them: finished, from a file, and under way."""

import json
import threading

from playwright.sync_api import expect

from atoll import config, runs
from atoll.survival import episode_reports
from tests.dashboard import sample_data
from tests.dashboard.browser import scene as scenes


def read_map(page):
    """Returns the map as a picture."""
    return page.evaluate("document.querySelector('.map canvas').toDataURL()")


def test_finished_episode_is_shown_turn_by_turn(scene, tmp_path):
    page = scene.go(f"/runs/{scene.sample_store.lives}/life?life=1")
    expect(page.get_by_role("meter", name="danger")).to_be_visible()
    expect(page.locator("output")).to_contain_text("died of hunger")
    expect(page.locator(".notices")).to_contain_text("death")
    expect(page.get_by_role("table", name="Alerts: the fear dictionary")).to_contain_text("hunger")
    full_map = read_map(page)
    assert len(full_map) > 1000
    page.get_by_label("Turn", exact=True).focus()
    page.keyboard.press("Home")
    expect(page.locator("output")).to_contain_text("turn 1 of")
    expect(page.get_by_label("follow the newest")).not_to_be_checked()
    assert read_map(page) != full_map
    expect(page.get_by_text("No damage yet.")).to_be_visible()
    page.get_by_role("button", name="Play the life").click()
    expect(page.locator("output")).not_to_contain_text("turn 1 of")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_label("Turn", exact=True).focus()
    page.keyboard.press("Home")
    page.get_by_role("table", name="Actions by turn").get_by_role("button", name="3", exact=True).click()
    expect(page.locator("output")).to_contain_text("turn 3 of")
    for title in ("Reliability of danger forecasts", "Exploration by predicted danger", "Score by episode"):
        expect(page.get_by_role("heading", name=title)).to_be_visible()
    page.get_by_role("combobox", name="Episode", exact=True).select_option("2")
    expect(page.locator("output")).to_contain_text("episode 2")
    turns = [dict(item) for item in episode_reports.load_turns(scene.run_store, scene.sample_store.lives, 1)]
    turns[0]["plan"]["goal"] = turns[-1]["plan"]["goal"] = sample_data.HOSTILE
    saved = scenes.write_turns(tmp_path, "no turn\n" + "".join(f"{json.dumps(item)}\n" for item in turns))
    page.get_by_label("Turns saved by --save-run").set_input_files(saved)
    expect(page.locator("output")).to_contain_text("episode 1")
    expect(page.locator("main")).to_contain_text("<script>window.hacked = 1</script>")


def test_running_episode_is_followed_and_controlled(scene):
    layers = [config.parse_set(item) for item in ("run.iterations=1", "tick_delay=600", "run.seed=4")]
    plan = config.load(sample_data.EXAMPLES / "survival", layers)
    with runs.Session(scene.run_store, plan) as session:
        commands = scene.run_store.inbox(session.run_id)
        thread = threading.Thread(target=session.run)
        thread.start()
        try:
            page = scene.go(f"/runs/{session.run_id}/life")
            expect(page.get_by_role("meter", name="life")).to_be_visible()
            expect(page.get_by_role("option", name="episode 1, running")).to_be_attached()
            first = page.locator("output").inner_text()
            commands.post("set", tick_delay=0.3)
            expect(page.locator("output")).not_to_have_text(first)
            commands.post("set", tick_delay=600)  # the life waits, however slow the page is
            page.get_by_text("Adjust").click()
            page.get_by_label("Danger threshold").fill("0.15")
            page.get_by_label("Notifications").select_option("all")
            page.get_by_role("button", name="Apply").click()
            expect(page.get_by_role("table", name="Commands to this run")).to_contain_text("danger_threshold=0.15")
            commands.post("set", tick_delay=0.3)
            expect(page.locator(".notices")).to_contain_text("danger_threshold 0.15")
        finally:
            commands.post("set", tick_delay=0)
            thread.join(120)
        assert not thread.is_alive()
        number = len(episode_reports.load_turns(scene.run_store, session.run_id, 1))
        expect(page.locator("output")).to_contain_text(f"of {number}")
