"""The store holds journals, candidates, versions, commands and blobs of many runs, in a database or in memory."""

from atoll.store.candidates import Candidates, Row
from atoll.store.database.dialect import RunLock
from atoll.store.memory import MemoryBlobs, MemoryChangeLog, MemoryInbox, MemoryJournal, MemoryVersions
from atoll.store.records.blobs import Blobs
from atoll.store.records.journal import FeedItem, Gap, RecordFeed, StoredInbox, StoredJournal
from atoll.store.records.leases import LeaseInterval, Leases, LeaseStatus
from atoll.store.records.shared_journal import Migrant, SharedJournal, SharedUsage
from atoll.store.store import Run, Store, open
from atoll.store.versions import audit
from atoll.store.versions.change import ChangeEntry, ChangeLog, ChangeRequest
from atoll.store.versions.ledger import LedgerVersions, StoredVersions, VersionLedger
from atoll.store.versions.sql_change_log import SQLChangeLog

__all__ = [
    "Blobs",
    "Candidates",
    "ChangeEntry",
    "ChangeLog",
    "ChangeRequest",
    "FeedItem",
    "Gap",
    "LeaseInterval",
    "LeaseStatus",
    "Leases",
    "LedgerVersions",
    "MemoryBlobs",
    "MemoryChangeLog",
    "MemoryInbox",
    "MemoryJournal",
    "MemoryVersions",
    "Migrant",
    "RecordFeed",
    "Row",
    "Run",
    "RunLock",
    "SQLChangeLog",
    "SharedJournal",
    "SharedUsage",
    "Store",
    "StoredInbox",
    "StoredJournal",
    "StoredVersions",
    "VersionLedger",
    "audit",
    "open",
]
