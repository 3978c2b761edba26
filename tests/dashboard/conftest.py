"""Stores with runs in them, and clients of their dashboards."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from atoll import store
from atoll.dashboard import server
from tests.dashboard import filled
from tests.dashboard.browser import stage
from tests.runs import samples

TOKEN = "a token for tests"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store that tests only look at."""
    with store.Store(tmp_path_factory.mktemp("dashboard") / "atoll.db") as kept:
        samples.walk(kept, "walk", iterations=60)
        samples.ask(kept, "asked")
        samples.fail(kept, "failing")
        stage.elites(kept)
        stage.hostile(kept)
        yield kept


@pytest.fixture(scope="module")
def client(kept):
    """Somebody on this machine who has no token."""
    with TestClient(server.create_app(kept, token=TOKEN), base_url="http://127.0.0.1:8765") as client:
        yield client


@pytest.fixture
def owner(client):
    """What somebody who has the token says with every request."""
    return {"authorization": f"Bearer {TOKEN}"}


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
def decider(place: filled.Filled) -> Iterator[TestClient]:
    """Asks the dashboard of the copy, with the token."""
    app = server.create_app(place.path, token=filled.TOKEN)
    headers = {"x-atoll-token": filled.TOKEN}
    with TestClient(app, base_url="http://127.0.0.1:8765", headers=headers) as made:
        yield made
