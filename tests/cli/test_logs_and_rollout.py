"""Commands of `logs` and `rollout`."""

import json
import random
import re
import shlex
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from atoll import cli, llm
from atoll.governed import StoredParameters
from atoll.governed.evidence import feedback_stores, log_stores, logs
from atoll.testing import ScriptedLLM
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
    noise = random.Random(candidate.content).gauss(0, 0.05)
    return noise - abs(data["value"] - 0.3), {"cost": data["value"], "won": 1.0}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
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
def run(folder, capsys):
    def run(*arguments, status=0):
        capsys.readouterr()
        assert cli.main(list(arguments)) == status, capsys.readouterr()
        return apps.Output(*capsys.readouterr())

    return run


def test_logs_replay_prints_statistics_and_counts(run):
    printed = run("logs", "replay", "logs", "--feedback", "feedback")
    assert printed.lines[0].split()[:4] == ["entity", "metric", "count", "mean"]
    assert [line.split()[0] for line in printed.lines[1:]] == ["carrier-0", "carrier-1", "carrier-2"]
    assert "200 decisions, 200 paired, 0 pending" in printed.err


def test_logs_replay_json_has_report_and_statistics(run):
    data = run("logs", "replay", "logs", "-f", "feedback", "--attribution", "decision", "--json").json()
    assert data["report"]["entries"] == 200
    assert sum(row["count"] for row in data["statistics"]) == 200


def test_logs_estimate_evaluates_another_policy(run):
    policy = json.dumps({"left": 0.1, "right": 0.9})
    arguments = ("logs", "estimate", "logs", "won", "-f", "feedback", "--attribution", "decision")
    estimates = run(*arguments, "--policy", policy, "--json").json()["estimates"]
    values = {row["estimator"]: row["value"] for row in estimates}
    assert values["dr"] == pytest.approx(0.9, abs=0.05)
    assert values["naive"] == pytest.approx(0.5, abs=0.1)
    assert "dr " in run(*arguments, "--policy", policy).out


def test_logs_replay_resumes_from_checkpoint(run, folder):
    arguments = ("logs", "replay", "logs", "-f", "feedback", "--resume-from", "here.json", "--json")
    first = run(*arguments).json()
    assert (folder / "here.json").exists()
    assert run(*arguments).json() == first


def test_logs_replay_reads_a_run(run):
    data = run("logs", "replay", "run:latest~6", "--by", "island", "--store", samples.library(), "--json").json()
    assert data["report"]["entries"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["logs", "replay", "nowhere"], "nowhere not found"),
        (["logs", "replay", "logs", "--window", "week"], "is not a duration"),
        (["logs", "replay", "logs", "--since", "soon"], "is not a time"),
        (["logs", "replay", "logs", "--attribution", "luck"], "Use one of first"),
        (["logs", "replay", "logs", "--on-issue", "cry"], "Policy 'cry' for invalid lines is unknown."),
        (["logs", "estimate", "logs", "won", "--policy", "7"], "is not a policy"),
        (["logs", "estimate", "logs", "won"], "Missing option '--policy'"),
        (["logs", "estimate", "logs", "--policy", "{}"], "Missing argument 'METRIC'"),
        (["logs", "replay", "logs", "--columnar"], "the feedback is not one"),
        (["logs", "replay", "logs", "-f", "feedback", "--columnar", "--attribution", "last"], "--attribution first"),
        (["rollout", "shadow", "risk/penalty", "0.3", "--with", "no.py"], "no.py not found"),
        (["rollout", "shadow", "nothing", "0.3", "--with", "shadow.py"], "nothing"),
        (
            ["rollout", "shadow", "risk/penalty", "0.3", "--with", "shadow.py", "--guard", "cost:x"],
            "is not a guardrail",
        ),
        (["rollout", "update", "risk/penalty"], "No rollout of risk/penalty found. Start one."),
        (["rollout", "status", "--store", "no.db"], "no.db"),
    ],
)
def test_wrong_arguments_print_one_sentence(arguments, message, run):
    printed = run(*arguments, status=2)
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_rollout_shadow_checks_rules(run, tmp_path):
    rules = "\n\ndef rules():\n    return {'never': lambda candidate: '0.3' not in candidate.content}\n"
    (tmp_path / "with_rules.py").write_text(Path("shadow.py").read_text() + rules)
    result = run("rollout", "shadow", "risk/penalty", "0.3", "--with", str(tmp_path / "with_rules.py"))
    assert "reject: scored is worse" in result.out


