"""A store with runs in it, and a client of its dashboard."""

import pytest
from starlette.testclient import TestClient

from atoll import store
from atoll.dashboard import server
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
    with TestClient(server.application(kept, token=TOKEN), base_url="http://127.0.0.1:8765") as client:
        yield client


@pytest.fixture
def owner(client):
    """What somebody who has the token says with every request."""
    return {"authorization": f"Bearer {TOKEN}"}
