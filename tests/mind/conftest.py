"""Problems for tests of mind."""

import json
from pathlib import Path

import pytest

from atoll.mind.tasks import generate, load


@pytest.fixture
def trips():
    return [
        load.parse_row({k: row[k] for k in load.VISIBLE_FIELDS if k in row})
        for row in generate.generate_rows("trip", 2, 6, 3)
    ]


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = [*generate.generate_rows("trip", 2, 5, 3), *generate.generate_rows("meeting", 2, 4, 3)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path
