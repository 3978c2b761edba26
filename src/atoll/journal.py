"""The truth of a run: plain records, written before they count.

| kind            | written                                   | data                                            |
|-----------------|-------------------------------------------|-------------------------------------------------|
| started, ended  | by the builder; when a run stops          | resolved set-up; reason                         |
| founded         | after the initial is judged               | candidate, evaluation                           |
| begun           | with the `applied` that let it start      | epoch, parents, others, advice, allowance, seen |
| replied         | on arrival, before parsing; own commit    | call, digest of the request, what was bought    |
| judged          | on arrival of each evaluation; own commit | label (child `k` or draft `dN`), both, paid     |
| applied         | one commit with all it causes             | children with decisions, failure, what it took  |
| migrated, reset | same commit, one per island touched       | functions, whole; new epoch: outcomes, not dice |
| observed        | same commit: a late judgement             | candidate id, evaluation                        |
| held, decided   | a gate said hold; somebody decided later  | content hash; decision                          |
| controlled      | a command was obeyed, or refused          | its number, kind and data                       |
| concluded       | after the end, by a system                | its result, such as plans and what solved them  |
| executed        | after the end, where a cluster judged     | what it did: seats, nodes, requests sent again  |

A record of island -1 concerns all islands.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from atoll import candidate, errors
from atoll.evaluation import ZERO_COST, BlobRef, Cost


class Record(NamedTuple):
    """One line of the journal."""

    kind: str
    step: int
    island: int
    data: Mapping[str, Any]


class Journal(Protocol):
    """Where records go; a port that is passed in, not a profiler."""

    def write(self, *records: Record) -> None:
        """Commits all records in one transaction or raises; raising ends the run. Called from any thread."""

    def read(self, island: int | None = None) -> Iterator[Record]:
        """Yields the records in the order in which they were written, of one island or of all."""


class Blobs(Protocol):
    """Where bodies go: artifacts, prompts, long contents."""

    def put(self, data: bytes) -> BlobRef:
        """Stores a body under its hash; the same body twice is stored once."""

    def get(self, sha256: str) -> bytes:
        """Returns a body.

        Raises:
            NotFound: There is none under that hash.
        """


class NullJournal:
    """Keeps nothing: for a run that needs no resume and no report."""

    def write(self, *records: Record) -> None:
        pass

    def read(self, island: int | None = None) -> Iterator[Record]:
        return iter(())


class CheckedJournal:
    """A journal whose every fault is a `JournalFailed`, so that nobody takes it for a bad candidate."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def write(self, *records: Record) -> None:
        result = errors.capture(lambda: self._journal.write(*records))
        if isinstance(result, errors.CaughtException):
            raise errors.JournalFailed(f"The journal could not be written: {result}") from result.error

    def read(self, island: int | None = None) -> Iterator[Record]:
        return self._journal.read(island)


class CallCache:
    """What one step has bought, by call number: bought once, answered from the journal ever after.

    A step makes its calls one after the other, so that the n-th call of a step that runs again is the same call.

    Attributes:
        place: (step, call) of the call under way, for models that answer by place and never by arrival.
        island: Whose step it is.
    """

    current: ContextVar["CallCache | None"] = ContextVar("atoll_ledger", default=None)

    def __init__(
        self, iteration: int, island: int, journal: Journal, stored: Mapping[str, Any], prefix: str = ""
    ) -> None:
        self.cost, self.position = ZERO_COST, (iteration, f"{prefix}0")
        self.island, self._journal, self._stored, self._prefix = island, journal, stored, prefix

    def get_or_call(self, request: str, make_call: Callable[[], Mapping[str, candidate.JSON]]) -> Mapping[str, Any]:
        """Returns what this call bought before, or buys it and stores it before anybody sees it.

        Args:
            request: All that the answer depends on. A stored answer to another request is not used.
            buy: Returns plain data, with `usage` as the list of a `Cost`'s fields, if any.
        """
        iteration, call = self.position
        response, request_hash = self._stored.get(call), candidate.content_hash(request)
        if response is None or response["request"] != request_hash:
            response = {**make_call(), "call": call, "request": request_hash}
            self._journal.write(Record("replied", iteration, self.island, response))
        self.cost += (Cost(*response["usage"]) if "usage" in response else ZERO_COST) + Cost(calls=1)
        self.position = (iteration, f"{self._prefix}{self.cost.calls}")
        return response
