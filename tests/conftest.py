"""What all tests share."""

from collections.abc import Iterator

import hypothesis
import pytest

from tests import postgres

pytest.register_assert_rewrite("atoll.testing")
# The same examples on every machine; a loaded one may be slow, so no example has a deadline.
hypothesis.settings.register_profile("atoll", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("atoll")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away what processes of tests say of a terminal that none of them has."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    with postgres.serving() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A store in PostgreSQL with nothing in it."""
    with postgres_server.database() as url:
        yield url
