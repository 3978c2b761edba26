"""Decision logs: complete lines, incomplete lines, invalid lines, following."""

import itertools
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from atoll import errors, store
from atoll.governed.evidence import day_files, log_stores, logs
from atoll.governed.evidence.logs import ReadIssue
from bench import governed_logs as bench

START = datetime(2026, 4, 18, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FOREVER = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


def entry(number: int, moment: datetime = START, **rest) -> logs.LogEntry:
    return logs.LogEntry(moment, f"d{number}", "carrier", {"number": number}, **rest)


def ids(entries) -> list[str]:
    return [record.decision_id for record in entries]


@pytest.fixture(params=["files", "database", "postgres"])
def log(request, tmp_path):
    if request.param == "files":
        yield log_stores.FileLog(tmp_path / "log")
    else:
        is_file = request.param == "database"
        with store.Store(tmp_path / "atoll.db" if is_file else request.getfixturevalue("postgres_url")) as database:
            yield log_stores.SQLLog(database)


def test_appended_entries_round_trip(log):  # G38
    full = entry(1, meta={"a": [1, None]}, action="left", propensity=0.25, policy_version="v7")
    log.append(full)
    assert list(log.read(*FOREVER)) == [full]


def test_both_bounds_are_inclusive(log):  # G39
    for number in range(5):
        log.append(entry(number, START + number * timedelta(hours=1)))
    assert ids(log.read(START + timedelta(hours=1), START + timedelta(hours=3))) == ["d1", "d2", "d3"]


def test_entry_gets_current_time_and_utc(log):  # G41
    log.append(entry(0, datetime.min))
    log.append(entry(1, START.astimezone(timezone(timedelta(hours=8)))))
    first, second = sorted(log.read(*FOREVER), key=lambda record: record.decision_id)
    assert abs(datetime.now(UTC) - first.timestamp) < timedelta(minutes=1)
    assert (second.timestamp, second.timestamp.tzinfo) == (START, UTC)


def test_reader_continues_after_position(log):
    for number in range(7):
        log.append(entry(number, START + number * timedelta(hours=9)))
    reading = log.open_reader(*FOREVER)
    walk = iter(reading)
    observed = [next(walk).decision_id for _ in range(3)]
    assert observed + ids(log.open_reader(*FOREVER, after=reading.position)) == [f"d{n}" for n in range(7)]


def test_entry_must_be_json_data(log):
    with pytest.raises(errors.SetupError, match="JSON data"):
        log.append(entry(1, meta={"a": object()}))


def test_read_opens_only_day_files_in_window(tmp_path):  # G40, G42
    log = log_stores.FileLog(tmp_path)
    for number, days in enumerate((0, 1, 4)):
        log.append(entry(number, START + days * DAY))
    log.append(entry(9, datetime(2026, 4, 19, 3, tzinfo=timezone(timedelta(hours=8)))))  # still the 18th in UTC
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2026-04-18.jsonl",
        "2026-04-19.jsonl",
        "2026-04-22.jsonl",
    ]
    assert log.list_days() == [date(2026, 4, 18), date(2026, 4, 19), date(2026, 4, 22)]
    (tmp_path / "2026-04-18.jsonl").write_text("never opened, or this would raise\n")
    assert ids(log.read(START + DAY, START + 9 * DAY)) == ["d1", "d2"]


def test_other_files_are_ignored(tmp_path):
    log = log_stores.FileLog(tmp_path)
    for name in ("notes.txt", "2026-13-01.jsonl", "today.jsonl"):
        (tmp_path / name).write_text("x")
    assert log.list_days() == []
    assert list(log.read(*FOREVER)) == []


FOREIGN = (
    '{"Timestamp":"2026-04-18T12:00:00.123456789Z","DecisionID":"d1","Entity":"carrier",'
    '"Payload":{"number":1},"Meta":null}\n'
)


