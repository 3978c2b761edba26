"""Commands `diff`, `compare` and `report`."""

import pytest

from atoll import store
from tests.cli import apps, terminals
from tests.runs import samples
from tests.store import samples as records


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


class TestDiff:
    def test_single_run_compares_initial_with_best(self, shell):
        out = shell("diff", "asked").out
        assert out == "--- asked:0.0  score -9\n+++ asked:5.0  score -0.25\n@@ -1 +1 @@\n-0.0\n+2.5\n"

    def test_single_candidate_compares_with_best_parent(self, shell):
        assert shell("diff", "asked:6.0").out.startswith("--- asked:5.0  score -0.25\n+++ asked:6.0  score -6.25\n")
        assert "has no parent" in shell.fail("diff", "asked:0.0")

    def test_candidates_of_different_runs(self, shell):
        out = shell("diff", "again", "asked:initial").out
        assert out.startswith("--- again:36.0  score -0.00537819\n+++ asked:0.0  score -9\n")

    def test_run_names_can_be_shortened(self, shell):
        assert shell("diff", "2026:initial", "2026:3.0").lines[1].startswith(f"+++ {samples.LONG_ID}:3.0")

    def test_pipe_gets_exact_patch(self, shell):
        assert f"+{samples.ESCAPE}\n" in shell("diff", "hostile:2.0").out

    def test_terminal_gets_color_and_escaped_control_characters(self):
        status, written = terminals.on_a_terminal("diff", "hostile:2.0", "--store", samples.library(), columns=80)
        assert status == 0
        assert "\x1b[32m+\\x1b[2J" in written
        assert "\x1b[31m-</script>" in written

    def test_equal_contents_print_a_note(self, shell):
        output = shell("diff", "asked:5.0", "asked:best")
        assert not output.out
        assert output.err.endswith(" have the same content.\n")

    def test_final_line_break_is_ignored(self, capsys, tmp_path):
        path = str(tmp_path / "atoll.db")
        with store.open(path) as run_store:
            run_store.create_run("run")
            run_store.journal("run").write(records.founded(1.0, "same"), records.judged("1.0", 2.0, content="same\n"))
            run_store.journal("run").write(records.applied(1, records.child("1.0")))
        assert not apps.Shell(capsys, path)("diff", "run").out

    def test_json_has_both_candidates(self, shell):
        data = shell("diff", "asked", "--json").json()
        assert (data["a"]["run"], data["a"]["id"], data["b"]["content"]) == ("asked", "0.0", "2.5")
        assert data["diff"].endswith("-0.0\n+2.5")

    def test_unknown_run_or_candidate_fails(self, shell):
        assert "9.9" in shell.fail("diff", "asked:9.9")
        assert "nope" in shell.fail("diff", "nope:1.0", "asked")
        assert "empty" in shell.fail("diff", "empty")


class TestCompare:
    def test_runs_are_columns(self, shell):
        output = shell("compare", samples.LONG_ID, "again")
        lines = {line[:20].strip(): line[20:].split() for line in output.lines}
        assert lines[""] == [] or lines[""] == [samples.LONG_ID, "again"]
        assert lines["initial"] == ["-9", "-9"]
        assert lines["best"] == ["-3.81105", "-0.00537819"]
        assert lines["evaluations to best"] == ["61", "37"]
        assert output.lines[-1].startswith("again is better")

    def test_json_names_better_run(self, shell):
        data = shell("compare", samples.LONG_ID, "again", "--json").json()
        assert (data["same_task"], data["better"]) == (True, "again")
        assert [run["evaluations_to_best"] for run in data["runs"]] == [61, 37]
        assert data["runs"][0]["gain"] == data["runs"][0]["best_score"] + 9.0

    def test_runs_of_different_tasks_have_no_verdict(self, shell):
        data = shell("compare", samples.LONG_ID, "elsewhere", "--json").json()
        assert (data["same_task"], data["better"]) == (False, None)
        assert shell("compare", samples.LONG_ID, "elsewhere").lines[-1].endswith("so their scores are not comparable.")

    def test_wide_comparison_is_split(self, shell, monkeypatch):
        monkeypatch.setenv("COLUMNS", "60")
        lines = shell("compare", samples.LONG_ID, "again", "cut").lines
        assert all(len(line) <= 60 for line in lines)
        assert [line.split() for line in lines if line.startswith("best ")] == [
            ["best", "-3.81105"],
            ["best", "-0.00537819"],
            ["best", "-2.01992"],
        ]

    def test_empty_run_has_dashes(self, shell):
        assert shell("compare", "empty", "again").lines[-1] == "Only one of the runs has a score."

    def test_one_run_is_an_error(self, shell):
        assert "compare needs two runs" in shell.fail("compare", "again")
        assert "compare needs two runs" in shell.fail("compare", "again", "again")


class TestReport:
    def test_report_goes_to_stdout_or_file(self, shell, tmp_path):
        out = shell("report", "failing").out
        assert out.startswith("# Run failing\n")
        assert "\nBaselines: not run. 'atoll resume failing --baselines' runs them.\n" in out
        assert not shell("report", "failing", "-o", str(tmp_path / "report.md")).out
        assert (tmp_path / "report.md").read_text(encoding="utf-8") == out

    def test_unknown_run_writes_no_file(self, shell, tmp_path):
        shell.fail("report", "nope", "-o", str(tmp_path / "report.md"))
        assert not list(tmp_path.iterdir())
