"""The store: journal, candidates, versions, inbox and blobs of many runs in one file, or in memory for tests."""

from atoll.store import audit
from atoll.store.blobs import Blobs
from atoll.store.book import ChangeLog
from atoll.store.candidates import Candidates, Row
from atoll.store.changes import SQLChangeLog
from atoll.store.dialect import RunLock
from atoll.store.entry import ChangeEntry
from atoll.store.feed import RecordFeed, Gap, FeedItem
from atoll.store.inbox import StoredInbox
from atoll.store.journal import StoredJournal
from atoll.store.leases import LeaseInterval, Leases, LeaseStatus
from atoll.store.ledger import VersionLedger, ChangeRequest
from atoll.store.memory import MemoryBlobs, MemoryInbox, MemoryJournal, MemoryVersions
from atoll.store.memory_book import MemoryChangeLog
from atoll.store.runs import Run
from atoll.store.shared import Migrant, SharedJournal, SharedUsage
from atoll.store.store import Store, open
from atoll.store.versions import LedgerVersions, StoredVersions

__all__ = [
    "Blobs",
    "ChangeLog",
    "Candidates",
    "RunLock",
    "ChangeEntry",
    "RecordFeed",
    "Gap",
    "LeaseInterval",
    "Leases",
    "VersionLedger",
    "LedgerVersions",
    "MemoryBlobs",
    "MemoryChangeLog",
    "MemoryInbox",
    "MemoryJournal",
    "MemoryVersions",
    "Migrant",
    "FeedItem",
    "ChangeRequest",
    "Row",
    "Run",
    "SharedJournal",
    "LeaseStatus",
    "Store",
    "SQLChangeLog",
    "StoredInbox",
    "StoredJournal",
    "StoredVersions",
    "SharedUsage",
    "audit",
    "open",
]
