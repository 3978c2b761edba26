"""A store with runs in it, and a client of its dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from atoll.dashboard import server
from tests.dashboard import filled


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> filled.Filled:
    """Runs of minds and lives, a playbook and much to decide on; nobody changes it."""
    return filled.fill(tmp_path_factory.mktemp("library"))


@pytest.fixture
def place(library: filled.Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> filled.Filled:
    """A copy of the library that a test may change."""
    monkeypatch.chdir(tmp_path)
    return library.copied(tmp_path)


@pytest.fixture
def client(place: filled.Filled) -> Iterator[TestClient]:
    """Asks the dashboard of the copy, with the token."""
    app = server.application(place.path, token=filled.TOKEN)
    headers = {"x-atoll-token": filled.TOKEN}
    with TestClient(app, base_url="http://127.0.0.1:8765", headers=headers) as made:
        yield made
