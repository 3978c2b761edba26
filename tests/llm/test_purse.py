"""The purse: what calls may cost holds, however many are in flight."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from atoll import control, journal, llm
from atoll.evaluation import FREE, Cost
from atoll.llm import purse


def priced(usd: float, tokens: int = 10):
    """A model whose every reply costs as much."""
    return lambda prompt: llm.Reply("yes", "m", Cost(0.0, tokens, tokens, usd))


def most(usd: float, tokens: int = 40):
    return lambda prompt: Cost(0.0, tokens, 0, usd, 1)


def ask_until_empty(model, workers: int) -> list[llm.NoReply]:
    """Asks on so many threads until each is refused."""

    def ask() -> llm.NoReply:
        while True:
            try:
                model("?")
            except llm.NoReply as refused:
                return refused

    with ThreadPoolExecutor(workers) as threads:
        return [each.result(60) for each in [threads.submit(ask) for _ in range(workers)]]


def test_a_budget_of_dollars_is_never_exceeded_by_64_workers_and_used_up_to_one_call():
    dice, lock = random.Random(0), threading.Lock()
    made: list[float] = []

    def model(prompt: str) -> llm.Reply:
        with lock:
            usd = dice.uniform(0.0001, 0.001)
            made.append(usd)
        time.sleep(0.001)
        return llm.Reply("yes", "m", Cost(0.0, 10, 10, usd))

    money = purse.Purse(control.Budget(usd=0.10))
    refused = ask_until_empty(purse.Metered(model, money, most(0.001)), 64)
    assert sum(made) == pytest.approx(money.spent.usd)
    assert 0.10 - 0.001 < money.spent.usd <= 0.10
    assert money.spent.calls == len(made)
    assert {str(each) for each in refused} == {
        "No model is called any more: budget of 0.1 usd used: a call may cost $0.0010"
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
    told: list[str] = []
    money = purse.Purse(budget, on_empty=told.append)
    ask_until_empty(purse.Metered(priced(0.01), money, most(0.01)), 3)
    assert money.spent.calls == 7
    assert set(told) == {reason}
    assert money.reason == reason


def test_what_a_call_did_not_use_is_there_for_the_next():
    money = purse.Purse(control.Budget(usd=1.0))
    model = purse.Metered(priced(0.01), money, most(0.5))
    for _ in range(50):
        model("?")
    assert not money.reason
    assert "a call may cost" in str(ask_until_empty(model, 1)[0])
    assert 0.5 <= money.spent.usd < 0.52


def test_what_was_spent_before_counts():
    money = purse.Purse(control.Budget(usd=1.0), spent=Cost(usd=0.9))
    with pytest.raises(llm.NoReply):
        purse.Metered(priced(0.1), money, most(0.2))("?")


def test_a_call_that_fails_gives_back_what_it_held():
    def broken(prompt: str) -> llm.Reply:
        raise llm.NoReply("m is down")

    money = purse.Purse(control.Budget(usd=1.0))
    for _ in range(5):
        with pytest.raises(llm.NoReply, match="down"):
            purse.Metered(broken, money, most(1.0))("?")
    assert (money.spent, money.reason) == (FREE, "")


def test_a_model_that_costs_more_than_it_said_exceeds_by_that_call_alone():
    money = purse.Purse(control.Budget(usd=1.0))
    ask_until_empty(purse.Metered(priced(0.4), money, most(0.1)), 1)
    assert money.spent.usd == pytest.approx(1.2)


def test_an_island_that_used_its_share_leaves_the_others_theirs():
    money = purse.Purse(control.Budget(usd=1.0), per_island=control.Budget(usd=0.2))
    model = purse.Metered(priced(0.1), money, most(0.1))

    def ask(island: int) -> None:
        token = journal.Ledger.current.set(journal.Ledger(1, island, journal.Nowhere(), {}))
        try:
            model("?")
        finally:
            journal.Ledger.current.reset(token)

    for _ in range(2):
        ask(3)
    with pytest.raises(llm.NoReply, match=r"Island 3 may call no model any more: budget of 0\.2 usd used"):
        ask(3)
    ask(4)
    assert money.reason == ""
    assert {island: cost.calls for island, cost in money.by_island.items()} == {3: 2, 4: 1}


def test_without_limits_it_only_counts():
    money = purse.Purse()
    assert [purse.Metered(priced(5.0), money, most(1e9))("?").text for _ in range(3)] == ["yes"] * 3
    assert (money.spent.usd, money.spent.calls) == (15.0, 3)
