"""Journal of a run: records from which recovery rebuilds its state.

| constant        | stored kind     | written                                  | data                                  |
|-----------------|-----------------|------------------------------------------|---------------------------------------|
| STARTED, ENDED  | started, ended  | at the start; when a run stops           | resolved configuration; reason        |
| INITIAL         | founded         | after the initial candidate's evaluation | candidate, evaluation                 |
| ISSUED          | begun           | at the start; with an `applied` record   | epoch, parents, inspirations, advice  |
| CHARGED         | charged         | with an LLM budget: before a request;    | call, its highest possible cost;      |
|                 |                 | after a failed one that cost less        | call, its cost                        |
| RESPONSE        | replied         | on arrival, before parsing; own commit   | call, hash of the request, response   |
| EVALUATED       | judged          | after each evaluation; own commit        | label (child `k`, trial `dN`), result |
| APPLIED         | applied         | one commit with all consequences         | children, decisions, failure, cost    |
| MIGRATED, RESET | migrated, reset | same commit, one per island              | full functions; new epoch             |
| UPDATED         | observed        | same commit, for a later evaluation      | candidate id, evaluation              |
| HELD, DECIDED   | held, decided   | a gate held it; an approver decided      | content hash; decision                |
| CONTROLLED      | controlled      | a command was carried out or refused     | its number, kind and data             |
| CONCLUDED       | concluded       | after the end, by a system               | its result, such as plans             |
| EXECUTED        | executed        | after the end, by a cluster executor     | slots, nodes, requests sent again     |

A record of island -1 concerns all islands. The stored kinds never change: old stores must resume. A system may write
kinds of its own, which recovery ignores: `called` is a call of an evaluator on one instance (`programs/gepa`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from atoll import candidate, errors
from atoll.evaluation import ZERO_COST, BlobRef, Cost

STARTED, ENDED = "started", "ended"
INITIAL, ISSUED, CHARGED, RESPONSE = "founded", "begun", "charged", "replied"
EVALUATED, APPLIED, UPDATED = "judged", "applied", "observed"
MIGRATED, RESET = "migrated", "reset"
HELD, DECIDED, CONTROLLED = "held", "decided", "controlled"
CONCLUDED, EXECUTED = "concluded", "executed"


class Record(NamedTuple):
    """One line of the journal."""

    kind: str
    step: int
    island: int
    data: Mapping[str, Any]


class Journal(Protocol):
    """Storage of the records of one run. A profiler only observes; the journal is the truth."""

    def write(self, *records: Record) -> None:
        """Commits all records in one transaction or raises; raising ends the run. Called from any thread."""

    def read(self, island: int | None = None) -> Iterator[Record]:
        """Yields the records of one island, or of all, in the order of writing."""


class Blobs(Protocol):
    """Storage of artifacts, prompts and long contents."""

    def put(self, data: bytes) -> BlobRef:
        """Stores data under its hash; equal data is stored once."""

    def get(self, sha256: str) -> bytes:
        """Returns the data with this hash.

        Raises:
            NotFound: The hash is unknown.
        """


class NullJournal:
    """Discards records, for a run that needs neither resume nor report."""

    def write(self, *records: Record) -> None:
        pass

    def read(self, island: int | None = None) -> Iterator[Record]:
        return iter(())


class CheckedJournal:
    """Raises `JournalFailed` for every write error, so that it is not taken for a bad candidate."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def write(self, *records: Record) -> None:
        result = errors.capture(lambda: self._journal.write(*records))
        if isinstance(result, errors.CaughtException):
            raise errors.JournalFailed(f"The journal could not be written: {result}") from result.error

    def read(self, island: int | None = None) -> Iterator[Record]:
        return self._journal.read(island)


class CallLimit:
    """Number of LLM calls that an iteration may still make. Each request counts, retries too."""

    def __init__(self, max_calls: int | None = None) -> None:
        self._left = math.inf if max_calls is None else max_calls

    def count(self, calls: int = 1, *, is_stored: bool = False) -> None:
        """Counts requests before they are sent.

        Raises:
            BudgetUsed: The limit is reached. Stored responses never raise.
        """
        if calls > self._left and not is_stored:
            raise errors.BudgetUsed("The LLM calls of this iteration are used up: the budget in calls is divided.")
        self._left -= calls


class CallCache:
    """LLM calls of one iteration, by number. A stored response is reused after a crash and not paid for twice.

    An iteration makes its calls one after another, so the n-th call is the same call when the iteration runs again.

    Attributes:
        current: Call cache of this thread, set while a mutator, an evaluator or a gate runs.
        position: (iteration, call) of the current call. Mailboxes and recordings find responses by it.
        island, journal: Island and journal of the iteration.
        limit: Limit of all calls of the iteration.
        max_evaluations: Evaluations that an evaluator may use now, at least one; None for any number.
        cost: Cost of its calls, including failed requests.
    """

    current: ContextVar["CallCache | None"] = ContextVar("atoll_call_cache", default=None)

    def __init__(
        self,
        iteration: int,
        island: int,
        journal: Journal,
        stored: Mapping[str, Any],
        prefix: str = "",
        limit: CallLimit | None = None,
        max_evaluations: int | None = None,
    ) -> None:
        self.cost, self.position, self.limit = ZERO_COST, (iteration, f"{prefix}0"), limit or CallLimit()
        self.max_evaluations, self.island, self.journal = max_evaluations, island, journal
        self._stored, self._prefix = stored, prefix

    def get_or_call(self, request: str, make_call: Callable[[], Mapping[str, candidate.JSON]]) -> Mapping[str, Any]:
        """Returns the stored response of this call, or makes the call and stores its response first.

        Args:
            request: Everything that the response depends on. A response to another request is not reused.
            make_call: Returns plain data, with `usage` as the list of a `Cost`'s fields, if any.

        Raises:
            BudgetUsed: The iteration may make no more calls.
        """
        iteration, call = self.position
        response, request_hash = self._stored.get(call), candidate.content_hash(request)
        is_stored = response is not None and response["request"] == request_hash
        self.limit.count(is_stored=is_stored)
        if response is None or not is_stored:
            response = {**make_call(), "call": call, "request": request_hash}
            self.journal.write(Record(RESPONSE, iteration, self.island, response))
        self.cost += (Cost(*response["usage"]) if "usage" in response else ZERO_COST) + Cost(calls=1)
        self.position = (iteration, f"{self._prefix}{int(call.removeprefix(self._prefix)) + 1}")
        return response
