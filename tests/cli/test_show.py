"""Commands `show`, `best`, `lineage` and `tree`."""

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
def run_store():
    with store.open(samples.library()) as opened:
        yield opened


class TestShowARun:
    @pytest.mark.parametrize("name", ["latest~999", f"latest~{'9' * 5000}"])
    def test_latest_beyond_first_run_fails(self, shell, name):
        assert re.search(r"(has only \d+ runs|not found in .*)\.", shell.fail("show", name))

    def test_tree_omits_empty_feedback(self, shell):
        out = shell("tree", samples.LONG_ID, "--level", "turns").out
        assert "turn 1: " in out
        assert "judge: \n" not in out

    def test_run_has_summary_settings_islands_and_best(self, shell):
        out = shell("show", samples.LONG_ID).out
        assert re.search(r"\n  status +done \(budget of 60 iterations used\)\n", out)
        assert re.search(r"\n  best +-3.81105  candidate 60.0\n", out)
        assert '\n  [llmsr]\n  preset = "default"\n  num_islands = 3\n' in out
        assert "comment" not in out, "missing values are omitted"
        assert out.endswith("\nBest candidate, 60.0\n  1.0478093124364234\n")

    def test_islands_have_best_candidates_and_resets(self, shell, run_store):
        data = shell("show", samples.LONG_ID, "--json").json()
        rows = list(run_store.candidates(samples.LONG_ID))
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
        assert re.search(r"\n  cost +\$0.0060 for 7 LLM calls, 90 tokens\n", shell("show", "asked").out)

    def test_empty_run_has_no_islands_and_no_best(self, shell):
        output = shell("show", "empty")
        assert re.search(r"\n  best +-\n", output.out)
        assert "Islands" not in output.out
        data = shell("show", "empty", "--json").json()
        assert (data["best"], data["islands"], data["best_candidate"]) == (None, [], None)

    def test_crashed_run_is_shown(self, shell):
        assert re.search(r"  status +crashed\n", shell("show", "cut").out)

    def test_long_best_is_cut_with_command(self, capsys, tmp_path):
        path = str(tmp_path / "long.db")
        with store.open(path) as run_store:
            run_store.create_run("long")
            run_store.journal("long").write(records.founded(1.0, "\n".join(f"line {n}" for n in range(100))))
        out = apps.Shell(capsys, path)("show", "long").out
        assert "  line 59\n" in out
        assert "line 60" not in out
        assert "  … 40 more lines: " in out
        assert out.endswith(" best long\n")

    def test_unknown_run_fails_with_advice(self, shell):
        assert "atoll list" in shell.fail("show", "nope")


class TestShowACandidate:
    def test_candidate_has_all_fields(self, shell):
        out = shell("show", "failing", "60.0").out
        assert re.search(r"parents +53.0\n +island +2\n +iteration +60\n +score +-2.39097\n", out)
        assert re.search(r"gain +\+0.132521 over 53.0\n", out)
        assert re.search(r"scores +-0.546275 -1.54628 -2.54628\n", out)
        assert re.search(r"decision +accept by only_near: near enough\n", out)
        assert "\nMetrics\n  value  1.45372\n" in out
        assert "\nOrigin\n  stride  0.1\n" in out
        assert "\nFeedback\n  1.4537245840844952 is near\n  but not it\n" in out
        assert out.endswith("\nContent\n  1.4537245840844952\n")

    def test_failure_has_reason(self, shell):
        out = shell("show", "asked", "4.0").out
        assert re.search(r"  score +-\n", out)
        assert re.search(r"  failure +the evaluator raised ValueError: -1.000 is below zero\n", out)
        assert re.search(r"  decision +reject by judge: the evaluator raised ValueError: -1.000 is below zero\n", out)

    def test_candidate_of_unfinished_iteration_has_no_decision(self, shell, run_store):
        row = next(row for row in run_store.candidates("cut") if row.verdict is None)
        assert re.search(r"  decision +none yet; its iteration is not finished\n", shell("show", "cut", row.id).out)

    def test_prompt_option_shows_prompt_and_response(self, shell):
        assert "What comes next?" not in shell("show", "asked", "5.0").out
        out = shell("show", "asked", "5.0", "--prompt").out
        assert "\nPrompt of LLM call 0\n  The best so far is 1.0.\n  What comes next?\n" in out
        assert out.endswith("\nResponse of scripted to call 0\n  2.5\n")
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
        assert "--prompt needs a candidate" in shell.fail("show", "asked", "--prompt")


