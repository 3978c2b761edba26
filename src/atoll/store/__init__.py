"""The store: journal, candidates, versions, inbox and blobs of many runs in one file, or in memory for tests."""

from atoll.store import audit
from atoll.store.blobs import Blobs
from atoll.store.book import Book
from atoll.store.candidates import Candidates, Row
from atoll.store.changes import StoredBook
from atoll.store.dialect import Claim
from atoll.store.entry import Entry
from atoll.store.feed import Feed, Gap, News
from atoll.store.inbox import StoredInbox
from atoll.store.journal import StoredJournal
from atoll.store.leases import Interval, Leases, Standing
from atoll.store.ledger import Ledger, Operation
from atoll.store.memory import MemoryBlobs, MemoryInbox, MemoryJournal, MemoryVersions
from atoll.store.memory_book import MemoryBook
from atoll.store.runs import Run
from atoll.store.shared import Migrant, SharedJournal, Totals
from atoll.store.store import Store, open
from atoll.store.versions import LedgerVersions, StoredVersions

__all__ = [
    "Blobs",
    "Book",
    "Candidates",
    "Claim",
    "Entry",
    "Feed",
    "Gap",
    "Interval",
    "Leases",
    "Ledger",
    "LedgerVersions",
    "MemoryBlobs",
    "MemoryBook",
    "MemoryInbox",
    "MemoryJournal",
    "MemoryVersions",
    "Migrant",
    "News",
    "Operation",
    "Row",
    "Run",
    "SharedJournal",
    "Standing",
    "Store",
    "StoredBook",
    "StoredInbox",
    "StoredJournal",
    "StoredVersions",
    "Totals",
    "audit",
    "open",
]