def test_both_casings_are_read_in_one_file(tmp_path):  # G38
    log = log_stores.FileLog(tmp_path)
    (tmp_path / "2026-04-18.jsonl").write_text(FOREIGN)
    log.append(entry(2))
    first, second = log.read(*FOREVER)
    assert (first.decision_id, first.entity, first.payload) == ("d1", "carrier", {"number": 1})
    assert abs(first.timestamp - START - timedelta(microseconds=123456)) <= timedelta(microseconds=1)
    assert second == entry(2)


def test_times_are_converted_to_utc(tmp_path):
    text = '{"timestamp":"2026-04-18T20:00:00+08:00"}\n\n{"timestamp":"2026-04-18T12:00:00"}\n'
    (tmp_path / "2026-04-18.jsonl").write_text(text)
    assert [record.timestamp for record in log_stores.FileLog(tmp_path).read(*FOREVER)] == [START, START]


BROKEN = [b"{not json}", b'{"timestamp": 7}', b'{"entity": "no time"}', b"\xff\xfe", b'{"timestamp":"2026-04-18T12:00']


def write_broken_log(folder: Path, bad: bytes) -> Path:
    log = log_stores.FileLog(folder)
    log.append(entry(1))
    path = folder / "2026-04-18.jsonl"
    with path.open("ab") as file:
        file.write(bad + b"\n")
    log.append(entry(2))
    return path


@pytest.mark.parametrize("bad", BROKEN)
def test_invalid_line_is_reported_with_position(bad, tmp_path):  # G43
    path = write_broken_log(tmp_path, bad)
    offset = path.read_bytes().index(b"\n") + 1
    with pytest.raises(logs.InvalidLogLine, match="Line 2") as caught:
        list(log_stores.FileLog(tmp_path).read(*FOREVER))
    assert caught.value.issue[:3] == (str(path), 2, offset)
    reading = log_stores.FileLog(tmp_path, on_issue="skip").open_reader(*FOREVER)
    assert ids(reading) == ["d1", "d2"]
    assert reading.num_issues == 1
    assert isinstance(reading.issues[0], ReadIssue)


def test_quarantined_line_is_copied_once(tmp_path):
    write_broken_log(tmp_path, b"{not json}")
    for _ in range(2):
        assert ids(log_stores.FileLog(tmp_path, on_issue="quarantine").read(*FOREVER)) == ["d1", "d2"]
    (copy,) = (tmp_path / "quarantine").iterdir()
    assert copy.read_bytes() == b"{not json}"


def test_unknown_issue_policy_is_rejected(tmp_path):
    with pytest.raises(errors.SetupError, match="quarantine"):
        log_stores.FileLog(tmp_path, on_issue="ignore")  # type: ignore[arg-type]


def test_line_without_newline_is_in_progress(tmp_path):  # G43, G44
    log = log_stores.FileLog(tmp_path)
    log.append(entry(1))
    path = tmp_path / "2026-04-18.jsonl"
    full = path.read_bytes().replace(b"d1", b"d2")
    with path.open("ab") as file:
        file.write(full[:40])
    reading = log.open_reader(*FOREVER)
    assert ids(reading) == ["d1"]
    assert (reading.num_in_progress, reading.num_issues) == (1, 0)
    with path.open("ab") as file:
        file.write(full[40:])
    assert ids(log.open_reader(*FOREVER, after=reading.position)) == ["d2"]


def test_partial_line_of_crashed_writer_is_ended(tmp_path):
    path = tmp_path / "2026-04-18.jsonl"
    path.write_bytes(b'{"timestamp":"2026-04')
    log_stores.FileLog(tmp_path).append(entry(1))
    reading = log_stores.FileLog(tmp_path, on_issue="skip").open_reader(*FOREVER)
    assert ids(reading) == ["d1"]
    assert reading.num_issues == 1


def test_full_disk_is_reported(tmp_path, monkeypatch):
    log = log_stores.FileLog(tmp_path)
    log.append(entry(1))
    monkeypatch.setattr(os, "write", lambda file, line: 7)
    with pytest.raises(errors.StoreFailed, match="took only 7 of"):
        log.append(entry(2))


def test_deleted_file_is_created_again(tmp_path):
    log = log_stores.FileLog(tmp_path)
    log.append(entry(1))
    (tmp_path / "2026-04-18.jsonl").unlink()
    log.append(entry(2))
    assert ids(log.read(*FOREVER)) == ["d2"]