class TestBest:
    def test_best_prints_exact_content(self, shell):
        assert shell("best", "asked").out == "2.5\n"
        assert shell("best", "hostile").out == f"{samples.HOSTILE[-1]}\nline two of 7\n"

    def test_best_writes_same_bytes_to_file(self, shell, tmp_path):
        assert not shell("best", "asked", "-o", str(tmp_path / "best.txt")).out
        assert (tmp_path / "best.txt").read_bytes() == b"2.5\n"
        assert [path.name for path in tmp_path.iterdir()] == ["best.txt"]

    def test_best_prints_law_that_held_out_rows_chose(self, capsys, tmp_path):
        shell, data = apps.Shell(capsys, str(tmp_path / "laws.db")), tmp_path / "m.csv"
        data.write_text("x,y\n" + "\n".join(f"{x},{2 * x}" for x in range(1, 30)))
        assert "chosen on held-out rows" in shell("run", str(data), "--iterations", "2").out
        best = shell("best", "latest")
        assert best.out == "2*x\n"
        assert "best training score" in best.err

    def test_unwritable_file_fails(self, shell, tmp_path):
        assert "No such file or directory" in shell.fail("best", "asked", "-o", str(tmp_path / "no" / "best.txt"))

    def test_best_of_island(self, shell):
        islands = shell("show", samples.LONG_ID, "--json").json()["islands"]
        result = [shell("best", samples.LONG_ID, "--island", str(n), "--json").json()["id"] for n in range(3)]
        assert result == [island["best"] for island in islands]

    def test_unknown_island_fails(self, shell):
        assert shell.fail("best", samples.LONG_ID, "--island", "3").endswith("has no island 3. It has islands 0 to 2.")
        assert shell.fail("best", "empty", "--island", "0").endswith("It has no candidates yet.")

    def test_n_best_are_a_table(self, shell):
        output = shell("best", samples.LONG_ID, "-n", "4")
        assert output.lines[0].split() == ["candidate", "island", "iteration", "score", "change"]
        scores = [float(line.split()[3]) for line in output.lines[1:]]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == 4
        assert [row["id"] for row in shell("best", "asked", "-n", "2", "--json").json()] == ["5.0", "1.0"]

    def test_output_and_limit_exclude_each_other(self, shell, tmp_path):
        assert "Leave out one of them" in shell.fail("best", "asked", "-n", "2", "-o", str(tmp_path / "x"))

    def test_run_without_scores_prints_note(self, shell):
        assert "no candidate with a score yet" in shell.fail("best", "empty")
        assert shell("best", "empty", "-n", "3").err == "Run empty has no candidate with a score yet.\n"


class TestLineage:
    def test_lineage_follows_best_parents(self, shell, run_store):
        line = shell("lineage", samples.LONG_ID, "--json").json()
        assert line[0]["id"] == "60.0"
        assert line[-1]["id"] == "0.0"
        for link, parent in itertools.pairwise(line):
            assert link["best_parent"] == parent["id"]
            assert link["gain"] == link["score"] - parent["score"]
            rows = run_store.candidates(samples.LONG_ID)
            assert parent["score"] == max(rows.get(id).score for id in link["parents"])
        assert line[-1]["gain"] is None

    def test_lineage_table_has_island_and_origin(self, shell):
        lines = shell("lineage", "asked").lines
        assert lines[0].split() == ["candidate", "island", "iteration", "score", "gain", "parents", "origin"]
        assert lines[1].split() == ["5.0", "0", "5", "-0.25", "+3.75", "1.0", "llm", "model=scripted"]
        assert lines[-1].split() == ["0.0", "0", "0", "-9", "-", "-", "initial", "candidate"]

    def test_lineage_of_candidate_or_island(self, shell):
        assert [item["id"] for item in shell("lineage", "asked", "6.0", "--json").json()] == [
            "6.0",
            "5.0",
            "1.0",
            "0.0",
        ]
        islands = shell("show", samples.LONG_ID, "--json").json()["islands"]
        assert shell("lineage", samples.LONG_ID, "--island", "1", "--json").json()[0]["id"] == islands[1]["best"]
        assert "Leave out" in shell.fail("lineage", "asked", "5.0", "--island", "0")

    def test_lineage_diffs(self, shell):
        out = shell("lineage", "asked", "--diffs").out
        assert "\n5.0 from 1.0\n--- 1.0\n+++ 5.0\n@@ -1 +1 @@\n-1.0\n+2.5\n" in out

    def test_lineage_all_has_more_ancestors(self, shell):
        line = shell("lineage", samples.LONG_ID, "--json").json()
        every = shell("lineage", samples.LONG_ID, "--all", "--json").json()
        assert {item["id"] for item in line} < {item["id"] for item in every}

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
    with store.open(path) as run_store:
        run_store.create_run("run")
        run_store.journal("run").write(records.founded(1.0, samples.ESCAPE))
    status, written = terminals.on_a_terminal(verb, "run", "--store", path, columns=80)
    assert status == 0
    assert "\x1b[2J" not in written
    assert "\\x1b[2J" in written
