"""A history holds what a run did and not when."""

from atoll.journal import Record
from atoll.store import memory
from atoll.testing import get_comparable_records


def written(*records: Record) -> memory.MemoryJournal:
    journal = memory.MemoryJournal()
    journal.write(*records)
    return journal


def test_records_are_in_the_order_of_steps_whoever_came_first() -> None:
    one = Record("judged", 1, 0, {"label": "0"})
    two = Record("judged", 2, 0, {"label": "0"})
    draft = Record("judged", 2, 0, {"label": "d0"})
    assert (
        get_comparable_records(written(draft, two, one))
        == get_comparable_records(written(one, two, draft))
        == [one, two, draft]
    )


def test_what_something_cost_is_left_out_at_any_depth() -> None:
    journal = written(Record("founded", 0, -1, {"id": "0.0", "evaluation": {"score": 1.0, "cost": [0.3, 0, 0, 0.0]}}))
    assert get_comparable_records(journal)[0].data == {"id": "0.0", "evaluation": {"score": 1.0}}


def test_what_belongs_to_a_session_is_left_out() -> None:
    journal = written(*(Record(kind, 0, -1, {}) for kind in ("started", "controlled", "ended")))
    assert get_comparable_records(journal) == []


def test_what_was_decided_is_kept() -> None:
    applied = Record("applied", 1, 0, {"children": [{"id": "1.0", "decision": ["accept", "it ran", "ran", None]}]})
    other = Record("applied", 1, 0, {"children": [{"id": "1.0", "decision": ["reject", "it ran", "ran", None]}]})
    assert get_comparable_records(written(applied)) == [applied]
    assert get_comparable_records(written(applied)) != get_comparable_records(written(other))
