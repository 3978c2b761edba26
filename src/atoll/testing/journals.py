"""What every journal promises."""

from abc import ABC, abstractmethod
from typing import Any

from atoll.journal import Journal, Record
from atoll.testing import claims

_RECORDS = [Record("judged", step, step % 3 - 1, {"id": f"{step}.0"}) for step in range(1, 10)]


class JournalSuite(ABC):
    """Subclass it, say how to make an empty journal, and every test runs on yours."""

    @abstractmethod
    def make(self) -> Journal:
        """Returns a new, empty journal."""

    def reopen(self, journal: Journal) -> Journal:
        """Returns the same journal as another process would find it; one that keeps nothing returns itself."""
        return journal

    def test_a_new_journal_is_empty(self) -> None:
        """There is nothing to read before something was written, on any island."""
        journal = self.make()
        assert list(journal.read()) == []
        assert list(journal.read(0)) == []

    def test_records_are_read_in_the_order_of_writing(self) -> None:
        """One record a commit or several, the order is that of the writing."""
        journal = self.make()
        journal.write(*_RECORDS[:4])
        for record in _RECORDS[4:]:
            journal.write(record)
        assert _plain(journal) == _RECORDS

    def test_the_records_of_one_island_are_read_with_those_of_all(self) -> None:
        """`read(island)` yields its records and those of island -1, which concern all islands."""
        journal = self.make()
        journal.write(*_RECORDS)
        for island in (0, 1, 7):
            assert _plain(journal, island) == [record for record in _RECORDS if record.island in (island, -1)]

    def test_a_commit_of_nothing_changes_nothing(self) -> None:
        """`write()` without records is allowed."""
        journal = self.make()
        journal.write()
        assert _plain(journal) == []

    def test_plain_data_comes_back_as_it_was(self) -> None:
        """Numbers keep their last digit and their type, texts every character, whatever a model wrote."""
        data = {
            "floats": [0.1, -0.0, 1e-310, 1.7976931348623157e308, 1 / 3, 2.0],
            "integers": [0, -1, 2**53 + 1, 2**70],
            "others": [True, False, None, {}, [], ""],
            "texts": ["åß∂ 日本語 🏝", "a\nb\tc\rd", 'quote " and \\', "\x00\x01\x7f", "\u2028", "x" * 100_000],
            "half of a pair": "\ud800",  # a model's reply may hold one
            "nested": {"a": {"b": [{"c": [1, [2, [3]]]}]}, "": 1, "å": 2},
        }
        journal = self.make()
        journal.write(Record("judged", 1, 0, data))
        (found,) = self.reopen(journal).read()
        assert _listed(found.data) == data
        assert [type(each) for each in found.data["floats"]] == [float] * 6
        assert str(found.data["floats"][1]) == "-0.0"

    def test_what_was_written_is_found_by_whoever_opens_it_next(self) -> None:
        """A commit that returned is stored."""
        journal = self.make()
        journal.write(*_RECORDS[:5])
        again = self.reopen(journal)
        assert _plain(again) == _RECORDS[:5]
        again.write(*_RECORDS[5:])
        assert _plain(again) == _RECORDS

    def test_a_commit_is_stored_whole_or_not_at_all(self) -> None:
        """Where one record cannot be stored, none of its commit is, and what was there before stays."""
        journal = self.make()
        journal.write(_RECORDS[0])
        try:
            journal.write(_RECORDS[1], Record("judged", 2, 0, {"what": object()}), _RECORDS[2])
        except Exception:
            assert _plain(journal) == _RECORDS[:1]
            journal.write(_RECORDS[1])
            assert _plain(journal) == _RECORDS[:2], "it must work again afterwards"
        else:
            assert len(list(journal.read())) == 4

    def test_reading_goes_on_while_somebody_writes(self) -> None:
        """A reader sees at least what was there when it began, in order, and does not block the writer."""
        journal = self.make()
        journal.write(*_RECORDS[:3])
        reader = journal.read()
        first = next(reader)
        journal.write(*_RECORDS[3:])
        found = [_plain_record(each) for each in (first, *reader)]
        assert found[:3] == _RECORDS[:3]
        assert found == _RECORDS[: len(found)]

    def test_many_threads_write_and_nobody_sees_half_a_commit(self) -> None:
        """Commits of several threads never mix, none is lost, and each thread's own come in its order."""
        journal, num_commits, num_threads = self.make(), 15, 6

        def write(thread: int) -> None:
            for commit in range(num_commits):
                journal.write(*(Record("judged", commit, thread, {"part": part}) for part in range(3)))
                assert len(list(journal.read(thread))) == 3 * (commit + 1)
                assert len(list(journal.read())) % 3 == 0

        claims.at_once(write, num_threads)
        found = list(journal.read())
        assert len(found) == 3 * num_commits * num_threads
        commits = [found[place : place + 3] for place in range(0, len(found), 3)]
        assert all(len({(each.step, each.island) for each in commit}) == 1 for commit in commits)
        for thread in range(num_threads):
            own = [(each.step, each.data["part"]) for each in found if each.island == thread]
            assert own == [(commit, part) for commit in range(num_commits) for part in range(3)]


def _plain(journal: Journal, island: int | None = None) -> list[Record]:
    return [_plain_record(record) for record in journal.read(island)]


def _plain_record(record: Record) -> Record:
    return Record(record.kind, record.step, record.island, dict(record.data))


def _listed(data: Any) -> Any:
    """Returns data with plain dicts and lists, in whatever mappings and sequences it came."""
    if hasattr(data, "items"):
        return {name: _listed(value) for name, value in data.items()}
    return [_listed(value) for value in data] if isinstance(data, list | tuple) else data
