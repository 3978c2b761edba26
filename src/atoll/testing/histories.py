"""What a run did, apart from when: for comparing runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll.journal import Journal, Record

_PASSING = ("started", "ended", "controlled")  # of a session, not of the run
_MEASURED = ("cost", "usage")  # holds seconds


def history(journal: Journal) -> Sequence[Record]:
    """Returns the records of steps in the order of steps, without costs.

    Two ordered runs of the same seed and window have equal ones: whatever the number of workers, the time that each
    call took, and how often the run was cut and resumed. What judges bought is left out: of two equal contents in
    flight at once, one buys for both, whichever comes first.
    """
    records = [record for record in journal.read() if record.kind not in _PASSING and not _is_of_judge(record)]
    return [each._replace(data=_untimed(each.data)) for each in sorted(records, key=_place)]


def _is_of_judge(record: Record) -> bool:
    return record.kind == "replied" and str(record.data.get("call")).count("/") == 1  # "label/number"


def _place(record: Record) -> tuple[int, str, str]:
    label = record.data.get("label", record.data.get("call", ""))
    return record.step, record.kind, str(label)


def _untimed(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {name: _untimed(value) for name, value in data.items() if name not in _MEASURED}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_untimed(value) for value in data]
    return data
