"""A run whose model fails ends with exit status 1 and the reason, and everything until then is saved."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from atoll import cli, testing
from atoll.testing import Fault
from tests.cli import tasks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HASTE = ("--set", "llm.backoff_seconds=0.01", "--set", "llm.outage_seconds=0.3", "--set", "llm.timeout_seconds=2")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key-0123")
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    tasks.make(tmp_path / "task")


def run(capsys, url: str, *options: str, status: int = 1) -> tuple[dict[str, Any], str]:
    arguments = ["run", "task", "--llm", f"openai:m@{url}", "--iterations", "40", *HASTE, *options, "--json"]
    assert cli.main(arguments) == status
    output = capsys.readouterr()
    return json.loads(output.out), output.err


@pytest.mark.parametrize(
    ("fault", "reason", "max_requests"),
    [
        (Fault(500), "status 500", 20),
        (Fault(429), "status 429", 20),
        (Fault(429, headers={"Retry-After": "3600"}), "asks to wait 3600 seconds", 4),
        (Fault(401), "Set a valid API key in OPENAI_API_KEY.", 6),
        (Fault(404), "Check the name of the model", 6),
        (Fault(body="no JSON"), "the LLM failed 10 times in a row", 14),
    ],
)
def test_run_fails_with_reason_of_llm(capsys, fault, reason, max_requests):
    since = time.monotonic()
    with testing.ModelServer(faults=fault) as server:
        result, message = run(capsys, server.url)
        assert server.num_requests <= max_requests
    assert time.monotonic() - since < 100
    assert (result["status"], result["evaluations"]) == ("failed", 1)
    assert reason in result["reason"]
    assert result["steps"] < 20
    assert "complete" not in message


def test_failed_run_can_resume(capsys):
    with testing.ModelServer(tasks.answer, faults={n: Fault(500) for n in range(6, 60)}) as server:
        result, _ = run(capsys, server.url)
        assert result["status"] == "failed"
        assert result["evaluations"] > 1
        port = int(server.url.split(":")[2][:-3])
    with testing.ModelServer(tasks.answer, port=port):
        assert cli.main(["resume", result["run"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 40


def test_garbage_counts_and_shows(capsys):
    with testing.ModelServer(lambda prompt, number: "I would rather not.") as server:
        result, message = run(capsys, server.url, status=0)
        assert server.num_requests == 40
    assert (result["calls"], result["failures"], result["evaluations"]) == (40, 40, 1)
    assert "More than half of the iterations failed" in message
    assert "the response has no function" in message


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("task", ("--iterations", "2")),
        (str(EXAMPLES / "programs_minimum"), ("--iterations", "1")),
        (str(EXAMPLES / "mind_natural_plan"), ("--iterations", "2")),
        (str(EXAMPLES / "survival"), ("--iterations", "1")),
    ],
)
def test_run_without_any_answer_fails(capsys, task, options):
    with testing.ModelServer(faults=Fault(503)) as server:
        arguments = ["run", task, "--llm", f"openai:m@{server.url}", *options, *HASTE, "--set", "llm.retries=0"]
        assert cli.main([*arguments, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "failed"
    assert result["reason"].startswith("failed: the LLM did not answer its ")
    assert result["reason"].endswith(f" Ended with: budget of {options[1]} iterations used")
    assert result["yield"] is None


def test_run_that_loses_its_server_keeps_its_result_and_fails(capsys):
    faults = {n: Fault(503) for n in range(3, 60)}
    with testing.ModelServer(tasks.answer, faults=faults) as server:
        result, _ = run(capsys, server.url, "--iterations", "4", "--workers", "1", "--set", "llm.retries=0")
    assert result["reason"].startswith("failed: the LLM did not answer the last call: ")
    assert result["best_score"] > result["initial_score"]
    assert cli.main(["resume", result["run"], "--json"]) == 1  # nothing is left to do, and nothing has changed
    assert json.loads(capsys.readouterr().out)["reason"] == result["reason"]
    assert cli.main(["list"]) == 0
    assert "failed" in capsys.readouterr().out
    with testing.ModelServer(tasks.answer) as server:
        llm = f"openai:m@{server.url}"
        assert cli.main(["resume", result["run"], "--llm", llm, "--iterations", "2", "--json"]) == 0


def test_bad_reply_at_the_end_is_no_failure_of_the_run(capsys):
    faults = {2: Fault(body="no JSON")}
    with testing.ModelServer(tasks.answer, faults=faults) as server:
        run(capsys, server.url, "--iterations", "3", "--workers", "1", status=0)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_deleted_store_ends_the_run_at_once(capsys, tmp_path, is_replaced):
    def answer(prompt: str, number: int) -> str:
        if number == 4:
            if is_replaced:
                shutil.copy("runs.db", "copy.db")
                os.replace("copy.db", "runs.db")
            else:
                os.unlink("runs.db")
        return tasks.answer(prompt)

    with testing.ModelServer(answer) as server:
        arguments = ["run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "200", "--workers", "2"]
        assert cli.main([*arguments, "--store", "runs.db", "--quiet"]) == 1
        # Of 200 or more. Usually at most 8: two candidates in flight, each with a second prompt for a repeated reply.
        # A busy machine sent more.
        assert server.num_requests <= 20
    assert "runs.db was deleted, moved or replaced" in capsys.readouterr().err
