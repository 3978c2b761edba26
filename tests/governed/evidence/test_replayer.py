"""LogReplayer: pairing, attribution, reflectors, reports, checkpoints."""

import json
import random
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import errors
from atoll.governed.evidence import attribution, feedback, feedback_history, log_stores, logs, reflectors, replay_report
from atoll.governed.evidence.replayer import LogReplayer
from bench import governed_logs as bench

START = datetime(2026, 4, 18, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SPAN = (START - DAY, START + 90 * DAY)


def entry(number: int, after: timedelta = timedelta(0), entity: str = "e") -> logs.LogEntry:
    return logs.LogEntry(START + after, f"d{number}", entity)


def make_feedback(after: timedelta, value: float, metric: str = "m", entity: str = "e", **rest) -> feedback.Feedback:
    return feedback.Feedback(START + after, entity, metric, value, **rest)


def replay_all(log, channel, **options):
    observed: list[replay_report.ReplayEvent] = []
    replayer = LogReplayer(log, channel, **options)
    replayer.register(reflectors.FuncReflector(observed.append))
    report = replayer.replay(*SPAN)
    return observed, report


def values(observed):
    return [None if item.feedback is None else item.feedback.value for item in observed]


def test_first_feedback_of_each_metric_is_paired():  # G49
    channel = feedback.MemoryFeedback(
        make_feedback(-HOUR, 0),
        make_feedback(HOUR, 1),
        make_feedback(2 * HOUR, 2),
        make_feedback(3 * HOUR, 3, "n"),
        make_feedback(2 * HOUR, 4, "n"),
    )
    observed, report = replay_all(logs.MemoryLog(entry(1)), channel)
    assert [(item.feedback.metric, item.feedback.value) for item in observed] == [("m", 1), ("n", 4)]
    assert (report.entries, report.events, report.paired, report.pending) == (1, 2, 2, 0)
    assert observed[0].meta is None  # G54


def test_decision_without_feedback_is_one_event():  # G49
    observed, report = replay_all(logs.MemoryLog(entry(1)), feedback.MemoryFeedback())
    assert values(observed) == [None]
    assert (report.events, report.pending) == (1, 1)


@pytest.mark.parametrize(
    ("after", "is_paired"),
    [
        (timedelta(0), True),
        (-timedelta(microseconds=1), False),
        (7 * DAY, False),
        (7 * DAY - timedelta(microseconds=1), True),
    ],
)
def test_window_includes_decision_and_excludes_end(after, is_paired):  # G49
    observed, _ = replay_all(logs.MemoryLog(entry(1)), feedback.MemoryFeedback(make_feedback(after, 1)))
    assert (values(observed) == [1]) == is_paired


@pytest.mark.parametrize("window", [timedelta(0), -DAY])
def test_window_must_be_positive(window):  # G49
    with pytest.raises(errors.SetupError, match="window"):
        LogReplayer(logs.MemoryLog(), feedback.MemoryFeedback(), window=window)


def test_replayer_needs_source_and_feedback():  # G48
    for parts in ((None, feedback.MemoryFeedback()), (logs.MemoryLog(), None)):
        with pytest.raises(errors.SetupError, match="needs a"):
            LogReplayer(*parts)


class CountingFeedback(feedback.MemoryFeedback):
    num_queries = 0

    def query(self, entity, since, metric=""):
        self.num_queries += 1
        return super().query(entity, since, metric)


def test_channel_is_queried_once_per_entity_and_replay():  # G50
    channel = CountingFeedback(*(make_feedback(HOUR, n, entity=f"e{n}") for n in range(20)))
    log = logs.MemoryLog(*(entry(n, entity=f"e{n % 20}") for n in range(100)))
    _, report = replay_all(log, channel)
    assert (channel.num_queries, report.paired) == (20, 100)
    replay_all(log, channel)
    assert channel.num_queries == 40


def test_small_cache_queries_again_with_same_result():  # G50
    channel = CountingFeedback(*(make_feedback(HOUR * n, n, entity=f"e{n % 9}") for n in range(90)))
    log = logs.MemoryLog(*(entry(n, HOUR * n, f"e{n % 9}") for n in range(90)))
    small, _ = replay_all(log, channel, cache_bytes=1500)
    assert channel.num_queries > 20
    assert small == replay_all(log, channel)[0]


@pytest.mark.parametrize("confidence", [1.0, 0.5])
@pytest.mark.parametrize("name", ["first", "last", "mean", "all"])
def test_large_feedback_is_spilled_to_disk(name, confidence):  # G50
    recorded = [make_feedback(HOUR * n, n, entity=f"e{n % 3}", confidence=confidence) for n in range(3 * 900)]
    channel = CountingFeedback(*recorded)
    log = logs.MemoryLog(*(entry(n, HOUR * n, f"e{n % 3}") for n in range(0, 3 * 900, 7)))
    terms = {"attribution": attribution.ATTRIBUTIONS[name]}
    small, _ = replay_all(log, channel, cache_bytes=30_000, **terms)  # one page of each column fits, not all
    assert channel.num_queries == 3
    assert small == replay_all(log, channel, **terms)[0]


def test_unordered_log_is_paired():
    hours = [5, 1, 9, 3, 3, 0, 8]
    channel = feedback.MemoryFeedback(*(make_feedback(HOUR * n, n) for n in range(0, 10, 2)))
    observed, _ = replay_all(logs.MemoryLog(*(entry(n, HOUR * n) for n in hours)), channel)
    assert values(observed) == [6, 2, None, 4, 4, 0, 8]


@given(st.lists(st.integers(0, 30), max_size=20), st.lists(st.integers(-1, 31), max_size=40), st.integers(1, 10))
def test_first_touch_matches_brute_force(times, moments, window):  # G51
    ordered = sorted(times)
    result = feedback_history.History(
        "e", [make_feedback(timedelta(microseconds=at), index) for index, at in enumerate(ordered)]
    )
    epoch = int((START - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    for at in moments:
        slow = next((index for index, time in enumerate(ordered) if at <= time < at + window), None)
        touched = [column.find_first(epoch + at, epoch + at + window) for column in result.columns]
        assert [item and item.value for item in touched] == ([] if not times else [slow])


ATTRIBUTED = {
    "first": [1.0],
    "last": [4.0],
    "all": [1.0, 2.0, 4.0],
    "mean": [7 / 3],
    "decay": [(1 + 2 / 2 + 4 / 4) / (1 + 1 / 2 + 1 / 4)],
    "decision": [2.0],
}


@pytest.mark.parametrize("name", ATTRIBUTED)
def test_other_attributions(name):  # G51
    channel = feedback.MemoryFeedback(
        make_feedback(timedelta(0), 1.0),
        make_feedback(DAY, 2.0, decision_id="d1"),
        make_feedback(2 * DAY, 4.0),
        make_feedback(8 * DAY, 9.0),
    )
    observed, _ = replay_all(logs.MemoryLog(entry(1)), channel, attribution=attribution.ATTRIBUTIONS[name])
    assert values(observed) == pytest.approx(ATTRIBUTED[name])


def test_means_are_weighted_by_confidence():
    channel = feedback.MemoryFeedback(
        make_feedback(HOUR, 0.0, confidence=0.25), make_feedback(HOUR, 4.0, confidence=0.75)
    )
    observed, _ = replay_all(logs.MemoryLog(entry(1)), channel, attribution=attribution.mean_touch)
    assert values(observed) == [3.0]
    assert observed[0].feedback.meta == {"count": 2}


def test_by_observed_uses_observation_time():  # G47
    channel = feedback.MemoryFeedback(
        make_feedback(30 * DAY, 1.0, observed_at=START + HOUR), make_feedback(20 * DAY, 2.0)
    )
    log = logs.MemoryLog(entry(1))
    assert values(replay_all(log, channel)[0]) == [None]
    assert values(replay_all(log, channel, by_observed=True)[0]) == [1.0]


def test_paired_feedback_keeps_all_fields():
    full = make_feedback(HOUR, 1.0, confidence=0.5, meta={"a": 1}, decision_id="x", observed_at=START)
    observed, _ = replay_all(logs.MemoryLog(entry(1)), feedback.MemoryFeedback(full))
    assert observed[0].feedback == full


def test_filter_selects_entries():  # G48
    replayer = LogReplayer(logs.MemoryLog(entry(1), entry(2)), feedback.MemoryFeedback())
    report = replayer.replay(*SPAN, lambda item: item.decision_id == "d2")
    assert (report.entries, report.filtered, report.pending) == (2, 1, 1)


class RecordingReflector:
    def __init__(self, name, events, raises=False):
        self.name, self.events, self.raises = name, events, raises

    def on_event(self, event):
        self.events.append((self.name, event.log.decision_id))
        if self.raises:
            raise ValueError(f"{self.name} cannot")


def test_reflectors_get_events_in_order_of_registration():  # G52
    events: list[tuple[str, str]] = []
    replayer = LogReplayer(logs.MemoryLog(entry(1), entry(2)), feedback.MemoryFeedback())
    first = RecordingReflector("a", events)
    for item in (first, RecordingReflector("b", events), first):
        replayer.register(item)
    replayer.replay(*SPAN)
    assert events == [(name, f"d{n}") for n in (1, 2) for name in "aba"]


def test_reflector_registered_during_replay_gets_next_replay():  # G52
    events: list[tuple[str, str]] = []
    replayer = LogReplayer(logs.MemoryLog(entry(1), entry(2)), feedback.MemoryFeedback())
    replayer.register(reflectors.FuncReflector(lambda event: replayer.register(RecordingReflector("late", events))))
    replayer.replay(*SPAN)
    assert events == []


@pytest.mark.parametrize("others", [0, 1])
def test_exception_of_reflector_is_reported_and_others_continue(others):  # G53
    events: list[tuple[str, str]] = []
    messages: list[str] = []
    replayer = LogReplayer(logs.MemoryLog(entry(1), entry(2)), feedback.MemoryFeedback(), log_message=messages.append)
    replayer.register(RecordingReflector("bad", events, raises=True))
    for _ in range(others):
        replayer.register(RecordingReflector("good", events))
    report = replayer.replay(*SPAN)
    assert len(events) == 2 * (1 + others)
    assert report.errors == {"0: RecordingReflector": 2}
    assert report.first_errors == {"0: RecordingReflector": "ValueError: bad cannot"}
    assert len(messages) == 2


def test_max_errors_ends_replay():  # G53
    replayer = LogReplayer(
        logs.MemoryLog(*map(entry, range(9))),
        feedback.MemoryFeedback(),
        max_errors=3,
        log_message=lambda messages: None,
    )
    replayer.register(RecordingReflector("bad", [], raises=True))
    with pytest.raises(errors.RunFailed, match="4 errors of reflectors"):
        replayer.replay(*SPAN)


def test_errors_are_logged_by_default(caplog):  # G53
    replayer = LogReplayer(logs.MemoryLog(entry(1)), feedback.MemoryFeedback())
    replayer.register(RecordingReflector("bad", [], raises=True))
    replayer.replay(*SPAN)
    assert "bad cannot" in caplog.text


def test_exception_of_source_is_raised(tmp_path):
    log = log_stores.FileLog(tmp_path)
    log.append(entry(1))
    (tmp_path / "2026-04-18.jsonl").write_text("nonsense\n")
    replayer = LogReplayer(log, feedback.MemoryFeedback())
    replayer.register(RecordingReflector("any", []))
    with pytest.raises(logs.InvalidLogLine):
        replayer.replay(*SPAN)


def test_report_counts_invalid_and_incomplete_lines(tmp_path):  # G53
    log = log_stores.FileLog(tmp_path, on_issue="skip")
    log.append(entry(1))
    with (tmp_path / "2026-04-18.jsonl").open("a") as file:
        file.write('nonsense\n{"timest')
    report = LogReplayer(log, feedback.MemoryFeedback()).replay(*SPAN)
    assert (report.issues, report.in_progress, report.bad_lines[0].line) == (1, 1, 2)


def test_replay_can_be_stopped():
    stop = Event()
    replayer = LogReplayer(logs.MemoryLog(*map(entry, range(9))), feedback.MemoryFeedback())
    replayer.register(reflectors.FuncReflector(lambda event: stop.set()))
    report = replayer.replay(*SPAN, stop=stop)
    assert (report.entries, report.is_stopped) == (1, True)


@pytest.fixture
def story(tmp_path):
    log, rng = log_stores.FileLog(tmp_path / "log", on_issue="skip"), random.Random(0)
    channel = feedback.MemoryFeedback(*(make_feedback(HOUR * n, n % 7, entity=f"e{n % 5}") for n in range(200)))
    for number in range(300):
        log.append(entry(number, HOUR * number * 0.7, f"e{rng.randrange(6)}"))
        if number % 100 == 50:
            (path,) = sorted((tmp_path / "log").iterdir())[-1:]
            with path.open("a") as file:
                file.write("nonsense\n")
    return log, channel


def test_equal_logs_give_equal_reports(story):  # spec 4.4, 12
    one, other = (replay_all(*story)[1].to_json() for _ in range(2))
    assert one == other
    assert json.loads(one)["entries"] == 300


@pytest.mark.parametrize("cut", [1, 49, 150, 299])
def test_interrupted_replay_resumes_with_same_result(cut, story, tmp_path):  # spec 4.4, 12
    def run(dies_at=None, path=None):
        aggregator, count = reflectors.AggregatorReflector(), [0]

        def die(entry):
            count[0] += 1
            if count[0] == dies_at:
                raise KeyboardInterrupt
            return True

        replayer = LogReplayer(*story)
        replayer.register(aggregator)
        return replayer.replay(*SPAN, die, checkpoint_path=path, checkpoint_every=10), aggregator

    full, observed = run()
    path = tmp_path / "checkpoint.json"
    with pytest.raises(KeyboardInterrupt):
        run(cut, path)
    report, again = run(None, path)
    assert report.to_json() == full.to_json()
    assert again.state() == observed.state()
    assert again.stats("e1", "m") == observed.stats("e1", "m")


def test_source_without_positions_is_read_from_start(tmp_path):
    log, path = logs.MemoryLog(*map(entry, range(5))), tmp_path / "checkpoint.json"
    stop = Event()
    replayer = LogReplayer(log, feedback.MemoryFeedback())

    def stop_at_2(item):
        if item.decision_id == "d2":
            stop.set()
        return True

    replayer.replay(*SPAN, stop_at_2, checkpoint_path=path, stop=stop)
    report = replayer.replay(*SPAN, checkpoint_path=path)
    assert report.entries == 5


def test_checkpoint_of_another_replay_is_rejected(tmp_path):
    path = tmp_path / "checkpoint.json"
    parts = logs.MemoryLog(entry(1)), feedback.MemoryFeedback()
    LogReplayer(*parts).replay(*SPAN, checkpoint_path=path)
    with pytest.raises(errors.SetupError, match="another replay"):
        LogReplayer(*parts, window=DAY).replay(*SPAN, checkpoint_path=path)
    path.write_text("nonsense")
    with pytest.raises(errors.SetupError, match="not a replay checkpoint"):
        replay_report.read_checkpoint(path, {})


# Written by Atoll 0.1.0, where AggregatorReflector was called Aggregator.
OLD_CHECKPOINT = """{"request": {"since": "2026-04-17T12:00:00+00:00", "until": "2026-04-19T12:00:00+00:00",
"window": 604800000000.0, "attribution": "first_touch", "by_observed": false, "reflectors": ["Aggregator"]},
"place": null, "report": {"entries": 3, "filtered": 0, "paired": 2, "pending": 1, "errors": {}, "first_errors": {},
"issues": 0, "bad_lines": [], "in_progress": 0, "is_stopped": false, "events": 3}, "states": [[
["e", "", "", [[], [0, 0.0, 0.0], [[], [], 0], [0.0, null, null], [0, false, 1, 1776520800000000]]],
["e", "m", "", [[0.0, 1.0], [0, 0.0, 0.0], [[], [], 0], [0.0, null, null], [0, false, 0, 1776517500000000]]]]]}"""


def test_checkpoint_of_0_1_0_is_accepted(tmp_path):
    path, noon = tmp_path / "checkpoint.json", START + 12 * HOUR
    path.write_text(OLD_CHECKPOINT)
    log = logs.MemoryLog(*(entry(number, (12 + number) * HOUR) for number in range(4)))
    aggregator = reflectors.AggregatorReflector()
    replayer = LogReplayer(log, feedback.MemoryFeedback())
    replayer.register(aggregator)
    report = replayer.replay(noon - DAY, noon + DAY, checkpoint_path=path)
    assert (report.entries, report.paired, report.pending) == (4, 2, 2)
    assert (aggregator.stats("e", "m").count, aggregator.stats("e", "m").mean) == (2, 0.5)
    assert json.loads(path.read_text())["request"]["reflectors"] == ["AggregatorReflector"]


def test_replay_is_fast_and_small(tmp_path):  # section 6: 250,000 events and 150 MB; CI requires half
    bench.generate(tmp_path, 8000)
    result = min(
        (bench.run_part("replay, paired, 1 reflector", tmp_path) for _ in range(3)), key=lambda f: f["cpu_seconds"]
    )
    assert result["decisions"] == 8000
    assert result["seen"] == result["paired"] > 8000
