"""Command `doctor`."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import metadata

import pytest

from atoll import cli, sandbox
from atoll.cli.services import doctor
from atoll.llm import endpoint
from atoll.store.database import schema
from tests.cli import apps
from tests.runs import samples


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


def checks(output: apps.Output) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in output.json()["checks"]}


def test_doctor_succeeds_on_complete_machine(shell):
    output = shell("doctor", "--json")
    assert output.json()["ok"] is True
    result = checks(output)
    assert result["atoll"]["found"] == metadata.version("atoll")
    assert result["sqlalchemy"]["status"] == "ok"
    level = sandbox.get_level(sandbox.probe())
    assert result["sandbox"]["found"] == f"{level}: {sandbox.LEVELS[level]}"
    assert result["store"]["found"].endswith(f", schema {schema.VERSION}, 9 runs, writable")
    assert {"python", "cores", "memory"} <= set(result)
    expected = set(metadata.metadata("atoll").get_all("Provides-Extra") or ()) - {"all", "dev", "docs"}
    assert {f"extra {name}" for name in expected} == {name for name in result if name.startswith("extra")}


def test_doctor_lines_have_status_and_fit_terminal(shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = shell("doctor").lines
    assert all(line.startswith(("ok  ", "missing  ", " ")) for line in lines)
    assert all(len(line) <= 80 for line in lines if samples.library() not in line)


def test_doctor_never_prints_keys(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-12345")
    for arguments in (["doctor"], ["doctor", "--json"]):
        output = shell(*arguments)
        assert "secret" not in output.out + output.err
        assert "12345" not in output.out + output.err
    result = checks(shell("doctor", "--json"))
    assert (result["OPENAI_API_KEY"]["status"], result["OPENAI_API_KEY"]["found"]) == ("ok", "set")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert checks(shell("doctor", "--json"))["OPENAI_API_KEY"]["found"] == "not set"


def test_doctor_checks_key_of_every_service(shell, monkeypatch):
    for service in endpoint.SERVICES.values():
        for name in service.key_variables:
            monkeypatch.delenv(name, raising=False)
    result = checks(shell("doctor", "--json"))
    keys = {name: check for name, check in result.items() if name.endswith("_API_KEY")}
    assert {check["status"] for check in keys.values()} == {"missing"}
    assert keys["MINIMAX_API_KEY"]["advice"] == "needed for minimax:NAME"
    assert keys["GOOGLE_API_KEY"]["advice"] == "this or GEMINI_API_KEY is needed for google:NAME"
    assert not {"OLLAMA_API_KEY", "VLLM_API_KEY"} & set(keys), "own servers mostly want none"


def test_doctor_accepts_either_of_two_keys(shell, monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    result = checks(shell("doctor", "--json"))["GOOGLE_API_KEY"]
    assert (result["status"], result["found"], result["advice"]) == ("ok", "set as GEMINI_API_KEY", "")


def test_missing_extra_is_not_broken_and_has_command(shell, monkeypatch):
    monkeypatch.setattr(doctor, "EXTRAS_IN_USE", frozenset({"ray"}))
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "ray" else "1.0")
    result = checks(shell("doctor", "--json"))
    assert result["extra ray"]["status"] == "missing"
    assert result["extra ray"]["advice"] == "pip install 'atoll[ray]' (in a checkout: scripts/setup ray)"


def test_missing_package_is_broken(shell, monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "numpy" else "1.0")
    output = shell("doctor", "--json", status=1)
    assert output.json()["ok"] is False
    assert checks(output)["numpy"] == {
        "name": "numpy",
        "status": "broken",
        "found": "not installed",
        "advice": "pip install numpy",
    }


def test_missing_store_is_ok_and_not_created(capsys, tmp_path):
    shell = apps.Shell(capsys, str(tmp_path / "new.db"))
    assert "the first run creates it" in checks(shell("doctor", "--json"))["store"]["found"]
    assert not list(tmp_path.iterdir())


def test_invalid_store_is_broken(capsys, tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, and long enough to be looked at " * 20)
    shell = apps.Shell(capsys, str(tmp_path / "notes.txt"))
    output = shell("doctor", status=1)
    assert "\nbroken   store " in output.out
    assert "is not a database. Use another path." in output.out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_readonly_store_is_broken(capsys, tmp_path):
    (tmp_path / "folder").mkdir(mode=0o500)
    shell = apps.Shell(capsys, str(tmp_path / "folder" / "new.db"))
    assert checks(shell("doctor", "--json", status=1))["store"]["status"] == "broken"


def test_missing_folder_is_broken(capsys, tmp_path):
    shell = apps.Shell(capsys, str(tmp_path / "no" / "new.db"))
    assert "cannot be written" in checks(shell("doctor", "--json", status=1))["store"]["found"]


def test_failing_sandbox_is_broken(shell, monkeypatch):
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no processes left")

    monkeypatch.setattr(sandbox, "open", refuse)
    result = checks(shell("doctor", "--json", status=1))["sandbox"]
    assert (result["status"], result["found"]) == ("broken", "OSError: no processes left")


def test_weak_sandbox_reports_what_is_missing(shell, monkeypatch):
    weak = replace(sandbox.probe(), namespaces="unshare: Operation not permitted", advice="allow user namespaces")
    monkeypatch.setattr(sandbox, "probe", lambda: weak)
    result = checks(shell("doctor", "--json"))["sandbox"]
    assert result["status"] == "missing"
    assert result["advice"] == "No namespaces (unshare: Operation not permitted): for L3, allow user namespaces."


def test_doctor_json_is_one_line(capsys):
    assert cli.main(["doctor", "--json", "--store", samples.library()]) == 0
    assert json.loads(capsys.readouterr().out)


def test_folders_of_killed_processes_are_found(capsys, tmp_path, monkeypatch):
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    for name in (f"atoll-{ended.pid}-ab_1", f"atoll-{os.getpid()}-cd2", "atoll-agent-x", "other"):
        (tmp_path / name).mkdir()
    assert doctor.find_leftovers(tmp_path) == [tmp_path / f"atoll-{ended.pid}-ab_1"]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cli.main(["doctor", "--store", str(tmp_path / "a.db"), "--json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["temporary files"]["advice"] == f"remove them: rm -r {tmp_path}/atoll-{ended.pid}-*"


def test_only_own_folders_with_plain_names_are_found(tmp_path):
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    (tmp_path / f"atoll-{ended.pid}-file").write_text("")
    (tmp_path / f"atoll-{ended.pid}-link").symlink_to(tmp_path)
    for ending in ("a b", "$(id)", "a\nb", "'", "\x1b[31m", "\u0663", ""):
        (tmp_path / f"atoll-{ended.pid}-{ending}").mkdir()
    assert doctor.find_leftovers(tmp_path) == []
    assert doctor.find_leftovers(tmp_path / "missing") == []


@pytest.mark.parametrize("name", ["plain", "a b; $(id) 'c'"])
@pytest.mark.parametrize("num_processes", [1, 5])
def test_each_line_of_the_removal_can_be_pasted(tmp_path, monkeypatch, capsys, name, num_processes):
    folder, kept = tmp_path / name, tmp_path / "a"
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(doctor, "_exists", lambda pid: False)
    monkeypatch.setenv("COLUMNS", "80")
    kept.mkdir()
    for pid in range(num_processes):
        (folder / f"atoll-{pid}00-a").mkdir(parents=True)
    cli.main(["doctor", "--store", str(tmp_path / "a.db")])
    text = capsys.readouterr().out.partition("remove them:")[2]
    lines = [line.strip() for line in text.strip().splitlines()]
    assert all(line.startswith("rm -r ") for line in lines)
    for line in lines:
        subprocess.run(line, shell=True, check=True, cwd=tmp_path)
    assert not list(folder.iterdir())
    assert kept.exists()
