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
    def test_latest_beyond_first_run_fails(self, shell, name):
        assert "There " in shell.fail("show", name)

    def test_tree_omits_empty_feedback(self, shell):
        out = shell("tree", samples.LONG_ID, "--level", "turns").out
        assert "turn 1: " in out
        assert "judge: \n" not in out

    def test_run_has_summary_settings_islands_and_best(self, shell):
        out = shell("show", samples.LONG_ID).out
        assert "  status   done (budget of 60 iterations used)\n" in out
        assert "  best     -3.81105  candidate 60.0\n" in out
        assert '\n  [llmsr]\n  preset = "default"\n  num_islands = 3\n' in out
        assert "comment" not in out, "what is not set is left out"
        assert out.endswith("\nThe best candidate, 60.0\n  1.0478093124364234\n")

    def test_islands_have_best_candidates_and_resets(self, shell, kept):
        data = shell("show", samples.LONG_ID, "--json").json()
        rows = list(kept.candidates(samples.LONG_ID))
        for island in data["islands"]:
            own = [row for row in rows if row.island == island["island"] and row.step]
            assert island["candidates"] == len(own) == 20
            assert island["best_score"] == max(row.score or -99 for row in own)
        assert len(data["islands"]) == 3
        assert sum(island["resets"] for island in data["islands"]) == 3
        assert all(island["migrants"] for island in data["islands"])

    def test_json_has_config_and_best_candidate(self, shell):
        data = shell("show", "asked", "--json").json()
        assert data["config"]["files"] == {"task.py": "0123456789abcdef"}
        assert data["best_candidate"]["content"] == "2.5"
        assert data["cost_usd"] == pytest.approx(0.006)

    def test_llm_cost_is_shown(self, shell):
        assert "  cost     $0.0060 for 6 calls, 90 tokens\n" in shell("show", "asked").out

    def test_empty_run_has_no_islands_and_no_best(self, shell):
        told = shell("show", "empty")
        assert "  best     -\n" in told.out
        assert "Islands" not in told.out
        data = shell("show", "empty", "--json").json()
        assert (data["best"], data["islands"], data["best_candidate"]) == (None, [], None)

    def test_crashed_run_is_shown(self, shell):
        assert "  status   crashed\n" in shell("show", "cut").out

    def test_long_best_is_cut_with_command(self, capsys, tmp_path):
        path = str(tmp_path / "long.db")
        with store.open(path) as kept:
            kept.create_run("long")
            kept.journal("long").write(records.founded(1.0, "\n".join(f"line {n}" for n in range(100))))
        out = apps.Shell(capsys, path)("show", "long").out
        assert "  line 59\n" in out
        assert "line 60" not in out
        assert "  … 40 more lines: " in out
        assert out.endswith(" best long\n")

    def test_unknown_run_fails_with_advice(self, shell):
        assert "'atoll list' shows those there are." in shell.fail("show", "nope")


class TestShowACandidate:
    def test_candidate_has_all_fields(self, shell):
        out = shell("show", "failing", "60.0").out
        assert re.search(r"parents +53.0\n +island +2\n +iteration +60\n +score +-2.39097\n", out)
        assert "gain     +0.132521 against 53.0\n" in out
        assert "scores   -0.546275 -1.54628 -2.54628\n" in out
        assert "verdict  accept by only_near: near enough\n" in out
        assert "\nMetrics\n  value  1.45372\n" in out
        assert "\nHow it was made\n  stride  0.1\n" in out
        assert "\nFeedback\n  1.4537245840844952 is near\n  but not it\n" in out
        assert out.endswith("\nContent\n  1.4537245840844952\n")

    def test_failure_has_reason(self, shell):
        out = shell("show", "asked", "4.0").out
        assert "  score    -\n" in out
        assert "  failure  the judge raised ValueError: -1.000 is below zero\n" in out
        assert "  verdict  reject by judge: the judge raised ValueError: -1.000 is below zero\n" in out

    def test_candidate_of_unfinished_iteration_has_no_decision(self, shell, kept):
        row = next(row for row in kept.candidates("cut") if row.verdict is None)
        assert "  decision   none yet; its iteration is not finished\n" in shell("show", "cut", row.id).out

    def test_prompt_option_shows_prompt_and_response(self, shell):
        assert "What comes next?" not in shell("show", "asked", "5.0").out
        out = shell("show", "asked", "5.0", "--prompt").out
        assert "\nPrompt of call 0\n  The best so far is 1.0.\n  What comes next?\n" in out
        assert out.endswith("\nReply of scripted to call 0\n  2.5\n")
        replies = shell("show", "asked", "5.0", "--prompt", "--json").json()["replies"]
        assert [(reply["call"], reply["text"]) for reply in replies] == [("0", "2.5")]

    def test_prompt_option_without_llm_calls(self, shell):
        assert shell("show", "failing", "best", "--prompt").out.endswith("\nIts iteration made no LLM calls.\n")

    def test_best_and_initial_are_names(self, shell):
        assert shell("show", "asked", "best", "--json").json()["id"] == "5.0"
        assert shell("show", "asked", "initial", "--json").json()["parents"] == []

    def test_unknown_candidate_fails_with_advice(self, shell):
        assert "'atoll best asked -n 20' lists the best." in shell.fail("show", "asked", "99.0")
        assert "no candidate with a score yet" in shell.fail("show", "empty", "best")

    def test_too_large_id_is_not_found(self, shell):
        for verb, id in itertools.product(("show", "lineage"), ("99999999999999999999.0", f"{'9' * 5000}.d0")):
            assert "no candidate" in shell.fail(verb, "asked", id)

    def test_prompt_needs_candidate(self, shell):
        assert "--prompt goes with a candidate" in shell.fail("show", "asked", "--prompt")


