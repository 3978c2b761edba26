"""The small parts: memory, rewards, formatters, custodian, shelf."""

from atoll import playbook
from atoll.survival.plan import Alert, ExecutedAction
from atoll.survival.roles.custodian import Custodian
from atoll.survival.roles.formatters import StateFormatter
from atoll.survival.roles.memory import MAX_ALERTS, MAX_NOTES, Memory
from atoll.survival.roles.rewards import RewardSynthesizer
from atoll.survival.worlds.playground import Playground
from atoll.survival.worlds.world import Action
from tests.survival.lives import make_mind, seen


def alert(what: str, damage: float = 0.1) -> Alert:
    return Alert(what, "lava", "by day", f"go round {what}", damage)


class TestMemory:  # B10
    def test_only_what_matters_now_is_handed_on(self):
        memory = Memory()
        memory.add_alert(alert("sign ring"), 1)
        memory.add_alert(alert("sign star"), 2)
        memory.add_discovery("food by gather at bush")
        said = memory.find_relevant(["bush", "ring"])
        assert any("sign ring" in line for line in said)
        assert any("bush" in line for line in said)
        assert not any("star" in line for line in said)

    def test_it_never_grows_beyond_its_bounds(self):  # B32
        memory = Memory()
        for number in range(500):
            memory.add_alert(alert(f"thing {number}"), number)
            memory.add_note(f"life {number}")
        assert len(memory.alerts) == MAX_ALERTS
        assert len(memory.notes) == MAX_NOTES

    def test_notes_go_on_to_the_next_life_and_alerts_do_not(self):
        memory = Memory()
        memory.add_note("drink first")
        memory.add_alert(alert("sign ring"), 1)
        again = Memory.from_data(memory.to_data())
        assert again.notes == ["drink first"]
        assert not again.alerts

    def test_the_commonest_causes_are_found(self):
        memory = Memory()
        for _ in range(3):
            memory.add_alert(alert("sign ring"), 1)
        assert memory.get_common_causes() == [("lava", 3)]


class TestRewards:  # B7, B8, B9
    def hurt(self, mind, board, times, amount=0.1):
        for tick in range(times):
            before, after = seen(tick=tick), seen(tick=tick + 1, harm={"lava": amount}, reward=-amount, life=0.8)
            board.add(mind, [ExecutedAction(Action("wait"), "done", before, after)], is_defended=False)

    def test_damage_lowers_the_weight_of_curiosity_and_warns(self):
        mind, board = make_mind(), RewardSynthesizer()
        self.hurt(mind, board, 6)
        assert mind.curiosity_weight < 0.8
        assert any("life is being spent" in line for line in board.find_warnings(mind, 0.2))

    def test_boredom_raises_it(self):
        mind, board = make_mind(), RewardSynthesizer()
        self.hurt(mind, board, 40, amount=0.0)
        assert mind.curiosity_weight > 1.1

    def test_danger_that_was_foreseen_and_avoided_pays(self):
        mind, board = make_mind(), RewardSynthesizer()
        step = ExecutedAction(Action("wait"), "done", seen(), seen(tick=2))
        assert board.add(mind, [step], is_defended=True)["defence"] > 0
        assert board.num_defenses == 1

    def test_the_board_shows_totals_and_trends(self):
        mind, board = make_mind(), RewardSynthesizer()
        self.hurt(mind, board, 2)
        assert board.get_scoreboard()["damage"] == {"total": -0.2, "trend": -0.1}
        assert "curiosity counts" in board.format_scoreboard(mind)


class TestFormatter:  # B3, B32
    def test_a_long_state_leaves_out_the_least_urgent_slots(self):
        short = StateFormatter(max_chars=80).format({"basic state": "x" * 40, "danger": "y" * 30, "unknown": "z" * 30})
        assert short.splitlines()[0].startswith("basic state: x")
        assert short.splitlines()[-1] == "unknown: (left out)"

    def test_words_of_the_world_are_quoted_and_cut(self):
        mind = make_mind()
        slots = StateFormatter().build_slots(mind, seen(text="hello " * 500), 0.1)
        assert len(slots["words of the world (not instructions)"]) < 320


class TestCustodian:  # B27, B28
    def test_it_proposes_and_deletes_nothing(self, tmp_path):
        for name, text in {"idea.md": "x" * 60, "copy.md": "x" * 60, "empty.txt": ""}.items():
            (tmp_path / name).write_text(text)
        found = Custodian(Playground(tmp_path)).survey()
        assert [name for name, _ in found.promotions] == ["copy.md"]
        assert {name for name, _ in found.cleanups} == {"idea.md", "empty.txt"}
        assert len(list(tmp_path.iterdir())) == 3
        assert {name for name, _, _ in found.files} == {"idea.md", "copy.md", "empty.txt"}


def test_the_shelf_hands_out_a_few_lines_of_bounded_length():  # B15
    mind = make_mind()
    mind.episode_playbook.apply(
        [playbook.add("tactics", f"Avoid sign {name}: {'very ' * 20}bad.") for name in ("ring", "star", "hook")]
    )
    lines = mind.episode_playbook.get_excerpts("sign ring star hook")
    assert 1 <= len(lines) <= 3
    assert mind.episode_playbook.stats()["bullets"] == 3  # B16
