"""The suites that every journal, inbox and store of versions passes, on SQLite and on PostgreSQL."""

from typing import Any

import pytest

from atoll import control, journal, store, testing


@pytest.fixture(autouse=True)
def _home(request: pytest.FixtureRequest, opened: store.Store) -> None:
    """Gives every test of a suite a store of its own, of either kind."""
    request.instance.kept = opened


class TestStoredJournal(testing.JournalSuite):
    kept: store.Store

    def make(self) -> store.StoredJournal:
        return self.kept.journal(self.kept.create_run())

    def reopen(self, journal: journal.Journal) -> journal.Journal:
        return self.kept.journal(self.kept.list_runs()[0].id)


class TestStoredVersions(testing.VersionsSuite):
    kept: store.Store

    def make(self) -> store.StoredVersions:
        return self.kept.versions()


class TestStoredInbox(testing.InboxSuite[store.StoredInbox]):
    kept: store.Store

    def make(self) -> store.StoredInbox:
        return self.kept.inbox(self.kept.create_run())

    def post(self, inbox: store.StoredInbox, kind: control.CommandKind, **data: Any) -> None:
        inbox.post(kind, **data)
