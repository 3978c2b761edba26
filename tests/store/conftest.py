"""Fixtures: stores in files, in memory and on a PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll import store

SHARED = ["file", "postgres"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Path of a new SQLite store."""
    return str(tmp_path / "atoll.db")


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest) -> str:
    """URL of a new store that processes can share, SQLite and PostgreSQL."""
    name = "path" if request.param == "file" else "postgres_url"
    return str(request.getfixturevalue(name))


@pytest.fixture
def opened(url: str) -> Iterator[store.Store]:
    with store.open(url) as opened_store:
        yield opened_store


@pytest.fixture
def file(path: str) -> Iterator[store.Store]:
    with store.open(path) as opened_store:
        yield opened_store


@pytest.fixture(params=[*SHARED, "memory"])
def any_store(request: pytest.FixtureRequest) -> Iterator[store.Store]:
    """An open store of each kind, also in memory."""
    names = {"file": "path", "postgres": "postgres_url"}
    url = request.getfixturevalue(names[request.param]) if request.param in names else "sqlite://"
    with store.open(url) as opened_store:
        yield opened_store
