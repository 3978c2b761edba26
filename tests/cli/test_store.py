"""Commands of `store`, and stores on servers and read-only files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from atoll import cli, store
from tests.cli import tasks
from tests.store import mounts, samples


@pytest.fixture
def file(tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as run_store:
        run_store.journal(run_store.create_run("run")).write(*samples.small_run())
        run_store.versions().set("key", "value", "why", "me")
    return path


def test_store_copy_to_server_and_back(file, tmp_path, postgres_url, capsys):
    secret = postgres_url.replace("postgres@", "postgres:hush@")
    assert cli.main(["store", "copy", file, secret]) == 0
    message = capsys.readouterr()
    assert "Copied 1 runs with 16 candidates, 1 changes, 0 events and 0 blobs" in message.out
    assert "hush" not in message.out + message.err
    back = str(tmp_path / "back.db")
    assert cli.main(["store", "copy", secret, back, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert "hush" not in str(output)
    with store.open(file) as one, store.open(back) as other:
        assert list(one.export("run")) == list(other.export("run"))
    for url in (file, postgres_url, back):
        assert cli.main(["store", "check", url, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["runs"], result["hash"], result["wrong"]) == (output["runs"], output["hash"], [])


def test_copy_conflict_prints_one_sentence(file, postgres_url, capsys):
    assert cli.main(["store", "copy", file, postgres_url]) == 0
    capsys.readouterr()
    assert cli.main(["store", "copy", file, postgres_url]) == 2
    message = capsys.readouterr().err.strip()
    assert "has 1 of these runs already, e.g. run. Copy to another store." in message
    assert len(message.splitlines()) == 1


def test_check_reports_damage(file, capsys):
    with store.open(file) as run_store, run_store.database.begin_write() as connection:
        connection.exec_driver_sql("DELETE FROM records WHERE seq = 3")
    assert cli.main(["store", "check", file]) == 1
    assert "Run run has 17 records, but the last one has number 18." in capsys.readouterr().err


def test_missing_store_is_neither_copied_nor_checked(tmp_path, capsys):
    for verb in (["copy", str(tmp_path / "none.db"), str(tmp_path / "to.db")], ["check", str(tmp_path / "none.db")]):
        assert cli.main(["store", *verb]) == 2
        assert "not found" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_upgrade_of_current_store_changes_nothing(file, postgres_server, capsys):
    assert cli.main(["store", "upgrade", file]) == 0
    assert "has schema 3, unchanged." in capsys.readouterr().out
    with postgres_server.database(is_empty=True) as url:
        assert cli.main(["store", "upgrade", url]) == 0
    assert "has schema 3, created." in capsys.readouterr().out


def test_run_on_server_never_shows_password(tmp_path, postgres_url, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATOLL_STORE", postgres_url.replace("postgres@", "postgres:hush-hush@"))
    tasks.make(tmp_path / "task")
    for verb in (
        ["run", "task", "--iterations", "6", "--deterministic"],
        ["resume", "latest", "--iterations", "9"],
        ["list"],
        ["best", "latest"],
        ["lineage", "latest"],
        ["export", "latest", "--format", "csv"],
        ["report", "latest"],
        ["params", "set", "alpha", "0.5", "-m", "a start"],
        ["audit", "verify"],
    ):
        assert cli.main(verb) == 0, verb
    message = capsys.readouterr()
    assert "hush-hush" not in message.out + message.err
    assert sorted(item.name for item in tmp_path.iterdir()) == ["task"]
    with psycopg.connect(postgres_url) as raw:
        for table in ("runs", "records", "changes", "commands"):
            result = raw.execute(f"SELECT count(*) FROM {table} AS t WHERE t::text LIKE '%hush-hush%'".encode())
            assert result.fetchone() == (0,)
    with store.open(postgres_url) as run_store:
        (run,) = run_store.list_runs()
        assert len(list(run_store.journal(run.id).read_kinds("applied"))) >= 9


@pytest.mark.parametrize("address", ["postgresql://me:hush-hush@127.0.0.1:1/runs", "postgresql://me:hush-hush@/r?x=y"])
def test_unreachable_server_prints_one_sentence(address, capsys):
    assert cli.main(["list", "--store", address]) == 2
    message = capsys.readouterr().err.strip()
    assert message.startswith("atoll: ")
    assert len(message.splitlines()) == 1
    assert "hush-hush" not in message


class TestReadonlyStore:
    @staticmethod
    def run(folder, *verb, program=("-m", "atoll")):
        """Runs a verb, or a program with arguments, to which a folder or a file is read-only."""
        inner = [sys.executable, "-P", *program, *verb]
        done = subprocess.run(mounts.read_only(folder, *inner), capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    @pytest.fixture(params=["its folder", "the file"])
    def atoll(self, request, file):
        folder = Path(file).parent if request.param == "its folder" else Path(file)
        return lambda *verb, **options: self.run(folder, *verb, "--store", file, **options)

    def test_inspect_commands_work(self, atoll, file, capsys):
        verbs = [["list"], ["best", "run"], ["lineage", "run"], ["params", "get", "key"]]
        lines = ["import sys", "from atoll import cli", f"for verb in {verbs!r}:"]
        lines += ["    print('status', cli.main([*verb, *sys.argv[1:]]))"]  # one process: most of its time is imports
        for verb in verbs:
            print("status", cli.main([*verb, "--store", file]))
        status, out, err = atoll(program=("-c", "\n".join(lines)))
        assert (status, out) == (0, capsys.readouterr().out), err
        assert out.count("status 0\n") == len(verbs)

    def test_read_during_writes(self, atoll, file):
        with store.open(file) as run_store:
            run_store.create_run("another")
            status, out, err = atoll("list")
        assert (status, "another" in out) == (0, True), err

    def test_unreadable_write_ahead_log_fails(self, file, tmp_path):
        left = tmp_path / "left"
        left.mkdir()
        with store.open(file) as run_store:
            run_store.create_run("another")
            shutil.copy(file, left)
            shutil.copy(f"{file}-wal", left)
        status, out, err = self.run(left, "list", "--store", str(left / "atoll.db"))
        assert (status, out) == (2, "")
        assert "cannot be opened. Use a file in an existing folder with write permission." in err

    def test_writing_command_fails(self, atoll):
        status, _, err = atoll("params", "set", "key", "other", "-m", "why")
        assert (status, "is read-only" in err, len(err.strip().splitlines())) == (1, True, 1), err
