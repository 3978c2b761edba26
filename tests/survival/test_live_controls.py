"""Live settings of a running episode take effect on the next turn. # B20, B21, B22"""

import json
import time
from pathlib import Path

import pytest

from atoll import config, runs, store, system, testing
from atoll.runs import live_channel
from atoll.survival import build, episode_reports
from atoll.survival.agent_state import AgentSettings
from atoll.survival.config import Options
from atoll.survival.live_controls import CheckedSettings, LiveControls, NotificationSettings

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "survival"


@pytest.fixture
def run_store(tmp_path):
    with store.Store(tmp_path / "atoll.db") as open_store:
        yield open_store


def make_config(*settings, episodes=1):
    layers = [{"run": {"iterations": episodes}}, *(config.parse_set(setting) for setting in settings)]
    return config.load(EXAMPLE, layers)


def run_turns(run_store, plan, on_turn):
    """Executes a run; `on_turn` gets the run id and each turn as data."""
    with runs.Session(run_store, plan) as session:
        turns = []

        def on_event(event):
            if event.type == "on_turn":
                turns.append(event.payload.to_data())
                on_turn(session.run_id, turns[-1])

        session.evolver.use_profiler(on_event)
        session.run()
    return session.run_id, turns


def test_settings_apply_on_next_turn_and_are_logged(run_store):
    requested = {"danger_threshold": 0.25, "exploration_bonus": 3.0, "log_detail": "verbose", "notifications": "off"}

    def on_turn(run, turn):
        if turn["turn"] == 3:
            run_store.inbox(run).post("set", **requested, tick_delay=0)

    _, turns = run_turns(run_store, make_config("tick_delay=0.15", "seed=4"), on_turn)
    before, after = turns[2], turns[3]
    assert before["view"]["in_force"] == {
        "danger_threshold": 0.7,
        "exploration_bonus": 1.0,
        "log_detail": "normal",
        "notifications": "all",
    }
    assert after["view"]["in_force"] == requested
    assert "given" not in before
    assert after["given"].keys() == {"candidates", "memory", "playbook", "rewards"}
    assert after["notices"] == []
    (steered,) = [event for event in after["events"] if event["kind"] == "steered"]
    assert {name: steered[name] for name in requested} == requested
    assert len(turns) > 20, "the delay of 0 was applied too"


def test_settings_last_for_later_episodes_and_are_journaled(run_store):
    def on_turn(run, turn):
        if (turn["episode"], turn["turn"]) == (1, 1):
            run_store.inbox(run).post("set", danger_threshold=0.3)
            time.sleep(0.3)  # the inbox is read ten times a second

    run, turns = run_turns(run_store, make_config(episodes=2), on_turn)
    second = [turn["view"]["in_force"]["danger_threshold"] for turn in turns if turn["episode"] == 2]
    assert set(second) == {0.3}
    (record,) = run_store.journal(run).read_kinds("controlled")
    assert record.data["data"] == {"danger_threshold": 0.3}


def test_pause_waits_until_resume_or_stop():
    settings = [system.LiveSettings(is_paused=True)] * 3 + [system.LiveSettings()]
    sleeps: list[float] = []

    class Channel:
        def get_settings(self):
            return settings.pop(0) if len(settings) > 1 else settings[0]

        def publish(self, iteration, index, text): ...

    channel = Channel()
    LiveControls(lambda: channel, sleep=sleeps.append).wait()
    assert len(sleeps) == 3
    settings[:] = [system.LiveSettings(is_paused=True, is_stopped=True)]
    LiveControls(lambda: channel, delay=20.0, sleep=sleeps.append).wait()
    assert len(sleeps) == 3


def test_invalid_settings_are_ignored():
    wrong = {"danger_threshold": 7, "exploration_bonus": "much", "log_detail": "loud", "notifications": 1}
    checked = CheckedSettings({**wrong, "tick_delay": -1})
    assert checked.apply_to_agent(AgentSettings()) == AgentSettings()
    assert checked.apply_to_notifications(NotificationSettings()) == NotificationSettings()
    assert checked.get_delay(0.5) == 0.5


def test_quiet_turns_have_no_text(run_store):
    _, turns = run_turns(run_store, make_config("log_detail=quiet"), lambda run, turn: None)
    assert {(turn["summary"], turn["plan"]["goal"], turn["reflection"]["text"]) for turn in turns} == {("", "", "")}
    assert all(turn["plan"]["actions"] for turn in turns)