def test_rollout_shadow_prints_verdict(run):
    assert "promote: fitness gains" in run("rollout", "shadow", "risk/penalty", "0.3", "--with", "shadow.py").out
    data = run(
        "rollout", "shadow", "risk/penalty", "0.9", "--with", "shadow.py", "--guard", "cost:0.1:lower", "--json"
    ).json()
    assert data["verdict"] == "reject"
    assert data["num_saved"] > 0


def test_rollout_from_start_to_abort(run):
    start = ("rollout", "start", "risk/penalty", "0.3", "--guard", "won:0.5", "--author", "ann", "--reason", "EMA")
    assert "proposed" in run(*start, "--min-time", "0s", "--shares", "0.4").out
    assert "in stage canary" in run("rollout", "shadow", "risk/penalty", "0.3", "--with", "shadow.py", "--rollout").out
    assert "canary 40%" in run("rollout", "status").out
    values = {run("rollout", "value", "risk/penalty", f"carrier-{n}").out.strip() for n in range(20)}
    assert values == {"0.3", "0.5"}
    assert run("rollout", "update", "risk/penalty", "-f", "feedback", "--json").json()["stage"] == "canary"
    assert "rolled_back, ended" in run("rollout", "abort", "risk/penalty", "--author", "bob", "--reason", "no").out
    assert run("rollout", "status", "risk/penalty", "--json").json()[0]["stage"] == "rolled_back"
    assert "The last rollout of risk/penalty was rolled back. Wait until " in run(*start, status=2).err


def test_rollout_needs_shadow_of_its_own_value(run):
    shadow = ("rollout", "shadow", "risk/penalty", "0.4", "--with", "shadow.py", "--rollout")
    assert "risk/penalty has no rollout that needs a shadow run" in run(*shadow, status=2).err
    start = ("rollout", "start", "risk/penalty", "0.3", "--guard", "won:0.5", "--author", "ann", "--reason", "EMA")
    run(*start)
    assert "tests 0.3" in run(*shadow, status=2).err


def test_rollout_of_parameters_in_a_folder(run):
    run("params", "set", "rate", "1", "-m", "start", "--store", "params/")
    start = ("rollout", "start", "rate", "2", "--guard", "won", "--author", "ann", "--reason", "more", "--skip-shadow")
    assert "canary 1%" in run(*start, "--store", "params/").out
    assert (
        "rolled_back" in run("rollout", "abort", "rate", "--author", "bob", "--reason", "no", "--store", "params/").out
    )


def test_proposer_cannot_approve_rollout(run):
    printed = run(
        "rollout", "start", "risk/penalty", "0.3", "--guard", "won", "--author", "ann", "--proposed-by", "ann",
        "--reason", "x",
        status=2,
    )  # fmt: skip
    assert "cannot approve it" in printed.err


def test_commands_of_rollout_page_work(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).resolve().parents[2] / "docs" / "rollout.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shadow.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    feedback_stores.FileFeedback("feedback").report("carrier-7", "late", 0.1)
    commands = re.findall(r"^    \./atoll (.+)$", page, re.MULTILINE)
    assert commands[0].startswith("params set risk/penalty")
    for command in commands:
        assert cli.main(shlex.split(command, comments=True)) == 0, capsys.readouterr().err
    assert "risk/penalty: canary 1%" in capsys.readouterr().out


def test_columnar_replay_gives_the_same_statistics(run):
    pytest.importorskip("polars")
    arguments = ("logs", "replay", "logs", "-f", "feedback", "--json")
    expected, columnar = run(*arguments).json(), run(*arguments, "--columnar").json()
    assert columnar["report"]["entries"] == 200
    assert columnar["report"]["paired"] == expected["report"]["paired"]
    names = ("entity", "metric", "count", "mean", "min", "max")
    rows = [{name: row[name] for name in names} for row in expected["statistics"]]
    assert [{name: row[name] for name in names} for row in columnar["statistics"]] == rows
    printed = run("logs", "replay", "logs", "-f", "feedback", "--columnar")
    assert "200 decisions, 200 paired" in printed.err
    assert "carrier-0" in printed.out


def test_columnar_estimate_evaluates_another_policy(run):
    pytest.importorskip("polars")
    arguments = ("logs", "estimate", "logs", "won", "-f", "feedback", "--policy", '{"left": 0.1, "right": 0.9}')
    estimates = run(*arguments, "--columnar", "--json").json()["estimates"]
    assert [row["estimator"] for row in estimates] == [
        row["estimator"] for row in run(*arguments, "--json").json()["estimates"]
    ]


