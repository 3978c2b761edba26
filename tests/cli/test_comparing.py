"""`atoll diff`, `compare` and `report`: candidates and runs against each other, and a run as a page."""

import pytest

from atoll import store
from tests.cli import apps, terminals
from tests.runs import samples
from tests.store import samples as records


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


class TestDiff:
    def test_one_run_alone_is_its_start_against_its_best(self, shell):
        out = shell("diff", "asked").out
        assert out == "--- asked:0.0  score -9\n+++ asked:5.0  score -0.25\n@@ -1 +1 @@\n-0.0\n+2.5\n"

    def test_one_candidate_alone_is_compared_with_its_best_parent(self, shell):
        assert shell("diff", "asked:6.0").out.startswith("--- asked:5.0  score -0.25\n+++ asked:6.0  score -6.25\n")
        assert "has no parent" in shell.refused("diff", "asked:0.0")

    def test_two_may_be_of_different_runs(self, shell):
        out = shell("diff", "again", "asked:start").out
        assert out.startswith("--- again:36.0  score -0.00537819\n+++ asked:0.0  score -9\n")

    def test_the_names_of_runs_may_be_shortened(self, shell):
        assert shell("diff", "2026:start", "2026:3.0").lines[1].startswith(f"+++ {samples.LONG_ID}:3.0")

    def test_in_a_pipe_it_is_a_patch_to_the_letter(self, shell):
        assert f"+{samples.ESCAPE}\n" in shell("diff", "hostile:2.0").out

    def test_on_a_terminal_it_has_colours_and_foreign_escapes_are_spelled_out(self):
        status, written = terminals.on_a_terminal("diff", "hostile:2.0", "--store", samples.library(), columns=80)
        assert status == 0
        assert "\x1b[32m+\\x1b[2J" in written
        assert "\x1b[31m-</script>" in written

    def test_equal_contents_are_told_so(self, shell):
        told = shell("diff", "asked:5.0", "asked:best")
        assert not told.out
        assert told.err.endswith(" have the same content.\n")

    def test_a_line_end_at_the_end_is_no_difference(self, capsys, tmp_path):
        path = str(tmp_path / "atoll.db")
        with store.open(path) as kept:
            kept.create_run("run")
            kept.journal("run").write(records.founded(1.0, "same"), records.judged("1.0", 2.0, content="same\n"))
            kept.journal("run").write(records.applied(1, records.child("1.0")))
        assert not apps.Shell(capsys, path)("diff", "run").out

    def test_as_json_both_sides_are_whole(self, shell):
        data = shell("diff", "asked", "--json").json()
        assert (data["a"]["run"], data["a"]["id"], data["b"]["content"]) == ("asked", "0.0", "2.5")
        assert data["diff"].endswith("-0.0\n+2.5")

    def test_what_is_not_there_is_refused(self, shell):
        assert "no candidate 9.9" in shell.refused("diff", "asked:9.9")
        assert "no run nope" in shell.refused("diff", "nope:1.0", "asked")
        assert "no candidate with a score yet" in shell.refused("diff", "empty")


class TestCompare:
    def test_runs_stand_side_by_side(self, shell):
        told = shell("compare", samples.LONG_ID, "again")
        lines = {line[:24].strip(): line[24:].split() for line in told.lines}
        assert lines[""] == [] or lines[""] == [samples.LONG_ID, "again"]
        assert lines["start"] == ["-9", "-9"]
        assert lines["best"] == ["-3.81105", "-0.00537819"]
        assert lines["judged until the best"] == ["61", "37"]
        assert told.lines[-1] == "again is better, by 3.80567."

    def test_as_json_it_says_which_is_better(self, shell):
        data = shell("compare", samples.LONG_ID, "again", "--json").json()
        assert (data["same_task"], data["better"]) == (True, "again")
        assert [run["evaluations_to_best"] for run in data["runs"]] == [61, 37]
        assert data["runs"][0]["gain"] == data["runs"][0]["best_score"] + 9.0

    def test_runs_of_different_tasks_do_not_compare(self, shell):
        data = shell("compare", samples.LONG_ID, "elsewhere", "--json").json()
        assert (data["same_task"], data["better"]) == (False, None)
        assert shell("compare", samples.LONG_ID, "elsewhere").lines[-1].endswith("their scores do not compare.")

    def test_what_does_not_fit_beside_goes_below(self, shell, monkeypatch):
        monkeypatch.setenv("COLUMNS", "60")
        lines = shell("compare", samples.LONG_ID, "again", "cut").lines
        assert all(len(line) <= 60 for line in lines)
        assert [line.split() for line in lines if line.startswith("best ")] == [
            ["best", "-3.81105"],
            ["best", "-0.00537819"],
            ["best", "-2.01992"],
        ]

    def test_a_run_that_has_not_begun_has_dashes(self, shell):
        assert shell("compare", "empty", "again").lines[-1] == "Only one of the runs has a score."

    def test_one_run_compares_with_nothing(self, shell):
        assert "One run compares with nothing" in shell.refused("compare", "again")
        assert "One run compares with nothing" in shell.refused("compare", "again", "again")


class TestReport:
    def test_it_goes_to_stdout_or_into_a_file(self, shell, tmp_path):
        out = shell("report", "failing").out
        assert out.startswith("# Run failing\n")
        assert "\nBaselines: not run: 'atoll resume failing --baselines' runs them.\n" in out
        assert not shell("report", "failing", "-o", str(tmp_path / "report.md")).out
        assert (tmp_path / "report.md").read_text(encoding="utf-8") == out

    def test_an_unknown_run_leaves_no_file(self, shell, tmp_path):
        shell.refused("report", "nope", "-o", str(tmp_path / "report.md"))
        assert not list(tmp_path.iterdir())
