"""The scripted model of the folders' benchmark, and what is said of runs."""

import pytest

from bench import folders

PROGRAM = "import math\n# EVOLVE-BLOCK-START\nX = 0.5\nY = 'word'\n# EVOLVE-BLOCK-END\nZ = 3\n"


def test_a_rewrite_changes_a_number_between_the_markers():
    reply = folders.scripted(f"Improve it.\n```python\n{PROGRAM}```\n", 3)
    assert reply.startswith("```\nimport math\n")
    assert "X = 0.5\n" not in reply
    assert "Z = 3\n" in reply


def test_where_a_diff_is_asked_for_it_is_one():
    reply = folders.scripted(f"Answer with SEARCH/REPLACE blocks.\n```python\n{PROGRAM}```\n", 3)
    assert reply.startswith("<<<<<<< SEARCH\nX = 0.5\n=======\nX = ")


@pytest.mark.parametrize(("found", "said"), [([0.5, 0.5], "0.5"), ([0.25, 0.5], "0.25 to 0.5")])
def test_noisy_scores_are_told_as_a_range(found, said):
    assert folders._range(found) == said
