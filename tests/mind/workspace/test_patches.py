"""Plans of edits as text, and the edits that need no model."""

import pytest

from atoll.mind.actions import Edit
from atoll.mind.workspace import edit_search, patches
from tests.mind.workspace import repositories

TEXT = "def f(a):\n    b = a + 1\n    return b\n\n\ndef g(a):\n    b = a + 1\n    return b\n"


def test_what_is_written_is_read_back():
    trace = (Edit("a.py", "x = 1\n", "x = 2\n"), Edit("a.py", "y\n", "z\n"), Edit("b.py", "", "new\n"))
    assert patches.parse_edits(patches.format_edits(trace)) == trace


@pytest.mark.parametrize(
    "after",
    [TEXT.replace("a + 1", "a + 2"), TEXT.replace("def g(a):\n    b = a + 1", "def g(a):\n    b = a"), "", "x\n" + TEXT,
     TEXT + "x\n", TEXT.replace("return b\n\n", "return b\n    x = 1\n")],
)  # fmt: skip
def test_edits_between_two_texts_lead_from_one_to_the_other(after):
    edits = patches.make_edits("a.py", TEXT, after)
    assert patches.apply_edits(TEXT, edits) == after
    assert all(not each.old or TEXT.count(each.old) == 1 for each in edits)


def test_a_reply_is_fitted_to_the_file_that_it_changes():
    reply = "I see.\n\n**FILE: `a.py`**\n<<<<<<< SEARCH\ndef g(a):\n  \n=======\ndef h(a):\n>>>>>>> REPLACE\n"
    (edit,) = patches.fit_edits(reply, {"a.py": TEXT}.get)
    assert patches.apply_edits(TEXT, [edit]) == TEXT.replace("def g", "def h")


def test_a_reply_may_write_a_new_file():
    reply = "FILE: new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"
    assert patches.fit_edits(reply, {"a.py": TEXT}.get) == (Edit("new.py", "", "x = 1\n"),)


@pytest.mark.parametrize("reply", ["", "nothing", "FILE: a.py", "FILE: a.py\n<<<<<<< SEARCH\nb\n======="])
def test_a_reply_without_edits_has_none(reply):
    assert patches.fit_edits(reply, {"a.py": TEXT}.get) == ()


def test_every_small_swap_compiles_and_differs():
    found = [after for _, after in edit_search.generate_swaps("x = 1 if a < b and True else max(2, 3)\n")]
    assert "x = 1 if a <= b and True else max(2, 3)\n" in found
    assert "x = 1 if a < b or True else max(2, 3)\n" in found
    assert "x = 1 if a < b and True else min(2, 3)\n" in found
    assert len(set(found)) == len(found)
    assert not list(edit_search.generate_swaps("def (:\n"))


def test_moves_change_lines_that_failing_tests_run_through():
    spectrum = {"sums.py": {2: (1, 0), 6: (0, 1)}, "other.py": {1: (0, 3)}}
    suspects = edit_search.compute_suspicion(spectrum, 1)
    assert suspects["sums.py"] == {2: 1.0}
    found = edit_search.find_edits({"sums.py": repositories.BROKEN, "other.py": "x = 1\n"}, suspects, 0, 30)
    assert Edit("sums.py", "    return a - b\n", "    return a + b\n") in found[:3]
    assert all("a - b" in each.old for each in found)
    assert found == edit_search.find_edits({"sums.py": repositories.BROKEN}, suspects, 0, 30)
