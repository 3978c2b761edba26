"""Seals of runs: every changed row is found, and stores without seals still open."""

import random
import zlib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from atoll import journal, store
from atoll.store import transfer
from atoll.store.database.database import Database

NUM_FLIPS = 1000
TABLES = {
    "runs": ("id", "created_at", "config", "links"),
    "records": ("run", "seq", "kind", "step", "island", "data", "links"),
    "candidates": ("step", "k", "is_draft", "island", "seq", "score", "verdict", "version", "decision", "decided"),
    "commands": ("run", "number", "kind", "data", "links"),
    "blobs": ("sha256", "size", "is_compressed", "body"),
    "seals": ("run", "part", "last", "first", "hash"),
}


def write_run(run_store: store.Store) -> str:
    run_id = run_store.create_run(config={"folder": "x" * 20, "note": "long " * 1000})
    run_journal = run_store.journal(run_id)
    for step in range(3):
        evaluated = {"id": f"{step}.0", "content": f"x = {step}", "evaluation": {"score": step / 3, "metrics": {}}}
        decided = {"children": [{"id": f"{step}.0", "decision": ["accept", "better", "gate", None]}]}
        run_journal.write(
            journal.Record("judged", step, 0, {**evaluated, "output": "y" * (20_000 if step == 1 else 10)})
        )
        run_journal.write(journal.Record("applied", step, 0, decided), journal.Record("noted", step, -1, {"n": step}))
    run_store.inbox(run_id).post("pause")
    run_store.inbox(run_id).post("set", settings={"workers": 2})
    return run_id


def find_damage(database: Database) -> list[str]:
    with database.begin_snapshot() as connection:
        return list(transfer.find_damage(connection))


def change(value: Any, generator: random.Random) -> Any:
    """Changes one byte of a text or of bytes, or one bit of a number."""
    if value is None:
        return "x"
    if isinstance(value, str | bytes):
        raw = bytearray(value.encode() if isinstance(value, str) else value)
        if not raw:
            return "x"
        index = generator.randrange(len(raw))
        raw[index] = (raw[index] + generator.randrange(1, 90)) % 128
        return raw.decode("latin-1") if isinstance(value, str) else bytes(raw)
    return value + generator.choice([-1, 1, 2]) if isinstance(value, float | int) else not value


def is_same_content(old: bytes, new: bytes) -> bool:
    """Returns whether the change is in bits that zlib ignores."""
    try:
        return zlib.decompress(old) == zlib.decompress(new)
    except zlib.error:
        return False


def find_key(connection: Connection, table: str, number: int) -> tuple[str, dict[str, Any]]:
    """Returns the condition and the values that select one row by its primary key."""
    columns = connection.execute(text(f"SELECT name FROM pragma_table_info('{table}') WHERE pk > 0")).scalars().all()
    names = ", ".join(f'"{name}"' for name in columns)
    row = connection.execute(text(f"SELECT {names} FROM {table} ORDER BY {names} LIMIT 1 OFFSET {number}")).one()
    return " AND ".join(f'"{name}" = :key{index}' for index, name in enumerate(columns)), {
        f"key{index}": value for index, value in enumerate(row)
    }


@pytest.mark.statistical
def test_every_changed_byte_of_a_run_is_found(tmp_path: Path) -> None:
    with store.open(str(tmp_path / "atoll.db")) as run_store:
        write_run(run_store)
        database = run_store.database
        assert find_damage(database) == []
        generator, missed = random.Random(5), list[str]()
        with database.begin_write() as connection:
            numbers = {
                name: range(connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one()) for name in TABLES
            }
            connection.execute(text("PRAGMA defer_foreign_keys = ON"))
            for number in range(NUM_FLIPS):
                name = generator.choice(list(TABLES))
                column, number_of_row = generator.choice(TABLES[name]), generator.choice(numbers[name])
                where, key = find_key(connection, name, number_of_row)
                old = connection.execute(text(f'SELECT "{column}" FROM {name} WHERE {where}'), key).scalar_one()
                new = change(old, generator)
                if new == old or (column == "body" and is_same_content(old, new)):
                    continue
                savepoint = connection.begin_nested()
                statement = text(f'UPDATE OR REPLACE {name} SET "{column}" = :new WHERE {where}')
                connection.execute(statement, {**key, "new": new})
                if not transfer.find_damage(connection):
                    missed.append(f"{number}: {name}.{column} {old!r:.60} -> {new!r:.60}")
                savepoint.rollback()
        assert missed == [], "\n".join(missed)


