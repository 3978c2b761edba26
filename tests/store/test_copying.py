"""Stores copied into each other: the same in the end, or untouched."""

import pytest

from atoll import errors, governed, store
from atoll.store import event_streams, transfer
from atoll.store.versions import audit
from atoll.store.versions.errors import ChainBroken
from tests.store import samples, workers

ODD = "\0 and \ud800 and 日本 "


def fill(kept: store.Store) -> None:
    """Leaves something of every kind."""
    for run, content in (("first", ODD), ("second", ODD * 5000)):
        journal = kept.journal(kept.create_run(run, {"seed": 7, "prompt": content}))
        journal.write(*samples.small_run(), samples.judged("11.0", 1 / 3, content=content))
        kept.inbox(run).post("set", temperature=0.5, note=content)
    parameters = governed.StoredParameters(kept)
    for number, value in enumerate((1, ODD * 5000, [0.1, None])):
        parameters.set("key", value, "because", author="ann", token=f"token/{number}")
    parameters.alias("key", "production", 2, "tried", author="ann")
    parameters.lock("key", "frozen", author="bob")
    parameters.note("key", "approve", {"by": "ann"}, "fine", author="ann")
    kept.blobs().put(bytes(range(256)) * 100)
    log = event_streams.EventStream(kept.database, "log")
    log.append(
        [
            event_streams.StreamEvent(10**15 + number // 2, f"entity {number % 3}", "name", f'"{number}"')
            for number in range(9)
        ]
    )


def seen(kept: store.Store) -> list[object]:
    """Returns what users can see of a store."""
    runs = [(run, list(kept.export(run.id)), list(kept.journal(run.id).read())) for run in kept.list_runs()]
    inboxes = [list(kept.inbox(run.id).read(0)) for run in kept.list_runs()]
    changes = [audit.format_line(each) for each in kept.versions().ledger.iter_entries()]
    moments = [
        (each.timestamp, each.data) for each in event_streams.EventStream(kept.database, "log").iter_between(0, 10**16)
    ]
    best = [kept.candidates(run.id).list_best(3) for run in kept.list_runs()]
    return [runs, inboxes, changes, moments, best, kept.blobs().get(kept.blobs().put(bytes(range(256)) * 100).sha256)]


@pytest.fixture
def both(request, postgres_url, tmp_path):
    """Two stores of different kinds; the first has something of everything."""
    urls = [str(tmp_path / "atoll.db"), postgres_url]
    with store.open(urls[0]) as file, store.open(urls[1]) as served:
        pair = (file, served) if request.param == "to postgres" else (served, file)
        fill(pair[0])
        yield pair


WAYS = pytest.mark.parametrize("both", ["to postgres", "from postgres"], indirect=True)


@WAYS
def test_a_copy_is_the_same_to_everybody(both):
    source, target = both
    before = list(source.export("second"))
    told = transfer.copy_store(source.database, target.database)
    assert seen(target) == seen(source)
    assert "\n".join(target.export("second")).encode() == "\n".join(before).encode()
    assert [(run.run, run.records, run.candidates, run.commands) for run in told.runs] == [
        ("first", 19, 17, 1),
        ("second", 19, 17, 1),
    ]
    assert (told.changes, told.moments) == (6, 9)
    with source.database.snapshot() as old, target.database.snapshot() as new:
        for connection in (old, new):
            found = [transfer.hash_run(connection, number, run) for number, *run in transfer.list_run_rows(connection)]
            assert found == told.runs
            assert transfer.find_damage(connection) == []


@WAYS
def test_life_goes_on_in_a_copy(both):
    source, target = both
    transfer.copy_store(source.database, target.database)
    with target.lock_run("second"):
        target.journal("second").write(samples.judged("12.0", 2.0))
    target.create("third")
    governed.StoredParameters(target).set("other", 1, "because", author="ann")
    event_streams.EventStream(target.database, "log").append([event_streams.StreamEvent(1, "entity", "name", "1")])
    assert [run.id for run in target.runs()] == ["third", "second", "first"]
    assert audit.verify(target.versions().ledger.entries()).seq == 7


@WAYS
def test_runs_are_added_to_others_and_a_chain_goes_on(both, tmp_path):
    source, target = both
    target.journal(target.create("other")).write(*samples.small_run())
    with store.open(tmp_path / "young.db") as young:  # what the source was before its parameters were frozen
        for entry in list(source.versions().ledger.entries())[:2]:
            parameters = governed.StoredParameters(young)
            parameters.ledger.apply(
                store.ChangeRequest(
                    kind="set", key=entry.key, value=entry.value, reason=entry.reason, author=entry.author,
                    token=entry.token, timestamp=entry.at,
                )
            )  # fmt: skip
        transfer.copy_store(young.database, target.database)
    transfer.copy_store(source.database, target.database)
    assert [run.id for run in target.runs()] == ["second", "first", "other"]
    assert list(target.export("other")) == list(target.export("first"))[:-1]
    assert audit.verify(target.versions().ledger.entries()).seq == 6


@WAYS
def test_what_clashes_is_refused_and_changes_nothing(both):
    source, target = both
    target.create("second")
    with pytest.raises(errors.SetupError, match="has 1 of these runs already, second first"):
        transfer.copy_store(source.database, target.database)
    assert [run.id for run in target.runs()] == ["second"]
    assert target.versions().list() == []


@WAYS
def test_two_chains_do_not_become_one(both):
    source, target = both
    target.versions().set("key", "own", "why", "me")
    with pytest.raises(errors.SetupError, match="has 1 changes of its own"):
        transfer.copy_store(source.database, target.database)
    assert not target.runs()


@WAYS
def test_a_stream_of_the_same_name_is_refused(both):
    source, target = both
    event_streams.EventStream(target.database, "log").append([event_streams.StreamEvent(1, "entity", "name", "1")])
    with pytest.raises(errors.SetupError, match="has a stream log already"):
        transfer.copy_store(source.database, target.database)
    assert not target.runs()


@WAYS
def test_a_source_that_is_damaged_leaves_the_target_as_it_was(both):
    source, target = both
    with source.database.begin_write() as connection:
        connection.exec_driver_sql("UPDATE changes SET reason = 'another one' WHERE seq = 2")
    with pytest.raises(ChainBroken):
        transfer.copy_store(source.database, target.database)
    assert not target.runs()
    assert target.versions().list() == []


@WAYS
def test_a_copy_that_is_killed_leaves_nothing(both):
    source, target = both
    urls = [each.database.name for each in both]
    with workers.running(workers.copy_and_die, *urls) as (process, _):
        process.join(60)
        assert process.exitcode == -9
    assert not target.runs()
    transfer.copy_store(source.database, target.database)
    assert seen(target) == seen(source)


@WAYS
def test_it_has_one_moment_while_others_write(both):
    source, target = both
    journal, wrote = source.journal("second"), list[str]()

    def write(done: str) -> None:
        if not wrote:
            journal.write(samples.judged("12.0", 2.0))
            source.create("late")
        wrote.append(done)

    told = transfer.copy_store(source.database, target.database, write)
    assert [(run.run, run.records) for run in told.runs] == [("first", 19), ("second", 19)]
    assert source.candidates("second").count() == 18
    assert target.candidates("second").count() == 17


def test_a_shared_run_goes_on_in_a_copy_and_owes_what_it_owed(tmp_path):
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
        standing = again.renew()
        assert (standing.num_open, standing.free) == (1, (0,))  # whoever leads it in the source does not do so here
        assert again.acquire([-1, 0, 1]) == [-1, 0]
        assert again.tokens[0] == held.tokens[0] + 1
        journal = store.SharedJournal(again)
        journal.write(samples.judged("2.0", 1.0))
        assert journal.usage.evaluations == 2
        store.SharedJournal(held).write(samples.judged("2.0", 1.0))


def test_a_store_is_not_copied_into_itself(opened):
    with store.open(opened.database.name) as again, pytest.raises(errors.SetupError, match="one and the same store"):
        transfer.copy_store(opened.database, again.database)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("DELETE FROM records WHERE seq = 2 AND run = 1", "has 18 records, and its last is number 19"),
        ("DELETE FROM records WHERE seq = 19 AND run = 1", "candidates without the records"),
        ("UPDATE blobs SET body = 'x', is_compressed = (1 = 0)", "is damaged"),
    ],
)  # fmt: skip
def test_what_is_lost_or_damaged_is_found(opened, statement, sentence):
    fill(opened)
    with opened.database.begin_write() as connection:
        connection.exec_driver_sql(statement)
    with opened.database.snapshot() as connection:
        assert any(sentence in each for each in transfer.find_damage(connection))
