"""A life under way is steered and watched: what is wished is in force on the next turn. # B20, B21, B22"""

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
def kept(tmp_path):
    with store.Store(tmp_path / "atoll.db") as opened:
        yield opened


def plan_of(*settings, episodes=1):
    layers = [{"run": {"iterations": episodes}}, *(config.parse_set(each) for each in settings)]
    return config.load(EXAMPLE, layers)


def live(kept, plan, hear):
    """Lives a run; `hear` gets the run's id and each turn as data."""
    with runs.Session(kept, plan) as session:
        turns = []

        def take(event):
            if event.type == "on_turn":
                turns.append(event.payload.to_data())
                hear(session.run_id, turns[-1])

        session.evolver.use_profiler(take)
        session.run()
    return session.run_id, turns


def test_the_four_controls_are_in_force_on_the_next_turn_and_logged(kept):
    wished = {"danger_threshold": 0.25, "exploration_bonus": 3.0, "log_detail": "verbose", "notifications": "off"}

    def hear(run, turn):
        if turn["turn"] == 3:
            kept.inbox(run).post("set", **wished, tick_delay=0)

    _, turns = live(kept, plan_of("tick_delay=0.15", "seed=4"), hear)
    before, after = turns[2], turns[3]
    assert before["view"]["in_force"] == {
        "danger_threshold": 0.7,
        "exploration_bonus": 1.0,
        "log_detail": "normal",
        "notifications": "all",
    }
    assert after["view"]["in_force"] == wished
    assert "given" not in before
    assert after["given"].keys() == {"candidates", "memory", "playbook", "rewards"}
    assert after["notices"] == []
    (steered,) = [each for each in after["events"] if each["kind"] == "steered"]
    assert {name: steered[name] for name in wished} == wished
    assert len(turns) > 20, "the delay of 0 was heard too: else this would take long"


def test_what_was_set_holds_for_later_lives_and_is_in_the_journal(kept):
    def hear(run, turn):
        if (turn["episode"], turn["turn"]) == (1, 1):
            kept.inbox(run).post("set", danger_threshold=0.3)
            time.sleep(0.3)  # the inbox is read ten times a second

    run, turns = live(kept, plan_of(episodes=2), hear)
    second = [turn["view"]["in_force"]["danger_threshold"] for turn in turns if turn["episode"] == 2]
    assert set(second) == {0.3}
    (record,) = kept.journal(run).read_kinds("controlled")
    assert record.data["data"] == {"danger_threshold": 0.3}


def test_a_paused_life_waits_until_it_is_resumed_or_stopped():
    wishes = [system.LiveSettings(is_paused=True)] * 3 + [system.LiveSettings()]
    slept: list[float] = []

    class Outside:
        def get_settings(self):
            return wishes.pop(0) if len(wishes) > 1 else wishes[0]

        def publish(self, iteration, index, text): ...

    outside = Outside()
    LiveControls(lambda: outside, sleep=slept.append).wait()
    assert len(slept) == 3
    wishes[:] = [system.LiveSettings(is_paused=True, is_stopped=True)]
    LiveControls(lambda: outside, delay=20.0, sleep=slept.append).wait()
    assert len(slept) == 3


def test_what_makes_no_sense_is_not_obeyed():
    wrong = {"danger_threshold": 7, "exploration_bonus": "much", "log_detail": "loud", "notifications": 1}
    ruled = CheckedSettings({**wrong, "tick_delay": -1})
    assert ruled.apply_to_agent(AgentSettings()) == AgentSettings()
    assert ruled.apply_to_notifications(NotificationSettings()) == NotificationSettings()
    assert ruled.get_delay(0.5) == 0.5


def test_quiet_turns_have_numbers_and_no_words(kept):
    _, turns = live(kept, plan_of("log_detail=quiet"), lambda run, turn: None)
    assert {(turn["summary"], turn["plan"]["goal"], turn["reflection"]["text"]) for turn in turns} == {("", "", "")}
    assert all(turn["plan"]["actions"] for turn in turns)


