"""Audit log: detection of manipulated logs, files and databases."""

import sqlite3
from contextlib import closing

import pytest

from atoll import governed
from atoll import store as stores
from atoll.governed import errors
from atoll.governed.evidence import log_stores
from atoll.store.versions import audit


def fill(store: governed.Parameters, count: int = 100) -> None:
    """Makes changes of every kind."""
    for number in range(count // 5):
        key = f"key/{number % 3}"
        store.set(key, {"n": number, "text": "日本" * (number % 4)}, f"reason {number}", author="ann")
        store.lock(key, "frozen", author="bob")
        store.unlock(key, "thawed", author="bob")
        store.alias(key, "production", 1, "tried", author="ann")
        store.note(key, "reject", [number], "too bold", author="carol")


def lines(store: governed.Parameters) -> list[str]:
    return [audit.format_line(iter_entry) for iter_entry in store.ledger.iter_entries()]


@pytest.fixture(scope="module")
def log() -> list[str]:
    store = governed.MemoryParameters()
    fill(store)
    return lines(store)


def verify(log: list[str], *anchors: audit.Anchor) -> audit.AuditReport:
    return audit.verify(audit.parse_lines(log), anchors)


def test_verify_accepts_unmodified_log(log):
    assert verify(log).seq == 100


def test_verify_detects_any_flipped_byte_in_100_lines(log):
    missed = []
    last = "0" * 64
    for index, line in enumerate(log):
        body = line.encode()
        for offset in range(len(body)):  # one bit per byte, in turn; lines before it are unchanged and need not be read
            flipped = bytearray(body)
            flipped[offset] ^= 1 << (offset % 8)
            if not _is_detected(bytes(flipped), index + 1, last):
                missed.append((index, offset))
        last = audit.parse_line(line).hash
    assert not missed


def _is_detected(line: bytes, seq: int, last: str) -> bool:
    try:
        result = audit.parse_line(line.decode())
    except (ValueError, TypeError):
        return True
    return result.seq != seq or result.with_hash(last).hash != result.hash


@pytest.mark.parametrize("offset", [0, 1, 100, 5_000, -300, -40, -2, -1])
def test_file_store_detects_flipped_byte(tmp_path, offset):
    with governed.FileParameters(tmp_path) as store:
        fill(store)
        path = tmp_path / "%audit.jsonl"
        body = bytearray(path.read_bytes())
        body[offset] ^= 1
        path.write_bytes(body)
        with pytest.raises(errors.ChainBroken):
            store.verify()


@pytest.mark.parametrize("seq", [1, 13, 26])
def test_verify_detects_every_changed_database_field(tmp_path, seq):
    path = tmp_path / "parameters.db"
    with governed.StoredParameters(path) as store:
        fill(store, 25)
        store.set("long", "x" * 20_000, "long", author="ann")
        with closing(sqlite3.connect(path)) as raw:
            names = [row[1] for row in raw.execute("PRAGMA table_info(changes)")]
            for name in names:
                (before,) = raw.execute(f"SELECT {name} FROM changes WHERE seq = ?", (seq,)).fetchone()
                after = 77 if before is None else f"{before}001"
                index = int(f"{seq}001") if name == "seq" else seq
                raw.execute(f"UPDATE changes SET {name} = ? WHERE seq = ?", (after, seq))
                raw.commit()
                with pytest.raises(errors.ChainBroken):
                    store.verify()
                raw.execute(f"UPDATE changes SET {name} = ? WHERE seq = ?", (before, index))
                raw.commit()
                assert store.verify().seq == 26


@pytest.mark.parametrize("seq", [0, -5, -(2**63)])
def test_verify_detects_row_before_the_first(tmp_path, seq):
    path = tmp_path / "parameters.db"
    with governed.StoredParameters(path) as store:
        fill(store, 10)
        anchor = store.anchor(b"key")
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("CREATE TEMP TABLE forged AS SELECT * FROM changes WHERE seq = 1")
            raw.execute("UPDATE forged SET seq = ?, n = 99, value = '666'", (seq,))
            raw.execute("INSERT INTO changes SELECT * FROM forged")
        with pytest.raises(errors.ChainBroken, match=f"change {seq} is in its place"):
            store.verify([anchor])


def test_verify_detects_changed_blob_of_long_value(tmp_path):
    path = tmp_path / "parameters.db"
    with governed.StoredParameters(path) as store:
        store.set("long", "x" * 20_000, "long", author="ann")
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("UPDATE blobs SET body = ?, is_compressed = 0", (b'"other"',))
        with pytest.raises(errors.ChainBroken):
            store.verify()


def test_verify_detects_removed_line(log):
    for number in range(99):
        with pytest.raises(errors.ChainBroken) as caught:
            verify([*log[:number], *log[number + 1 :]])
        assert caught.value.seq == number + 1


def test_verify_detects_reordered_lines(log):
    for number in range(99):
        swapped = list(log)
        swapped[number], swapped[number + 1] = swapped[number + 1], swapped[number]
        with pytest.raises(errors.ChainBroken):
            verify(swapped)


def test_verify_detects_repeated_and_inserted_lines(log):
    for index in (0, 50, 99):
        with pytest.raises(errors.ChainBroken):
            verify([*log[: index + 1], *log[index:]])


def test_anchor_detects_truncated_log(log):
    full = verify(log)
    anchor = audit.Anchor(full.seq, full.hash, "")
    assert verify(log[:60]).seq == 60, "a chain alone cannot tell"
    with pytest.raises(errors.ChainBroken, match="ends at change 60, but has an anchor for change 100"):
        verify(log[:60], anchor)


def test_anchor_detects_rewritten_log():
    stores = [governed.MemoryParameters() for _ in range(2)]
    for store, value in zip(stores, (1, 2), strict=True):
        store.set("key", value, "because", author="ann")
        store.set("key", 3, "because", author="ann")
    anchor = stores[0].anchor()
    with pytest.raises(errors.ChainBroken, match="rewritten"):
        stores[1].verify([anchor])


def test_signed_anchor_cannot_be_forged():
    store = governed.MemoryParameters()
    store.set("key", 1, "because", author="ann")
    signed = audit.Anchor.parse(store.anchor(b"secret").to_line())
    signed.check_signature(b"secret")
    for forged in (signed._replace(seq=0), signed._replace(hash="1" * 64), signed._replace(signature="")):
        with pytest.raises(errors.ChainBroken):
            forged.check_signature(b"secret")


def test_verify_detects_files_that_differ_from_log(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
        store.set("key", 2, "because", author="ann")
        for name in ("current.json", "history/v1.json"):
            path = tmp_path / "key" / name
            before = path.read_text()
            path.write_text(before.replace('"value": ', '"value": 1'))
            with pytest.raises(errors.ChainBroken):
                store.verify()
            path.write_text(before)
        (tmp_path / "key" / "lock.json").write_text("{}")
        with pytest.raises(errors.ChainBroken, match="lock file"):
            store.verify()


TAMPERED = [
    ("history/v1.json", '"value": 1', '"value": true'),
    ("history/v1.json", '"timestamp": "20', '"timestamp": "19'),
    ("current.json", '"value": 2', '"value": 2.0'),
    ("current.json", '"value": 2', '"Value": 6, "value": 2'),
    ("current.json", '"value": 2', '"value": 6, "value": 2'),
    ("current.json", '"author": "ann"', '"author": "eve"'),
    ("current.json", '"timestamp": "20', '"timestamp": "19'),
    ("current.json", '"key": "key"', '"key": "other"'),
    ("lock.json", '"author": "ann"', '"author": "eve"'),
    ("lock.json", '"timestamp": "20', '"timestamp": "19'),
    ("aliases.json", "1", "2"),
]


@pytest.fixture
def parameters(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
        store.alias("key", "first", 1, "tried", author="ann")
        store.set("key", 2, "because", author="ann")
        store.lock("key", "frozen", author="ann")
        store.set("other", 1, "because", author="ann")
        assert store.verify().seq == 5
        yield store


@pytest.mark.parametrize(("name", "before", "after"), TAMPERED)
def test_verify_detects_reformatted_file(parameters, name, before, after):
    path = parameters.root / "key" / name
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(errors.ChainBroken):
        parameters.verify()


@pytest.mark.parametrize("name", ["history/v1.json", "current.json", "lock.json", "aliases.json"])
def test_verify_detects_missing_and_linked_files(parameters, name):
    path = parameters.root / "key" / name
    path.rename(parameters.root / "moved")
    with pytest.raises(errors.ChainBroken):
        parameters.verify()
    path.symlink_to(parameters.root / "moved")
    with pytest.raises(errors.ChainBroken):
        parameters.verify()


@pytest.mark.parametrize("name", ["ghost/current.json", "ghost/history/v1.json", "key/history/v3.json"])
def test_verify_detects_files_without_log_entry(parameters, name):
    (parameters.root / name).parent.mkdir(parents=True, exist_ok=True)
    (parameters.root / name).write_text('{"version": 3, "value": 1}')
    with pytest.raises(errors.ChainBroken, match=r"ghost|v3\.json"):
        parameters.verify()


PLANTED = {
    "the trigger quiet on changes": "CREATE TRIGGER quiet AFTER INSERT ON changes BEGIN SELECT 1; END",
    "the view better": "CREATE VIEW better AS SELECT * FROM changes",
    "the table beside": "CREATE TABLE beside (x)",
    "the index short on changes": "CREATE INDEX short ON changes (reason)",
    "the changed columns of changes": "ALTER TABLE changes ADD COLUMN twice AS (n * 2)",
    "the view changes": "ALTER TABLE changes RENAME TO hidden; CREATE VIEW changes AS SELECT * FROM hidden",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_verify_detects_planted_database_objects(tmp_path, planted):  # spec 4.1, 4
    with governed.StoredParameters(tmp_path / "s.db") as store:
        fill(store, 10)
    with closing(sqlite3.connect(tmp_path / "s.db")) as file:
        file.executescript(PLANTED[planted])
    with governed.StoredParameters(tmp_path / "s.db") as store:
        assert audit.verify(store.ledger.iter_entries()).seq == 10  # the rows alone are consistent
        with pytest.raises(errors.ChainBroken, match=planted):
            store.verify()


def test_verify_accepts_store_with_logs_runs_and_statistics(tmp_path):
    with stores.open(tmp_path / "s.db") as parameters:
        parameters.journal(parameters.create_run())
        log_stores.SQLLog(parameters)
        governed.StoredParameters(parameters).set("a", 1, "a start", author="ann")
        assert governed.StoredParameters(parameters).verify().seq == 1
    with closing(sqlite3.connect(tmp_path / "s.db")) as file:
        file.execute("ANALYZE")
    with governed.StoredParameters(tmp_path / "s.db") as kept_again:
        assert kept_again.verify().seq == 1
