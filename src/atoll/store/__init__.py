"""The store: journal, candidates, versions, inbox and blobs of many runs in one file, or in memory for tests."""

from atoll.store.blobs import Blobs
from atoll.store.candidates import Candidates, Row
from atoll.store.claim import Claim
from atoll.store.inbox import StoredInbox
from atoll.store.journal import StoredJournal
from atoll.store.memory import MemoryBlobs, MemoryInbox, MemoryJournal, MemoryVersions
from atoll.store.runs import Run
from atoll.store.store import Store, open
from atoll.store.versions import StoredVersions

__all__ = [
    "Blobs",
    "Candidates",
    "Claim",
    "MemoryBlobs",
    "MemoryInbox",
    "MemoryJournal",
    "MemoryVersions",
    "Row",
    "Run",
    "Store",
    "StoredInbox",
    "StoredJournal",
    "StoredVersions",
    "open",
]
