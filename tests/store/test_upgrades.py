"""Stores of earlier schema versions."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from atoll import errors, store
from atoll.store.database import schema
from atoll.store.versions import audit

DUMP = Path(__file__).with_name("schema_1.sql").read_text()


@pytest.fixture
def old(path):
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(DUMP)
    return path


def test_schema_1_versions_are_kept(old):
    with store.open(old) as opened:
        versions = opened.versions()
        assert [version[1:] for version in versions.history("a")] == [
            (1, "one", "a start", "ann"),
            (2, "two \ud800", "better", "bob"),
            (3, "one", "worse", "ann"),
        ]
        assert versions.get("b").value == "long text " * 1000
        assert versions.set("a", "one", "again", "ann", token="run/1.0").n == 1
        assert opened.get_run("run").config == {"seed": 7}


def test_schema_1_locks_are_kept(old):
    with store.open(old) as opened:
        versions = opened.versions()
        with pytest.raises(errors.Conflict, match="locked by bob: frozen"):
            versions.set("b", "new", "why", "me")
        assert versions.set("a", "new", "why", "me").n == 4


def test_upgraded_changes_form_a_chain(old):
    with store.open(old) as opened:
        ledger = opened.versions().ledger
        kinds = [(item.key, item.kind) for item in ledger.iter_entries()]
        assert audit.verify(ledger.iter_entries()).seq == 7
    assert kinds == [
        ("a", "set"),
        ("b", "set"),
        ("a", "set"),
        ("a", "set"),
        ("a", "lock"),
        ("a", "unlock"),
        ("b", "lock"),
    ]


def test_upgraded_store_has_the_tables_of_a_new_one(old, tmp_path):
    def tables(path: Path | str) -> dict[str, list[tuple[object, ...]]]:
        with closing(sqlite3.connect(path)) as raw:
            names = [name for (name,) in raw.execute("SELECT name FROM sqlite_master ORDER BY name")]
            return {name: raw.execute(f"PRAGMA table_info({name})").fetchall() for name in names}

    store.open(old).close()
    store.open(tmp_path / "new.db").close()
    rows, expected = tables(old), tables(tmp_path / "new.db")
    assert rows.keys() == expected.keys()
    assert [item[:3] for item in rows["changes"]] == [item[:3] for item in expected["changes"]]
    with closing(sqlite3.connect(old)) as raw:
        assert raw.execute("SELECT schema_version FROM atoll").fetchone() == (schema.VERSION,)