class TestBest:
    def test_best_prints_exact_content(self, shell):
        assert shell("best", "asked").out == "2.5\n"
        assert shell("best", "hostile").out == f"{samples.HOSTILE[-1]}\nline two of 7\n"

    def test_best_writes_same_bytes_to_file(self, shell, tmp_path):
        assert not shell("best", "asked", "-o", str(tmp_path / "best.txt")).out
        assert (tmp_path / "best.txt").read_bytes() == b"2.5\n"
        assert [path.name for path in tmp_path.iterdir()] == ["best.txt"]

    def test_unwritable_file_fails(self, shell, tmp_path):
        assert "No such file or directory" in shell.fail("best", "asked", "-o", str(tmp_path / "no" / "best.txt"))

    def test_best_of_island(self, shell):
        islands = shell("show", samples.LONG_ID, "--json").json()["islands"]
        found = [shell("best", samples.LONG_ID, "--island", str(n), "--json").json()["id"] for n in range(3)]
        assert found == [island["best"] for island in islands]

    def test_unknown_island_fails(self, shell):
        assert shell.fail("best", samples.LONG_ID, "--island", "3").endswith("has no island 3. It has islands 0 to 2.")
        assert shell.fail("best", "empty", "--island", "0").endswith("It has no candidates yet.")

    def test_n_best_are_a_table(self, shell):
        told = shell("best", samples.LONG_ID, "-n", "4")
        assert told.lines[0].split() == ["candidate", "island", "iteration", "score", "change"]
        scores = [float(line.split()[3]) for line in told.lines[1:]]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == 4
        assert [row["id"] for row in shell("best", "asked", "-n", "2", "--json").json()] == ["5.0", "1.0"]

    def test_output_and_limit_exclude_each_other(self, shell, tmp_path):
        assert "leave one of them out" in shell.fail("best", "asked", "-n", "2", "-o", str(tmp_path / "x"))

    def test_run_without_scores_prints_note(self, shell):
        assert "no candidate with a score yet" in shell.fail("best", "empty")
        assert shell("best", "empty", "-n", "3").err == "Run empty has no candidate with a score yet.\n"


class TestLineage:
    def test_lineage_follows_best_parents(self, shell, kept):
        line = shell("lineage", samples.LONG_ID, "--json").json()
        assert line[0]["id"] == "60.0"
        assert line[-1]["id"] == "0.0"
        for link, parent in itertools.pairwise(line):
            assert link["best_parent"] == parent["id"]
            assert link["gain"] == link["score"] - parent["score"]
            rows = kept.candidates(samples.LONG_ID)
            assert parent["score"] == max(rows.get(id).score for id in link["parents"])
        assert line[-1]["gain"] is None

    def test_lineage_table_has_island_and_origin(self, shell):
        lines = shell("lineage", "asked").lines
        assert lines[0].split() == ["candidate", "island", "iteration", "score", "gain", "parents", "origin"]
        assert lines[1].split() == ["5.0", "0", "5", "-0.25", "+3.75", "1.0", "llm", "model=scripted"]
        assert lines[-1].split() == ["0.0", "0", "0", "-9", "-", "-", "initial", "candidate"]

    def test_lineage_of_candidate_or_island(self, shell):
        assert [each["id"] for each in shell("lineage", "asked", "6.0", "--json").json()] == [
            "6.0",
            "5.0",
            "1.0",
            "0.0",
        ]
        islands = shell("show", samples.LONG_ID, "--json").json()["islands"]
        assert shell("lineage", samples.LONG_ID, "--island", "1", "--json").json()[0]["id"] == islands[1]["best"]
        assert "leave out" in shell.fail("lineage", "asked", "5.0", "--island", "0")

    def test_lineage_diffs(self, shell):
        out = shell("lineage", "asked", "--diffs").out
        assert "\n5.0 from 1.0\n--- 1.0\n+++ 5.0\n@@ -1 +1 @@\n-1.0\n+2.5\n" in out

    def test_lineage_all_has_more_ancestors(self, shell):
        line = shell("lineage", samples.LONG_ID, "--json").json()
        every = shell("lineage", samples.LONG_ID, "--all", "--json").json()
        assert {each["id"] for each in line} < {each["id"] for each in every}

    @pytest.mark.parametrize("columns", [30, 60, 80, 200])
    def test_ids_and_scores_are_never_cut(self, columns, shell, monkeypatch):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert re.match(r"60\.0 +2 .*-3\.81105 +\+0\.166841", shell("lineage", samples.LONG_ID).lines[1])


@pytest.mark.parametrize("arguments", [["show"], ["show", "2.0"], ["best", "-n", "20"], ["lineage"], ["show", "3.0"]])
@pytest.mark.parametrize("columns", [80, 200])
def test_hostile_text_is_escaped(arguments, columns, shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = shell(arguments[0], "hostile", *arguments[1:]).out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out)


def test_markup_and_emoji_codes_are_printed_literally(shell):
    assert f"\n  {samples.MARKUP}\n" in shell("show", "hostile", "3.0").out
    assert f"{samples.MARKUP}; line two of 3" in shell("best", "hostile", "-n", "9").out


@pytest.mark.parametrize("verb", ["best", "show"])
def test_candidate_cannot_control_terminal(verb, tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as kept:
        kept.create_run("run")
        kept.journal("run").write(records.founded(1.0, samples.ESCAPE))
    status, written = terminals.on_a_terminal(verb, "run", "--store", path, columns=80)
    assert status == 0
    assert "\x1b[2J" not in written
    assert "\\x1b[2J" in written
