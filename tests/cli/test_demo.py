"""Command `demo`."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

import atoll
from atoll import cli, errors, store
from atoll.cli.run import start
from tests import processes
from tests.cli import terminals


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_finds_the_law(capsys):
    assert cli.main(["demo", "--seconds", "110"]) == 0  # a busy machine may need more than the default
    output = capsys.readouterr()
    assert "Done (score 0 reached) after" in output.out
    assert re.search(r"initial +-9\.5297", output.out)
    assert re.search(r"best +0 ", output.out)
    assert re.search(r"a car in town +1,200 +14 +117,600\n", output.err)


def test_demo_json_is_one_object_on_stdout(capsys):
    assert cli.main(["demo", "--iterations", "80", "--json"]) == 0
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert result["status"] == "done"
    assert result["best_score"] > result["initial_score"]
    assert f"Saved as run {result['run']} in atoll.db." in output.err


def test_demo_is_deterministic(capsys, folder):
    for _ in range(2):
        assert cli.main(["demo", "--iterations", "60", "--store", "kept.db", "--json"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    with store.Store("kept.db") as run_store:
        assert list(run_store.export(first["run"])) == list(run_store.export(second["run"]))
    assert [path.name for path in folder.iterdir()] == ["kept.db"]


def test_demo_stops_after_seconds(capsys):
    assert cli.main(["demo", "--seed", "12", "--seconds", "0.5"]) == 0
    assert "(budget of 0.5 seconds used) after" in capsys.readouterr().out


def test_iterations_are_printed_in_order_with_several_workers():
    output = terminals.in_a_pipe("demo", "--seconds", "4", "--workers", "4")
    numbers = [int(number.replace(",", "")) for number in re.findall(r" s  iteration +([\d,]+)", output.stderr)]
    assert len(numbers) > 2
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(("iterations", "last_verb"), [("30", "lineage"), ("1", "resume")])
def test_next_commands_work(iterations, last_verb):
    output = terminals.in_a_pipe("demo", "--iterations", iterations)
    assert output.returncode == 0, output.stderr
    commands = [line.split(":", 1)[1] for line in output.stdout.splitlines()[-2:]]
    for verb, command in zip(("best", last_verb), commands, strict=True):
        assert verb in shlex.split(command)
    for command in commands:
        python, *arguments = shlex.split(command)
        assert python == sys.executable
        result = processes.run(arguments)
        assert result.returncode == 0, result.stderr
        assert result.stdout


@pytest.mark.parametrize("columns", [80, 200])
def test_live_table_fits_terminal(columns):
    status, written = terminals.on_a_terminal("demo", "--iterations", "20", columns=columns)
    assert status == 0
    plain = terminals.without_codes(written)
    assert re.search(r"island +resets +best +iteration", plain)
    table = [line for line in plain.splitlines() if re.match(r" +\d+ +\d+ +-?\d", line)]
    assert table
    assert max(len(line.rstrip()) for line in table) <= columns
    assert "\x1b[1;32m" in written


def test_no_color_is_respected():
    _, written = terminals.on_a_terminal("demo", "--iterations", "10", columns=80, NO_COLOR="1")
    assert "resets" in terminals.without_codes(written)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", written)


def test_examples_dir_of_checkout_and_installed_package(folder, monkeypatch):
    assert start.get_examples_dir() == Path(__file__).resolve().parents[2] / "examples"
    package = folder / "lib" / "site-packages" / "atoll"
    (package / "examples").mkdir(parents=True)
    monkeypatch.setattr(atoll, "__file__", str(package / "__init__.py"))
    assert start.get_examples_dir() == package / "examples"
    (package / "examples").rmdir()
    with pytest.raises(errors.SetupError, match="Install Atoll again"):
        start.get_examples_dir()