def test_map_and_memory_add_up_turn_by_turn(kept):
    run, turns = live(kept, plan_of("seed=2"), lambda run, turn: None)
    cells = {(x, y): look for turn in turns for x, y, look in turn["view"].get("cells", ())}
    assert len(cells) > 30
    assert tuple(turns[-1]["state"]["position"]) in cells
    assert turns[-1]["view"]["unknown"] < turns[0]["view"]["unknown"]
    assert turns[-1]["view"]["score"] == turns[-1]["tick"]
    stored = episode_reports.load_turns(kept, run, 1)
    assert stored == json.loads(json.dumps(turns))
    (told,) = episode_reports.iter_finished_episodes(kept, run)
    assert (told.episode, told.score) == (1, turns[-1]["tick"])
    (life,) = episode_reports.iter_summaries(kept, run, [1, 2])
    assert episode_reports.measure_forecasts([life])["size"] == len(life["said"])
    assert sum(each["size"] for each in episode_reports.compute_exploration_curve(stored)) <= len(stored)


def test_turns_of_several_say_whose_they_are(kept):
    _, turns = live(kept, plan_of("agents=2", "seed=2"), lambda run, turn: None)
    assert {turn.get("agent", 0) for turn in turns} == {0, 1}
    cells = {turn.get("agent", 0): len(turn["view"]["cells"]) for turn in turns[:2]}
    assert all(cells.values())


def test_a_death_is_a_notice_unless_nobody_wants_any(kept):
    _, turns = live(kept, plan_of("thinker=wait"), lambda run, turn: None)
    assert turns[-1]["notices"][0]["kind"] == "death"
    _, turns = live(kept, plan_of("thinker=wait", "notifications=off"), lambda run, turn: None)
    assert not any(turn["notices"] for turn in turns)


def test_a_slow_life_shows_its_turns_while_it_is_lived(kept):
    seen: list[tuple[int, str]] = []

    def hear(run, turn):
        if turn["turn"] == 6:
            seen.extend(live_channel.list_shown_parts(kept, run, 1))

    run, turns = live(kept, plan_of("tick_delay=0.12", "max_turns=8"), hear)
    assert [json.loads(text)["turn"] for _, text in seen] == [1, 2, 3, 4, 5]
    assert len(turns) == 8
    assert live_channel.find_shown_step(kept, run) == 1


def test_a_fast_life_shows_its_turns_only_to_who_says_that_they_watch(kept):
    run, _ = live(kept, plan_of("max_turns=8"), lambda run, turn: None)
    assert live_channel.find_shown_step(kept, run) is None
    watched = []

    def hear(run, turn):
        if turn["turn"] == 1:
            live_channel.mark_watched(kept, run)
        watched.append(run)

    live(kept, plan_of(episodes=3), hear)
    assert live_channel.find_shown_step(kept, watched[0]) in (1, 2, 3)


@pytest.mark.parametrize(
    ("thinker", "has_dashboard", "said", "seconds"),
    [
        ("llm", True, None, 20.0),
        ("llm", False, None, 0.0),
        ("native", True, None, 0.0),
        ("llm", True, 0.0, 0.0),
        ("native", False, 1.5, 1.5),
    ],
)
def test_turns_are_20_seconds_apart_with_a_model_and_a_dashboard_unless_told_otherwise(
    thinker, has_dashboard, said, seconds
):
    llm, blobs = testing.ScriptedLLM([]), store.MemoryBlobs()  # type: ignore[arg-type]
    parts = system.BuildContext(EXAMPLE, llm, None, 1, 0, blobs, has_dashboard=has_dashboard)  # type: ignore[arg-type]
    assert build.get_tick_delay(thinker, Options(tick_delay=said), parts) == seconds


@pytest.mark.parametrize(("said", "is_shown"), [("on", True), ("off", False)])
def test_what_was_asked_of_the_playground_is_shown_only_where_it_is_shared(kept, tmp_path, said, is_shown):  # B27
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "atoll.toml").write_text('system = "survival"\n')
    settings = ("env=os", "permission=write", f"share_playground={said}", "max_turns=6", "run.iterations=1")
    plan = config.load(tmp_path / "task", [config.parse_set(each) for each in settings])
    _, turns = live(kept, plan, lambda run, turn: None)
    asked = [each for turn in turns for each in turn["view"].get("requests", ())]
    assert bool(asked) == is_shown
    assert all({"action", "target", "answer"} <= each.keys() for each in asked)
