"""Suites for journals, inboxes and versions, on SQLite and PostgreSQL."""

from typing import Any

import pytest

from atoll import control, journal, store, testing


@pytest.fixture(autouse=True)
def _home(request: pytest.FixtureRequest, opened: store.Store) -> None:
    """Gives every test a new store."""
    request.instance.opened_store = opened


class TestStoredJournal(testing.JournalSuite):
    opened_store: store.Store

    def make(self) -> store.StoredJournal:
        return self.opened_store.journal(self.opened_store.create_run())

    def reopen(self, journal: journal.Journal) -> journal.Journal:
        return self.opened_store.journal(self.opened_store.list_runs()[0].id)


class TestStoredVersions(testing.VersionsSuite):
    opened_store: store.Store

    def make(self) -> store.StoredVersions:
        return self.opened_store.versions()


class TestStoredInbox(testing.InboxSuite[store.StoredInbox]):
    opened_store: store.Store

    def make(self) -> store.StoredInbox:
        return self.opened_store.inbox(self.opened_store.create_run())

    def post(self, inbox: store.StoredInbox, kind: control.CommandKind, **data: Any) -> None:
        inbox.post(kind, **data)
