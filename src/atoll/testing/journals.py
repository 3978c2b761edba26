"""Test suites for journals and inboxes."""

from abc import ABC, abstractmethod
from typing import Any

from atoll import control
from atoll.journal import EVALUATED, Journal, Record
from atoll.testing import fakes

_RECORDS = [Record(EVALUATED, step, step % 3 - 1, {"id": f"{step}.0"}) for step in range(1, 10)]


class JournalSuite(ABC):
    """Tests for a journal. Subclass it and implement `make`."""

    @abstractmethod
    def make(self) -> Journal:
        """Returns a new, empty journal."""

    def reopen(self, journal: Journal) -> Journal:
        """Returns the journal as another process would open it; an in-memory journal returns itself."""
        return journal

    def test_new_journal_is_empty(self) -> None:
        """A new journal has no records on any island."""
        journal = self.make()
        assert list(journal.read()) == []
        assert list(journal.read(0)) == []

    def test_records_are_read_in_write_order(self) -> None:
        """Records keep the order of commits, with one or several records each."""
        journal = self.make()
        journal.write(*_RECORDS[:4])
        for record in _RECORDS[4:]:
            journal.write(record)
        assert _read_records(journal) == _RECORDS

    def test_read_island_includes_global_records(self) -> None:
        """`read(island)` also yields records of island -1, which concern all islands."""
        journal = self.make()
        journal.write(*_RECORDS)
        for island in (0, 1, 7):
            assert _read_records(journal, island) == [record for record in _RECORDS if record.island in (island, -1)]

    def test_empty_commit_changes_nothing(self) -> None:
        """`write()` without records is allowed."""
        journal = self.make()
        journal.write()
        assert _read_records(journal) == []

    def test_plain_data_round_trips(self) -> None:
        """Numbers keep their type and precision; texts keep every character."""
        data = {
            "floats": [0.1, -0.0, 1e-310, 1.7976931348623157e308, 1 / 3, 2.0],
            "integers": [0, -1, 2**53 + 1, 2**70],
            "others": [True, False, None, {}, [], ""],
            "texts": ["åß∂ 日本語 🏝", "a\nb\tc\rd", 'quote " and \\', "\x00\x01\x7f", "\u2028", "x" * 100_000],
            "surrogate": "\ud800",  # an LLM response may contain one
            "nested": {"a": {"b": [{"c": [1, [2, [3]]]}]}, "": 1, "å": 2},
        }
        journal = self.make()
        journal.write(Record(EVALUATED, 1, 0, data))
        (record,) = self.reopen(journal).read()
        assert _normalize_data(record.data) == data
        assert [type(value) for value in record.data["floats"]] == [float] * 6
        assert str(record.data["floats"][1]) == "-0.0"

    def test_reopened_journal_has_all_records(self) -> None:
        """Completed commits are stored."""
        journal = self.make()
        journal.write(*_RECORDS[:5])
        reopened = self.reopen(journal)
        assert _read_records(reopened) == _RECORDS[:5]
        reopened.write(*_RECORDS[5:])
        assert _read_records(reopened) == _RECORDS

    def test_commit_is_atomic(self) -> None:
        """If one record cannot be stored, none of the commit is; earlier records stay."""
        journal = self.make()
        journal.write(_RECORDS[0])
        try:
            journal.write(_RECORDS[1], Record(EVALUATED, 2, 0, {"value": object()}), _RECORDS[2])
        except Exception:
            assert _read_records(journal) == _RECORDS[:1]
            journal.write(_RECORDS[1])
            assert _read_records(journal) == _RECORDS[:2], "the journal must accept later commits"
        else:
            assert len(list(journal.read())) == 4

    def test_read_continues_during_writes(self) -> None:
        """A reader sees at least the records from its start, in order, and does not block the writer."""
        journal = self.make()
        journal.write(*_RECORDS[:3])
        reader = journal.read()
        first = next(reader)
        journal.write(*_RECORDS[3:])
        records = [_normalize_record(record) for record in (first, *reader)]
        assert records[:3] == _RECORDS[:3]
        assert records == _RECORDS[: len(records)]

    def test_concurrent_commits_do_not_mix(self) -> None:
        """Commits of several threads stay complete, none is lost, and each thread's keep their order."""
        journal, num_commits, num_threads = self.make(), 15, 6

        def write(thread: int) -> None:
            for commit in range(num_commits):
                journal.write(*(Record(EVALUATED, commit, thread, {"part": part}) for part in range(3)))
                assert len(list(journal.read(thread))) == 3 * (commit + 1)
                assert len(list(journal.read())) % 3 == 0

        fakes.run_concurrently(write, num_threads)
        records = list(journal.read())
        assert len(records) == 3 * num_commits * num_threads
        commits = [records[start : start + 3] for start in range(0, len(records), 3)]
        assert all(len({(record.step, record.island) for record in commit}) == 1 for commit in commits)
        for thread in range(num_threads):
            thread_records = [(record.step, record.data["part"]) for record in records if record.island == thread]
            assert thread_records == [(commit, part) for commit in range(num_commits) for part in range(3)]


