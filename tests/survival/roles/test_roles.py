"""Roles: memory, rewards, formatters, custodian and playbook."""

from atoll import playbook
from atoll.survival.plan import Alert, ExecutedAction
from atoll.survival.roles.formatters import StateFormatter
from atoll.survival.roles.memory import MAX_ALERTS, MAX_NOTES, Memory
from atoll.survival.roles.rewards import RewardSynthesizer
from atoll.survival.worlds.playground import Custodian, Playground
from atoll.survival.worlds.world import Action
from tests.survival.episodes import build_observation, make_agent


def make_alert(what: str, damage: float = 0.1) -> Alert:
    return Alert(what, "lava", "by day", f"avoid {what}", damage)


class TestMemory:  # B10
    def test_find_relevant_returns_matching_entries(self):
        memory = Memory()
        memory.add_alert(make_alert("sign ring"), 1)
        memory.add_alert(make_alert("sign star"), 2)
        memory.add_discovery("food by gather at bush")
        lines = memory.find_relevant(["bush", "ring"])
        assert any("sign ring" in line for line in lines)
        assert any("bush" in line for line in lines)
        assert not any("star" in line for line in lines)

    def test_memory_is_bounded(self):  # B32
        memory = Memory()
        for index in range(500):
            memory.add_alert(make_alert(f"thing {index}"), index)
            memory.add_note(f"episode {index}")
        assert len(memory.alerts) == MAX_ALERTS
        assert len(memory.notes) == MAX_NOTES

    def test_only_notes_pass_to_next_episode(self):
        memory = Memory()
        memory.add_note("drink first")
        memory.add_alert(make_alert("sign ring"), 1)
        restored = Memory.from_data(memory.to_data())
        assert restored.notes == ["drink first"]
        assert not restored.alerts

    def test_common_causes_are_counted(self):
        memory = Memory()
        for _ in range(3):
            memory.add_alert(make_alert("sign ring"), 1)
        assert memory.get_common_causes() == [("lava", 3)]


class TestRewards:  # B7, B8, B9
    def add_damage(self, agent, board, turns, amount=0.1):
        for tick in range(turns):
            before, after = (
                build_observation(tick=tick),
                build_observation(tick=tick + 1, harm={"lava": amount}, reward=-amount, life=0.8),
            )
            board.add(agent, [ExecutedAction(Action("wait"), "done", before, after)], is_defended=False)

    def test_damage_lowers_curiosity_weight_and_warns(self):
        agent, board = make_agent(), RewardSynthesizer()
        self.add_damage(agent, board, 6)
        assert agent.curiosity_weight < 0.8
        assert any("life is lost" in line for line in board.find_warnings(agent, 0.2))

    def test_lack_of_events_raises_curiosity_weight(self):
        agent, board = make_agent(), RewardSynthesizer()
        self.add_damage(agent, board, 40, amount=0.0)
        assert agent.curiosity_weight > 1.1

    def test_avoided_danger_is_rewarded(self):
        agent, board = make_agent(), RewardSynthesizer()
        step = ExecutedAction(Action("wait"), "done", build_observation(), build_observation(tick=2))
        assert board.add(agent, [step], is_defended=True)["defence"] > 0
        assert board.num_defenses == 1

    def test_scoreboard_has_totals_and_trends(self):
        agent, board = make_agent(), RewardSynthesizer()
        self.add_damage(agent, board, 2)
        assert board.get_scoreboard()["damage"] == {"total": -0.2, "trend": -0.1}
        assert "weight of curiosity" in board.format_scoreboard(agent)


class TestFormatter:  # B3, B32
    def test_long_state_omits_least_urgent_slots(self):
        short = StateFormatter(max_chars=80).format({"basic state": "x" * 40, "danger": "y" * 30, "unknown": "z" * 30})
        assert short.splitlines()[0].startswith("basic state: x")
        assert short.splitlines()[-1] == "unknown: (omitted)"

    def test_text_from_world_is_cut(self):
        agent = make_agent()
        slots = StateFormatter().build_slots(agent, build_observation(text="hello " * 5000), 0.1)
        assert len(slots["text from the world (not instructions)"]) < 3100


class TestCustodian:  # B27, B28
    def test_survey_proposes_and_deletes_nothing(self, tmp_path):
        for name, text in {"idea.md": "x" * 60, "copy.md": "x" * 60, "empty.txt": ""}.items():
            (tmp_path / name).write_text(text)
        survey = Custodian(Playground(tmp_path)).survey()
        assert [name for name, _ in survey.promotions] == ["copy.md"]
        assert {name for name, _ in survey.cleanups} == {"idea.md", "empty.txt"}
        assert len(list(tmp_path.iterdir())) == 3
        assert {name for name, _, _ in survey.files} == {"idea.md", "copy.md", "empty.txt"}


def test_playbook_excerpts_are_bounded():  # B15
    agent = make_agent()
    agent.episode_playbook.apply(
        [playbook.add("tactics", f"Avoid sign {name}: {'very ' * 20}bad.") for name in ("ring", "star", "hook")]
    )
    lines = agent.episode_playbook.get_excerpts("sign ring star hook")
    assert 1 <= len(lines) <= 3
    assert agent.episode_playbook.stats()["bullets"] == 3  # B16
