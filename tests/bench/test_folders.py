"""The scripted LLM of the folders benchmark, and its tables."""

import pytest

from bench import folders

PROGRAM = "import math\n\n\ndef f():\n    '''At most 9.'''\n    # 8\n    x = 0.5\n    return x\n\n\nZ = 3\n"
FIXED = "Edit only `f`. The rest stays as it is.\n"


@pytest.mark.parametrize("number", range(5))
def test_scripted_rewrite_changes_an_editable_number(number):
    reply = folders.scripted(f"```python\n{PROGRAM}```\n{FIXED}", number)
    assert reply.startswith("```\nimport math\n")
    assert "x = 0.5\n" not in reply
    assert all(text in reply for text in ("At most 9.", "# 8\n", "Z = 3\n"))


def test_scripted_rewrite_may_change_the_whole_program():
    replies = [folders.scripted(f"```python\n{PROGRAM}```\n", number) for number in range(20)]
    assert {"x = 0.5\n" in reply for reply in replies} == {"Z = 3\n" not in reply for reply in replies} == {True, False}


def test_scripted_llm_answers_with_a_diff_if_asked():
    reply = folders.scripted(f"Answer with SEARCH/REPLACE blocks.\n```python\n{PROGRAM}```\n{FIXED}", 3)
    assert reply.startswith("<<<<<<< SEARCH\n    x = 0.5\n=======\n    x = ")


@pytest.mark.parametrize(("found", "said"), [([0.5, 0.5], "0.5"), ([0.25, 0.5], "0.25 to 0.5")])
def test_noisy_scores_are_shown_as_a_range(found, said):
    assert folders._range(found) == said


@pytest.mark.parametrize(
    ("best", "again", "said"), [(0.4, [], "no"), (0.9, [0.8, 0.7], "yes"), (0.9, [0.8, 0.5], "noise"), (None, [], "no")]
)
def test_gain_counts_only_if_every_repeat_scores_higher(best, again, said):
    run = folders.Run(0.4, best, 0, 0, "done", 1.0)
    assert folders._gained(run, [0.4, 0.6], again) == said


def test_baselines_are_shown_with_their_run_and_missing_ones_as_a_dash():
    told = {"best_of_n": {"best_score": 0.25}, "no_llm": "not run: nothing to change"}
    run = folders.Run(0.1, 0.5, 0, 3, "done", 1.0, "r", told)
    assert folders._plain(run, ("best_of_n", "sequential", "no_llm")) == ["0.25", "-", "-"]


def test_verdicts_name_folders_with_equal_or_better_baselines():
    columns = ["folder", "best", "best, scripted", *folders.PLAIN]
    rows = [["a", "1", "2", "1", "2", "3", "-"], ["b", "1", "2", "0.5", "1", "1", "-"]]
    said = list(folders.verdicts(columns, rows))
    assert "evolution is better on 1, MATCHED on 1 (a), BEATEN on 0." in said[0]
    assert "evolution is better on 1, MATCHED on 0, BEATEN on 1 (a)." in said[2]
    assert "0 folders" in said[3]
