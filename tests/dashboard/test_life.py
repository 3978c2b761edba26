"""Lives in the browser: those that are over, the one under way, and what is steered."""

import json
import re
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from atoll import config, dashboard, runs, store
from atoll.dashboard import server
from atoll.survival import episode_reports
from atoll.survival.grid import presets
from tests.dashboard import filled


def of_run(run, *more):
    return "/".join((f"/api/runs/{run}/life", *map(str, more)))


def test_lives_are_told_in_numbers_with_reliability_and_the_curve(decider, place):  # B21, B31
    found = decider.get(of_run(place.lives)).json()
    assert [each["episode"] for each in found["lives"]] == [1, 2, 3]
    assert found["lives"][0]["ticks"] == found["lives"][0]["score"]
    assert (found["is_live"], found["under_way"]) == (False, None)
    bins = found["reliability"]["bins"]
    assert sum(each["size"] for each in bins) == found["reliability"]["size"] > 100
    assert all(0 <= each["explored"] <= 1 for each in found["curve"])
    assert found["settings"]["danger_threshold"] == 0.7
    assert found["settings"].keys() == {*episode_reports.LIVE_SETTINGS}


def test_the_page_knows_every_setting_and_every_sign():
    scripts = Path(dashboard.__file__).parent / "page" / "js"
    controls, drawing = (scripts / "controls.js").read_text(), (scripts / "views" / "life" / "map.js").read_text()
    assert set(re.findall(r'\{ name: "(\w+)", label', controls)) == {*episode_reports.LIVE_SETTINGS}
    assert f"const SIGNS = {json.dumps(presets.SIGNS)};" in drawing


def test_the_turns_of_a_life_come_in_pages(decider, place):
    first = decider.get(of_run(place.lives, "turns", 1), params={"limit": 10}).json()
    assert (first["is_over"], first["has_more"], first["next"]) == (True, True, 10)
    rest = decider.get(of_run(place.lives, "turns", 1), params={"after": 10}).json()
    turns = [*first["turns"], *rest["turns"]]
    assert [each["turn"] for each in turns] == list(range(1, len(turns) + 1))
    assert turns[-1]["is_over"]
    assert turns[0]["view"]["cells"]
    assert {"plan", "reflection", "forecast", "rewards", "notices"} <= turns[0].keys()


def test_what_is_not_there_is_said(decider, place):
    assert decider.get(of_run(place.lives, "turns", 77)).json()["turns"] == []
    answer = decider.get(of_run(place.texts))
    assert (answer.status_code, "has no episodes" in answer.json()["detail"]) == (422, True)


def test_to_watch_needs_the_token(decider, place):
    assert decider.post(of_run(place.lives, "watch"), headers={"x-atoll-token": ""}).status_code == 401
    assert decider.post(of_run(place.lives, "watch")).status_code == 200


@pytest.fixture
def living(tmp_path):
    """A run under way whose turns are slow enough to be read, and a client of its dashboard."""
    with store.Store(tmp_path / "atoll.db") as kept:
        layers = [config.parse_set(each) for each in ("run.iterations=1", "tick_delay=0.2", "run.seed=4")]
        plan = config.load(filled.EXAMPLES / "survival", layers)
        with runs.Session(kept, plan) as session:
            thread = threading.Thread(target=session.run)
            thread.start()
            app = server.create_app(tmp_path / "atoll.db", token=filled.TOKEN)
            with TestClient(app, base_url="http://127.0.0.1:8765", headers={"x-atoll-token": filled.TOKEN}) as client:
                yield session.run_id, client, kept
            kept.inbox(session.run_id).post("set", tick_delay=0)
            thread.join(120)
            assert not thread.is_alive()


def until(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_a_life_under_way_is_seen_and_steered(living):  # B20, B22
    run, client, kept = living
    until(lambda: client.get(of_run(run)).json()["under_way"] == 1)
    page = until(lambda: (found := client.get(of_run(run, "turns", 1)).json())["turns"] and found)
    assert not page["is_over"]
    kept.inbox(run).post("set", danger_threshold=0.2, notifications="off")
    assert client.get(of_run(run)).json()["settings"]["danger_threshold"] == 0.2
    assert client.get(f"/api/runs/{run}").json()["settings"] == {"danger_threshold": 0.2, "notifications": "off"}

    def obeyed():
        turns = client.get(of_run(run, "turns", 1), params={"after": page["next"]}).json()["turns"]
        return [each for each in turns if each["view"]["in_force"]["danger_threshold"] == 0.2]

    steered = until(obeyed)[0]
    assert any(each["kind"] == "steered" for each in steered["events"])
    assert steered["notices"] == []
