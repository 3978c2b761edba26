"""What lives in memory keeps every promise but that of outliving its process."""

from typing import Any

from atoll import control, testing
from atoll.store import memory


class TestMemoryJournal(testing.JournalSuite):
    def make(self) -> memory.MemoryJournal:
        return memory.MemoryJournal()


class TestMemoryVersions(testing.VersionsSuite):
    def make(self) -> memory.MemoryVersions:
        return memory.MemoryVersions()


class TestMemoryInbox(testing.InboxSuite[memory.MemoryInbox]):
    def make(self) -> memory.MemoryInbox:
        return memory.MemoryInbox()

    def post(self, inbox: memory.MemoryInbox, kind: control.CommandKind, **data: Any) -> None:
        inbox.post(kind, **data)


class TestDyingJournal(testing.JournalSuite):
    """One that never dies is a journal like any other."""

    def make(self) -> testing.FailingJournal:
        return testing.FailingJournal(memory.MemoryJournal())
