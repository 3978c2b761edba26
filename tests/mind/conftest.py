"""Problems and models for tests of minds."""

import json
from pathlib import Path

import pytest

from atoll.mind.tasks import data, making


@pytest.fixture
def trips():
    return [data.of_row({k: row[k] for k in data.VISIBLE if k in row}) for row in making.make("trip", 2, 6, 3)]


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = [*making.make("trip", 2, 5, 3), *making.make("meeting", 2, 4, 3)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path
