"""A run that is followed while it is written."""

import threading
import time

from atoll import store
from atoll.journal import Record
from tests.store import workers


def begun(*steps: int) -> list[Record]:
    return [Record("begun", step, 0, {"text": f"\0 {step}"}) for step in steps]


def seqs(found: list[store.FeedItem | store.Gap]) -> list[int]:
    assert not [each for each in found if isinstance(each, store.Gap)]
    return [each.seq for each in found if isinstance(each, store.FeedItem)]


def test_it_yields_what_comes_from_the_call_on(either):
    journal = either.journal(either.create("run"))
    journal.write(*begun(1))
    news = either.feed("run").follow(timeout=0.05)
    journal.write(*begun(2, 3))
    assert list(news) == [store.FeedItem(2, begun(2)[0]), store.FeedItem(3, begun(3)[0])]


def test_it_goes_on_behind_what_was_seen(either):
    journal = either.journal(either.create("run"))
    journal.write(*begun(*range(600)))
    feed = either.feed("run")
    assert seqs(list(feed.follow(0, timeout=0.0))) == list(range(1, 601))
    assert seqs(list(feed.follow(598, timeout=0.0))) == [599, 600]
    assert feed.end() == 600


def test_runs_are_followed_apart(either):
    journals = [either.journal(either.create(run)) for run in ("a", "b")]
    news = either.feed("a").follow(timeout=0.05)
    for journal in journals:
        journal.write(*begun(1))
    assert len(list(news)) == 1


def test_a_slow_follower_is_told_of_what_it_missed(either):
    journal, feed = either.journal(either.create("run")), either.feed("run")
    journal.write(*begun(*range(5)))
    news = feed.follow(2, timeout=0.05, buffer=3)
    journal.write(*begun(*range(10)))
    found = list(news)
    gap = store.Gap(6, 12)
    assert [each if isinstance(each, store.Gap) else each.seq for each in found] == [3, 4, 5, gap, 13, 14, 15]
    assert seqs(list(feed.between(gap.first - 1, gap.last))) == list(range(6, 13))


def test_it_wakes_for_each_of_several_commits(either):
    journal = either.journal(either.create("run"))
    news, found = either.feed("run").follow(timeout=60), list[store.FeedItem | store.Gap]()
    follower = threading.Thread(target=lambda: found.extend(next(news) for _ in range(5)))
    follower.start()
    for step in range(5):
        time.sleep(0.01)
        journal.write(*begun(step))
    follower.join(60)
    assert seqs(found) == [1, 2, 3, 4, 5]


def test_it_hears_what_another_process_writes(url):
    with store.open(url) as opened:
        with workers.running(workers.write_run, url, "run", 30) as (_, pipe):
            pipe.recv()
            news = opened.feed("run").follow(0, timeout=60)
            assert seqs([next(news) for _ in range(30)]) == list(range(1, 31))
        assert len(opened.list_runs()) == 1


def test_it_goes_on_when_the_server_has_cut_all_connections(postgres_url, postgres_server):
    with store.open(postgres_url) as opened:
        journal = opened.journal(opened.create_run("run"))
        news = opened.feed("run").follow(timeout=60)
        journal.write(*begun(1))
        assert seqs([next(news)]) == [1]
        postgres_server.cut(postgres_url)
        journal.write(*begun(2))
        assert seqs([next(news)]) == [2]
