"""`atoll demo`, as a newcomer sees it and as a program does."""

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import atoll
from atoll import cli, cluster, control, errors, evaluation, function, store
from atoll.cli import demonstration, examples, watching

ATOLL = [sys.executable, "-m", "atoll"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environment(**changes: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return plain | changes


def on_a_terminal(*arguments: str, columns: int, **changes: str) -> str:
    """Runs `atoll` on a terminal of its own and returns all that was written there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ATOLL, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm-256color", COLUMNS=str(columns), LINES="50", **changes),
    )
    os.close(theirs)
    written = b""
    while process.poll() is None or select.select([ours], [], [], 0.0)[0]:
        try:
            written += os.read(ours, 65_536) if select.select([ours], [], [], 0.1)[0] else b""
        except OSError:  # Linux says so when the other side is closed
            break
    os.close(ours)
    assert process.wait() == 0
    return written.decode()


def without_codes(written: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)


def test_it_finds_the_law_and_says_so(capsys):
    assert cli.main(["demo", "--seed", "11"]) == 0
    told = capsys.readouterr()
    assert "An exact formula after" in told.out
    assert re.search(r"start +energy = mass +off by a factor of 23.3\n", told.out)
    assert re.search(r"best +energy = .*speed.* +off by nothing\n", told.out)
    assert "a car in town       1,200           14     117,600" in told.err


def test_in_a_pipe_each_improvement_is_one_line_on_stderr_and_nothing_is_coloured(capsys):
    assert cli.main(["demo", "--steps", "300"]) == 0
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if re.match(r" *\d+\.\d s  step ", line)]
    assert len(lines) > 3
    assert "off by" in lines[0]
    assert "\x1b" not in told.err + told.out
    assert " step " not in told.out


def test_json_is_one_object_on_stdout_and_the_rest_is_on_stderr(capsys):
    assert cli.main(["demo", "--steps", "200", "--json"]) == 0
    told = capsys.readouterr()
    result = json.loads(told.out)
    assert list(result) == ["run", "status", "initial_score", "best_score", "evaluations", "seconds"]
    assert result["status"] == "done"
    assert result["best_score"] > result["initial_score"]
    assert f"Saved as run {result['run']} in atoll.db." in told.err


def test_the_run_is_in_the_store_as_it_was_told(capsys, folder):
    for _ in range(2):
        assert cli.main(["demo", "--steps", "150", "--store", "kept.db", "--json"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    with store.Store("kept.db") as kept:
        assert {run.id for run in kept.runs()} == {first["run"], second["run"]}
        assert kept.candidates(first["run"]).best()[0].score == first["best_score"]
        assert list(kept.export(first["run"])) == list(kept.export(second["run"]))
    assert [path.name for path in folder.iterdir()] == ["kept.db"]


def test_it_stops_when_the_seconds_are_over(capsys):
    assert cli.main(["demo", "--seed", "12", "--seconds", "0.5"]) == 0
    assert "Stopped (0.5 s are over) after" in capsys.readouterr().out


def test_the_next_commands_work_as_they_stand(capsys):
    assert cli.main(["demo", "--steps", "1"]) == 0
    commands = [line.split(":", 1)[1] for line in capsys.readouterr().out.splitlines()[-2:]]
    assert len(commands) == 2
    result = subprocess.run(shlex.split(commands[1]), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    result = subprocess.run([*ATOLL, "demo", "--steps", "1"], capture_output=True, text=True, check=True)
    again = next(line for line in result.stdout.splitlines() if "another way" in line).split(":", 1)[1]
    result = subprocess.run(shlex.split(again + " --steps 1"), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_a_table_of_the_islands_that_fits(columns):
    written = on_a_terminal("demo", "--steps", "400", columns=columns)
    plain = without_codes(written)
    assert "island  resets  best is off by" in plain
    assert re.search(r"     8       0  .*energy = ", plain)
    assert re.search(r"400 steps   [\d,]+ steps/s   \d+ judged", plain)
    table = [line for line in plain.splitlines() if re.match(r" +\d+ +\d+  ", line)]
    assert max(len(line.rstrip()) for line in table) <= columns
    assert "\x1b[1;32m" in written


def test_no_color_is_respected_on_a_terminal():
    written = on_a_terminal("demo", "--steps", "100", columns=80, NO_COLOR="1")
    assert "island  resets" in without_codes(written)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", written)


def test_ctrl_c_once_saves_and_ends_well():
    process = subprocess.Popen(
        [*ATOLL, "demo", "--seed", "12", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while " step " not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["status"] == "interrupted"
    assert "Traceback" not in err
    with store.Store("atoll.db") as kept:
        assert kept.candidates(result["run"]).count() > 0
        assert list(kept.journal(result["run"]).read())[-1].kind == "ended"


class Sleeper:
    """An engine that takes a while."""

    def propose(self, task: function.Task) -> list[function.Function]:
        time.sleep(1.5)
        return []


class Impatient:
    """Presses Ctrl-C at the first sight of a run, and once more soon after."""

    def refresh(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        threading.Timer(0.2, signal.pthread_kill, [main, signal.SIGINT]).start()
        raise KeyboardInterrupt

    def __enter__(self) -> "Impatient":
        return self

    def __exit__(self, *raised: object) -> None:
        pass


def test_ctrl_c_twice_does_not_wait_for_the_steps_at_work():
    def judge(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        return evaluation.Evaluation(0.0)

    start = function.DefaultFunction(function.DefaultFunctionProps(function.Text("x"), judge=judge))
    islands, budget = cluster.IslandConfig(1, 1, start, Sleeper()), control.Budget(iterations=2)
    evolver = cluster.Evolver(cluster.EvolverConfig(islands, budget=budget))
    since = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        demonstration.follow(evolver, Impatient(), 60.0, Console(stderr=True))
    assert time.monotonic() - since < 1.4
    evolver.stop()


def test_the_examples_are_found_beside_a_checkout_and_inside_an_installed_package(folder, monkeypatch):
    assert examples.examples_dir() == Path(__file__).resolve().parents[2] / "examples"
    package = folder / "lib" / "site-packages" / "atoll"
    (package / "examples").mkdir(parents=True)
    monkeypatch.setattr(atoll, "__file__", str(package / "__init__.py"))
    assert examples.examples_dir() == package / "examples"
    (package / "examples").rmdir()
    with pytest.raises(errors.SetupError, match="install Atoll again"):
        examples.examples_dir()


@pytest.mark.parametrize(
    ("score", "words"), [(0.0, "nothing"), (-0.01, "0.70%"), (-1.0, "a factor of 2"), (-10.0, "a factor of 1.02e+03")]
)
def test_a_score_is_told_in_words(score, words):
    assert demonstration.off_by(score) == words


def test_a_watch_suits_its_console():
    evolver = examples.load(examples.examples_dir() / "kernel" / "funsearch_clusters.py").build(1)
    terminal, pipe = Console(force_terminal=True, legacy_windows=False), Console(force_terminal=False)
    describe = lambda fn: watching.Words("nothing", "x")  # noqa: E731
    assert isinstance(watching.make_watch(evolver, describe, pipe), watching.Lines)
    is_dumb = os.environ.get("TERM") in ("dumb", "unknown")
    assert isinstance(watching.make_watch(evolver, describe, terminal), watching.Lines if is_dumb else watching.Board)
