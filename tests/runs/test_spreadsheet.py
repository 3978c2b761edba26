"""Candidates for a spreadsheet."""

import csv
import io

import pytest

from atoll import store
from atoll.runs import data_export
from tests.runs import samples


@pytest.fixture(scope="module")
def kept():
    with store.open(samples.library()) as opened:
        yield opened


def rows(kept: store.Store, run: str) -> list[dict[str, str]]:
    text = "".join(data_export.to_csv(kept.candidates(run)))
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("run", [samples.LONG_ID, "failing", "cut", "hostile"])
def test_every_candidate_is_one_row(run, kept):
    found = rows(kept, run)
    assert [row["id"] for row in found] == [row.id for row in kept.candidates(run)]
    assert all(None not in row and None not in row.values() for row in found)


def test_a_content_comes_back_as_it_was(kept):
    contents = {row["id"]: row["content"] for row in rows(kept, "hostile")}
    for row in kept.candidates("hostile"):
        if samples.FORMULA not in row.content and "\0" not in row.content:
            assert contents[row.id] == row.content


def test_no_cell_is_a_formula(kept):
    numbers = {"island", "step", "is_draft", "score"}
    for row in rows(kept, "hostile"):
        texts = [value for name, value in row.items() if name not in numbers and not name.startswith("metric ")]
        assert not any(value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for value in texts)
    assert any(row["content"].startswith(f"'{samples.FORMULA}") for row in rows(kept, "hostile"))


def test_what_no_encoding_has_is_spelled_out(kept):
    text = "".join(data_export.to_csv(kept.candidates("hostile")))
    text.encode()
    assert "\0" not in text


def test_numbers_stay_numbers(kept):
    best = next(row for row in rows(kept, "asked") if row["id"] == "5.0")
    assert (best["score"], best["metric value"], best["is_draft"]) == ("-0.25", "2.5", "0")


def test_a_run_without_candidates_has_a_heading(kept):
    assert "".join(data_export.to_csv(kept.candidates("empty"))).startswith("id,parents,island,step,")
    assert not rows(kept, "empty")
