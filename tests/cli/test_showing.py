"""`atoll show`, `best` and `lineage`: one run, one candidate, and how it came about."""

import itertools
import re

import pytest

from atoll import store
from tests.cli import apps, terminals
from tests.runs import samples
from tests.store import samples as records


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


@pytest.fixture
def kept():
    with store.open(samples.library()) as opened:
        yield opened


class TestShowARun:
    @pytest.mark.parametrize("name", ["latest~999", f"latest~{'9' * 5000}"])
    def test_one_that_is_further_back_than_the_first_is_not_there(self, shell, name):
        assert "There " in shell.refused("show", name)

    def test_in_a_tree_a_judge_who_said_nothing_is_not_quoted(self, shell):
        out = shell("tree", samples.LONG_ID, "--level", "turns").out
        assert "turn 1: " in out
        assert "judge: \n" not in out

    def test_it_tells_the_summary_the_set_up_the_islands_and_the_best(self, shell):
        out = shell("show", samples.LONG_ID).out
        assert "  status   done (budget of 60 iterations used)\n" in out
        assert "  best     -3.81105  candidate 60.0\n" in out
        assert '\n  [llmsr]\n  preset = "default"\n  num_islands = 3\n' in out
        assert "comment" not in out, "what is not set is left out"
        assert out.endswith("\nThe best candidate, 60.0\n  1.0478093124364234\n")

    def test_every_island_has_its_best_its_candidates_and_its_resets(self, shell, kept):
        data = shell("show", samples.LONG_ID, "--json").json()
        rows = list(kept.candidates(samples.LONG_ID))
        for island in data["islands"]:
            own = [row for row in rows if row.island == island["island"] and row.step]
            assert island["candidates"] == len(own) == 20
            assert island["best_score"] == max(row.score or -99 for row in own)
        assert len(data["islands"]) == 3
        assert sum(island["resets"] for island in data["islands"]) == 3
        assert all(island["migrants"] for island in data["islands"])

    def test_as_json_it_has_the_configuration_and_the_best_candidate(self, shell):
        data = shell("show", "asked", "--json").json()
        assert data["config"]["files"] == {"task.py": "0123456789abcdef"}
        assert data["best_candidate"]["content"] == "2.5"
        assert data["cost_usd"] == pytest.approx(0.006)

    def test_the_cost_of_a_model_is_told(self, shell):
        assert "  cost     $0.0060 for 6 calls, 90 tokens\n" in shell("show", "asked").out

    def test_a_run_that_has_not_begun_has_no_islands_and_no_best(self, shell):
        told = shell("show", "empty")
        assert "  best     -\n" in told.out
        assert "Islands" not in told.out
        data = shell("show", "empty", "--json").json()
        assert (data["best"], data["islands"], data["best_candidate"]) == (None, [], None)

    def test_a_run_that_was_cut_is_shown_as_far_as_it_came(self, shell):
        assert "  status   crashed\n" in shell("show", "cut").out

    def test_a_very_long_best_is_cut_with_the_command_that_shows_it_all(self, capsys, tmp_path):
        path = str(tmp_path / "long.db")
        with store.open(path) as kept:
            kept.create_run("long")
            kept.journal("long").write(records.founded(1.0, "\n".join(f"line {n}" for n in range(100))))
        out = apps.Shell(capsys, path)("show", "long").out
        assert "  line 59\n" in out
        assert "line 60" not in out
        assert "  … 40 more lines: " in out
        assert out.endswith(" best long\n")

    def test_an_unknown_run_is_refused_with_what_to_do(self, shell):
        assert "'atoll list' shows those there are." in shell.refused("show", "nope")