def test_view_changes_add_up(run_store):
    run, turns = run_turns(run_store, make_config("seed=2"), lambda run, turn: None)
    cells = {(x, y): tile for turn in turns for x, y, tile in turn["view"].get("cells", ())}
    assert len(cells) > 30
    assert tuple(turns[-1]["state"]["position"]) in cells
    assert turns[-1]["view"]["unknown"] < turns[0]["view"]["unknown"]
    assert turns[-1]["view"]["score"] == turns[-1]["tick"]
    stored = episode_reports.load_turns(run_store, run, 1)
    assert stored == json.loads(json.dumps(turns))
    (finished,) = episode_reports.iter_finished_episodes(run_store, run)
    assert (finished.episode, finished.score) == (1, turns[-1]["tick"])
    (summary,) = episode_reports.iter_summaries(run_store, run, [1, 2])
    assert episode_reports.measure_forecasts([summary])["size"] == len(summary["said"])
    assert sum(item["size"] for item in episode_reports.compute_exploration_curve(stored)) <= len(stored)


def test_turns_name_their_agent(run_store):
    _, turns = run_turns(run_store, make_config("agents=2", "seed=2"), lambda run, turn: None)
    assert {turn.get("agent", 0) for turn in turns} == {0, 1}
    cells = {turn.get("agent", 0): len(turn["view"]["cells"]) for turn in turns[:2]}
    assert all(cells.values())


def test_death_is_notified_unless_notifications_are_off(run_store):
    _, turns = run_turns(run_store, make_config("thinker=wait"), lambda run, turn: None)
    assert turns[-1]["notices"][0]["kind"] == "death"
    _, turns = run_turns(run_store, make_config("thinker=wait", "notifications=off"), lambda run, turn: None)
    assert not any(turn["notices"] for turn in turns)


def test_slow_episode_publishes_turns(run_store):
    published: list[tuple[int, str]] = []

    def on_turn(run, turn):
        if turn["turn"] == 6:
            published.extend(live_channel.list_shown_parts(run_store, run, 1))

    run, turns = run_turns(run_store, make_config("tick_delay=0.12", "max_turns=8"), on_turn)
    assert [json.loads(text)["turn"] for _, text in published] == [1, 2, 3, 4, 5]
    assert len(turns) == 8
    assert live_channel.find_shown_step(run_store, run) == 1


def test_fast_episode_publishes_turns_only_to_viewers(run_store):
    run, _ = run_turns(run_store, make_config("max_turns=8"), lambda run, turn: None)
    assert live_channel.find_shown_step(run_store, run) is None
    watched = []

    def on_turn(run, turn):
        if turn["turn"] == 1:
            live_channel.mark_watched(run_store, run)
        watched.append(run)

    run_turns(run_store, make_config(episodes=3), on_turn)
    assert live_channel.find_shown_step(run_store, watched[0]) in (1, 2, 3)


@pytest.mark.parametrize(
    ("thinker", "has_dashboard", "tick_delay", "seconds"),
    [
        ("llm", True, None, 20.0),
        ("llm", False, None, 0.0),
        ("native", True, None, 0.0),
        ("llm", True, 0.0, 0.0),
        ("native", False, 1.5, 1.5),
    ],
)
def test_default_tick_delay_is_20_seconds_with_llm_and_dashboard(thinker, has_dashboard, tick_delay, seconds):
    llm, blobs = testing.ScriptedLLM([]), store.MemoryBlobs()  # type: ignore[arg-type]
    context = system.BuildContext(EXAMPLE, llm, None, 1, 0, blobs, has_dashboard=has_dashboard)  # type: ignore[arg-type]
    assert build.get_tick_delay(thinker, Options(tick_delay=tick_delay), context) == seconds


@pytest.mark.parametrize(("switch", "is_shown"), [("on", True), ("off", False)])
def test_playground_requests_are_shown_only_if_shared(run_store, tmp_path, switch, is_shown):  # B27
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "atoll.toml").write_text('system = "survival"\n')
    settings = ("env=os", "permission=write", f"share_playground={switch}", "max_turns=6", "run.iterations=1")
    plan = config.load(tmp_path / "task", [config.parse_set(setting) for setting in settings])
    _, turns = run_turns(run_store, plan, lambda run, turn: None)
    requests = [request for turn in turns for request in turn["view"].get("requests", ())]
    assert bool(requests) == is_shown
    assert all({"action", "target", "answer"} <= request.keys() for request in requests)
