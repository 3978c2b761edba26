"""Journals: threads, processes, readers and writers."""

import array
import contextlib
import itertools
import math
import threading
import time
from collections import deque
from contextlib import ExitStack
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll import errors, store
from atoll.journal import Record
from atoll.store.records import json_codec
from atoll.testing import fakes
from tests.repetitions import choose
from tests.store import samples, workers

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture
def journal(any_store):
    return any_store.journal(any_store.create_run("run"))


def test_records_round_trip(journal):
    journal.write(*samples.small_run())
    assert list(journal.read()) == samples.small_run()


def test_journals_of_runs_are_independent(any_store):
    for run in ("a", "b"):
        any_store.journal(any_store.create_run(run)).write(Record("started", 0, -1, {"run": run}))
    assert [record.data["run"] for record in any_store.journal("a").read()] == ["a"]


def test_island_reads_its_records_and_those_of_all_islands(journal):
    journal.write(*(Record("begun", step, step % 3 - 1, {}) for step in range(9)))
    assert [record.step for record in journal.read(1)] == [0, 2, 3, 5, 6, 8]


def test_read_in_chunks(journal):
    journal.write(*(Record("begun", step, step % 2, {}) for step in range(1000)))
    assert [record.step for record in journal.read()] == list(range(1000))
    assert [record.step for record in journal.read(1)] == list(range(1, 1000, 2))


def test_empty_write(journal):
    journal.write()
    assert list(journal.read()) == []


@settings(max_examples=choose(20, 60), deadline=None)
@given(st.dictionaries(TEXT, PLAIN, max_size=4), st.sampled_from([0, 5, 1000]))
def test_pack_round_trips(data, long):
    text, links, bodies = json_codec.pack(data, long)
    opened_store = {body.sha256: body.decompress() for body in bodies}
    assert json_codec.unpack(text, links, lambda sha256: opened_store[sha256]) == data


def test_other_mappings_and_sequences_become_plain(journal):
    data = {"a": MappingProxyType({"b": (1, 2)}), "c": array.array("d", [0.5]), "d": deque([1]), "e": range(2)}
    journal.write(Record("begun", 1, 0, data))
    assert next(journal.read()).data == {"a": {"b": [1, 2]}, "c": [0.5], "d": [1], "e": [0, 1]}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_number_that_is_not_finite_is_rejected(journal, number):
    with pytest.raises(ValueError, match=r"judged record of iteration 3 was not written: only finite numbers"):
        journal.write(samples.founded(), samples.judged("3.0", number))
    assert list(journal.read()) == []


def test_data_that_is_not_plain_is_rejected(journal):
    with pytest.raises(TypeError, match=r"begun record of iteration 1 .* is a object"):
        journal.write(Record("begun", 1, 0, {"thing": object()}))


class TestLongTexts:
    LONG = "a long line, " * 2000
    ODD = "\ud800 and \x00 and ü " * 2000

    def test_long_texts_round_trip(self, journal):
        written = [
            samples.founded(content=self.LONG),
            Record("replied", 1, 0, {"messages": [{"text": "short"}, {"text": self.ODD}], "empty": None}),
            Record("migrated", 1, 0, {"fn": samples.candidate("0.0", self.LONG)}),
        ]
        journal.write(*written)
        assert list(journal.read()) == written

    def test_equal_long_texts_are_stored_once(self, opened):
        journal = opened.journal(opened.create_run("run"))
        for step in range(20):
            journal.write(Record("replied", step, 0, {"prompt": self.LONG}))
        with opened.database.begin_read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM blobs").scalar() == 1
            assert connection.exec_driver_sql("SELECT sum(length(data)) FROM records").scalar_one() < 20 * 100
            assert connection.exec_driver_sql("SELECT length(body) FROM blobs").scalar_one() < len(self.LONG) / 10

    def test_candidate_has_its_full_content(self, any_store):
        any_store.journal(any_store.create_run("run")).write(samples.founded(content=self.LONG))
        assert any_store.candidates("run").get("0.0").content == self.LONG


