"""`atoll replay`, `atoll shadow` and `atoll rollout`, as from a shell."""

import json
import random
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from atoll import cli
from atoll.governed import StoredParameters
from atoll.governed.evidence import feedback_stores, log_stores, logs
from tests.cli import apps
from tests.runs import samples

SHADOW = """
import json, random
from atoll.candidate import Candidate

def samples():
    return [Candidate(f"s{n}", json.dumps({"x": n})) for n in range(200)]

def apply(candidate, value):
    return Candidate(candidate.id, json.dumps({**json.loads(candidate.content), "value": value}))

def score(candidate):
    data = json.loads(candidate.content)
    return -abs(data["value"] - 0.3) + random.Random(candidate.content).gauss(0, 0.05), {"cost": data["value"]}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, moment = random.Random(0), datetime.now(UTC) - timedelta(minutes=5)
    log, channel = log_stores.FileLog("logs"), feedback_stores.FileFeedback("feedback")
    for number in range(200):
        action, entity = rng.choice(["left", "right"]), f"carrier-{number % 3}"
        log.append(logs.LogEntry(moment, f"d{number}", entity, None, None, action, 0.5))
        channel.report(entity, "won", float(action == "right"), decision_id=f"d{number}")
    with StoredParameters("atoll.db") as store:
        store.set("risk/penalty", 0.5, "start")
    (tmp_path / "shadow.py").write_text(SHADOW)
    return tmp_path


@pytest.fixture
def run(place, capsys):
    def run(*arguments, status=0):
        capsys.readouterr()
        assert cli.main(list(arguments)) == status, capsys.readouterr()
        return apps.Told(*capsys.readouterr())

    return run


def test_a_replay_shows_statistics_and_counts(run):
    told = run("replay", "logs", "--feedback", "feedback")
    assert told.lines[0].split()[:4] == ["entity", "metric", "count", "mean"]
    assert [line.split()[0] for line in told.lines[1:]] == ["carrier-0", "carrier-1", "carrier-2"]
    assert "200 decisions, 200 paired, 0 pending" in told.err


def test_a_replay_for_programs_has_the_report_and_every_statistic(run):
    data = run("replay", "logs", "-f", "feedback", "--attribution", "decision", "--json").json()
    assert data["report"]["entries"] == 200
    assert sum(each["count"] for each in data["statistics"]) == 200


def test_a_replay_estimates_what_another_policy_would_have_earned(run):
    policy = json.dumps({"left": 0.1, "right": 0.9})
    arguments = ("replay", "logs", "-f", "feedback", "--attribution", "decision", "--estimate", "won")
    found = run(*arguments, "--policy", policy, "--json").json()["estimates"]
    values = {each["estimator"]: each["value"] for each in found}
    assert values["dr"] == pytest.approx(0.9, abs=0.05)
    assert values["naive"] == pytest.approx(0.5, abs=0.1)
    assert "dr " in run(*arguments, "--policy", policy).out


def test_a_replay_can_be_cut_and_go_on(run, place):
    arguments = ("replay", "logs", "-f", "feedback", "--checkpoint", "here.json", "--json")
    first = run(*arguments).json()
    assert (place / "here.json").exists()
    assert run(*arguments).json() == first


def test_a_run_of_ours_is_a_log(run):
    data = run("replay", "run:latest~6", "--by", "island", "--store", samples.library(), "--json").json()
    assert data["report"]["entries"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "nowhere"], "There is no nowhere"),
        (["replay", "logs", "--window", "week"], "is no time"),
        (["replay", "logs", "--since", "soon"], "is no moment"),
        (["replay", "logs", "--attribution", "luck"], "choose one of first"),
        (["replay", "logs", "--on-issue", "cry"], "policy 'cry'"),
        (["replay", "logs", "--estimate", "won", "--policy", "7"], "is no policy"),
        (["replay", "logs", "--estimate", "won"], "--estimate needs --policy JSON too"),
        (["replay", "logs", "--policy", "{}"], "--policy needs --estimate METRIC too"),
        (["shadow", "risk/penalty", "0.3", "--with", "no.py"], "There is no file"),
        (["shadow", "nothing", "0.3", "--with", "shadow.py"], "nothing"),
        (["shadow", "risk/penalty", "0.3", "--with", "shadow.py", "--guard", "cost:x"], "is no guardrail"),
        (["rollout", "tick", "risk/penalty"], "start one"),
        (["rollout", "status", "--store", "no.db"], "no.db"),
    ],
)
def test_a_mistake_is_one_sentence_that_says_what_to_do(arguments, said, run):
    told = run(*arguments, status=2)
    assert said in told.err
    assert told.err.count("\n") == 1


def test_a_shadow_says_its_verdict(run):
    assert "promote: fitness gains" in run("shadow", "risk/penalty", "0.3", "--with", "shadow.py").out
    data = run("shadow", "risk/penalty", "0.9", "--with", "shadow.py", "--guard", "cost:0.1:lower", "--json").json()
    assert data["verdict"] == "reject"
    assert data["num_saved"] > 0


def test_a_rollout_from_its_start_to_its_end(run):
    start = ("rollout", "start", "risk/penalty", "0.3", "--guard", "won:0.5", "--author", "ann", "--reason", "EMA")
    assert "proposed" in run(*start, "--min-time", "0s", "--shares", "0.4").out
    assert "canary now" in run("shadow", "risk/penalty", "0.3", "--with", "shadow.py", "--rollout").out
    assert "canary 40%" in run("rollout", "status").out
    served = {run("rollout", "serve", "risk/penalty", f"carrier-{n}").out.strip() for n in range(20)}
    assert served == {"0.3", "0.5"}
    assert run("rollout", "tick", "risk/penalty", "-f", "feedback", "--json").json()["stage"] == "canary"
    assert "rolled_back, over" in run("rollout", "abort", "risk/penalty", "--author", "bob", "--reason", "no").out
    assert run("rollout", "status", "risk/penalty", "--json").json()[0]["stage"] == "rolled_back"
    assert "the next may begin" in run(*start, status=2).err


def test_a_rollout_goes_on_only_after_a_shadow_of_its_own_value(run):
    shadow = ("shadow", "risk/penalty", "0.4", "--with", "shadow.py", "--rollout")
    assert "No rollout of risk/penalty waits" in run(*shadow, status=2).err
    start = ("rollout", "start", "risk/penalty", "0.3", "--guard", "won:0.5", "--author", "ann", "--reason", "EMA")
    run(*start)
    assert "is of 0.3" in run(*shadow, status=2).err


def test_parameters_in_a_folder_of_files_are_rolled_out_too(run):
    run("params", "set", "rate", "1", "-m", "start", "--store", "params/")
    start = ("rollout", "start", "rate", "2", "--guard", "won", "--author", "ann", "--reason", "more", "--skip-shadow")
    assert "canary 1%" in run(*start, "--store", "params/").out
    assert (
        "rolled_back" in run("rollout", "abort", "rate", "--author", "bob", "--reason", "no", "--store", "params/").out
    )


def test_who_proposed_it_cannot_approve_it(run):
    told = run(
        "rollout", "start", "risk/penalty", "0.3", "--guard", "won", "--author", "ann", "--proposer", "ann",
        "--reason", "x",
        status=2,
    )  # fmt: skip
    assert "cannot approve it" in told.err


def test_the_commands_of_the_page_work_as_written(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).resolve().parents[2] / "docs" / "rollout.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shadow.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    feedback_stores.FileFeedback("feedback").report("carrier-7", "late", 0.1)
    commands = re.findall(r"^    \./atoll (.+)$", page, re.MULTILINE)
    assert commands[0].startswith("params set risk/penalty")
    for command in commands:
        assert cli.main(shlex.split(command, comments=True)) == 0, capsys.readouterr().err
    assert "risk/penalty: canary 1%" in capsys.readouterr().out
