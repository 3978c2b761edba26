"""Dollar budgets hold for servers that report costs badly or fail. Each bills its own list price."""

import json
import signal
import time
from typing import Any

import pytest

from atoll import control, llm, store
from atoll.evaluation import ZERO_COST
from atoll.llm import budget as llm_budget
from atoll.testing import Fault, ModelServer
from tests import processes
from tests.cli import tasks

USAGE = {"prompt_tokens": 50, "completion_tokens": 30}
PROMPT = "words " * 40  # fifty tokens or more, for any tokenizer
PRICE, BUDGET = llm.Price(10_000.0, 10_000.0), 12.0
BILL = PRICE.compute_usd(50, 30)  # of each request that reaches the server


def complete(text: str = "yes " * 30, model: str = "m", **fields: Any) -> Fault:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], **fields}
    return Fault(body=json.dumps(body))


def every_second(fault: Fault) -> dict[int, Fault]:
    good = complete(usage=USAGE)
    return {number: good if number % 2 else fault for number in range(100)}


def spend(faults: Any, **options: Any) -> tuple[int, llm.LLMBudget]:
    """Calls an LLM until its budget is used; returns the number of requests that the server has seen."""
    budget = llm.LLMBudget(control.Budget(usd=BUDGET))
    with ModelServer(faults=faults) as server:
        settings = {"max_tokens": 40, "backoff_seconds": 0.0, "price": PRICE, **options}
        model = llm_budget.make_metered_llm(
            llm.OpenAICompatibleLLM(settings.pop("model", "m"), base_url=server.url, **settings), budget
        )
        for _ in range(100):
            try:
                model(PROMPT)
            except llm.BudgetExhausted:
                break
            except llm.LLMError:
                pass
        return server.num_requests, budget


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(complete(usage={**USAGE, "cost": 0}), id="reported cost 0"),
        pytest.param(complete(usage={**USAGE, "cost": -1}), id="reported cost -1"),
        pytest.param(complete(usage={**USAGE, "cost": float("nan")}), id="reported cost NaN"),
        pytest.param(complete("", usage=USAGE), id="empty text"),
        pytest.param(complete(), id="no usage"),
        pytest.param(every_second(Fault(status=500)), id="5xx, then success"),
    ],
)
def test_bill_stays_within_budget(faults):
    requests, budget = spend(faults)
    assert requests > 1
    assert requests * BILL <= budget.used.usd + 1e-9 <= BUDGET + 1e-9
    assert budget.used.calls == requests


def test_bill_stays_within_budget_if_requests_time_out():
    requests, budget = spend(every_second(Fault(delay_seconds=0.3)), timeout_seconds=0.1)
    assert requests > 1
    assert requests * BILL <= budget.used.usd + 1e-9 <= BUDGET + 1e-9


def test_price_is_that_of_the_model_that_was_asked_for():
    faults = complete(model="house-special", usage={"prompt_tokens": 10**6, "completion_tokens": 10**6})
    requests, budget = spend(faults, model="gpt-4o-mini", price=None)
    assert budget.used.usd == pytest.approx(requests * (0.15 + 0.60))
    assert budget.used.usd <= BUDGET


def test_server_may_report_more_than_the_list_price():
    _, budget = spend(complete(usage={**USAGE, "cost": 2.5}))
    assert budget.used.usd == pytest.approx(2.5 * budget.used.calls)


def test_request_that_never_reaches_the_server_is_free():
    budget = llm.LLMBudget(control.Budget(usd=BUDGET, calls=1))
    with ModelServer() as server:
        url = server.url
    model = llm.OpenAICompatibleLLM("m", base_url=url, price=PRICE, max_tokens=40, backoff_seconds=0.0)
    with pytest.raises(llm.LLMError, match="3 attempts"):
        llm_budget.make_metered_llm(model, budget)(PROMPT)
    assert budget.used == ZERO_COST


@pytest.mark.process
def test_requests_in_flight_at_kill_are_charged_after_resume(tmp_path):
    tasks.make(tmp_path / "task")
    with ModelServer(tasks.answer, faults={number: Fault(delay_seconds=5.0) for number in range(2)}) as server:
        arguments = ["run", "task", "--llm", f"openai:m@{server.url}", "--budget", "4calls", "--workers", "2"]
        with (tmp_path / "errors").open("wb") as errors:
            process = processes.start(["-m", "atoll", *arguments], cwd=tmp_path, stdout=errors, stderr=errors)
        while server.num_requests < 2:
            assert process.poll() is None, (tmp_path / "errors").read_text()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        resumed = processes.run(["-m", "atoll", "resume", "latest"], cwd=tmp_path)
        assert resumed.returncode == 0, resumed.stderr
        assert server.num_requests == 4
    with store.Store(tmp_path / "atoll.db") as run_store:
        (run,) = run_store.list_runs()
        charges = llm_budget.read_charges(run_store.journal(run.id).read())
    assert sum(charges.values(), ZERO_COST).calls == 4
