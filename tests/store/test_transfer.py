"""Copies of stores."""

import pytest

from atoll import errors, governed, store
from atoll.store import event_streams, transfer
from atoll.store.versions import audit
from atoll.store.versions.errors import ChainBroken
from tests.store import samples, workers

ODD = "\0 and \ud800 and 日本 "


def fill(opened_store: store.Store) -> None:
    """Writes data of every kind."""
    for run, content in (("first", ODD), ("second", ODD * 5000)):
        journal = opened_store.journal(opened_store.create_run(run, {"seed": 7, "prompt": content}))
        journal.write(*samples.small_run(), samples.judged("11.0", 1 / 3, content=content))
        opened_store.inbox(run).post("set", temperature=0.5, note=content)
    parameters = governed.StoredParameters(opened_store)
    for number, value in enumerate((1, ODD * 5000, [0.1, None])):
        parameters.set("key", value, "because", author="ann", token=f"token/{number}")
    parameters.alias("key", "production", 2, "tried", author="ann")
    parameters.lock("key", "frozen", author="bob")
    parameters.note("key", "approve", {"by": "ann"}, "fine", author="ann")
    opened_store.blobs().put(bytes(range(256)) * 100)
    log = event_streams.EventStream(opened_store.database, "log")
    log.append(
        [
            event_streams.StreamEvent(10**15 + number // 2, f"entity {number % 3}", "name", f'"{number}"')
            for number in range(9)
        ]
    )


def read_contents(opened_store: store.Store) -> list[object]:
    """Returns the visible contents of a store."""
    runs = [
        (run, list(opened_store.export(run.id)), list(opened_store.journal(run.id).read()))
        for run in opened_store.list_runs()
    ]
    inboxes = [list(opened_store.inbox(run.id).read(0)) for run in opened_store.list_runs()]
    changes = [audit.format_line(item) for item in opened_store.versions().ledger.iter_entries()]
    moments = [
        (item.timestamp, item.data)
        for item in event_streams.EventStream(opened_store.database, "log").iter_between(0, 10**16)
    ]
    best = [opened_store.candidates(run.id).list_best(3) for run in opened_store.list_runs()]
    return [
        runs,
        inboxes,
        changes,
        moments,
        best,
        opened_store.blobs().get(opened_store.blobs().put(bytes(range(256)) * 100).sha256),
    ]


@pytest.fixture
def both(request, postgres_url, tmp_path):
    """Two stores of different kinds; the first has data of every kind."""
    urls = [str(tmp_path / "atoll.db"), postgres_url]
    with store.open(urls[0]) as file, store.open(urls[1]) as served:
        pair = (file, served) if request.param == "to postgres" else (served, file)
        fill(pair[0])
        yield pair


WAYS = pytest.mark.parametrize("both", ["to postgres", "from postgres"], indirect=True)


@WAYS
def test_copy_has_the_same_contents(both):
    source, target = both
    before = list(source.export("second"))
    contents = transfer.copy_store(source.database, target.database)
    assert read_contents(target) == read_contents(source)
    assert "\n".join(target.export("second")).encode() == "\n".join(before).encode()
    assert [(run.run, run.records, run.candidates, run.commands) for run in contents.runs] == [
        ("first", 19, 17, 1),
        ("second", 19, 17, 1),
    ]
    assert (contents.changes, contents.moments) == (6, 9)
    with source.database.begin_snapshot() as old, target.database.begin_snapshot() as new:
        for connection in (old, new):
            run_contents = [
                transfer.hash_run(connection, number, run) for number, *run in transfer.list_run_rows(connection)
            ]
            assert run_contents == contents.runs
            assert transfer.find_damage(connection) == []


@WAYS
def test_copy_can_be_written(both):
    source, target = both
    transfer.copy_store(source.database, target.database)
    with target.lock_run("second"):
        target.journal("second").write(samples.judged("12.0", 2.0))
    target.create_run("third")
    governed.StoredParameters(target).set("other", 1, "because", author="ann")
    event_streams.EventStream(target.database, "log").append([event_streams.StreamEvent(1, "entity", "name", "1")])
    assert [run.id for run in target.list_runs()] == ["third", "second", "first"]
    assert audit.verify(target.versions().ledger.iter_entries()).seq == 7


@WAYS
def test_copy_adds_runs_and_extends_the_chain(both, tmp_path):
    source, target = both
    target.journal(target.create_run("other")).write(*samples.small_run())
    with store.open(tmp_path / "young.db") as young:  # an earlier state of the source
        for entry in list(source.versions().ledger.iter_entries())[:2]:
            parameters = governed.StoredParameters(young)
            parameters.ledger.apply(
                store.ChangeRequest(
                    kind="set", key=entry.key, value=entry.value, reason=entry.reason, author=entry.author,
                    token=entry.token, timestamp=entry.at,
                )
            )  # fmt: skip
        transfer.copy_store(young.database, target.database)
    transfer.copy_store(source.database, target.database)
    assert [run.id for run in target.list_runs()] == ["second", "first", "other"]
    assert list(target.export("other")) == list(target.export("first"))[:-1]
    assert audit.verify(target.versions().ledger.iter_entries()).seq == 6


@WAYS
def test_duplicate_run_is_rejected(both):
    source, target = both
    target.create_run("second")
    with pytest.raises(errors.SetupError, match=r"has 1 of these runs already, e.g. second"):
        transfer.copy_store(source.database, target.database)
    assert [run.id for run in target.list_runs()] == ["second"]
    assert target.versions().list() == []


@WAYS
def test_other_changes_in_the_target_are_rejected(both):
    source, target = both
    target.versions().set("key", "own", "why", "me")
    with pytest.raises(errors.SetupError, match="has 1 other changes"):
        transfer.copy_store(source.database, target.database)
    assert not target.list_runs()


@WAYS
def test_duplicate_stream_is_rejected(both):
    source, target = both
    event_streams.EventStream(target.database, "log").append([event_streams.StreamEvent(1, "entity", "name", "1")])
    with pytest.raises(errors.SetupError, match="has a stream log already"):
        transfer.copy_store(source.database, target.database)
    assert not target.list_runs()


@WAYS
def test_damaged_source_leaves_the_target_unchanged(both):
    source, target = both
    with source.database.begin_write() as connection:
        connection.exec_driver_sql("UPDATE changes SET reason = 'another one' WHERE seq = 2")
    with pytest.raises(ChainBroken):
        transfer.copy_store(source.database, target.database)
    assert not target.list_runs()
    assert target.versions().list() == []


@WAYS
def test_killed_copy_leaves_the_target_unchanged(both):
    source, target = both
    urls = [item.database.name for item in both]
    with workers.running(workers.copy_and_die, *urls) as (process, _):
        process.join(60)
        assert process.exitcode == -9
    assert not target.list_runs()
    transfer.copy_store(source.database, target.database)
    assert read_contents(target) == read_contents(source)


@WAYS
def test_copy_is_a_snapshot(both):
    source, target = both
    journal, wrote = source.journal("second"), list[str]()

    def write(done: str) -> None:
        if not wrote:
            journal.write(samples.judged("12.0", 2.0))
            source.create_run("late")
        wrote.append(done)

    contents = transfer.copy_store(source.database, target.database, write)
    assert [(run.run, run.records) for run in contents.runs] == [("first", 19), ("second", 19)]
    assert source.candidates("second").count() == 18
    assert target.candidates("second").count() == 17


def test_shared_run_continues_in_a_copy(tmp_path):
    with store.open(tmp_path / "old.db") as source, store.open(tmp_path / "new.db") as target:
        target.create_run("other")
        run = source.create_run("shared")
        held = source.leases(run, "ann", 60.0)
        held.create_rows(2)
        held.renew()
        held.acquire(range(-1, 2))
        store.SharedJournal(held).write(samples.judged("1.0", 1.0))
        held.release([1], is_done=True)
        transfer.copy_store(source.database, target.database)
        again = target.leases(run, "bob", 60.0)
        status = again.renew()
        assert (status.num_open, status.free) == (1, (0,))  # owners are not copied
        assert again.acquire([-1, 0, 1]) == [-1, 0]
        assert again.tokens[0] == held.tokens[0] + 1
        journal = store.SharedJournal(again)
        journal.write(samples.judged("2.0", 1.0))
        assert journal.usage.evaluations == 2
        store.SharedJournal(held).write(samples.judged("2.0", 1.0))


def test_store_cannot_be_copied_to_itself(opened):
    with store.open(opened.database.name) as again, pytest.raises(errors.SetupError, match="are the same store"):
        transfer.copy_store(opened.database, again.database)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("DELETE FROM records WHERE seq = 2 AND run = 1", "has 18 records, but the last one has number 19"),
        ("DELETE FROM records WHERE seq = 19 AND run = 1", "candidates whose records are missing"),
        ("UPDATE blobs SET body = 'x', is_compressed = (1 = 0)", "is damaged"),
    ],
)  # fmt: skip
def test_find_damage(opened, statement, sentence):
    fill(opened)
    with opened.database.begin_write() as connection:
        connection.exec_driver_sql(statement)
    with opened.database.begin_snapshot() as connection:
        assert any(sentence in item for item in transfer.find_damage(connection))
