"""Curator: verdicts, contradictions, duplicates, token limit, retirement. B12, B13, B15."""

from dataclasses import replace

import pytest

from atoll import playbook
from atoll.playbook import bullet as bullets


def decide(book, *deltas, turn=None, **settings):
    return playbook.Curator(playbook.Config(**settings)).decide(book, deltas, turn=turn)


def make_playbook(*contents, section="tactics", **settings):
    book, verdicts = decide(
        playbook.Playbook(), *(playbook.add(section, text) for text in contents), turn=1, max_deltas=1000, **settings
    )
    assert {verdict.outcome for verdict in verdicts} <= {"applied"}
    return book


def test_ids_are_unique_in_all_sections_and_never_reused():
    book = make_playbook("Wolves fear fire.", "Boil water.")
    book, _ = decide(book, playbook.remove("tactics-00002"))
    book, _ = decide(book, playbook.add("recipes", "Bake bread."))
    assert list(book.bullets) == ["tactics-00001", "recipes-00003"]


def test_tag_updates_counters_and_last_use():
    book, _ = decide(make_playbook("Wolves fear fire."), playbook.tag("tactics-00001", "helpful"), turn=7)
    book, _ = decide(book, playbook.tag("tactics-00001", "neutral"), turn=9)
    only = book.bullets["tactics-00001"]
    assert (only.helpful, only.harmful, only.used) == (1, 0, 9)
    assert only.line == "[tactics-00001] helpful=1 harmful=0 :: Wolves fear fire."


def test_counters_stop_at_maximum():
    book = make_playbook("Wolves fear fire.")
    book = book.with_changed(replace(book.bullets["tactics-00001"], helpful=bullets.MAX_COUNT))
    book, _ = decide(book, playbook.tag("tactics-00001", "helpful"))
    assert book.bullets["tactics-00001"].helpful == bullets.MAX_COUNT


@pytest.mark.parametrize("text", ["wolves FEAR fire", "The wolves fear fire!"])
def test_duplicate_confirms_existing_bullet(text):
    book, (verdict,) = decide(make_playbook("Wolves fear fire."), playbook.add("recipes", text, source="bob"), turn=5)
    assert (verdict.outcome, verdict.ids, len(book)) == ("applied", ("tactics-00001",), 1)
    only = book.bullets["tactics-00001"]
    assert (only.content, only.used, only.created) == ("Wolves fear fire.", 5, 1)
    assert only.provenance[-1] == "turn 1"
    assert any("bob" in source for source in only.provenance)


def test_rule_with_another_number_is_added():
    book, (verdict,) = decide(
        make_playbook("Boil eggs for 7 minutes."), playbook.add("recipes", "Boil eggs for 9 minutes.")
    )
    assert (verdict.outcome, len(book)) == ("applied", 2)


class TestContradictions:
    rule, contradiction = "Drink from the river.", "Never drink from the river."

    def test_contradiction_is_held(self):
        book, (verdict,) = decide(make_playbook(self.rule), playbook.add("tactics", self.contradiction, evidence="ill"))
        assert (verdict.outcome, verdict.ids, len(book), len(book.held)) == ("held", ("tactics-00001",), 1, 1)
        assert self.rule in verdict.reason

    def test_contradiction_in_several_turns_with_evidence_is_applied(self):
        book = make_playbook(self.rule)
        for turn in (2, 3, 4):
            book, (verdict,) = decide(
                book, playbook.add("tactics", self.contradiction, evidence=f"ill in {turn}"), turn=turn
            )
        assert verdict.outcome == "applied"
        assert [bullet.content for bullet in book.bullets.values()] == [self.contradiction]
        assert book.held == ()

    def test_repetition_in_one_turn_or_without_evidence_stays_held(self):
        book, verdicts = decide(
            make_playbook(self.rule), *[playbook.add("tactics", self.contradiction, evidence="ill")] * 5
        )
        assert {verdict.outcome for verdict in verdicts} == {"held"}
        for turn in range(2, 9):
            book, (verdict,) = decide(book, playbook.add("tactics", self.contradiction), turn=turn)
        assert verdict.outcome == "held"

    def test_harmful_rule_is_replaced_at_once(self):
        book, _ = decide(make_playbook(self.rule), playbook.tag("tactics-00001", "harmful"))
        book, (verdict,) = decide(book, playbook.add("tactics", self.contradiction, evidence="ill"))
        assert (verdict.outcome, verdict.reason) == ("applied", "replaces tactics-00001")


