"""Edits as text, and edits without an LLM."""

import pytest

from atoll.mind.actions import Edit
from atoll.mind.workspace import edits
from atoll.mind.workspace.edits import apply_edits, fit_edits, format_edits, make_edits, parse_edits
from tests.mind.workspace import repositories

TEXT = "def f(a):\n    b = a + 1\n    return b\n\n\ndef g(a):\n    b = a + 1\n    return b\n"


def test_edits_round_trip():
    trace = (Edit("a.py", "x = 1\n", "x = 2\n"), Edit("a.py", "y\n", "z\n"), Edit("b.py", "", "new\n"))
    assert parse_edits(format_edits(trace)) == trace


@pytest.mark.parametrize(
    "after",
    [TEXT.replace("a + 1", "a + 2"), TEXT.replace("def g(a):\n    b = a + 1", "def g(a):\n    b = a"), "", "x\n" + TEXT,
     TEXT + "x\n", TEXT.replace("return b\n\n", "return b\n    x = 1\n")],
)  # fmt: skip
def test_make_edits_leads_from_one_text_to_the_other(after):
    edits = make_edits("a.py", TEXT, after)
    assert apply_edits(TEXT, edits) == after
    assert all(not edit.old or TEXT.count(edit.old) == 1 for edit in edits)


def test_fit_edits_adjusts_response_to_file():
    reply = "I see.\n\n**FILE: `a.py`**\n<<<<<<< SEARCH\ndef g(a):\n  \n=======\ndef h(a):\n>>>>>>> REPLACE\n"
    (edit,) = fit_edits(reply, {"a.py": TEXT}.get)
    assert apply_edits(TEXT, [edit]) == TEXT.replace("def g", "def h")


def test_fit_edits_accepts_new_file():
    reply = "FILE: new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"
    assert fit_edits(reply, {"a.py": TEXT}.get) == (Edit("new.py", "", "x = 1\n"),)


@pytest.mark.parametrize("reply", ["", "nothing", "FILE: a.py", "FILE: a.py\n<<<<<<< SEARCH\nb\n======="])
def test_fit_edits_returns_nothing_without_edits(reply):
    assert fit_edits(reply, {"a.py": TEXT}.get) == ()


def test_generate_swaps_yields_distinct_valid_programs():
    results = [after for _, after in edits.generate_swaps("x = 1 if a < b and True else max(2, 3)\n")]
    assert "x = 1 if a <= b and True else max(2, 3)\n" in results
    assert "x = 1 if a < b or True else max(2, 3)\n" in results
    assert "x = 1 if a < b and True else min(2, 3)\n" in results
    assert len(set(results)) == len(results)
    assert not list(edits.generate_swaps("def (:\n"))


def test_find_edits_changes_suspicious_lines():
    spectrum = {"sums.py": {2: (1, 0), 6: (0, 1)}, "other.py": {1: (0, 3)}}
    suspects = edits.compute_suspicion(spectrum, 1)
    assert suspects["sums.py"] == {2: 1.0}
    results = edits.find_edits({"sums.py": repositories.BROKEN, "other.py": "x = 1\n"}, suspects, 0, 30)
    assert Edit("sums.py", "    return a - b\n", "    return a + b\n") in results[:3]
    assert all("a - b" in edit.old for edit in results)
    assert results == edits.find_edits({"sums.py": repositories.BROKEN}, suspects, 0, 30)
