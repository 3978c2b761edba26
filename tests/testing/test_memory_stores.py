"""In-memory stores pass the suites."""

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


class TestFailingJournal(testing.JournalSuite):
    """Without a limit it is an ordinary journal."""

    def make(self) -> testing.FailingJournal:
        return testing.FailingJournal(memory.MemoryJournal())