def _read_records(journal: Journal, island: int | None = None) -> list[Record]:
    return [_normalize_record(record) for record in journal.read(island)]


def _normalize_record(record: Record) -> Record:
    return Record(record.kind, record.step, record.island, dict(record.data))


def _normalize_data(data: Any) -> Any:
    """Returns data with mappings as dicts and sequences as lists."""
    if hasattr(data, "items"):
        return {name: _normalize_data(value) for name, value in data.items()}
    return [_normalize_data(value) for value in data] if isinstance(data, list | tuple) else data


class InboxSuite[T: control.Inbox](ABC):
    """Tests for an inbox. Subclass it and implement `make` and `post`."""

    @abstractmethod
    def make(self) -> T:
        """Returns a new, empty inbox."""

    @abstractmethod
    def post(self, inbox: T, kind: control.CommandKind, **data: Any) -> None:
        """Posts a command from outside the run."""

    def test_new_inbox_is_empty(self) -> None:
        """A new inbox has no commands."""
        assert list(self.make().read(0)) == []

    def test_commands_are_read_in_order(self) -> None:
        """Numbers are positive and increase; kind and data are as posted."""
        inbox = self.make()
        self.post(inbox, "pause")
        self.post(inbox, "set", stride=0.5, names=["a", "b"], deep={"none": None})
        self.post(inbox, "stop", reason="dinner")
        commands = inbox.read(0)
        assert [command.kind for command in commands] == ["pause", "set", "stop"]
        assert [dict(command.data) for command in commands] == [
            {},
            {"stride": 0.5, "names": ["a", "b"], "deep": {"none": None}},
            {"reason": "dinner"},
        ]
        numbers = [command.number for command in commands]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0

    def test_read_skips_earlier_commands(self) -> None:
        """`read(after)` returns only commands with a higher number."""
        inbox = self.make()
        for _ in range(5):
            self.post(inbox, "pause")
        numbers = [command.number for command in inbox.read(0)]
        for index, number in enumerate(numbers):
            assert [command.number for command in inbox.read(number)] == numbers[index + 1 :]
        assert list(inbox.read(numbers[-1] + 100)) == []

    def test_read_removes_nothing(self) -> None:
        """A resumed run reads earlier commands again."""
        inbox = self.make()
        self.post(inbox, "pause")
        assert list(inbox.read(0)) == list(inbox.read(0))
        self.post(inbox, "resume")
        assert [command.kind for command in inbox.read(0)] == ["pause", "resume"]

    def test_concurrent_posts_are_not_lost(self) -> None:
        """Parallel posts get different numbers."""
        inbox = self.make()

        def post(thread: int) -> None:
            for count in range(10):
                self.post(inbox, "set", thread=thread, count=count)

        fakes.run_concurrently(post, 4)
        commands = inbox.read(0)
        assert len({command.number for command in commands}) == 40
        for thread in range(4):
            counts = [command.data["count"] for command in commands if command.data["thread"] == thread]
            assert counts == list(range(10))
