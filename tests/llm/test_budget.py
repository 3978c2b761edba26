"""LLM budget: limits hold for any number of concurrent calls."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from atoll import control, journal, llm
from atoll.evaluation import ZERO_COST, Cost
from atoll.llm import budget as llm_budget
from atoll.store import memory


def priced(usd: float, tokens: int = 10):
    """A model whose every reply costs as much."""
    return lambda prompt: llm.Response("yes", "m", Cost(0.0, tokens, tokens, usd))


def most(usd: float, tokens: int = 40):
    return lambda prompt: Cost(0.0, tokens, 0, usd, 1)


def ask_until_empty(model, workers: int) -> list[llm.LLMError]:
    """Asks on so many threads until each is refused."""

    def ask() -> llm.LLMError:
        while True:
            try:
                model("?")
            except llm.LLMError as refused:
                return refused

    with ThreadPoolExecutor(workers) as threads:
        return [item.result(60) for item in [threads.submit(ask) for _ in range(workers)]]


def test_a_budget_of_dollars_is_never_exceeded_by_64_workers_and_used_up_to_one_call():
    rng, lock = random.Random(0), threading.Lock()
    costs: list[float] = []

    def model(prompt: str) -> llm.Response:
        with lock:
            usd = rng.uniform(0.0001, 0.001)
            costs.append(usd)
        time.sleep(0.001)
        return llm.Response("yes", "m", Cost(0.0, 10, 10, usd))

    money = llm_budget.LLMBudget(control.Budget(usd=0.10))
    refused = ask_until_empty(llm_budget.MeteredLLM(model, money, most(0.001)), 64)
    assert sum(costs) == pytest.approx(money.used.usd)
    assert 0.10 - 0.001 < money.used.usd <= 0.10
    assert money.used.calls == len(costs)
    assert {str(item) for item in refused} == {
        "The LLM budget is used up: budget of 0.1 usd used: a call may cost $0.0010"
    }


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (control.Budget(calls=7), "budget of 7 calls used"),
        (control.Budget(tokens=170), "budget of 170 tokens used: a call may take 40"),
        (control.Budget(usd=0.07), "budget of 0.07 usd used: a call may cost $0.0100"),
    ],
)
def test_each_limit_ends_the_calls_with_its_own_words(budget, reason):
    reasons: list[str] = []
    money = llm_budget.LLMBudget(budget, on_exhausted=reasons.append)
    ask_until_empty(llm_budget.MeteredLLM(priced(0.01), money, most(0.01)), 3)
    assert money.used.calls == 7
    assert set(reasons) == {reason}
    assert money.reason == reason


def test_what_a_call_did_not_use_is_there_for_the_next():
    money = llm_budget.LLMBudget(control.Budget(usd=1.0))
    model = llm_budget.MeteredLLM(priced(0.01), money, most(0.5))
    for _ in range(50):
        model("?")
    assert not money.reason
    assert "a call may cost" in str(ask_until_empty(model, 1)[0])
    assert 0.5 <= money.used.usd < 0.52


def test_what_was_spent_before_counts():
    money = llm_budget.LLMBudget(control.Budget(usd=1.0), used=Cost(usd=0.9))
    with pytest.raises(llm.LLMError):
        llm_budget.MeteredLLM(priced(0.1), money, most(0.2))("?")


def test_a_call_that_fails_for_free_gives_back_what_it_held():
    def broken(prompt: str) -> llm.Response:
        raise llm.LLMError("m is down", cost=ZERO_COST)

    money = llm_budget.LLMBudget(control.Budget(usd=1.0))
    for _ in range(5):
        with pytest.raises(llm.LLMError, match="down"):
            llm_budget.MeteredLLM(broken, money, most(1.0))("?")
    assert (money.used, money.reason) == (ZERO_COST, "")


def test_a_call_that_fails_at_unknown_cost_is_charged_what_it_reserved():
    def broken(prompt: str) -> llm.Response:
        raise llm.LLMError("m did not respond in time")

    money = llm_budget.LLMBudget(control.Budget(usd=1.0))
    with pytest.raises(llm.LLMError, match="in time"):
        llm_budget.MeteredLLM(broken, money, most(0.7))("?")
    assert money.used == most(0.7)("?")


def test_charges_in_a_journal_count_requests_without_response():
    records = memory.MemoryJournal()
    money = llm_budget.LLMBudget(control.Budget(calls=9), journal=records)
    cache = journal.CallCache(1, 3, records, {})
    token = journal.CallCache.current.set(cache)
    try:
        llm.JournaledLLM(llm_budget.MeteredLLM(priced(0.1), money, most(0.5)))("?")
        with pytest.raises(ValueError, match="broken"):
            llm.JournaledLLM(llm_budget.MeteredLLM(fail, money, most(0.5)))("?")
    finally:
        journal.CallCache.current.reset(token)
    assert [record.kind for record in records.read()] == ["charged", "replied", "charged"]
    assert llm_budget.read_charges(records.read()) == {3: money.used} == {3: cache.cost}
    assert money.used.calls == 2
    assert money.used.usd == pytest.approx(0.6)


def fail(prompt: str) -> llm.Response:
    raise ValueError("broken")


def test_a_model_that_costs_more_than_it_said_exceeds_by_that_call_alone():
    money = llm_budget.LLMBudget(control.Budget(usd=1.0))
    ask_until_empty(llm_budget.MeteredLLM(priced(0.4), money, most(0.1)), 1)
    assert money.used.usd == pytest.approx(1.2)


def test_an_island_that_used_its_share_leaves_the_others_theirs():
    money = llm_budget.LLMBudget(control.Budget(usd=1.0), island_budget=control.Budget(usd=0.2))
    model = llm_budget.MeteredLLM(priced(0.1), money, most(0.1))

    def ask(island: int) -> None:
        token = journal.CallCache.current.set(journal.CallCache(1, island, journal.NullJournal(), {}))
        try:
            model("?")
        finally:
            journal.CallCache.current.reset(token)

    for _ in range(2):
        ask(3)
    with pytest.raises(llm.LLMError, match=r"Island 3 has used its LLM budget: budget of 0\.2 usd used"):
        ask(3)
    ask(4)
    assert money.reason == ""
    assert {island: cost.calls for island, cost in money.used_by_island.items()} == {3: 2, 4: 1}


def test_without_limits_it_only_counts():
    money = llm_budget.LLMBudget()
    assert [llm_budget.MeteredLLM(priced(5.0), money, most(1e9))("?").text for _ in range(3)] == ["yes"] * 3
    assert (money.used.usd, money.used.calls) == (15.0, 3)
