"""File layout: folders of keys, repair, import (G28 to G30)."""

import json
import os
from pathlib import Path
from urllib.parse import unquote

import hypothesis
import pytest
from hypothesis import strategies as st

from atoll import errors, governed
from atoll.governed.errors import ChainBroken, InvalidKey
from atoll.governed.parameters import file_layout

KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=512).filter(str.strip)


@hypothesis.given(KEYS)
def test_folder_name_stays_inside_root(key):
    name = file_layout.folder_name(key)
    root = Path("/srv/parameters")
    assert name not in ("", ".", "..")
    assert os.sep not in name
    assert Path(os.path.normpath(root / name)).parent == root
    assert len(name.encode()) <= 255


@hypothesis.given(KEYS)
def test_short_folder_name_decodes_to_its_key(key):
    name = file_layout.folder_name(key)
    assert file_layout.TRUNCATION_MARK in name or unquote(name) == key


@hypothesis.given(st.lists(KEYS, min_size=2, max_size=8, unique=True))
def test_folder_names_are_unique(keys):
    assert len({file_layout.folder_name(key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("evolve.carrier_risk_penalty/Y-express", "evolve.carrier_risk_penalty%2FY-express"),
        ("a b", "a%20b"),
        ("$&+=:@-_.~", "$&+=:@-_.~"),
        ("日", "%E6%97%A5"),
        ("100%", "100%25"),
        ("a;b,c!d*e'f(g)h", "a%3Bb%2Cc%21d%2Ae%27f%28g%29h"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
    ],
)
def test_keys_are_escaped_like_url_paths(key, name):
    assert file_layout.folder_name(key) == name


def test_files_match_the_documented_layout(tmp_path):
    with governed.FileParameters(tmp_path / "new" / "root") as store:
        store.set("a/b", 0.5, "a start", author="ann")
        store.set("a/b", 0.25, "better", author="bob")
        store.lock("a/b", "frozen", author="ann")
    folder = tmp_path / "new" / "root" / "a%2Fb"
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.json")) == [
        "current.json", "history/v1.json", "history/v2.json", "lock.json"
    ]  # fmt: skip
    current = json.loads((folder / "current.json").read_text())
    assert {name: current[name] for name in ("version", "value", "reason", "author")} == {
        "version": 2, "value": 0.25, "reason": "better", "author": "bob"
    }  # fmt: skip
    assert json.loads((folder / "lock.json").read_text())["reason"] == "frozen"


def test_unlock_removes_lock_file(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
        store.lock("key", "frozen", author="ann")
        store.unlock("key", "thawed", author="ann")
    assert not (tmp_path / "key" / "lock.json").exists()


@pytest.mark.parametrize("key", ["", " ", "x" * 10_000, "日" * 10_000, "a\0b", "\ud800"])
def test_rejected_key_writes_nothing(tmp_path, key):
    with governed.FileParameters(tmp_path) as store, pytest.raises(InvalidKey):
        store.set(key, 1, "because", author="ann")
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("key", [".", "..", "../../etc/passwd", "日" * 300, "/", "a/../../b"])
def test_unusual_keys_stay_inside_root(tmp_path, key):
    root = tmp_path / "root"
    with governed.FileParameters(root) as store:
        store.set(key, 1, "because", author="ann")
    assert [path.name for path in tmp_path.iterdir()] == ["root"]
    with governed.FileParameters(root) as store:
        assert list(store.list()) == [key]


def write_like_go(root: Path, key: str, *values: object, is_lower: bool = False) -> Path:
    """Writes a key with the field names of the original Go program."""
    folder = root / file_layout.folder_name(key)
    (folder / "history").mkdir(parents=True)
    for n, value in enumerate(values, 1):
        row = {"Version": n, "Value": value, "Reason": f"r{n}", "Timestamp": f"2025-01-0{n}T10:00:00.123456789Z"}
        row = {name.lower(): value for name, value in row.items()} if is_lower else row | {"Author": "ann"}
        for path in (folder / "history" / f"v{n}.json", folder / "current.json"):
            path.write_text(json.dumps(row))
    return folder


@pytest.mark.parametrize("is_lower", [False, True])
def test_original_folder_is_imported_with_its_history(tmp_path, is_lower):
    write_like_go(tmp_path, "a/b", 1, 2, is_lower=is_lower)
    write_like_go(tmp_path, "c", {"x": [1]}, is_lower=is_lower)
    with governed.FileParameters(tmp_path) as store:
        assert list(store.list()) == ["a/b", "c"]
        assert [(change.value, change.reason) for change in store.history("a/b")] == [(1, "r1"), (2, "r2")]
        assert store.history("a/b")[0].timestamp.isoformat() == "2025-01-01T10:00:00.123456+00:00"
        assert store.history("c")[0].author == ("unknown" if is_lower else "ann")
        assert store.set("a/b", 3, "ours", author="bob", expected_version=2) == 3
        assert store.verify().seq == 4


def test_missing_version_is_reported(tmp_path):
    folder = write_like_go(tmp_path, "key", 1, 2, 3)
    (folder / "history" / "v2.json").unlink()
    with pytest.raises(errors.SetupError, match="lacks versions"):
        governed.FileParameters(tmp_path)


def test_next_writer_removes_partial_line(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
    log = tmp_path / file_layout.AUDIT_FILE
    full = log.read_bytes()
    log.write_bytes(full + full[: len(full) // 2])
    with governed.FileParameters(tmp_path) as store:
        assert store.get("key") == (1, 1)
        assert store.verify().seq == 1
        store.set("key", 2, "because", author="ann")
        assert store.verify().seq == 2


def remove_newline(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 1)


def test_last_line_without_newline_counts(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
        store.set("new", 2, "because", author="ann")
    remove_newline(tmp_path / file_layout.AUDIT_FILE)
    assert file_layout.verify_folder(tmp_path).seq == 2
    with governed.FileParameters(tmp_path) as store:
        assert store.get("new") == (2, 1)
        store.set("new", 3, "because", author="ann")
        assert store.verify().seq == 3
        remove_newline(tmp_path / file_layout.AUDIT_FILE)  # while the store is open
        store.set("new", 4, "because", author="ann")
        assert store.verify().seq == 4


@pytest.mark.parametrize("count", [0, 1])
def test_truncated_log_is_not_appended_to(tmp_path, count):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
        store.set("key", 2, "because", author="ann")
        log = tmp_path / file_layout.AUDIT_FILE
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:count]))
        with pytest.raises(errors.StoreFailed, match="from a backup"):
            store.set("key", 3, "because", author="ann")


@pytest.mark.parametrize("forged", [False, True])
def test_folders_without_their_log_are_rejected(tmp_path, forged):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
    (tmp_path / file_layout.AUDIT_FILE).unlink()
    if forged:
        (tmp_path / file_layout.LOCK_FILE).unlink()
    with pytest.raises(errors.StoreFailed, match="Restore it from a backup"):
        governed.FileParameters(tmp_path)
    with pytest.raises(ChainBroken, match="not in the log"):
        file_layout.verify_folder(tmp_path)


@pytest.mark.parametrize("name", ["key", "key/history"])
def test_linked_folder_is_rejected_before_writing(tmp_path, name):
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    with governed.FileParameters(root) as store:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(outside)
        with pytest.raises(errors.StoreFailed, match="is a link"):
            store.set("key", 1, "because", author="ann")
        assert list(store.list()) == []
    assert not list(outside.iterdir())


def test_next_writer_restores_unwritten_files(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        (tmp_path / "key").write_text("in the way")
        with pytest.raises(OSError, match="key"):
            store.set("key", 1, "because", author="ann")
        (tmp_path / "key").unlink()
        store.set("other", 1, "because", author="ann")
        assert store.verify().seq == 2
    assert (tmp_path / "key" / "current.json").exists()


def test_next_writer_restores_files_of_crashed_writer(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
        store.set("key", 2, "because", author="ann")
    folder = tmp_path / "key"
    (folder / "current.json").write_bytes((folder / "history" / "v1.json").read_bytes())
    (folder / "history" / "v2.json").unlink()
    with governed.FileParameters(tmp_path) as store:
        assert store.verify().seq == 2
        store.set("other", 1, "because", author="ann")
    assert json.loads((folder / "current.json").read_text())["version"] == 2
    assert (folder / "history" / "v2.json").exists()


def test_damaged_line_stops_readers_and_writers(tmp_path):
    with governed.FileParameters(tmp_path) as store:
        store.set("key", 1, "because", author="ann")
        store.set("key", 2, "because", author="ann")
    log = tmp_path / file_layout.AUDIT_FILE
    log.write_bytes(log.read_bytes().replace(b"because", b"bec\nuse", 1))
    with governed.FileParameters(tmp_path) as store, pytest.raises(errors.StoreFailed, match="audit verify"):
        store.get("key")
