"""Output of survival runs: episodes in a few words, playbooks as ACE writes them."""

import json
import re

import pytest

from atoll import cli
from atoll.survival import episode_reports
from tests.cli import tasks
from tests.survival.test_build import EXAMPLE


@pytest.fixture(scope="module")
def store_path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("episodes") / "atoll.db")
    assert cli.main(["run", str(EXAMPLE), "--episodes", "2", "--store", path, "-q"]) == 0
    return path


def run_cli(capsys, *arguments):
    capsys.readouterr()
    assert cli.main(list(arguments)) == 0
    return capsys.readouterr()


def test_run_prints_episodes_and_playbook(capsys, tmp_path):
    output = run_cli(capsys, "run", str(EXAMPLE), "--episodes", "2", "--store", str(tmp_path / "a.db"))
    assert "episode 1: " in output.err
    assert re.search(r" ticks, (died of|survived)", output.err)
    assert "    ## TACTICS\n    [tactics-00001] helpful=" in output.out
    assert "{" not in output.err + output.out
    assert max(map(len, output.out.splitlines())) < 200


def test_best_and_show_print_readable_playbook(store_path, capsys):
    best = run_cli(capsys, "best", "latest", "--store", store_path).out
    assert best.startswith("## TACTICS\n[tactics-00001] helpful=")
    for verb in (["show", "latest"], ["show", "latest", "best"], ["report", "latest"]):
        assert "## TACTICS" in run_cli(capsys, *verb, "--store", store_path).out
    assert "+[tactics-00001] " in run_cli(capsys, "diff", "latest", "--store", store_path).out
    assert "episode 2: " in run_cli(capsys, "best", "latest", "-n", "2", "--store", store_path).out


def test_best_writes_json_for_programs(store_path, capsys, tmp_path):
    run_cli(capsys, "best", "latest", "-o", str(tmp_path / "best.json"), "--store", store_path)
    assert "bullets" in json.loads((tmp_path / "best.json").read_text())
    data = json.loads(run_cli(capsys, "best", "latest", "--json", "--store", store_path).out)
    assert "bullets" in json.loads(data["content"])


@pytest.mark.parametrize("content", ["", "no JSON", "[1]", '{"bullets": 1}'])
def test_other_content_is_shown_unchanged(content):
    assert episode_reports.format_candidate(content) == episode_reports.format_one_line(content) == content


def test_empty_playbook_is_named_empty():
    assert (
        episode_reports.format_candidate('{"bullets": []}'),
        episode_reports.format_one_line('{"bullets": []}'),
    ) == ("The playbook is empty.", episode_reports.EMPTY_PLAYBOOK)


@pytest.mark.parametrize("key", ["latest", "playbook/latest"])
def test_playbook_history_counts_changes_of_episode(key, store_path, capsys):
    lines = run_cli(capsys, "playbook", "history", "--key", key, "--store", store_path).out.splitlines()
    version, applied, *_, changes, word = lines[1].split()
    assert (version, word) == ("3", "changes")
    assert int(applied) == int(changes) > 0
    (newest,) = json.loads(run_cli(capsys, "playbook", "history", "-n", "1", "--json", "--store", store_path).out)
    assert newest["counts"]["applied"] == int(applied)


def test_resume_uses_edited_playbook(capsys, tmp_path):
    path, folder = str(tmp_path / "atoll.db"), tmp_path / "files"
    run_cli(capsys, "run", str(EXAMPLE), "--episodes", "1", "--store", path, "-q")
    run_cli(capsys, "playbook", "export", str(folder), "--store", path)
    file = folder / "current" / "recipes.md"
    file.write_text(f"{file.read_text()}- [recipes-00999] helpful=5 harmful=0 :: Honey keeps for years.\n")
    assert ", version 3." in run_cli(capsys, "playbook", "import", str(folder), "--store", path).out
    run_cli(capsys, "resume", "latest", "--iterations", "1", "--store", path, "-q")
    assert "Honey keeps" in run_cli(capsys, "playbook", "show", "--store", path).out
    lines = run_cli(capsys, "playbook", "history", "--store", path).out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["4", "3", "2", "1"]


@pytest.mark.parametrize(
    ("permission", "message"),
    [("write", "sandbox none: task.permission=write runs no commands."), ("run", "sandbox L")],
)
def test_run_header_names_sandbox_of_os_world(permission, message, capsys, tmp_path):
    task = tmp_path / "task"
    task.mkdir()
    (task / "atoll.toml").write_text('system = "survival"\n[task]\nenv = "os"\n[survival]\nmax_turns = 1\n')
    options = ["--store", str(tmp_path / "a.db"), "--unsafe"]
    err = run_cli(capsys, "run", str(task), "--episodes", "1", "--set", f"permission={permission}", *options).err
    assert message in err.splitlines()[0]


def test_save_report_needs_existing_folder(capsys, tmp_path):
    report_path = str(tmp_path / "missing" / "report.json")
    assert cli.main(["run", str(EXAMPLE), "--episodes", "1", "--save-report", report_path]) == 2
    assert f"folder {tmp_path / 'missing'} not found." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_episodes_option_needs_survival(capsys, tmp_path):
    task = tasks.make(tmp_path / "task")
    assert cli.main(["run", str(task), "--episodes", "3", "--store", str(tmp_path / "a.db")]) == 2
    assert capsys.readouterr().err == "atoll: System llmsr has no episodes. Use --iterations 3.\n"
    assert cli.main(["run", str(EXAMPLE), "--episodes", "3", "--iterations", "3"]) == 2
    assert "Leave out one of them" in capsys.readouterr().err


def test_episode_at_its_limit_of_turns_is_reported(capsys, tmp_path):
    options = ("--set", "survival.max_turns=5", "--store", str(tmp_path / "a.db"))
    output = run_cli(capsys, "run", str(EXAMPLE), "--episodes", "1", *options)
    assert "alive_at_max_turns: 1" in output.out
    assert "show all episodes:" in output.out
    assert "was alive at the limit survival.max_turns" in output.err


def test_resume_adds_episodes(capsys, tmp_path):
    options = ("--store", str(tmp_path / "a.db"))
    run_cli(capsys, "run", str(EXAMPLE), "--episodes", "1", "--set", "survival.max_turns=5", *options)
    assert "episodes: 2" in run_cli(capsys, "resume", "latest", "--episodes", "1", *options).out
    assert cli.main(["resume", "latest", "--episodes", "0", *options]) == 2
