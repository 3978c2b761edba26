"""Features of `Parameters` beyond the contract."""

from datetime import UTC, datetime, timedelta

import pytest

from atoll import governed, store
from atoll.governed import errors


@pytest.fixture
def parameters():
    return governed.MemoryParameters()


def test_read_checks_type(parameters):
    parameters.set("share", 1, "because", author="ann")
    assert parameters.read("share", float) == 1.0
    assert type(parameters.read("share", float)) is float
    assert parameters.read("share", int) == 1
    assert parameters.read("unknown", float, 0.5) == 0.5
    with pytest.raises(errors.InvalidValue, match="share is 1, not a str"):
        parameters.read("share", str, "default")
    with pytest.raises(errors.ParameterNotFound):
        parameters.read("unknown", float)


def test_read_rejects_bool_as_number(parameters):
    parameters.set("flag", True, "because", author="ann")
    with pytest.raises(errors.InvalidValue):
        parameters.read("flag", int)
    assert parameters.read("flag", bool) is True


def test_store_supports_item_access(parameters):
    parameters.set("key", [1], "because", author="ann")
    assert parameters["key"] == [1]
    assert "key" in parameters
    assert "other" not in parameters


def test_timestamps_never_decrease():
    times = iter([datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)])
    parameters = governed.MemoryParameters(clock=lambda: next(times))
    for value in range(3):
        parameters.set("key", value, "because", author="ann")
    assert [change.timestamp.day for change in parameters.history("key")] == [2, 2, 3]
    assert parameters.get("key", as_of=datetime(2026, 1, 2)) == (1, 2)
    assert parameters.get("key", as_of=datetime(2026, 1, 3, tzinfo=UTC) - timedelta(seconds=1)) == (1, 2)


def test_versions_of_other_systems_are_parameters(tmp_path):
    with store.open(tmp_path / "atoll.db") as database:
        versions, parameters = database.versions(), governed.StoredParameters(database)
        versions.set("prompt", "Be brief.", "a start", "ann")
        assert parameters.get("prompt") == ("Be brief.", 1)
        parameters.set("prompt", "Be briefer.", "better", author="bob")
        assert versions.get("prompt").value == "Be briefer."
        parameters.set("weights", {"a": 1}, "a start", author="bob")
        assert versions.get("weights").value == '{"a":1}'
        parameters.lock("prompt", "frozen", author="bob")
        with pytest.raises(errors.ParameterLocked):
            versions.set("prompt", "Be brief.", "again", "ann")
        assert parameters.verify().seq == 4


def test_alias_is_logged(parameters):
    parameters.set("key", 1, "because", author="ann")
    parameters.alias("key", "production", 1, "tried", author="ann")
    assert [change.kind for change in parameters.changes()] == ["set", "alias"]