class TestUpdates:
    def test_rewording_keeps_counters(self):
        book, _ = decide(make_playbook("Wolves fear fire."), playbook.tag("tactics-00001", "helpful"))
        book, (verdict,) = decide(
            book, playbook.update("tactics-00001", "Wolves and bears fear fire.", evidence="seen")
        )
        assert (verdict.outcome, book.bullets["tactics-00001"].helpful) == ("applied", 1)

    def test_new_number_resets_counters(self):
        book, _ = decide(make_playbook("Boil eggs for 7 minutes."), playbook.tag("tactics-00001", "helpful"))
        book, (verdict,) = decide(book, playbook.update("tactics-00001", "Boil eggs for 9 minutes.", evidence="raw"))
        assert (verdict.outcome, book.bullets["tactics-00001"].helpful) == ("applied", 0)

    def test_helpful_bullet_changes_only_with_evidence(self):
        book, _ = decide(make_playbook("Wolves fear fire."), playbook.tag("tactics-00001", "helpful"))
        book, (verdict,) = decide(book, playbook.update("tactics-00001", "Wolves love cake."))
        assert (verdict.outcome, book.bullets["tactics-00001"].content) == ("held", "Wolves fear fire.")

    def test_update_to_duplicate_is_rejected(self):
        _, (verdict,) = decide(
            make_playbook("Wolves fear fire.", "Boil eggs."), playbook.update("tactics-00002", "Wolves fear fire!")
        )
        assert (verdict.outcome, verdict.ids) == ("rejected", ("tactics-00001",))


class TestMerges:
    def test_duplicates_are_merged_with_their_counters(self):
        book = make_playbook("Wolves fear fire.", "Bake bread.")
        book = book.with_changed(replace(book.bullets["tactics-00002"], content="The wolves fear the fire.", helpful=3))
        book, (verdict,) = decide(book, playbook.merge(["tactics-00001", "tactics-00002"]))
        assert (verdict.outcome, list(book.bullets)) == ("applied", ["tactics-00001"])
        assert book.bullets["tactics-00001"].helpful == 3

    @pytest.mark.parametrize(
        "other", ["Boil eggs for 9 minutes.", "Never boil eggs for 7 minutes.", "Boil eggs for 7 seconds."]
    )
    def test_different_negations_numbers_and_units_are_not_merged(self, other):
        book = make_playbook("Boil eggs for 7 minutes.", "Zzz.")
        book = book.with_changed(replace(book.bullets["tactics-00002"], content=other))
        for content in ("", "Boil eggs for 7 minutes."):
            after, (verdict,) = decide(book, playbook.merge(["tactics-00001", "tactics-00002"], content))
            assert (verdict.outcome in ("held", "rejected"), len(after)) == (True, 2)


class TestRemovals:
    def test_removal_of_everything_is_rejected(self):
        book = make_playbook(*(f"Rule about thing{number}." for number in range(10)))
        after, (verdict,) = decide(book, playbook.remove(*book.bullets, evidence="all wrong"))
        assert (verdict.outcome, len(after)) == ("rejected", 10)
        after, _ = decide(book, *(playbook.remove(id) for id in book.bullets), max_deltas=100)
        assert len(after) == 5

    def test_helpful_bullet_is_removed_only_in_third_turn(self):
        book, _ = decide(make_playbook("Wolves fear fire.", "Boil eggs."), playbook.tag("tactics-00001", "helpful"))
        for turn, outcome in ((3, "held"), (4, "held"), (5, "applied")):
            book, (verdict,) = decide(book, playbook.remove("tactics-00001", evidence="burnt"), turn=turn)
            assert verdict.outcome == outcome