def test_removed_and_added_rows_are_found(tmp_path: Path) -> None:
    with store.open(str(tmp_path / "atoll.db")) as run_store:
        write_run(run_store)
        for statement in (
            "DELETE FROM records WHERE seq = 9",
            "DELETE FROM records WHERE seq = 5",
            "DELETE FROM candidates WHERE step = 2",
            "DELETE FROM commands WHERE number = 2",
            "DELETE FROM seals WHERE last = 3",
            "INSERT INTO records VALUES (1, 10, 'noted', 0, 0, '{}', NULL, NULL)",
            "UPDATE records SET seq = 50 WHERE seq = 9",
        ):
            with run_store.database.begin_write() as connection:
                savepoint = connection.begin_nested()
                changed = connection.execute(text(statement)).rowcount
                problems = transfer.find_damage(connection)
                savepoint.rollback()
            assert problems or not changed, statement


@pytest.mark.parametrize("part", ["run", "records", "commands"])
def test_part_whose_seals_were_all_removed_is_found(tmp_path: Path, part: str) -> None:
    with store.open(str(tmp_path / "atoll.db")) as run_store:
        run_id = write_run(run_store)
        with run_store.database.begin_write() as connection:
            connection.execute(text("DELETE FROM seals WHERE part = :part"), {"part": part})
        name = "configuration" if part == "run" else part
        assert find_damage(run_store.database) == [f"Run {run_id}: its {name} lost the seals."]


@pytest.mark.parametrize("number", ["'abc'", "x'00'", "2.5", str(2**62), str(-(2**62))])
@pytest.mark.parametrize("column", ["first", "last"])
@pytest.mark.parametrize("row", [1, 9])
def test_seal_with_any_number_is_found(tmp_path: Path, column: str, number: str, row: int) -> None:
    with store.open(str(tmp_path / "atoll.db")) as run_store:
        write_run(run_store)
        with run_store.database.begin_write() as connection:
            condition = f"part = 'records' AND last = {row}"
            connection.execute(text(f'UPDATE seals SET "{column}" = {number} WHERE {condition}'))
        assert find_damage(run_store.database)


def test_runs_of_earlier_versions_are_said_to_be_unchained(tmp_path: Path) -> None:
    with store.open(str(tmp_path / "atoll.db")) as run_store:
        run_id = write_run(run_store)
        with run_store.database.begin_write() as connection:
            connection.execute(text("DROP TABLE seals"))
        runs = list[transfer.RunContents]()
        with run_store.database.begin_snapshot() as connection:
            assert not transfer.find_damage(connection, runs.append)
        assert runs[0].unchained == runs[0].records == 9
        run_journal = run_store.journal(run_id)
        list(run_journal.read())
        run_journal.write(journal.Record("noted", 9, 0, {"n": 9}))  # resumed: the chain starts here
        runs.clear()
        with run_store.database.begin_snapshot() as connection:
            assert not transfer.find_damage(connection, runs.append)
        assert runs[0].unchained == 9
        with run_store.database.begin_write() as connection:
            connection.execute(text("UPDATE records SET step = 8 WHERE seq = 10"))
        assert find_damage(run_store.database) == [f"Run {run_id}: records 10 to 10 were changed."]


def test_two_writers_continue_one_chain(tmp_path: Path) -> None:
    with store.open(str(tmp_path / "atoll.db")) as run_store, store.open(str(tmp_path / "atoll.db")) as other:
        run_id = run_store.create_run(config={})
        run_store.journal(run_id).write(journal.Record("noted", 1, 0, {}))
        second = other.journal(run_id)
        list(second.read())
        second.write(journal.Record("noted", 2, 0, {}), journal.Record("noted", 3, 0, {}))
        assert find_damage(run_store.database) == []


def test_a_copy_keeps_its_seals(tmp_path: Path) -> None:
    with store.open(str(tmp_path / "a.db")) as source, store.open(str(tmp_path / "b.db")) as target:
        write_run(source)
        transfer.copy_store(source.database, target.database)
        assert find_damage(target.database) == []
        with target.database.begin_write() as connection:
            connection.execute(text("UPDATE records SET data = '{}' WHERE seq = 1"))
        assert find_damage(target.database)


@pytest.mark.parametrize("name", ["seals"])
def test_the_table_is_expected(tmp_path: Path, name: str) -> None:
    with store.open(str(tmp_path / "atoll.db")) as run_store:
        write_run(run_store)
        assert not run_store.find_unexpected_objects()
