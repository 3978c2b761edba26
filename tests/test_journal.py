"""CallCache, CheckedJournal and NullJournal."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from atoll import errors, journal
from atoll.candidate import JSON, content_hash
from atoll.evaluation import ZERO_COST, Cost
from atoll.journal import CallCache, Record
from atoll.store import memory
from atoll.testing import FailingJournal


class CountedCalls:
    """Returns texts and counts the calls."""

    def __init__(self) -> None:
        self.sold: list[str] = []

    def offer(self, text: str, usage: list[float] | None = None) -> Callable[[], Mapping[str, JSON]]:
        def buy() -> Mapping[str, JSON]:
            self.sold.append(text)
            return {"text": text, **({"usage": usage} if usage else {})}

        return buy


def stored(records: memory.MemoryJournal) -> dict[str, Mapping[str, Any]]:
    return {record.data["call"]: record.data for record in records.read()}


def test_response_is_stored_before_it_is_returned() -> None:
    records = memory.MemoryJournal()
    bought = CallCache(3, 1, records, {}).get_or_call("a question", CountedCalls().offer("an answer"))
    assert bought["text"] == "an answer"
    (record,) = records.read()
    assert record == Record("replied", 3, 1, bought)
    assert (record.data["call"], record.data["request"]) == ("0", content_hash("a question"))


def test_response_that_cannot_be_stored_is_not_returned() -> None:
    ledger = CallCache(3, 1, journal.CheckedJournal(FailingJournal(memory.MemoryJournal(), 0)), {})
    with pytest.raises(errors.JournalFailed):
        ledger.get_or_call("a question", CountedCalls().offer("an answer"))
    assert ledger.cost == ZERO_COST


def test_stored_response_is_not_requested_again() -> None:
    records, shop = memory.MemoryJournal(), CountedCalls()
    CallCache(3, 1, records, {}).get_or_call("a question", shop.offer("an answer"))
    again = CallCache(3, 1, records, stored(records)).get_or_call("a question", shop.offer("another answer"))
    assert again["text"] == "an answer"
    assert shop.sold == ["an answer"]
    assert len(records.records) == 1


def test_stored_response_to_other_request_is_not_used() -> None:
    records, shop = memory.MemoryJournal(), CountedCalls()
    CallCache(3, 1, records, {}).get_or_call("a question", shop.offer("an answer"))
    again = CallCache(3, 1, records, stored(records)).get_or_call("another question", shop.offer("another answer"))
    assert again["text"] == "another answer"
    assert [record.data["call"] for record in records.read()] == ["0", "0"]


def test_calls_continue_after_stored_responses() -> None:
    records, shop = memory.MemoryJournal(), CountedCalls()
    CallCache(3, 1, records, {}).get_or_call("first", shop.offer("one"))
    ledger = CallCache(3, 1, records, stored(records))
    assert [ledger.get_or_call(name, shop.offer("two"))["text"] for name in ("first", "second")] == ["one", "two"]
    assert sorted(stored(records)) == ["0", "1"]


def test_calls_are_numbered_by_iteration_and_prefix() -> None:
    records = memory.MemoryJournal()
    plain, prefixed = CallCache(3, 1, records, {}), CallCache(3, 1, records, {}, "d0/")
    places = [plain.position, prefixed.position]
    for ledger in (plain, prefixed, plain):
        ledger.get_or_call("a question", CountedCalls().offer("an answer"))
        places.append(ledger.position)
    assert places == [(3, "0"), (3, "d0/0"), (3, "1"), (3, "d0/1"), (3, "2")]
    assert [record.data["call"] for record in records.read()] == ["0", "d0/0", "1"]
    assert (plain.cost.calls, prefixed.cost.calls) == (2, 1)


def test_costs_include_stored_responses() -> None:
    records, shop = memory.MemoryJournal(), CountedCalls()
    CallCache(3, 1, records, {}).get_or_call("first", shop.offer("one", [1.0, 10, 5, 0.25]))
    ledger = CallCache(3, 1, records, stored(records))
    ledger.get_or_call("first", shop.offer("one", [9.0, 9, 9, 9.0]))
    ledger.get_or_call("second", shop.offer("two", [0.5, 1, 2, 0.5]))
    ledger.get_or_call("third", shop.offer("three"))
    assert ledger.cost == Cost(1.5, 11, 7, 0.75, calls=3)


def test_failed_call_costs_nothing_and_keeps_its_number() -> None:
    records, shop = memory.MemoryJournal(), CountedCalls()
    ledger = CallCache(3, 1, records, {})

    def refuse() -> Mapping[str, JSON]:
        raise TimeoutError("no response")

    with pytest.raises(TimeoutError):
        ledger.get_or_call("a question", refuse)
    ledger.get_or_call("a question", shop.offer("an answer"))
    assert [record.data["call"] for record in records.read()] == ["0"]
    assert ledger.cost.calls == 1


def test_checked_journal_raises_journal_error_with_cause() -> None:
    guarded = journal.CheckedJournal(FailingJournal(memory.MemoryJournal(), 1))
    guarded.write(Record("begun", 1, 0, {}))
    with pytest.raises(errors.JournalFailed) as caught:
        guarded.write(Record("begun", 2, 0, {}))
    assert str(caught.value) == "The journal could not be written: OSError: The journal failed at commit 1."
    assert isinstance(caught.value.__cause__, OSError)
    assert [record.step for record in guarded.read()] == [1]
    assert [record.step for record in guarded.read(0)] == [1]
    assert list(guarded.read(1)) == []


def test_null_journal_accepts_everything() -> None:
    nowhere = journal.NullJournal()
    nowhere.write(Record("begun", 1, 0, {}))
    assert list(nowhere.read()) == []


def test_limit_of_calls_stops_new_requests_but_no_stored_response() -> None:
    records, calls = memory.MemoryJournal(), CountedCalls()
    CallCache(3, 1, records, {}).get_or_call("first", calls.offer("one"))
    resumed = CallCache(3, 1, records, stored(records), limit=journal.CallLimit(0))
    assert resumed.get_or_call("first", calls.offer("again"))["text"] == "one"
    message = r"^The LLM calls of this iteration are used up: the budget in calls is divided\.$"
    with pytest.raises(errors.BudgetUsed, match=message):
        resumed.get_or_call("second", calls.offer("two"))
    assert calls.sold == ["one"]


def test_limit_counts_requests_sent_together() -> None:
    limit = journal.CallLimit(3)
    limit.count(2)
    with pytest.raises(errors.BudgetUsed):
        limit.count(2)
    limit.count()
    with pytest.raises(errors.BudgetUsed):
        limit.count()