class TestShowACandidate:
    def test_all_is_told_about_it(self, shell):
        out = shell("show", "failing", "60.0").out
        assert re.search(r"parents +53.0\n +island +2\n +step +60\n +score +-2.39097\n", out)
        assert "gain     +0.132521 against 53.0\n" in out
        assert "scores   -0.546275 -1.54628 -2.54628\n" in out
        assert "verdict  accept by only_near: near enough\n" in out
        assert "\nMetrics\n  value  1.45372\n" in out
        assert "\nHow it was made\n  stride  0.1\n" in out
        assert "\nFeedback\n  1.4537245840844952 is near\n  but not it\n" in out
        assert out.endswith("\nContent\n  1.4537245840844952\n")

    def test_a_failure_is_told_with_its_reason(self, shell):
        out = shell("show", "asked", "4.0").out
        assert "  score    -\n" in out
        assert "  failure  the judge raised ValueError: -1.000 is below zero\n" in out
        assert "  verdict  reject by judge: the judge raised ValueError: -1.000 is below zero\n" in out

    def test_one_whose_step_was_cut_has_no_verdict_yet(self, shell, kept):
        row = next(row for row in kept.candidates("cut") if row.verdict is None)
        assert "  verdict  none yet: its step was not finished\n" in shell("show", "cut", row.id).out

    def test_the_prompt_and_the_reply_of_its_step_are_shown_when_asked_for(self, shell):
        assert "What comes next?" not in shell("show", "asked", "5.0").out
        out = shell("show", "asked", "5.0", "--prompt").out
        assert "\nPrompt of call 0\n  The best so far is 1.0.\n  What comes next?\n" in out
        assert out.endswith("\nReply of scripted to call 0\n  2.5\n")
        replies = shell("show", "asked", "5.0", "--prompt", "--json").json()["replies"]
        assert [(reply["call"], reply["text"]) for reply in replies] == [("0", "2.5")]

    def test_without_a_model_it_says_that_none_was_asked(self, shell):
        assert shell("show", "failing", "best", "--prompt").out.endswith("\nIts step asked no model.\n")

    def test_best_and_start_are_names_too(self, shell):
        assert shell("show", "asked", "best", "--json").json()["id"] == "5.0"
        assert shell("show", "asked", "start", "--json").json()["parents"] == []

    def test_an_unknown_one_is_refused_with_what_to_do(self, shell):
        assert "'atoll best asked -n 20' lists the best." in shell.refused("show", "asked", "99.0")
        assert "no candidate with a score yet" in shell.refused("show", "empty", "best")

    def test_an_id_that_no_store_could_hold_is_one_that_is_not_there(self, shell):
        for verb, id in itertools.product(("show", "lineage"), ("99999999999999999999.0", f"{'9' * 5000}.d0")):
            assert "no candidate" in shell.refused(verb, "asked", id)

    def test_a_prompt_goes_with_a_candidate(self, shell):
        assert "--prompt goes with a candidate" in shell.refused("show", "asked", "--prompt")


class TestBest:
    def test_the_content_alone_is_printed_to_the_letter(self, shell):
        assert shell("best", "asked").out == "2.5\n"
        assert shell("best", "hostile").out == f"{samples.HOSTILE[-1]}\nline two of 7\n"

    def test_a_file_gets_the_same_bytes(self, shell, tmp_path):
        assert not shell("best", "asked", "-o", str(tmp_path / "best.txt")).out
        assert (tmp_path / "best.txt").read_bytes() == b"2.5\n"
        assert [path.name for path in tmp_path.iterdir()] == ["best.txt"]

    def test_a_file_that_cannot_be_written_is_told(self, shell, tmp_path):
        assert "No such file or directory" in shell.refused("best", "asked", "-o", str(tmp_path / "no" / "best.txt"))

    def test_an_island_has_a_best_of_its_own(self, shell):
        islands = shell("show", samples.LONG_ID, "--json").json()["islands"]
        found = [shell("best", samples.LONG_ID, "--island", str(n), "--json").json()["id"] for n in range(3)]
        assert found == [island["best"] for island in islands]

    def test_an_island_that_is_not_there_is_refused(self, shell):
        assert shell.refused("best", samples.LONG_ID, "--island", "3").endswith("has no island 3: there are 0 to 2.")
        assert shell.refused("best", "empty", "--island", "0").endswith("it has not begun.")

    def test_the_n_best_are_a_table(self, shell):
        told = shell("best", samples.LONG_ID, "-n", "4")
        assert told.lines[0].split() == ["candidate", "island", "step", "score", "what", "is", "new"]
        scores = [float(line.split()[3]) for line in told.lines[1:]]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == 4
        assert [row["id"] for row in shell("best", "asked", "-n", "2", "--json").json()] == ["5.0", "1.0"]

    def test_one_file_for_several_is_refused(self, shell, tmp_path):
        assert "leave one of them out" in shell.refused("best", "asked", "-n", "2", "-o", str(tmp_path / "x"))

    def test_where_nothing_has_a_score_it_says_so(self, shell):
        assert "no candidate with a score yet" in shell.refused("best", "empty")
        assert shell("best", "empty", "-n", "3").err == "Run empty has no candidate with a score yet.\n"


