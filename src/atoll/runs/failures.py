"""What went wrong in a run, and how often."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll import store
from atoll.runs import text_format

EVALUATOR = "judge"  # who rejects a candidate that has no score

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Why something was lost, and how often; `by` is who said so."""

    count: int
    source: str
    text: str


class FailureCounts(NamedTuple):
    """What gave nothing, by reason, the commonest first.

    Attributes:
        failures: Proposals that gave no child, and children without a score.
        rejections: Children that some gate kept out.
    """

    failures: Sequence[FailureReason]
    rejections: Sequence[FailureReason]


def count_failures(run_store: store.Store, run_id: str) -> FailureCounts:
    """Counts the failures and rejections of a run.

    Raises:
        NotFound: There is no such run.
    """
    failures: list[tuple[str, str]] = []
    rejections: list[tuple[str, str]] = []
    for record in run_store.journal(run_id).read_kinds("applied"):
        if "failure" in record.data:
            failures.append(("engine", record.data["failure"]))
        for verdict, reason, source, _ in (child["decision"] for child in record.data["children"]):
            if verdict == "reject":
                (failures if source == EVALUATOR else rejections).append((str(source), str(reason)))
    return FailureCounts(list(_group_reasons(failures)), list(_group_reasons(rejections)))


def _group_reasons(reasons: Iterable[tuple[str, str]]) -> Iterator[FailureReason]:
    """Puts together what differs in numbers only; such a group is called by its text with N for each number."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for source, reason in reasons:
        message = text_format.get_first_line(reason)
        groups.setdefault((source, _NUMBER.sub("N", message)), Counter())[message] += 1
    for (source, pattern), texts in sorted(groups.items(), key=lambda group: (-group[1].total(), group[0])):
        yield FailureReason(texts.total(), source, next(iter(texts)) if len(texts) == 1 else pattern)
