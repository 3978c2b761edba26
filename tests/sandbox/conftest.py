"""Fixtures that check that no test leaves processes, files or descriptors."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll.sandbox import ProcessSandbox
from tests.sandbox import helpers


@pytest.fixture(autouse=True)
def temp_dir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder for the temporary files of one test."""
    folder = tmp_path_factory.mktemp("temp")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = helpers.list_leftovers()
    yield folder
    if helpers.list_leftovers() != before:
        gc.collect()  # (too slow for every test)
        num_open, *others = helpers.list_leftovers()
        assert others == list(before[1:])
        assert num_open <= before[0]  # descriptors of earlier tests may have been closed meanwhile


@pytest.fixture
def workers(temp_dir: Path) -> Iterator[ProcessSandbox]:
    with ProcessSandbox(helpers.make_program_job, helpers.LIMITS) as box:
        yield box
