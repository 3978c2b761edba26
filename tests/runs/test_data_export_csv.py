"""Candidates for a spreadsheet."""

import csv
import io

import pytest

from atoll import store
from atoll.runs import data_export
from tests.runs import samples


@pytest.fixture(scope="module")
def run_store():
    with store.open(samples.library()) as opened:
        yield opened


def rows(run_store: store.Store, run: str) -> list[dict[str, str]]:
    text = "".join(data_export.to_csv(run_store.candidates(run)))
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("run", [samples.LONG_ID, "failing", "cut", "hostile"])
def test_csv_has_one_row_per_candidate(run, run_store):
    result = rows(run_store, run)
    assert [row["id"] for row in result] == [row.id for row in run_store.candidates(run)]
    assert all(None not in row and None not in row.values() for row in result)


def test_csv_preserves_content(run_store):
    contents = {row["id"]: row["content"] for row in rows(run_store, "hostile")}
    for row in run_store.candidates("hostile"):
        if samples.FORMULA not in row.content and "\0" not in row.content:
            assert contents[row.id] == row.content


def test_csv_has_no_formulas(run_store):
    numbers = {"island", "step", "is_draft", "score"}
    for row in rows(run_store, "hostile"):
        texts = [value for name, value in row.items() if name not in numbers and not name.startswith("metric ")]
        assert not any(value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for value in texts)
    assert any(row["content"].startswith(f"'{samples.FORMULA}") for row in rows(run_store, "hostile"))


def test_csv_escapes_unencodable_characters(run_store):
    text = "".join(data_export.to_csv(run_store.candidates("hostile")))
    text.encode()
    assert "\0" not in text


def test_csv_keeps_numbers(run_store):
    best = next(row for row in rows(run_store, "asked") if row["id"] == "5.0")
    assert (best["score"], best["metric value"], best["is_draft"]) == ("-0.25", "2.5", "0")


def test_csv_of_empty_run_has_heading(run_store):
    assert "".join(data_export.to_csv(run_store.candidates("empty"))).startswith("id,parents,island,step,")
    assert not rows(run_store, "empty")
