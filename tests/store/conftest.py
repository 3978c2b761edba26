"""Stores in real files and on a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll import store

SHARED = ["file", "postgres"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file, for what is SQLite's own."""
    return str(tmp_path / "atoll.db")


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest) -> str:
    """A new store that processes can share, of each kind."""
    found: str = request.getfixturevalue("path" if request.param == "file" else "postgres_url")
    return found


@pytest.fixture
def opened(url: str) -> Iterator[store.Store]:
    with store.open(url) as made:
        yield made


@pytest.fixture
def file(path: str) -> Iterator[store.Store]:
    with store.open(path) as made:
        yield made


@pytest.fixture(params=[*SHARED, "memory"])
def either(request: pytest.FixtureRequest) -> Iterator[store.Store]:
    """A store of each kind, one in memory too: for what must be the same in all."""
    names = {"file": "path", "postgres": "postgres_url"}
    url = request.getfixturevalue(names[request.param]) if request.param in names else "sqlite://"
    with store.open(url) as made:
        yield made
