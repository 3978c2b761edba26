"""Command `list`, and help of the commands that show runs."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from atoll import store
from atoll.cli.terminal import tables
from tests.cli import apps
from tests.runs import samples


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


def test_list_is_newest_first_and_uncut_in_a_pipe(shell):
    output = shell("list")
    assert output.lines[0].split() == [
        "run",
        "created",
        "system",
        "task",
        "status",
        "initial",
        "best",
        "evaluations",
        "cost",
    ]
    assert [line.split()[0] for line in output.lines[1:]][:2] == ["empty", "hostile"]
    assert output.lines[-1].startswith(samples.LONG_ID)
    assert "\x1b" not in output.out
    assert not output.err


def test_list_shows_status_and_scores(shell):
    line = next(line for line in shell("list").lines if line.startswith("asked "))
    assert line.split()[3:] == ["llmsr", "kinetic_energy", "done", "-9", "-0.25", "5", "$0.0060"]


def test_empty_run_has_dashes(shell):
    lines = {line.split()[0]: line.split() for line in shell("list").lines}
    assert lines["empty"][-5] in ("cut", "crashed")
    assert lines["empty"][-4:] == ["-", "-", "0", "-"]
    assert lines["bare"][3:5] == ["-", "-"]


@pytest.mark.parametrize("columns", [40, 60, 80, 110, 200])
def test_narrow_terminal_drops_columns_but_never_an_id(columns, shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shell("list").lines
    assert lines[-1].startswith(samples.LONG_ID)
    assert all(len(line) <= max(columns, 62) for line in lines)
    assert "best" in lines[0].split()
    assert ("system" in lines[0].split()) == (columns >= 110)


def test_limit_and_note_about_more_runs(shell):
    output = shell("list", "-n", "2")
    assert len(output.lines) == 3
    assert output.err == "2 of 9 runs. Show more with -n.\n"


def test_list_json_is_an_array_of_summaries(shell):
    data = shell("list", "--json").json()
    assert [item["run"] for item in data][-1] == samples.LONG_ID
    assert data[-1]["initial_score"] == -9.0
    assert data[-1]["evaluations"] == 61
    assert {item["status"] for item in data} - {"crashed"} <= {"cut", "done"}


def test_empty_store_prints_how_to_start(capsys, tmp_path):
    path = str(tmp_path / "new.db")
    store.open(path).close()
    shell = apps.Shell(capsys, path)
    output = shell("list")
    assert not output.out
    assert "has no runs yet" in output.err
    assert " run TASK'" in output.err
    assert shell("list", "--json").json() == []


def test_list_creates_no_store(capsys, tmp_path):
    shell = apps.Shell(capsys, str(tmp_path / "none.db"))
    assert "not found" in shell.fail("list")
    assert not list(tmp_path.iterdir())


def test_local_time_is_short_and_old_time_is_a_date():
    assert len(tables.format_local_time(datetime.now(UTC))) == len("11-15 14:22")
    assert tables.format_local_time(datetime(2001, 5, 6, 12, tzinfo=UTC)) == "2001-05-06"


def test_inspect_commands_import_nothing_slow_at_start():
    modules = "atoll.cli.inspect.compare, atoll.cli.run.start, atoll.cli.services.doctor, atoll.cli.govern.rollout"
    program = f"import sys; import {modules}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"sqlalchemy", "rich", "pydantic", "atoll.store", "atoll.cluster"} & set(result.stdout.split())


@pytest.mark.parametrize("verb", apps.VERBS)
def test_help_has_description_and_example(verb, shell):
    output = apps.Output(shell(verb, "--help").out, "")
    assert output.lines[2].startswith("  ")
    assert output.lines[2][2].isupper()
    assert f"  Examples:\n    atoll {verb}" in output.out