def test_rollout_update_reports_traffic_split(run):
    start = ("rollout", "start", "risk/penalty", "0.3", "--guard", "won:0.9", "--author", "ann", "--reason", "EMA")
    run(*start, "--skip-shadow", "--shares", "0.5", "--min-time", "1h", "--min-samples", "100000")
    channel = feedback_stores.FileFeedback("feedback")
    for index in range(400):
        arm = "candidate" if index % 2 else "baseline"
        channel.report(f"device-{index}", "won", 1.0, meta={"arm": arm})
    time.sleep(1.2)  # feedback of the last second waits for the next update
    data = run("rollout", "update", "risk/penalty", "-f", "feedback", "--json").json()
    assert data["traffic"]["won"] == {
        "baseline": 200, "candidate": 200, "share": 0.5, "expected": 0.5, "p_value": 1.0, "is_off": False
    }  # fmt: skip
    for index in range(400):
        channel.report(f"device-{index}", "won", 1.0, meta={"arm": "candidate"})
    time.sleep(1.2)
    printed = run("rollout", "update", "risk/penalty", "-f", "feedback").out
    assert "100.0% of 400 new measurements had the new value, planned 50.0%" in printed
    assert "The split is wrong" in printed
    assert run("rollout", "update", "risk/penalty", "-f", "feedback", "--json").json()["traffic"] == {}


class TestSuggest:
    def test_ema_follows_the_metric(self, run):
        data = run("params", "suggest", "risk/penalty", "-f", "feedback", "--metric", "won", "--json").json()
        assert (data["key"], data["method"], data["current"], data["evidence"]) == ("risk/penalty", "ema", 0.5, 200)
        assert 0 <= data["value"] <= 1
        assert 0 < data["confidence"] < 1
        printed = run("params", "suggest", "risk/penalty", "-f", "feedback")
        assert printed.out.startswith("risk/penalty: ")
        assert "200 measurements" in printed.out
        assert "atoll rollout shadow risk/penalty" in printed.err
        assert run("params", "get", "risk/penalty").out == "0.5\n"  # nothing is changed

    def test_pid_moves_the_metric_to_the_setpoint(self, run):
        pid = ("params", "suggest", "risk/penalty", "-f", "feedback", "--method", "pid")
        low, high = (run(*pid, "--setpoint", setpoint, "--json").json()["value"] for setpoint in ("0", "2"))
        assert low < high
        assert "needs --setpoint" in run(*pid, status=2).err

    def test_thompson_chooses_the_best_value_of_the_feedback(self, run):
        channel = feedback_stores.FileFeedback("arms")
        for index in range(60):
            value = (0.2, 0.4)[index % 2]
            channel.report(f"device-{index}", "won", 5.0 * value, meta={"value": value})
        arguments = ("params", "suggest", "risk/penalty", "-f", "arms", "--method", "thompson", "--json")
        data = run(*arguments).json()
        assert (data["value"], data["confidence"]) == (0.4, 1.0)

    def test_llm_proposes_a_value_with_a_rationale(self, run, monkeypatch):
        answer = json.dumps({"value": 0.35, "confidence": 0.8, "rationale": "The losses shrink."})
        monkeypatch.setattr(llm, "make_llm", lambda name: ScriptedLLM({(0, "0"): answer}))
        arguments = ("params", "suggest", "risk/penalty", "-f", "feedback", "--method", "llm")
        data = run(*arguments, "--llm", "openai:any", "--json").json()
        assert (data["value"], data["confidence"], data["rationale"]) == (0.35, 0.8, "The losses shrink.")
        assert "needs --llm MODEL" in run(*arguments, status=2).err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--method", "guess"], "Method 'guess' is unknown. Use one of ema, pid, thompson, llm."),
            (["-f", "nowhere"], "nowhere not found"),
            (["-f", "feedback", "--metric", "none"], "none"),
            (["-f", "feedback", "--method", "thompson"], "two values"),
        ],
    )
    def test_wrong_arguments_print_one_sentence(self, arguments, message, run):
        printed = run("params", "suggest", "risk/penalty", *arguments, status=2)
        assert message in printed.err
        assert printed.err.count("\n") == 1

    def test_text_is_not_a_number(self, run):
        run("params", "set", "mode", "fast", "-m", "start")
        assert "mode is 'fast', not a number" in run("params", "suggest", "mode", "-f", "feedback", status=2).err