def test_transactions_of_threads_are_not_mixed(journal):
    def write(island: int) -> None:
        for step in range(40):
            journal.write(Record("applied", step, island, {}), Record("begun", step + 1, island, {}))

    threads = [threading.Thread(target=write, args=(island,)) for island in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = list(itertools.batched(journal.read(), 2))
    assert len(pairs) == 160
    assert all((first.kind, second.kind) == ("applied", "begun") for first, second in pairs)
    assert all(first.island == second.island for first, second in pairs)


def test_processes_write_runs_in_parallel(url):
    store.open(url).close()
    with ExitStack() as stack:
        runs = [f"run-{number}" for number in range(4)]
        pipes = [stack.enter_context(workers.running(workers.write_run, url, run, 500))[1] for run in runs]
        assert [list(workers.iter_reports(pipe)) for pipe in pipes] == [list(range(500))] * 4
    with store.open(url) as opened:
        for run in runs:
            assert [record.data for record in opened.journal(run).read()] == [
                {"run": run, "number": number} for number in range(500)
            ]


def test_reader_sees_a_prefix_while_a_writer_commits(url):
    with store.open(url) as opened, workers.running(workers.write_run, url, "run", 1_000_000) as (_, pipe):
        reported = 0
        lengths: set[int] = set()
        while len(lengths) < 10:
            for _ in range(1000):  # a fast writer always has reports
                if not reported or pipe.poll():
                    reported = pipe.recv() + 1
            steps = [record.step for record in opened.journal("run").read()]
            assert steps == list(range(len(steps)))
            assert len(steps) >= max(reported, *lengths, 0)
            lengths.add(len(steps))


def test_read_ignores_later_records(journal):
    journal.write(*(Record("begun", step, 0, {}) for step in range(600)))
    read = journal.read()
    read_contents = [next(read).step]
    journal.write(Record("begun", 600, 0, {}))
    read_contents += [record.step for record in read]
    assert read_contents == list(range(600))


def test_reader_does_not_block_a_writer(url):
    with store.open(url, busy_seconds=0.0) as opened, store.open(url, busy_seconds=0.0) as other:
        journal = opened.journal(opened.create_run("run"))
        journal.write(samples.founded())
        with other.database.begin_read() as connection:
            begin = "BEGIN ISOLATION LEVEL REPEATABLE READ" if "://" in url else "BEGIN"
            connection.exec_driver_sql(begin)
            assert connection.exec_driver_sql("SELECT count(*) FROM records").scalar() == 1
            journal.write(samples.judged("1.0", 2.0))
            assert connection.exec_driver_sql("SELECT count(*) FROM records").scalar() == 1
            connection.exec_driver_sql("ROLLBACK")
        assert len(list(other.journal("run").read())) == 2


def test_killed_writer_loses_no_commit(url):
    store.open(url).close()
    with workers.running(workers.write_run, url, "run", 100_000) as (process, pipe):
        reported = [pipe.recv() for _ in range(300)]
        process.kill()
        process.join()
        reported += workers.iter_reports(pipe)
    with store.open(url) as opened:
        steps = [record.step for record in opened.journal("run").read()]
        assert steps == list(range(len(steps)))
        assert len(reported) <= len(steps) <= len(reported) + 1
        opened.journal("run").write(Record("ended", 0, -1, {}))


def test_journal_works_after_a_failed_write(journal):
    with contextlib.suppress(ValueError):
        journal.write(samples.judged("1.0", math.nan))
    journal.write(samples.founded())
    assert list(journal.read()) == [samples.founded()]


def test_second_writer_of_a_run_is_rejected(url):
    with store.open(url) as opened, store.open(url) as other:
        first = opened.journal(opened.create_run("run"))
        second = other.journal("run")
        assert list(first.read()) == list(second.read()) == []
        first.write(Record("begun", 1, 0, {}))
        with pytest.raises(errors.Conflict, match="Another process w"):
            second.write(Record("begun", 1, 0, {}))
        first.write(Record("begun", 2, 0, {}))
        assert [record.step for record in other.journal("run").read()] == [1, 2]


def test_shared_journal_has_several_writers(url):
    with store.open(url) as opened, store.open(url) as other:
        run = opened.create_run("run")
        journals = [opened_store.journal(run, is_shared=True) for opened_store in (opened, other)]

        def write(number: int) -> None:
            for step in range(10):
                journals[number].write(Record("begun", step, number, {}))

        fakes.run_concurrently(write, 2)
        for island in range(2):
            assert [item.step for item in opened.journal(run).read(island)] == list(range(10))


def test_parallel_threads_do_not_conflict(opened, monkeypatch):
    """A thread may pause right after its commit; the next one must not mistake it for another process."""
    journal = opened.journal(opened.create_run("run"))
    leave = type(opened.database.begin_write()).__exit__

    def leave_slowly(self, *raised):
        leave(self, *raised)
        time.sleep(0.002)

    monkeypatch.setattr(type(opened.database.begin_write()), "__exit__", leave_slowly)
    fakes.run_concurrently(lambda number: [journal.write(Record("begun", number, 0, {})) for _ in range(10)], 4)
    assert len(list(journal.read())) == 40
