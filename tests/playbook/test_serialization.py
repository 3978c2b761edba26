"""Serialization of versions: full playbooks and patches."""

import pytest

from atoll import errors, playbook
from atoll.playbook import serialization
from atoll.playbook.playbook import MAX_HELD, HeldEntry


def make_held(count: int, start: int = 0) -> list[HeldEntry]:
    rules = (f"Rule {number}: never cross a river of that many stones." for number in range(start, start + count))
    return [HeldEntry(playbook.add("tactics", rule, evidence="seen twice"), 1, 7) for rule in rules]


def test_patch_refers_to_held_deltas_of_base_by_index():
    before = playbook.Playbook().with_held(make_held(MAX_HELD))
    now = before.with_held([*before.held, *make_held(1, 50)])
    value, is_full = serialization.serialize_version(now, 1, serialization.FullVersion(1, before), (), ())
    entry = serialization.parse_version(value)
    assert not is_full
    assert entry.data["held"][:-1] == list(range(1, MAX_HELD))
    assert serialization.apply_patch(before, entry) == now


def test_patch_with_unknown_index_is_refused():
    before = playbook.Playbook().with_held(make_held(2))
    value, _ = serialization.serialize_version(
        before.with_held(make_held(1)), 1, serialization.FullVersion(1, before), (), ()
    )
    with pytest.raises(errors.SetupError, match="not a playbook"):
        serialization.apply_patch(playbook.Playbook(), serialization.parse_version(value))
