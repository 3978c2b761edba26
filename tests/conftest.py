"""Fixtures and settings that all tests share."""

import signal
from collections.abc import Iterator

import hypothesis
import pytest

from tests import postgres

# A shell that starts the tests in the background makes them ignore SIGINT, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("atoll.testing")
# The same examples on every machine; a loaded one may be slow, so no example has a deadline.
hypothesis.settings.register_profile("atoll", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("atoll")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the size of the terminal that started the tests."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    with postgres.serving() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """URL of an empty PostgreSQL store."""
    with postgres_server.database() as url:
        yield url