class TestRetirement:
    def test_harmful_bullet_is_retired_after_protection(self):
        book, _ = decide(make_playbook("Wolves fear fire."), *[playbook.tag("tactics-00001", "harmful")] * 2, turn=2)
        assert len(book) == 1
        book, (verdict,) = decide(book, playbook.tag("tactics-00001", "harmful"), turn=60)
        assert (len(book), verdict.outcome) == (0, "applied")
        assert "harm" in verdict.reason

    def test_very_harmful_new_bullet_is_retired(self):
        book, _ = decide(make_playbook("Wolves fear fire."), *[playbook.tag("tactics-00001", "harmful")] * 4, turn=2)
        assert len(book) == 0

    def test_refine_retires_stale_bullets_and_keeps_helpful_ones(self):
        book, _ = decide(make_playbook("Wolves fear fire.", "Boil eggs."), playbook.tag("tactics-00001", "helpful"))
        refined, retired = playbook.Curator(playbook.Config(stale_turns=100)).refine(book.with_turn(500))
        assert list(refined.bullets) == ["tactics-00001"]
        assert [entry.bullet.id for entry in retired] == ["tactics-00002"]

    def test_refine_runs_at_interval(self):
        book, _ = decide(make_playbook("Wolves fear fire."), playbook.add("t", "Boil eggs."), turn=99, stale_turns=50)
        assert len(book) == 2
        book, _ = decide(book, playbook.tag("t-00002", "neutral"), turn=101, stale_turns=50, refine_interval=100)
        assert list(book.bullets) == ["t-00002"]

    def test_old_headings_are_archived_unless_helpful(self):  # B15: playbook_max_sections 6
        curator = playbook.Curator(playbook.Config(heading_turns=10, protect_turns=5, max_deltas=100))
        book = playbook.Playbook()
        for turn in range(0, 100, 10):
            rules = [
                playbook.add("tactics", f"Rule {turn} about thing{turn}."),
                playbook.add("tactics", f"Old song{turn}."),
            ]
            book, _ = curator.decide(book, rules, turn=turn)
        book, _ = curator.decide(book, [playbook.tag("tactics-00004", "helpful")], turn=100)
        refined, retired = curator.refine(book)
        headings = list(dict.fromkeys(bullet.heading for bullet in refined.bullets.values()))
        assert headings == ["turns 10 to 19", *(f"turns {turn} to {turn + 9}" for turn in range(40, 100, 10))]
        assert len(retired) == 6


class TestTokenLimit:
    def test_least_valuable_bullet_is_replaced_when_full(self):
        settings = {"max_tokens": 200, "protect_turns": 2}
        book = playbook.Playbook()
        for turn in range(1, 60):
            deltas = [playbook.add("t", f"Rule about thing{turn} and nothing else.")]
            deltas += [playbook.tag("t-00001", "helpful")] if turn > 1 else []
            book, _ = decide(book, *deltas, turn=turn, **settings)
            assert book.count_tokens() <= 200
        assert "t-00001" in book.bullets
        assert "t-00059" in book.bullets

    def test_delta_without_room_is_held(self):
        book = make_playbook(*(f"Rule about thing{number} and nothing else." for number in range(8)))
        after, (verdict,) = decide(book, playbook.add("t", "One more rule about something."), turn=2, max_tokens=150)
        assert (verdict.outcome, len(after.held)) == ("held", 1)

    def test_changes_per_turn_are_limited(self):
        _, verdicts = decide(playbook.Playbook(), *(playbook.add("t", f"Thing{n}.") for n in range(10)), max_deltas=3)
        assert [verdict.outcome for verdict in verdicts] == ["applied"] * 3 + ["rejected"] * 7