class TestLineage:
    def test_it_goes_from_the_best_back_to_the_start_over_the_best_parents(self, shell, kept):
        line = shell("lineage", samples.LONG_ID, "--json").json()
        assert line[0]["id"] == "60.0"
        assert line[-1]["id"] == "0.0"
        for link, parent in itertools.pairwise(line):
            assert link["best_parent"] == parent["id"]
            assert link["gain"] == link["score"] - parent["score"]
            rows = kept.candidates(samples.LONG_ID)
            assert parent["score"] == max(rows.get(id).score for id in link["parents"])
        assert line[-1]["gain"] is None

    def test_the_table_says_where_and_how_each_was_made(self, shell):
        lines = shell("lineage", "asked").lines
        assert lines[0].split() == ["candidate", "island", "step", "score", "gain", "parents", "how"]
        assert lines[1].split() == ["5.0", "0", "5", "-0.25", "+3.75", "1.0", "llm", "model=scripted"]
        assert lines[-1].split() == ["0.0", "0", "0", "-9", "-", "-", "the", "start"]

    def test_one_may_begin_at_a_candidate_or_at_the_best_of_an_island(self, shell):
        assert [each["id"] for each in shell("lineage", "asked", "6.0", "--json").json()] == [
            "6.0",
            "5.0",
            "1.0",
            "0.0",
        ]
        islands = shell("show", samples.LONG_ID, "--json").json()["islands"]
        assert shell("lineage", samples.LONG_ID, "--island", "1", "--json").json()[0]["id"] == islands[1]["best"]
        assert "leave out" in shell.refused("lineage", "asked", "5.0", "--island", "0")

    def test_each_change_is_shown_when_asked_for(self, shell):
        out = shell("lineage", "asked", "--diffs").out
        assert "\n5.0 from 1.0\n--- 1.0\n+++ 5.0\n@@ -1 +1 @@\n-1.0\n+2.5\n" in out

    def test_all_ancestors_are_more_than_the_line(self, shell):
        line = shell("lineage", samples.LONG_ID, "--json").json()
        every = shell("lineage", samples.LONG_ID, "--all", "--json").json()
        assert {each["id"] for each in line} < {each["id"] for each in every}

    @pytest.mark.parametrize("columns", [30, 60, 80, 200])
    def test_ids_and_scores_are_whole_at_any_width(self, columns, shell, monkeypatch):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert re.match(r"60\.0 +2 .*-3\.81105 +\+0\.166841", shell("lineage", samples.LONG_ID).lines[1])


@pytest.mark.parametrize("arguments", [["show"], ["show", "2.0"], ["best", "-n", "20"], ["lineage"], ["show", "3.0"]])
@pytest.mark.parametrize("columns", [80, 200])
def test_hostile_text_is_shown_as_text(arguments, columns, shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = shell(arguments[0], "hostile", *arguments[1:]).out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out)


def test_markup_and_emoji_codes_in_a_candidate_mean_nothing(shell):
    assert f"\n  {samples.MARKUP}\n" in shell("show", "hostile", "3.0").out
    assert f"{samples.MARKUP}; line two of 3" in shell("best", "hostile", "-n", "9").out


@pytest.mark.parametrize("verb", ["best", "show"])
def test_on_a_terminal_a_candidate_cannot_send_commands_to_it(verb, tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as kept:
        kept.create_run("run")
        kept.journal("run").write(records.founded(1.0, samples.ESCAPE))
    status, written = terminals.on_a_terminal(verb, "run", "--store", path, columns=80)
    assert status == 0
    assert "\x1b[2J" not in written
    assert "\\x1b[2J" in written