def test_lines_longer_than_a_block_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(day_files, "BLOCK_BYTES", 64)
    log = log_stores.FileLog(tmp_path, with_lock=True)
    for number in range(9):
        log.append(entry(number, meta={"text": "x" * number * 40}))
    assert ids(log.read(*FOREVER)) == [f"d{n}" for n in range(9)]


def test_follow_yields_every_line_once_and_complete(tmp_path):  # G44
    log = log_stores.FileLog(tmp_path)
    log.append(entry(0))

    def write() -> None:
        path = tmp_path / "2026-04-18.jsonl"
        for number in range(1, 30):
            line = msgspec.json.encode(entry(number)) + b"\n"
            with path.open("ab", buffering=0) as file:
                for part in (line[:30], line[30:60], line[60:]):  # a reader can see any prefix of a line
                    file.write(part)
                    time.sleep(0.001)
        log.append(entry(30, START + DAY))

    writer = threading.Thread(target=write)
    writer.start()
    observed = ids(itertools.islice(log_stores.FileLog(tmp_path).follow(START, timeout=60, poll_seconds=0.0005), 31))
    writer.join()
    assert observed == [f"d{n}" for n in range(31)]


def test_follow_without_start_yields_only_new_entries(tmp_path):
    log = log_stores.FileLog(tmp_path)
    log.append(entry(0))
    assert ids(log.follow(timeout=0.01)) == []


WRITER = """
import sys
from datetime import UTC, datetime
from atoll.governed.evidence import log_stores, logs

log, start = log_stores.FileLog(sys.argv[1]), datetime(2026, 4, 18, 12, tzinfo=UTC)
for number in range(400):
    log.append(logs.LogEntry(start, f"{sys.argv[2]}-{number}", "e", {"text": "x" * (number % 10 * 900)}))
"""


def test_follow_sees_all_entries_of_many_processes(tmp_path):  # section 6; 8 writers in the bench
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, str(number)]) for number in range(3)]
    observed = []
    for record in log_stores.FileLog(tmp_path).follow(START, timeout=60, poll_seconds=0.002):
        observed.append(record.decision_id)
        if len(observed) == 1200:
            break
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert sorted(observed) == sorted(f"{writer}-{number}" for writer in range(3) for number in range(400))
    assert sorted(ids(log_stores.FileLog(tmp_path).read(*FOREVER))) == sorted(observed)


def test_append_writes_thousands_of_lines_a_second(tmp_path):  # section 6: 20,000; CI requires half
    assert bench.append_many(tmp_path, 4000)["per_cpu"] > 10_000


def test_entity_query_uses_index(tmp_path):  # G47
    with store.Store(tmp_path / "atoll.db") as database:
        log = log_stores.SQLLog(database)
        log.append(*(entry(number, START + number * DAY) for number in range(5)), logs.LogEntry(START, "x", "other"))
        assert ids(log.query_entity("carrier", START + DAY)) == ["d1", "d2", "d3", "d4"]
        with database.database.begin_read() as connection:
            plan = connection.exec_driver_sql(
                "EXPLAIN QUERY PLAN SELECT data FROM moments WHERE stream='a' AND entity='b' AND at>=1"
            ).all()
    assert "moments_by_entity" in str(plan)


def test_entries_with_equal_times_keep_order_across_chunks(tmp_path, monkeypatch):
    from atoll.store import event_streams

    monkeypatch.setattr(event_streams, "CHUNK", 3)
    with store.Store("sqlite://") as database:
        log = log_stores.SQLLog(database)
        log.append(*(entry(number) for number in range(10)))
        assert ids(log.read(*FOREVER)) == [f"d{n}" for n in range(10)]


def test_log_without_a_reference_leaves_no_open_file(tmp_path):
    number = len(os.listdir("/dev/fd"))
    log_stores.FileLog(tmp_path).append(logs.LogEntry(datetime.now(UTC), "d1", "carrier", None, None, "left", 0.5))
    assert len(os.listdir("/dev/fd")) == number
