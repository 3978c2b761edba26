"""What a run of lives looks like to people: lives in a few words, playbooks as ACE writes them."""

import json

import pytest

from atoll import cli
from atoll.survival import episode_reports
from tests.cli import tasks
from tests.survival.test_build import EXAMPLE


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("lives") / "atoll.db")
    assert cli.main(["run", str(EXAMPLE), "--episodes", "2", "--store", path, "-q"]) == 0
    return path


def told(capsys, *arguments):
    capsys.readouterr()
    assert cli.main(list(arguments)) == 0
    return capsys.readouterr()


def test_progress_tells_lives_and_the_end_shows_the_playbook(capsys, tmp_path):
    said = told(capsys, "run", str(EXAMPLE), "--episodes", "2", "--store", str(tmp_path / "a.db"))
    assert "life 1: " in said.err
    assert " ticks, died of " in said.err
    assert "    ## TACTICS\n    [tactics-00001] helpful=" in said.out
    assert "{" not in said.err + said.out
    assert max(map(len, said.out.splitlines())) < 200


def test_best_and_show_print_the_playbook_as_one_reads_it(place, capsys):
    best = told(capsys, "best", "latest", "--store", place).out
    assert best.startswith("## TACTICS\n[tactics-00001] helpful=")
    for verb in (["show", "latest"], ["show", "latest", "best"], ["report", "latest"]):
        assert "## TACTICS" in told(capsys, *verb, "--store", place).out
    assert "+[tactics-00001] " in told(capsys, "diff", "latest", "--store", place).out
    assert "life 2: " in told(capsys, "best", "latest", "-n", "2", "--store", place).out


def test_programs_get_what_is_kept(place, capsys, tmp_path):
    told(capsys, "best", "latest", "-o", str(tmp_path / "best.json"), "--store", place)
    assert "bullets" in json.loads((tmp_path / "best.json").read_text())
    data = json.loads(told(capsys, "best", "latest", "--json", "--store", place).out)
    assert "bullets" in json.loads(data["content"])


@pytest.mark.parametrize("content", ["", "no JSON", "[1]", '{"bullets": 1}'])
def test_what_is_no_playbook_is_shown_as_it_is(content):
    assert episode_reports.format_candidate(content) == episode_reports.format_one_line(content) == content


def test_an_empty_playbook_is_said_to_be_empty():
    assert (
        episode_reports.format_candidate('{"bullets": []}'),
        episode_reports.format_one_line('{"bullets": []}'),
    ) == ("It is empty.", episode_reports.EMPTY_PLAYBOOK)


@pytest.mark.parametrize("key", ["latest", "playbook/latest"])
def test_the_history_of_the_latest_run_counts_what_a_life_changed(key, place, capsys):
    lines = told(capsys, "playbook", "history", "--key", key, "--store", place).out.splitlines()
    version, applied, *_, changes, word = lines[1].split()
    assert (version, word) == ("3", "changes")
    assert int(applied) == int(changes) > 0
    (newest,) = json.loads(told(capsys, "playbook", "history", "-n", "1", "--json", "--store", place).out)
    assert newest["counts"]["applied"] == int(applied)


def test_a_run_goes_on_with_a_playbook_that_was_edited_by_hand(capsys, tmp_path):
    path, folder = str(tmp_path / "atoll.db"), tmp_path / "files"
    told(capsys, "run", str(EXAMPLE), "--episodes", "1", "--store", path, "-q")
    told(capsys, "playbook", "export", str(folder), "--store", path)
    file = folder / "current" / "recipes.md"
    file.write_text(f"{file.read_text()}- [recipes-00999] helpful=5 harmful=0 :: Honey keeps for years.\n")
    assert "as version 3." in told(capsys, "playbook", "import", str(folder), "--store", path).out
    told(capsys, "resume", "latest", "--iterations", "1", "--store", path, "-q")
    assert "Honey keeps" in told(capsys, "playbook", "show", "--store", path).out
    lines = told(capsys, "playbook", "history", "--store", path).out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["4", "3", "2", "1"]


@pytest.mark.parametrize(
    ("permission", "said"), [("write", "sandbox none: task.permission=write runs no commands."), ("run", "sandbox L")]
)
def test_the_header_of_a_life_on_the_machine_says_what_is_jailed(permission, said, capsys, tmp_path):
    task = tmp_path / "task"
    task.mkdir()
    (task / "atoll.toml").write_text('system = "survival"\n[task]\nenv = "os"\n[survival]\nmax_turns = 1\n')
    place = ["--store", str(tmp_path / "a.db"), "--unsafe"]
    err = told(capsys, "run", str(task), "--episodes", "1", "--set", f"permission={permission}", *place).err
    assert said in err.splitlines()[0]


def test_a_report_is_not_written_where_there_is_no_folder(capsys, tmp_path):
    place = str(tmp_path / "nowhere" / "report.json")
    assert cli.main(["run", str(EXAMPLE), "--episodes", "1", "--save-report", place]) == 2
    assert f"there is no folder {tmp_path / 'nowhere'}." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_episodes_are_for_systems_with_lives(capsys, tmp_path):
    task = tasks.make(tmp_path / "task")
    assert cli.main(["run", str(task), "--episodes", "3", "--store", str(tmp_path / "a.db")]) == 2
    assert capsys.readouterr().err == "atoll: --episodes counts lives, and llmsr has none: say --iterations 3.\n"
    assert cli.main(["run", str(EXAMPLE), "--episodes", "3", "--iterations", "3"]) == 2
    assert "leave one of them out" in capsys.readouterr().err
