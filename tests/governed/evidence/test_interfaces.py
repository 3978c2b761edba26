"""Interface suites for every log source and feedback channel (G39 to G47)."""

from datetime import UTC, datetime

import pytest

from atoll import journal, store, testing
from atoll.governed.evidence import feedback, feedback_stores, log_stores, logs, run_log
from atoll.testing.logs import START

MOMENTS = [logs.LogEntry(START.replace(second=second), f"d{second}", "e") for second in (10, 20, 20, 50)]


class LogSuite(testing.LogSourceSuite):
    def make(self):
        return self.holding(MOMENTS)


class TestMemoryLog(LogSuite):
    def holding(self, entries):
        return logs.MemoryLog(*entries)


class TestFileLog(LogSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path = tmp_path / "log"

    def holding(self, entries):
        log = log_stores.FileLog(self.path)
        for entry in entries:
            log.append(entry)
        return log


class TestSQLLog(LogSuite):
    @pytest.fixture(autouse=True)
    def _open_store(self):
        with store.Store("sqlite://") as self.open_store:
            yield

    def holding(self, entries):
        log = log_stores.SQLLog(self.open_store)
        log.append(*entries)
        return log


def records():
    """Yields the records of three children; the second is applied last."""
    for step in (1, 2, 3):
        data = {"id": f"{step}.0", "step": step, "island": 0, "content": "x", "parents": ["0.0"], "label": "c0"}
        result = {"evaluation": {"score": step / 10}, "meta": {"engine": "syntax"}}
        yield journal.Record("judged", step, 0, {**data, **result})
    for step in (1, 3, 2):
        children = [{"id": f"{step}.0", "decision": ["accept", "", "gate"]}]
        yield journal.Record("applied", step, 0, {"children": children})


def make_run_log():
    journal = store.MemoryJournal()
    for record in records():
        journal.write(record)
    return run_log.RunLog(journal, "run", datetime(2026, 4, 18, tzinfo=UTC))


class TestRunLog(testing.LogSourceSuite):
    def make(self):
        return make_run_log()


class TestMemoryFeedback(testing.FeedbackChannelSuite):
    def make(self):
        return feedback.MemoryFeedback()


class TestFileFeedback(testing.FeedbackChannelSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path = tmp_path / "feedback"

    def make(self):
        return feedback_stores.FileFeedback(self.path)


class TestSQLFeedback(testing.FeedbackChannelSuite):
    @pytest.fixture(autouse=True)
    def _open_store(self):
        with store.Store("sqlite://") as self.open_store:
            yield

    def make(self):
        return feedback_stores.SQLFeedback(self.open_store)


class TestRunLogFeedback(testing.FeedbackChannelSuite):
    is_read_only = True
    entity = "syntax"

    def make(self):
        return make_run_log()
