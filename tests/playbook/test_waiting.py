"""What waits for a person, and what becomes of it when one decides. # B13"""

import pytest

from atoll import errors, playbook, store


@pytest.fixture
def notes():
    made = playbook.PlaybookStore(store.MemoryVersions())
    made.apply([playbook.add("recipes", "Boil eggs for 7 minutes.")], "breakfast", "cook")
    made.apply([playbook.add("recipes", "Never boil eggs for 7 minutes.")], "brunch", "cook")
    return made


def test_a_held_delta_is_listed_with_why_it_waits(notes):
    (found,) = notes.list_held()
    assert found.delta.content == "Never boil eggs for 7 minutes."
    assert "contradicts recipes-00001" in found.reason
    assert found.against == ("recipes-00001",)


def test_a_person_applies_what_waits_and_the_history_says_who_and_why(notes):
    (found,) = notes.list_held()
    change = notes.decide_held(found.id[:6], "they were rubber", "ann", is_approved=True)
    assert [each.content for each in change.playbook.bullets.values()] == ["Never boil eggs for 7 minutes."]
    assert notes.list_held() == []
    last = notes.history()[-1]
    assert (last.author, last.reason) == ("ann", "they were rubber")
    assert last.verdicts[0].reason == "replaces recipes-00001; ann: they were rubber"
    assert [each.bullet.id for each in last.retired] == ["recipes-00001"]


def test_a_person_rejects_what_waits_and_nothing_else_changes(notes):
    (found,) = notes.list_held()
    before = notes.current().bullets
    change = notes.decide_held(found.id, "nonsense", "ann", is_approved=False)
    assert change.verdicts[0].outcome == "rejected"
    assert notes.current().bullets == before
    assert notes.list_held() == []


@pytest.mark.parametrize(("reason", "author"), [("", "ann"), (" ", "ann"), ("why not", "")])
def test_a_decision_needs_a_reason_and_a_name(notes, reason, author):
    with pytest.raises(errors.SetupError, match="reason and an author"):
        notes.decide_held(notes.list_held()[0].id, reason, author, is_approved=True)


@pytest.mark.parametrize("id", ["", "zzzz", "abc"])
def test_what_does_not_wait_cannot_be_decided(notes, id):
    with pytest.raises(errors.NotFound, match="not found"):
        notes.decide_held(id, "because", "ann", is_approved=True)


def test_what_finds_no_room_cannot_be_applied_and_goes_on_waiting():
    curator = playbook.Curator(playbook.Config(max_tokens=80))
    notes = playbook.PlaybookStore(store.MemoryVersions(), curator=curator)
    notes.apply([playbook.add("recipes", f"Salt the water for dish {n}.") for n in range(2)], "a start", "cook")
    notes.apply([playbook.add("recipes", "A long rule " + "about soup, " * 25)], "more", "cook")
    (found,) = notes.list_held()
    with pytest.raises(errors.Conflict, match="full"):
        notes.decide_held(found.id, "it matters", "ann", is_approved=True)
    assert [each.id for each in notes.list_held()] == [found.id]
