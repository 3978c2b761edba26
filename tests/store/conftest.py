"""Stores in real files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll import store


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "atoll.db")


@pytest.fixture
def opened(path: str) -> Iterator[store.Store]:
    with store.open(path) as made:
        yield made


@pytest.fixture(params=["file", "memory"])
def either(request: pytest.FixtureRequest, path: str) -> Iterator[store.Store]:
    """A store in a file and one in memory: for what must be the same in both."""
    with store.open(path if request.param == "file" else "sqlite://") as made:
        yield made
