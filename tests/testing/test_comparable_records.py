"""Comparable records have the results of a run without times and costs."""

from atoll.journal import APPLIED, CONTROLLED, ENDED, EVALUATED, INITIAL, STARTED, Record
from atoll.store import memory
from atoll.testing import get_comparable_records


def make_journal(*records: Record) -> memory.MemoryJournal:
    journal = memory.MemoryJournal()
    journal.write(*records)
    return journal


def test_records_are_sorted_by_iteration() -> None:
    one = Record(EVALUATED, 1, 0, {"label": "0"})
    two = Record(EVALUATED, 2, 0, {"label": "0"})
    trial = Record(EVALUATED, 2, 0, {"label": "d0"})
    assert (
        get_comparable_records(make_journal(trial, two, one))
        == get_comparable_records(make_journal(one, two, trial))
        == [one, two, trial]
    )


def test_costs_are_removed_at_any_depth() -> None:
    journal = make_journal(
        Record(INITIAL, 0, -1, {"id": "0.0", "evaluation": {"score": 1.0, "cost": [0.3, 0, 0, 0.0]}})
    )
    assert get_comparable_records(journal)[0].data == {"id": "0.0", "evaluation": {"score": 1.0}}


def test_process_records_are_removed() -> None:
    journal = make_journal(*(Record(kind, 0, -1, {}) for kind in (STARTED, CONTROLLED, ENDED)))
    assert get_comparable_records(journal) == []


def test_decisions_are_kept() -> None:
    applied = Record(APPLIED, 1, 0, {"children": [{"id": "1.0", "decision": ["accept", "it ran", "ran", None]}]})
    other = Record(APPLIED, 1, 0, {"children": [{"id": "1.0", "decision": ["reject", "it ran", "ran", None]}]})
    assert get_comparable_records(make_journal(applied)) == [applied]
    assert get_comparable_records(make_journal(applied)) != get_comparable_records(make_journal(other))
