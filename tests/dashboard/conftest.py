"""Sample stores and HTTP clients of the dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from atoll import store
from atoll.dashboard import server
from tests.dashboard import sample_data
from tests.dashboard.browser import stage
from tests.runs import samples

TOKEN = "a token for tests"


@pytest.fixture(scope="module")
def run_store(tmp_path_factory):
    """Read-only store with several runs."""
    with store.Store(tmp_path_factory.mktemp("dashboard") / "atoll.db") as run_store:
        samples.walk(run_store, "walk", iterations=60)
        samples.ask(run_store, "asked")
        samples.fail(run_store, "failing")
        stage.fill_elites(run_store)
        stage.fill_hostile(run_store)
        yield run_store


@pytest.fixture(scope="module")
def client(run_store):
    """Client without the token."""
    with TestClient(server.create_app(run_store, token=TOKEN), base_url="http://127.0.0.1:8765") as client:
        yield client


@pytest.fixture
def token_headers(client):
    """Headers with the token."""
    return {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> sample_data.SampleStore:
    """Read-only sample store."""
    return sample_data.fill(tmp_path_factory.mktemp("library"))


@pytest.fixture
def sample_store(
    library: sample_data.SampleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> sample_data.SampleStore:
    """Copy of the sample store that a test can change."""
    monkeypatch.chdir(tmp_path)
    return library.copy_to(tmp_path)


@pytest.fixture
def authorized_client(sample_store: sample_data.SampleStore) -> Iterator[TestClient]:
    """Client with the token of the copied store."""
    app = server.create_app(sample_store.path, token=sample_data.TOKEN)
    headers = {"x-atoll-token": sample_data.TOKEN}
    with TestClient(app, base_url="http://127.0.0.1:8765", headers=headers) as created:
        yield created
