"""Budgets in calls and tokens hold in every system, for 8 workers, retries included: a server counts the requests."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import atoll
from atoll import cluster, config, llm, playbook, runs, store, testing
from atoll.evaluation import Cost
from atoll.llm import budget as llm_budget
from atoll.runs import baselines
from tests.cli import tasks

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MAX_CALLS, MAX_TOKENS, WORKERS = 12, 20_000, 8
BUSY = {number: testing.Fault(status=503) for number in (1, 4, 7)}  # repeated at once: `backoff_seconds` is 0
PLAN = {"goal": "look", "actions": [{"name": "north"}], "risk": 0.2, "text": "quiet", "lessons": []}


def answer(prompt: str, number: int) -> str:
    """Answers every system a bit, and often badly, so that repairs are asked for."""
    if "line_v" in prompt:
        return tasks.answer(prompt) if number % 2 else "no program"
    if "STATE" in prompt or "is over" in prompt:
        return json.dumps(PLAN)
    return f"no. {number}" if number % 2 else f"```\ntext {number}\n```"


class CountingServer(testing.ModelServer):
    """Samples the budget while each request is in flight."""

    def __init__(self) -> None:
        self.budgets, self.samples = list[llm.LLMBudget](), list[Cost]()
        super().__init__(self._sample_and_answer, faults=BUSY)

    def _sample_and_answer(self, prompt: str, number: int) -> str:
        self.samples += [budget.committed for budget in self.budgets]
        return answer(prompt, number)


def run_session(folder: Path, server: CountingServer, budget: str, **sections: Any) -> str:
    settings = {"llm": f"openai:m@{server.url}", "budget": budget, "workers": WORKERS, "window": WORKERS}
    run_config = config.load(folder, [{"run": settings, "llm": {"backoff_seconds": 0.0}, **sections}])
    allowed = runs.UnsafeOptions(unsafe=True)
    with store.Store("atoll.db") as run_store:
        with runs.Session(run_store, run_config, allowed=allowed) as session:
            assert session.llm_budget is not None
            server.budgets.append(session.llm_budget)
            session.run()
        return session.run_id


def run_playbook(server: CountingServer, budget: str) -> None:
    calls_budget = llm.LLMBudget(config.parse_budget(budget))
    server.budgets.append(calls_budget)
    model = llm.OpenAICompatibleLLM("m", base_url=server.url, backoff_seconds=0.0, max_tokens=1000)
    journaled = llm.JournaledLLM(llm_budget.make_metered_llm(model, calls_budget))
    experience = playbook.Experience("live", "", "a day", False, lesson="Wolves fear fire.", section="tactics")
    with store.Store("sqlite://") as run_store:
        name = run_store.create_run()
        island = playbook.make_island(
            run_store.versions(), name, lambda number, book: experience, reflector=playbook.LLMReflector(journaled)
        )
        evolver = cluster.Evolver(
            cluster.EvolverConfig(
                island, reset_period=None, journal=run_store.journal(name), budget=config.parse_budget(budget)
            )
        )
        calls_budget.on_exhausted = evolver.stop
        evolver.run()


def run_evolve(server: CountingServer, budget: str) -> None:
    atoll.evolve("Be kind.", lambda text: -len(text), budget=budget, llm=f"openai:m@{server.url}", workers=WORKERS)


SYSTEMS: dict[str, Callable[[CountingServer, str], object]] = {
    "programs": partial(run_session, EXAMPLES / "programs_minimum"),
    "llmsr": partial(run_session, Path("task")),
    "mind": partial(run_session, EXAMPLES / "mind_stegpoet"),
    "survival": partial(run_session, EXAMPLES / "survival", survival={"max_turns": 6}),
    "evolve": run_evolve,
    "playbook": run_playbook,
}


@pytest.mark.process
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("budget", [f"{MAX_CALLS}calls", f"{MAX_TOKENS}tokens"])
def test_server_sees_no_request_above_the_budget(name, budget, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks.make(tmp_path / "task")
    with CountingServer() as server:
        SYSTEMS[name](server, budget)
        assert server.num_requests == MAX_CALLS if budget.endswith("calls") else server.num_requests > 1
        limits = config.parse_budget(budget)
        if limits.tokens is not None:
            assert all(cost.tokens_in + cost.tokens_out <= limits.tokens for cost in server.samples)
            assert all(request.parse_data()["max_tokens"] for request in server.requests)


@pytest.mark.process
def test_each_baseline_has_the_budget_of_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks.make(tmp_path / "task")
    with CountingServer() as server:
        run_id = run_session(Path("task"), server, f"{MAX_CALLS}calls")
        for name in ("best_of_n", "sequential"):
            before = server.num_requests
            with store.Store("atoll.db") as run_store, baselines.start(run_store, run_id, name) as session:
                session.run()
            assert server.num_requests - before <= MAX_CALLS
