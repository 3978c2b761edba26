"""What went wrong in a run, and how often."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll import store
from atoll.runs import text

JUDGE = "judge"  # who rejects a candidate that has no score

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was lost, and how often; `by` is who said so."""

    count: int
    by: str
    text: str


class Losses(NamedTuple):
    """What gave nothing, by reason, the commonest first.

    Attributes:
        failures: Proposals that gave no child, and children without a score.
        rejections: Children that some gate kept out.
    """

    failures: Sequence[Reason]
    rejections: Sequence[Reason]


def losses(kept: store.Store, run: str) -> Losses:
    """Counts the failures and rejections of a run.

    Raises:
        NotFound: There is no such run.
    """
    failures: list[tuple[str, str]] = []
    rejections: list[tuple[str, str]] = []
    for record in kept.journal(run).of_kind("applied"):
        if "failure" in record.data:
            failures.append(("engine", record.data["failure"]))
        for verdict, reason, by, _ in (child["decision"] for child in record.data["children"]):
            if verdict == "reject":
                (failures if by == JUDGE else rejections).append((str(by), str(reason)))
    return Losses(list(_grouped(failures)), list(_grouped(rejections)))


def _grouped(said: Iterable[tuple[str, str]]) -> Iterator[Reason]:
    """Puts together what differs in numbers only; such a group is called by its text with N for each number."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for by, reason in said:
        first = text.line(reason)
        groups.setdefault((by, _NUMBER.sub("N", first)), Counter())[first] += 1
    for (by, general), texts in sorted(groups.items(), key=lambda each: (-each[1].total(), each[0])):
        yield Reason(texts.total(), by, next(iter(texts)) if len(texts) == 1 else general)
