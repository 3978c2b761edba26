"""Every test of a sandbox must leave nothing behind."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll.sandbox import ProcessSandbox
from tests.sandbox import boxes


@pytest.fixture(autouse=True)
def temp_dir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this test alone makes temporary files."""
    folder = tmp_path_factory.mktemp("temp")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = boxes.traces()
    yield folder
    if boxes.traces() != before:
        gc.collect()  # (too slow for every test)
        num_open, *others = boxes.traces()
        assert others == list(before[1:])
        assert num_open <= before[0]  # what tests before this one left may have been closed meanwhile


@pytest.fixture
def workers(temp_dir: Path) -> Iterator[ProcessSandbox]:
    with ProcessSandbox(boxes.programs, boxes.LIMITS) as made:
        yield made
