"""`RecordFeed`."""

import threading
import time

from atoll import store
from atoll.journal import Record
from tests.store import workers


def begun(*steps: int) -> list[Record]:
    return [Record("begun", step, 0, {"text": f"\0 {step}"}) for step in steps]


def seqs(rows: list[store.FeedItem | store.Gap]) -> list[int]:
    assert not [item for item in rows if isinstance(item, store.Gap)]
    return [item.seq for item in rows if isinstance(item, store.FeedItem)]


def test_follow_yields_new_records(any_store):
    journal = any_store.journal(any_store.create_run("run"))
    journal.write(*begun(1))
    items = any_store.feed("run").follow(timeout=0.05)
    journal.write(*begun(2, 3))
    assert list(items) == [store.FeedItem(2, begun(2)[0]), store.FeedItem(3, begun(3)[0])]


def test_follow_after_a_record(any_store):
    journal = any_store.journal(any_store.create_run("run"))
    journal.write(*begun(*range(600)))
    feed = any_store.feed("run")
    assert seqs(list(feed.follow(0, timeout=0.0))) == list(range(1, 601))
    assert seqs(list(feed.follow(598, timeout=0.0))) == [599, 600]
    assert feed.get_end() == 600


def test_feeds_of_runs_are_independent(any_store):
    journals = [any_store.journal(any_store.create_run(run)) for run in ("a", "b")]
    items = any_store.feed("a").follow(timeout=0.05)
    for journal in journals:
        journal.write(*begun(1))
    assert len(list(items)) == 1


def test_slow_follower_gets_a_gap(any_store):
    journal, feed = any_store.journal(any_store.create_run("run")), any_store.feed("run")
    journal.write(*begun(*range(5)))
    items = feed.follow(2, timeout=0.05, buffer=3)
    journal.write(*begun(*range(10)))
    rows = list(items)
    gap = store.Gap(6, 12)
    assert [item if isinstance(item, store.Gap) else item.seq for item in rows] == [3, 4, 5, gap, 13, 14, 15]
    assert seqs(list(feed.iter_range(gap.first - 1, gap.last))) == list(range(6, 13))


def test_follow_wakes_for_each_commit(any_store):
    journal = any_store.journal(any_store.create_run("run"))
    items, rows = any_store.feed("run").follow(timeout=60), list[store.FeedItem | store.Gap]()
    follower = threading.Thread(target=lambda: rows.extend(next(items) for _ in range(5)))
    follower.start()
    for step in range(5):
        time.sleep(0.01)
        journal.write(*begun(step))
    follower.join(60)
    assert seqs(rows) == [1, 2, 3, 4, 5]


def test_follow_another_process(url):
    with store.open(url) as opened:
        with workers.running(workers.write_run, url, "run", 30) as (_, pipe):
            pipe.recv()
            items = opened.feed("run").follow(0, timeout=60)
            assert seqs([next(items) for _ in range(30)]) == list(range(1, 31))
        assert len(opened.list_runs()) == 1


def test_follow_continues_after_lost_connections(postgres_url, postgres_server):
    with store.open(postgres_url) as opened:
        journal = opened.journal(opened.create_run("run"))
        items = opened.feed("run").follow(timeout=60)
        journal.write(*begun(1))
        assert seqs([next(items)]) == [1]
        postgres_server.cut(postgres_url)
        journal.write(*begun(2))
        assert seqs([next(items)]) == [2]
