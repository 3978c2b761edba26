"""Held deltas: list, approve, reject. B13."""

import pytest

from atoll import errors, playbook, store


@pytest.fixture
def notes():
    notes = playbook.PlaybookStore(store.MemoryVersions())
    notes.apply([playbook.add("recipes", "Boil eggs for 7 minutes.")], "breakfast", "cook")
    notes.apply([playbook.add("recipes", "Never boil eggs for 7 minutes.")], "brunch", "cook")
    return notes


def test_held_delta_is_listed_with_reason(notes):
    (held,) = notes.list_held()
    assert held.delta.content == "Never boil eggs for 7 minutes."
    assert "contradicts recipes-00001" in held.reason
    assert held.against == ("recipes-00001",)


def test_approved_delta_is_applied_with_author_and_reason(notes):
    (held,) = notes.list_held()
    change = notes.decide_held(held.id[:6], "they were rubber", "ann", is_approved=True)
    assert [bullet.content for bullet in change.playbook.bullets.values()] == ["Never boil eggs for 7 minutes."]
    assert notes.list_held() == []
    last = notes.history()[-1]
    assert (last.author, last.reason) == ("ann", "they were rubber")
    assert last.verdicts[0].reason == "replaces recipes-00001; ann: they were rubber"
    assert [entry.bullet.id for entry in last.retired] == ["recipes-00001"]


def test_rejected_delta_is_dropped(notes):
    (held,) = notes.list_held()
    before = notes.current().bullets
    change = notes.decide_held(held.id, "nonsense", "ann", is_approved=False)
    assert change.verdicts[0].outcome == "rejected"
    assert notes.current().bullets == before
    assert notes.list_held() == []


@pytest.mark.parametrize(("reason", "author"), [("", "ann"), (" ", "ann"), ("why not", "")])
def test_decision_needs_reason_and_author(notes, reason, author):
    with pytest.raises(errors.SetupError, match="reason and an author"):
        notes.decide_held(notes.list_held()[0].id, reason, author, is_approved=True)


@pytest.mark.parametrize("id", ["", "zzzz", "abc"])
def test_unknown_held_delta_is_not_found(notes, id):
    with pytest.raises(errors.NotFound, match="not found"):
        notes.decide_held(id, "because", "ann", is_approved=True)


def test_approved_delta_without_room_stays_held():
    curator = playbook.Curator(playbook.Config(max_tokens=80))
    notes = playbook.PlaybookStore(store.MemoryVersions(), curator=curator)
    notes.apply([playbook.add("recipes", f"Salt the water for dish {n}.") for n in range(2)], "a start", "cook")
    notes.apply([playbook.add("recipes", "A long rule " + "about soup, " * 25)], "more", "cook")
    (held,) = notes.list_held()
    with pytest.raises(errors.Conflict, match="full"):
        notes.decide_held(held.id, "it matters", "ann", is_approved=True)
    assert [item.id for item in notes.list_held()] == [held.id]
