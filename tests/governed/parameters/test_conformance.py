"""The ParameterStore contract for every store."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from atoll import governed, testing
from tests import postgres
from tests.repetitions import choose


@pytest.fixture(autouse=True)
def _home(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Gives every test its own folder and closes the stores opened in it."""
    if request.instance is None:
        yield
        return
    request.instance.home, request.instance.opened = tmp_path, []
    yield
    for item in request.instance.opened:
        item.close()


class TestMemoryParameters(testing.ParameterStoreContract):
    max_examples = choose(10, 30)

    def make(self) -> governed.ParameterStore:
        return governed.MemoryParameters()


class TestFileParameters(testing.ParameterStoreContract):
    home: Path
    opened: list[Any]

    def make(self) -> governed.ParameterStore:
        self.opened.append(governed.FileParameters(self.home / str(len(self.opened))))
        parameters: governed.ParameterStore = self.opened[-1]
        return parameters

    def reopen(self, store: governed.ParameterStore) -> governed.ParameterStore:
        assert isinstance(store, governed.FileParameters)
        return governed.FileParameters(store.root)


class TestStoredParameters(testing.ParameterStoreContract):
    home: Path
    opened: list[Any]

    def make(self) -> governed.ParameterStore:
        return self.open(self.home / f"{len(self.opened)}.db")

    def open(self, path: str | Path) -> governed.StoredParameters:
        self.opened.append(governed.StoredParameters(path))
        parameters: governed.StoredParameters = self.opened[-1]
        return parameters

    def reopen(self, store: governed.ParameterStore) -> governed.ParameterStore:
        assert isinstance(store, governed.StoredParameters)
        return self.open(store.store.database.name)


class TestPostgresParameters(testing.ParameterStoreContract):
    max_examples, steps = 3, 12  # one database per example
    opened: list[Any]
    databases: ExitStack
    server: postgres.Server

    @pytest.fixture(autouse=True)
    def _start_server(self, postgres_server: postgres.Server) -> Any:
        with ExitStack() as self.databases:
            self.server = postgres_server
            yield

    def make(self) -> governed.ParameterStore:
        return self.open(self.databases.enter_context(self.server.database()))

    def open(self, url: str) -> governed.StoredParameters:
        self.opened.append(governed.StoredParameters(url))
        parameters: governed.StoredParameters = self.opened[-1]
        return parameters

    def reopen(self, store: governed.ParameterStore) -> governed.ParameterStore:
        assert isinstance(store, governed.StoredParameters)
        return self.open(store.store.database.name)


class TestSQLiteInMemory(testing.ParameterStoreContract):
    opened: list[Any]

    def make(self) -> governed.ParameterStore:
        self.opened.append(governed.StoredParameters("sqlite://"))
        parameters: governed.ParameterStore = self.opened[-1]
        return parameters
