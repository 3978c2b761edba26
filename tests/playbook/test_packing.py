"""Versions as text: a patch says what is different from its base, and no more."""

import pytest

from atoll import errors, playbook
from atoll.playbook import serialization
from atoll.playbook.playbook import MAX_HELD, HeldEntry


def waiting(count: int, start: int = 0) -> list[HeldEntry]:
    rules = (f"Rule {number}: never cross a river of that many stones." for number in range(start, start + count))
    return [HeldEntry(playbook.add("tactics", each, evidence="seen twice"), 1, 7) for each in rules]


def test_a_patch_names_what_waited_before_by_its_place():
    before = playbook.Playbook().with_held(waiting(MAX_HELD))
    now = before.with_held([*before.held, *waiting(1, 50)])
    value, is_whole = serialization.serialize_version(now, 1, serialization.FullVersion(1, before), (), ())
    entry = serialization.parse_version(value)
    assert not is_whole
    assert entry.data["held"][:-1] == list(range(1, MAX_HELD))
    assert serialization.apply_patch(before, entry) == now


def test_a_patch_that_names_no_such_place_is_said():
    before = playbook.Playbook().with_held(waiting(2))
    value, _ = serialization.serialize_version(
        before.with_held(waiting(1)), 1, serialization.FullVersion(1, before), (), ()
    )
    with pytest.raises(errors.SetupError, match="not a playbook"):
        serialization.apply_patch(playbook.Playbook(), serialization.parse_version(value))
