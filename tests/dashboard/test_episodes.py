"""Episodes API: finished and running episodes, live settings."""

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
from atoll.survival.grid import terrain
from tests.dashboard import sample_data


def run_path(run, *more):
    return "/".join((f"/api/runs/{run}/life", *map(str, more)))


def test_overview_has_episodes_reliability_and_curve(authorized_client, sample_store):  # B21, B31
    result = authorized_client.get(run_path(sample_store.lives)).json()
    assert [item["episode"] for item in result["lives"]] == [1, 2, 3]
    assert result["lives"][0]["ticks"] == result["lives"][0]["score"]
    assert (result["is_live"], result["under_way"]) == (False, None)
    bins = result["reliability"]["bins"]
    assert sum(item["size"] for item in bins) == result["reliability"]["size"] > 50
    assert all(0 <= item["explored"] <= 1 for item in result["curve"])
    assert result["settings"]["danger_threshold"] == 0.7
    assert result["settings"].keys() == {*episode_reports.LIVE_SETTINGS}


def test_page_lists_all_live_settings_and_signs():
    scripts = Path(dashboard.__file__).parent / "page" / "js"
    controls, drawing = (scripts / "controls.js").read_text(), (scripts / "views" / "life" / "map.js").read_text()
    assert set(re.findall(r'\{ name: "(\w+)", label', controls)) == {*episode_reports.LIVE_SETTINGS}
    assert f"const SIGNS = {json.dumps(terrain.SIGNS)};" in drawing


def test_turns_are_paged(authorized_client, sample_store):
    first = authorized_client.get(run_path(sample_store.lives, "turns", 1), params={"limit": 10}).json()
    assert (first["is_over"], first["has_more"], first["next"]) == (True, True, 10)
    rest = authorized_client.get(run_path(sample_store.lives, "turns", 1), params={"after": 10}).json()
    turns = [*first["turns"], *rest["turns"]]
    assert [item["turn"] for item in turns] == list(range(1, len(turns) + 1))
    assert turns[-1]["is_over"]
    assert turns[0]["view"]["cells"]
    assert {"plan", "reflection", "forecast", "rewards", "notices"} <= turns[0].keys()


def test_missing_turns_and_episodes(authorized_client, sample_store):
    assert authorized_client.get(run_path(sample_store.lives, "turns", 77)).json()["turns"] == []
    response = authorized_client.get(run_path(sample_store.texts))
    assert (response.status_code, "has no episodes" in response.json()["detail"]) == (422, True)


def test_watch_needs_token(authorized_client, sample_store):
    assert (
        authorized_client.post(run_path(sample_store.lives, "watch"), headers={"x-atoll-token": ""}).status_code == 401
    )
    assert authorized_client.post(run_path(sample_store.lives, "watch")).status_code == 200


@pytest.fixture
def running_episode(tmp_path):
    """A running episode with slow turns, and a client of its dashboard."""
    with store.Store(tmp_path / "atoll.db") as run_store:
        layers = [config.parse_set(item) for item in ("run.iterations=1", "tick_delay=0.2", "run.seed=4")]
        plan = config.load(sample_data.EXAMPLES / "survival", layers)
        with runs.Session(run_store, plan) as session:
            thread = threading.Thread(target=session.run)
            thread.start()
            app = server.create_app(tmp_path / "atoll.db", token=sample_data.TOKEN)
            with TestClient(
                app, base_url="http://127.0.0.1:8765", headers={"x-atoll-token": sample_data.TOKEN}
            ) as client:
                yield session.run_id, client, run_store
            run_store.inbox(session.run_id).post("set", tick_delay=0)
            thread.join(120)
            assert not thread.is_alive()


def until(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


def test_running_episode_is_shown_and_controlled(running_episode):  # B20, B22
    run, client, run_store = running_episode
    until(lambda: client.get(run_path(run)).json()["under_way"] == 1)
    page = until(lambda: (result := client.get(run_path(run, "turns", 1)).json())["turns"] and result)
    assert not page["is_over"]
    run_store.inbox(run).post("set", danger_threshold=0.2, notifications="off")
    assert client.get(run_path(run)).json()["settings"]["danger_threshold"] == 0.2
    assert client.get(f"/api/runs/{run}").json()["settings"] == {"danger_threshold": 0.2, "notifications": "off"}

    def find_changed_turns():
        turns = client.get(run_path(run, "turns", 1), params={"after": page["next"]}).json()["turns"]
        return [item for item in turns if item["view"]["in_force"]["danger_threshold"] == 0.2]

    steered = until(find_changed_turns)[0]
    assert any(item["kind"] == "steered" for item in steered["events"])
    assert steered["notices"] == []
