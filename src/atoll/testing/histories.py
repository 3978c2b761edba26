"""What a run did, apart from when: for comparing runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll.journal import Journal, Record

_SESSION_KINDS = ("started", "ended", "controlled")  # of a session, not of the run
_TIMED_FIELDS = ("cost", "usage")  # holds seconds


def get_comparable_records(journal: Journal) -> Sequence[Record]:
    """Returns the records of steps in the order of steps, without costs.

    Two ordered runs of the same seed and window have equal ones: whatever the number of workers, the time that each
    call took, and how often the run was cut and resumed. What judges bought is left out: of two equal contents in
    flight at once, one buys for both, whichever comes first.
    """
    records = [record for record in journal.read() if record.kind not in _SESSION_KINDS and not _is_evaluator_call(record)]
    return [record._replace(data=_drop_timed_fields(record.data)) for record in sorted(records, key=_get_sort_key)]


def _is_evaluator_call(record: Record) -> bool:
    return record.kind == "replied" and str(record.data.get("call")).count("/") == 1  # "label/number"


def _get_sort_key(record: Record) -> tuple[int, str, str]:
    label = record.data.get("label", record.data.get("call", ""))
    return record.step, record.kind, str(label)


def _drop_timed_fields(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {name: _drop_timed_fields(value) for name, value in data.items() if name not in _TIMED_FIELDS}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_drop_timed_fields(value) for value in data]
    return data
