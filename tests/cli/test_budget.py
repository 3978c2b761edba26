"""Budgets in dollars, tokens and calls are never exceeded, and `--json` agrees with the store."""

import json

import pytest

from atoll import cli, store, testing
from tests.cli import tasks


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks.make(tmp_path / "task")
    return tmp_path


@pytest.fixture
def server():
    with testing.ModelServer(tasks.answer) as server:
        yield server


def run(capsys, *arguments, status=0):
    assert cli.main([*arguments, "--json"]) == status, capsys.readouterr().err
    output = capsys.readouterr()
    return json.loads(output.out.splitlines()[-1]), output.err


PRICED = ["--set", "llm.price_in=10", "--set", "llm.price_out=100", "--set", "llm.max_tokens=200"]


def bought(run_id):
    """Returns what all replies of a run in the store have cost: dollars, tokens and how many they are."""
    with store.Store("atoll.db") as run_store:
        usages = [record.data["usage"] for record in run_store.journal(run_id).read_kinds("replied")]
    return sum(item[3] for item in usages), sum(item[1] + item[2] for item in usages), len(usages)


def test_dollar_budget_holds_with_64_workers(capsys, server):
    model = ["--llm", f"openai:m@{server.url}", "--budget", "$0.10", "--workers", "64", *PRICED]
    result, text = run(capsys, "run", "task", *model)
    usd, _, calls = bought(result["run"])
    assert result["status"] == "done"
    assert "budget of 0.1 usd used" in text
    assert usd <= 0.10
    assert usd > 0.10 - 0.03  # the most that one more call could have cost: a byte of the prompt may be a token
    assert result["cost_usd"] <= usd + 1e-12
    assert calls == len(server.requests)
    assert calls > 5


def test_token_budget_is_exact(capsys, server):
    model = ["--llm", f"openai:m@{server.url}", "--budget", "20000tokens", "--workers", "8", *PRICED]
    result, _ = run(capsys, "run", "task", *model)
    _, tokens, calls = bought(result["run"])
    assert tokens <= 20000
    assert calls == len(server.requests)


def test_resume_counts_earlier_cost(capsys, server):
    model = ["--llm", f"openai:m@{server.url}", "--budget", "$0.05", "--workers", "4", *PRICED]
    first, _ = run(capsys, "run", "task", *model)
    run(capsys, "resume", first["run"])
    spent = bought(first["run"])[0]
    assert spent <= 0.05  # a shorter prompt may still fit
    more, _ = run(capsys, "resume", first["run"], "--budget", "$0.05")
    assert spent < bought(more["run"])[0] <= spent + 0.05


def test_ordered_run_cannot_resume_with_dollars(capsys, server):
    model = ["--llm", f"openai:m@{server.url}", "--deterministic", "--iterations", "2", *PRICED]
    first, _ = run(capsys, "run", "task", *model)
    assert cli.main(["resume", first["run"], "--budget", "$1"]) == 2
    assert "it cannot depend on dollars. Give the budget in iterations" in capsys.readouterr().err
    run(capsys, "resume", first["run"], "--budget", "5000tokens")


def test_island_keeps_to_its_share(capsys, server):
    model = ["--llm", f"openai:m@{server.url}", "--budget", "100calls", "--set", "run.island_budget=3calls"]
    result, _ = run(capsys, "run", "task", *model)
    assert len(server.requests) == 9  # three islands
    assert result["reason"].startswith("every island has used its LLM budget: budget of 3 calls used")


def test_dollar_budget_without_price_fails(capsys, server):
    assert cli.main(["run", "task", "--llm", f"openai:m@{server.url}", "--budget", "$1"]) == 2
    assert "The price of openai:m@" in capsys.readouterr().err


def test_incomplete_price_fails(capsys, server):
    command = ["run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "1", "--set", "llm.price_in=1"]
    assert cli.main(command) == 2
    assert "Set both llm.price_in and llm.price_out, in USD per million tokens, or neither." in capsys.readouterr().err


def test_cost_is_printed_before_first_call(capsys, server):
    model = ["--llm", f"openai:m@{server.url}", "--iterations", "2", *PRICED]
    _, text = run(capsys, "run", "task", *model)
    assert "cost       about $0.0" in text
    assert "2 calls cost about $0." in text
    _, text = run(capsys, "run", "task", *model[:4])
    assert "cost       price unknown: tokens are counted, dollars are not" in text


def test_deterministic_run_rejects_token_budget(capsys, server):
    command = ["run", "task", "--llm", f"openai:m@{server.url}", "--budget", "5000tokens", "--deterministic"]
    assert cli.main(command) == 2
    assert "cannot depend on seconds, dollars or tokens" in capsys.readouterr().err
