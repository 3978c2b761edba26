"""Feedback channels: reports, time stamps, queries."""

from datetime import UTC, datetime, timedelta

import pytest

from atoll import errors, store
from atoll.governed.evidence import feedback, feedback_stores

START = datetime(2026, 4, 18, 23, 59, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.now = START

    def __call__(self):
        self.now += timedelta(minutes=1)
        return self.now


@pytest.fixture(params=["memory", "files", "database", "postgres"])
def channel(request, tmp_path):
    match request.param:
        case "memory":
            yield feedback.MemoryFeedback(clock=Clock())
        case "files":
            yield feedback_stores.FileFeedback(tmp_path / "feedback", clock=Clock())
        case _:
            is_file = request.param == "database"
            with store.Store(tmp_path / "atoll.db" if is_file else request.getfixturevalue("postgres_url")) as database:
                yield feedback_stores.SQLFeedback(database, clock=Clock())


def test_reported_feedback_is_stamped_and_sorted(channel):  # G45
    for number in range(3):
        channel.report("carrier/7", "on_time", number, 0.5, {"note": number})
    result = channel.query("carrier/7", START)
    assert [record.value for record in result] == [0, 1, 2]
    assert [record.timestamp for record in result] == [START + timedelta(minutes=n) for n in (1, 2, 3)]
    assert result[0].meta == {"note": 0}
    assert result[0].confidence == 0.5


def test_query_includes_since_and_matches_metric_exactly(channel):  # G45
    for metric in ("cost", "cost_all", "cost"):
        channel.report("e", metric, 1.0)
    assert len(channel.query("e", START + timedelta(minutes=2))) == 2
    assert len(channel.query("e", START, "cost")) == 2
    assert len(channel.query("e", START)) == 3


def test_unknown_entity_has_no_feedback(channel):  # G45
    assert list(channel.query("unknown", START)) == []


def test_entity_and_metric_are_required(channel):  # G10, G11
    with pytest.raises(feedback.EntityRequired):
        channel.report("", "m", 1.0)
    with pytest.raises(feedback.EntityRequired):
        channel.query("", START)
    with pytest.raises(feedback.MetricRequired):
        channel.report("e", "", 1.0)


@pytest.mark.parametrize(("value", "confidence"), [(float("nan"), 1.0), (float("inf"), 1.0), (1.0, 1.5), (1.0, -0.1)])
def test_invalid_measurement_is_rejected(channel, value, confidence):
    with pytest.raises(errors.SetupError):
        channel.report("e", "m", value, confidence)
    assert list(channel.query("e", START)) == []


def test_timestamp_is_set_by_channel_and_observed_at_is_kept(channel):  # G45, G47
    long_ago = START - timedelta(days=90)
    reported = channel.report("e", "m", 1.0, observed_at=long_ago, decision_id="d7")
    assert reported.timestamp > START
    (result,) = channel.query("e", START)
    assert (result.observed_at, result.decision_id, result.timestamp) == (long_ago, "d7", reported.timestamp)


def test_channel_lists_entities(channel):
    for entity in ("b", "a/ä", "b", "..", "x" * 300):
        channel.report(entity, "m", 1.0)
    assert channel.list_entities() == sorted(["b", "a/ä", "..", "x" * 300])
    assert len(channel.query("x" * 300, START)) == 1


def test_query_opens_only_day_files_since(tmp_path):  # G46
    channel = feedback_stores.FileFeedback(tmp_path, clock=Clock())
    channel.report("a b", "m", 1.0)
    old = tmp_path / "a%20b" / "2020-01-01.jsonl"
    old.write_text("never opened, or this would raise\n")
    assert sorted(path.name for path in (tmp_path / "a%20b").iterdir()) == [old.name, "2026-04-19.jsonl"]
    assert len(channel.query("a b", START)) == 1


def test_go_field_names_are_read(tmp_path):  # G38
    channel = feedback_stores.FileFeedback(tmp_path)
    (tmp_path / "e").mkdir()
    line = '{"Timestamp":"2026-04-19T00:00:00Z","Entity":"e","Metric":"m","Value":2,"Confidence":0.5,"Meta":null}\n'
    (tmp_path / "e" / "2026-04-19.jsonl").write_text(line)
    (result,) = channel.query("e", START)
    assert (result.metric, result.value, result.confidence) == ("m", 2.0, 0.5)


def test_invalid_feedback_line_is_reported_or_skipped(tmp_path):  # G43
    channel = feedback_stores.FileFeedback(tmp_path, on_issue="skip")
    channel.report("e", "m", 1.0)
    (file,) = (tmp_path / "e").iterdir()
    with file.open("a") as out:
        out.write("nonsense\n")
    channel.report("e", "m", 2.0)
    assert [record.value for record in channel.query("e", START)] == [1.0, 2.0]
    assert channel.issues.count == 1
